package ratelimittest

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"anabranch/ratelimit"
)

// LenderMaker makes a Lender that has never heard of anybody, under the given clock.
type LenderMaker func(t *testing.T, clock *Clock) ratelimit.Lender

// RunLender runs the suite of lenders: scenarios as text, a walk beside a slow and obvious model, a wild
// one beside ratelimit.Account, and what is refused. Model and wild are how many calls the walks make.
func RunLender(t *testing.T, model, wild int, open LenderMaker) {
	fresh := func(t *testing.T) (ratelimit.Lender, *Clock) {
		t.Helper()
		clock := &Clock{}
		clock.Set(Start)
		return open(t, clock), clock
	}
	if testing.Short() {
		model, wild = model/10, wild/10
	}
	t.Run("scenarios", func(t *testing.T) { leaseScenarios(t, fresh) })
	t.Run("walks beside the model", func(t *testing.T) { leaseWalk(t, fresh, model) })
	t.Run("answers as the account does, whatever happens", func(t *testing.T) { wildWalk(t, fresh, wild) })
	t.Run("refuses calls that can't be counted", func(t *testing.T) { badCalls(t, fresh) })
}

type lenderMaker func(t *testing.T) (ratelimit.Lender, *Clock)

// Call is a valid call to start from.
func Call(path ...ratelimit.Level) ratelimit.In {
	return ratelimit.In{
		Org: "acme", Epoch: 1, Young: true, Router: "r1", Seq: 1, TTL: ratelimit.DefaultTTL, Policy: 1, Path: path,
	}
}

func badCalls(t *testing.T, fresh lenderMaker) {
	s, _ := fresh(t)
	rpm := ratelimit.Level{Limit: ratelimit.Limit{ID: "rpm", Kind: ratelimit.Requests, Amount: 60, PeriodMs: 60_000, Burst: 60}, Want: 1}
	for name, spoil := range map[string]func(in *ratelimit.In){
		"organisation":     func(in *ratelimit.In) { in.Org = "" },
		"router":           func(in *ratelimit.In) { in.Router = strings.Repeat("r", 513) },
		"epoch":            func(in *ratelimit.In) { in.Epoch = 0 },
		"sequence number":  func(in *ratelimit.In) { in.Seq = 1 << 53 },
		"policy version":   func(in *ratelimit.In) { in.Policy = -1 },
		"ttl":              func(in *ratelimit.In) { in.TTL = time.Millisecond },
		"want 1 to 32":     func(in *ratelimit.In) { in.Path = nil },
		"stands in the":    func(in *ratelimit.In) { in.Path = append(in.Path, in.Path[0]) },
		"cold start":       func(in *ratelimit.In) { in.Path[0].Cold = 101 },
		"and want at most": func(in *ratelimit.In) { in.Path[0].Want = 1<<36 + 1 },
		"used -1":          func(in *ratelimit.In) { in.Path[0].Used = -1 },
		"back -1":          func(in *ratelimit.In) { in.Path[0].Back = -1 },
		"refund -1":        func(in *ratelimit.In) { in.Path[0].Refund = -1 },
		"must all be":      func(in *ratelimit.In) { in.Path[0].Limit.Amount = 0 },
		"not used":         func(in *ratelimit.In) { in.Path[0].Limit.Kind, in.Path[0].Used = ratelimit.Slots, 1 },
		"is none":          func(in *ratelimit.In) { in.Path[0].Limit.Kind = ratelimit.Money },
		"too large":        func(in *ratelimit.In) { in.Path[0].Limit.Kind, in.Path[0].Limit.Burst = ratelimit.Slots, 1<<52 },
		"region's name":    func(in *ratelimit.In) { in.Region = strings.Repeat("r", 513) },
		"together": func(in *ratelimit.In) {
			in.Shares = []ratelimit.Share{{Region: "a", Parts: 600_000}, {Region: "b", Parts: 600_000}}
		},
		"start with @": func(in *ratelimit.In) { in.Path[0].Limit.ID = "@eu" },
		"bytes long":   func(in *ratelimit.In) { in.Path[0].Limit.Kind, in.Path[0].Limit.ID = ratelimit.Slots, "" },
	} {
		in := Call(rpm)
		spoil(&in)
		if out, err := s.Lease(t.Context(), in); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out, err := s.Lease(ctx, Call(rpm)); err == nil {
		t.Errorf("ended context: %+v", out)
	}
	if out, err := s.Lease(t.Context(), Call(rpm)); err != nil || out.Path[0].Level != 59 {
		t.Errorf("after all that: %+v, %v", out, err)
	}
}

// same compares two answers to the bit.
func same(a, b ratelimit.Out) bool {
	return a.Status == b.Status && a.Epoch == b.Epoch && a.Valid == b.Valid && a.Gap == b.Gap &&
		(len(a.Path) == 0 && len(b.Path) == 0 || reflect.DeepEqual(a.Path, b.Path))
}
