package rest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestQuestionsWaitAMomentForAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTurns(1, "Busy.")
		leave, err := p.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var problem *Problem
		if _, err := p.take(t.Context()); !errors.As(err, &problem) || problem.Code != codeBusy || time.Since(start) != patience {
			t.Errorf("%v after %s", err, time.Since(start))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := p.take(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		go func() {
			<-time.After(patience / 2)
			leave()
		}()
		if leave, err = p.take(t.Context()); err != nil {
			t.Errorf("a place that came free in time: %v", err)
		}
		leave()
	})
}
