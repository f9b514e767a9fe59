// Package ratelimittest holds the behaviour that every ratelimit.Authority must show: scenarios as
// text, a walk beside a slow and obvious model, and what concurrent callers may rely on. The
// authorities run under the suite's clock, so that they can be compared to the bit.
package ratelimittest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"anabranch/ratelimit"
)

// Start is the time at which the suite's clock starts, in microseconds: a number of the size that
// a real clock shows, since the size is what arithmetic in doubles may trip over.
const Start = int64(1_767_225_600_000_000)

// Clock is the suite's time in microseconds.
type Clock struct{ us atomic.Int64 }

// Micros is the time now.
func (c *Clock) Micros() int64 { return c.us.Load() }

// Now is the time now.
func (c *Clock) Now() time.Time { return time.UnixMicro(c.us.Load()) }

// Set sets the clock, backwards too.
func (c *Clock) Set(us int64) { c.us.Store(us) }

// Subject is an authority under test.
type Subject struct {
	ratelimit.Authority
	// Bucket is the stored state of one limit of a tenant.
	Bucket func(tenant, limit string) (ratelimit.Bucket, bool)
}

// Run runs the suite. Open makes a new authority with no bucket drawn on, under the given clock.
func Run(t *testing.T, open func(t *testing.T, clock *Clock) Subject) {
	fresh := func(t *testing.T) (Subject, *Clock) {
		t.Helper()
		clock := &Clock{}
		clock.Set(Start)
		return open(t, clock), clock
	}
	t.Run("scenarios", func(t *testing.T) { scenarios(t, fresh) })
	t.Run("walks beside the model", func(t *testing.T) { walks(t, fresh) })
	t.Run("concurrent takers get the burst and no more", func(t *testing.T) { concurrent(t, fresh) })
	t.Run("a refused path charges none of its limits", func(t *testing.T) { allOrNothing(t, fresh) })
	t.Run("refuses paths that can't be counted", func(t *testing.T) { badPaths(t, fresh) })
	t.Run("an empty path is always allowed", func(t *testing.T) { emptyPath(t, fresh) })
	t.Run("an ended context decides nothing", func(t *testing.T) { ended(t, fresh) })
}

type maker func(t *testing.T) (Subject, *Clock)

func perMinute(id string, kind ratelimit.Kind, amount, burst int64) ratelimit.Limit {
	return ratelimit.Limit{ID: id, Kind: kind, Amount: amount, PeriodMs: 60_000, Burst: burst}
}

func concurrent(t *testing.T, fresh maker) {
	s, _ := fresh(t)
	path := []ratelimit.Charge{{Limit: perMinute("rpm", ratelimit.Requests, 60, 100), Cost: 1}}
	var allowed atomic.Int64
	var takers sync.WaitGroup
	for range 10 {
		takers.Go(func() {
			for range 20 {
				d, err := s.Take(t.Context(), "acme", path)
				if err != nil {
					t.Errorf("take: %v", err)
				}
				if d.Allowed {
					allowed.Add(1)
				}
			}
		})
	}
	takers.Wait()
	if allowed.Load() != 100 {
		t.Errorf("%d of 200 requests passed a bucket of 100", allowed.Load())
	}
}

func allOrNothing(t *testing.T, fresh maker) {
	s, _ := fresh(t)
	requests := perMinute("rpm", ratelimit.Requests, 60, 60)
	tokens := perMinute("tpm", ratelimit.TotalTokens, 1000, 1000)
	path := []ratelimit.Charge{{Limit: requests, Cost: 1}, {Limit: tokens, Cost: 600}}
	first, err := s.Take(t.Context(), "acme", path)
	if err != nil || !first.Allowed {
		t.Fatalf("first: %+v, %v", first, err)
	}
	second, err := s.Take(t.Context(), "acme", path)
	if err != nil {
		t.Fatal(err)
	}
	if second.Allowed || second.Tightest != 1 || second.Reason != ratelimit.ReasonOver {
		t.Errorf("second: %+v, want the tokens to refuse", second)
	}
	if b, _ := s.Bucket("acme", "rpm"); b.Level != 59 {
		t.Errorf("requests left: %d, want 59: the refused request was charged", b.Level)
	}
	if second.Requests.Remaining != 59 || second.Tokens.Remaining != 400 {
		t.Errorf("standings: %+v and %+v", second.Requests, second.Tokens)
	}
}

func badPaths(t *testing.T, fresh maker) {
	s, _ := fresh(t)
	good := perMinute("rpm", ratelimit.Requests, 60, 60)
	for name, c := range map[string]struct {
		tenant string
		path   []ratelimit.Charge
	}{
		"no tenant":        {"", []ratelimit.Charge{{Limit: good, Cost: 1}}},
		"limit not valid":  {"acme", []ratelimit.Charge{{Limit: ratelimit.Limit{ID: "x"}, Cost: 1}}},
		"limit twice":      {"acme", []ratelimit.Charge{{Limit: good, Cost: 1}, {Limit: good, Cost: 1}}},
		"too many":         {"acme", make([]ratelimit.Charge, ratelimit.MaxPath+1)},
		"cost below zero":  {"acme", []ratelimit.Charge{{Limit: good, Cost: -1}}},
		"burst not exact":  {"acme", []ratelimit.Charge{{Limit: perMinute("big", ratelimit.TotalTokens, 1, 1<<52), Cost: 1}}},
		"amount not exact": {"acme", []ratelimit.Charge{{Limit: perMinute("big", ratelimit.TotalTokens, 1<<53, 1), Cost: 1}}},
	} {
		if d, err := s.Take(t.Context(), c.tenant, c.path); err == nil {
			t.Errorf("%s: %+v, want an error", name, d)
		}
	}
	if _, found := s.Bucket("acme", "rpm"); found {
		t.Error("a refused path left a bucket behind")
	}
}

func emptyPath(t *testing.T, fresh maker) {
	s, _ := fresh(t)
	d, err := s.Take(t.Context(), "acme", nil)
	if err != nil || !d.Allowed || d.Tightest != -1 {
		t.Errorf("take: %+v, %v", d, err)
	}
	if err := s.Adjust(t.Context(), "", nil); err != nil {
		t.Errorf("adjust: %v", err)
	}
}

func ended(t *testing.T, fresh maker) {
	s, _ := fresh(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path := []ratelimit.Charge{{Limit: perMinute("rpm", ratelimit.Requests, 60, 60), Cost: 1}}
	if d, err := s.Take(ctx, "acme", path); err == nil {
		t.Errorf("take: %+v, want an error", d)
	}
	if err := s.Adjust(ctx, "acme", path); err == nil {
		t.Error("adjust: want an error")
	}
}
