package queue

import (
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"pgregory.net/rapid"
)

// all causes, as they are answered.
var causes = []struct {
	cause   Cause
	status  int
	code    string
	dropped string
	final   bool // though it has not waited
}{
	{TenantShare, 429, CodeQueueFull, "rejected-saturated", true},
	{QueueFull, 429, CodeQueueFull, "rejected-saturated", true},
	{Displaced, 429, CodeShed, "rejected-saturated", true},
	{Unfair, 429, CodeShed, "rejected-saturated", true},
	{Ordered, 429, CodeShed, "rejected-saturated", true},
	{Planned, 429, CodeShed, "rejected-saturated", true},
	{HeldBack, 429, CodeBrownOut, "rejected-saturated", true},
	{OverShare, 429, CodeBrownOut, "rejected-saturated", true},
	{OverCeiling, 429, CodeShed, "rejected-saturated", true},
	{Saturated, 503, CodeNoCapacity, "rejected-saturated", false},
	{Closed, 503, CodeNoCapacity, "rejected-shutting-down", false},
	{ClientGone, 499, CodeClientGone, "rejected-context-cancelled", false},
}

func TestRefusalsAreWorded(t *testing.T) {
	if len(causes) != len(wordings) {
		t.Fatalf("%d causes are tested, %d are worded", len(causes), len(wordings))
	}
	seen := map[string]bool{}
	for _, c := range causes {
		r := refusal(c.cause, 5*time.Second, 0)
		if r.Status != c.status || r.Code != c.code || r.Cause != c.cause || r.Reason == "" || seen[r.Reason] {
			t.Errorf("%s: %+v", c.cause, r)
		}
		seen[r.Reason] = true
		if r.Dropped() != c.dropped || r.Final() != c.final {
			t.Errorf("%s: marked %q, final %v; want %q, %v", c.cause, r.Dropped(), r.Final(), c.dropped, c.final)
		}
		if r.Waited = time.Second; r.Final() != (c.cause != Closed) {
			t.Errorf("%s, after it has waited: final %v", c.cause, r.Final())
		}
	}
	for _, c := range []Cause{Saturated, OverCeiling} {
		r := refusal(c, 0, 0)
		if r.Waited = time.Second; r.Dropped() != "rejected-ttl-expired" {
			t.Errorf("%s has waited and is marked %q", c, r.Dropped())
		}
	}
	if http.CanonicalHeaderKey(HeaderDropped) != HeaderDropped {
		t.Errorf("%s is not in canonical form", HeaderDropped)
	}
}

func TestRetryAfterIsNeverSoonerThanTheEstimate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		estimate := time.Duration(rapid.Int64Range(-1e9, 100e9).Draw(t, "estimate"))
		cause := rapid.SampledFrom(causes).Draw(t, "cause").cause
		r := refusal(cause, estimate, rapid.Float64Range(0, 0.999).Draw(t, "stretch"))
		switch {
		case cause == ClientGone:
			if r.RetryAfter != 0 {
				t.Fatalf("nobody is told to come back after %v", r.RetryAfter)
			}
			return
		case r.RetryAfter < min(estimate, time.Minute) || r.RetryAfter < time.Second:
			t.Fatalf("%v is sooner than %v", r.RetryAfter, estimate)
		case r.RetryAfter > max(estimate+estimate/10, 1100*time.Millisecond) || r.RetryAfter > time.Minute:
			t.Fatalf("%v is much later than %v", r.RetryAfter, estimate)
		}
	})
}

func TestARefusalByPlanSaysWhenItIsWorthComingBack(t *testing.T) {
	now := time.Unix(1_764_400_000, 0)
	registry := prometheus.NewRegistry()
	g, err := New(Options{Registerer: registry, Now: func() time.Time { return now }, Rand: func() float64 { return 0.5 }})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r := g.Planned(49); r.Cause != Planned || r.RetryAfter != plannedAfter+plannedAfter/20 {
			t.Errorf("%+v", r)
		}
	}
	if n := testutil.ToFloat64(g.metrics.refusal.WithLabelValues("best-effort", "planned")); n != 2 {
		t.Errorf("%v are counted", n)
	}
	if g.Len() != 0 {
		t.Error("something waits")
	}
}

func TestPrioritiesCountAsThoseOfTiers(t *testing.T) {
	for priority, want := range map[int32]int32{math.MinInt32: -10, -10: -10, -1: -10, 0: 0, 49: 0, 50: 50, 99: 50, 100: 100, math.MaxInt32: 100} {
		if got := Counts(priority); got != want || Tier(got) != Tier(priority) || Ceiling(got) != Ceiling(priority) {
			t.Errorf("%d counts as %d, want %d", priority, got, want)
		}
	}
}
