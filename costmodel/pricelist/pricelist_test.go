package pricelist

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/costmodel"
)

// seller is a source of the test.
type seller struct {
	name string

	mu     sync.Mutex // guards what is below
	offers []costmodel.Offer
	err    error
	hang   bool
	asked  int
}

func (s *seller) Name() string { return s.name }

func (s *seller) Offers(ctx context.Context) ([]costmodel.Offer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.offers, s.err
}

func (s *seller) says(err error, offers ...costmodel.Offer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.offers = err, offers
}

func offer(class string, perHour costmodel.Micros) costmodel.Offer {
	return costmodel.Offer{Class: class, Region: "eu", PerHour: perHour}
}

// lines counts the lines of a log with a text.
func lines(log *bytes.Buffer, text string) int { return strings.Count(log.String(), text) }

func TestTheLastGoodPriceStays(t *testing.T) {
	a, b := &seller{name: "a"}, &seller{name: "b"}
	a.says(nil, offer("h100", 7), offer("l4", 1))
	b.says(nil, offer("h100", 9))
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	start := now
	var log bytes.Buffer
	l, err := New(Options{Sources: []Source{a, b}, Now: func() time.Time { return now }, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if s := l.States(); s[0] != (State{Source: "a", Standing: Unasked}) || len(l.Offers()) != 0 {
		t.Errorf("before: %+v", s)
	}
	l.Refresh(t.Context())
	if s := l.States(); s[0] != (State{Source: "a", Standing: Good, Offers: 2, Read: start, Asked: start}) || len(l.Offers()) != 3 {
		t.Errorf("asked once: %+v", s)
	}
	a.says(errors.New("throttled " + strings.Repeat("x", 2*maxError)))
	b.says(nil, offer("h100", 8))
	for range 3 {
		now = now.Add(time.Hour)
		l.Refresh(t.Context())
	}
	s, offers := l.States(), l.Offers()
	if s[0].Standing != Failing || s[0].Offers != 2 || !s[0].Read.Equal(start) || !s[0].Asked.Equal(now) || s[0].Failures != 3 {
		t.Errorf("failing: %+v", s[0])
	}
	if !strings.HasPrefix(s[0].Error, "throttled") || len(s[0].Error) > maxError+len("…") {
		t.Errorf("error of %d bytes: %s", len(s[0].Error), s[0].Error)
	}
	if len(offers) != 3 || offers[0].PerHour != 7 || offers[2].PerHour != 8 {
		t.Errorf("offers: %+v", offers)
	}
	if n := lines(&log, "source of prices fails"); n != 1 {
		t.Errorf("told %d times of three failures:\n%s", n, &log)
	}
	if got := l.Answers(); len(got) != 2 || got[0].Standing != Failing || len(got[0].Offers) != 2 || got[1].Source != "b" || got[1].Offers[0].PerHour != 8 {
		t.Errorf("answers: %+v", got)
	}
	a.says(nil)
	l.Refresh(t.Context())
	if s := l.States()[0]; s != (State{Source: "a", Standing: Good, Read: now, Asked: now}) || len(l.Offers()) != 1 {
		t.Errorf("a good answer without offers: %+v", s)
	}
	if n := lines(&log, "source of prices answers"); n != 3 {
		t.Errorf("told %d times of answers, want at first of two and then of one:\n%s", n, &log)
	}
}

func TestNotSetUpIsToldOnceAndIsNoFailure(t *testing.T) {
	a := &seller{name: "a"}
	a.says(fmt.Errorf("%w: no credentials", ErrAbsent))
	var log bytes.Buffer
	l, err := New(Options{Sources: []Source{a}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		l.Refresh(t.Context())
	}
	if s := l.States()[0]; s.Standing != Absent || s.Failures != 0 || !strings.Contains(s.Error, "no credentials") || a.asked != 5 {
		t.Errorf("%+v", s)
	}
	if lines(&log, "\n") != 1 || lines(&log, "level=INFO") != 1 || lines(&log, "component=pricelist source=a") != 1 {
		t.Errorf("log:\n%s", &log)
	}
}

func TestOneThatHangsHoldsNobodyForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, c := &seller{name: "a", hang: true}, &seller{name: "b"}, &seller{name: "c"}
		b.says(nil, offer("h100", 1))
		c.says(nil, offer("h100", 2))
		l, err := New(Options{Sources: []Source{a, b, c}, AtOnce: 1, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		l.Refresh(t.Context())
		if took := time.Since(begun); took != time.Minute {
			t.Errorf("took %v", took)
		}
		if s := l.States(); s[0].Standing != Failing || s[1].Standing != Good || s[2].Standing != Good {
			t.Errorf("%+v", s)
		}
	})
}

func TestTheEndIsNobodysFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &seller{name: "a", hang: true}, &seller{name: "b"}
		l, err := New(Options{Sources: []Source{a, b}, AtOnce: 1})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l.Refresh(ctx)
		if s := l.States(); s[0].Standing != Unasked || s[1].Standing != Unasked || b.asked != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestAListNeedsSourcesThatCanBeToldApart(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("a list of nothing")
	}
	if _, err := New(Options{Sources: []Source{&seller{name: "a"}, &seller{name: "a"}}}); err == nil {
		t.Error("two sources of one name")
	}
}
