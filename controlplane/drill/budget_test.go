package drill

import (
	"math"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/account"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state/statepb"
)

// answered is how an hour went.
type answered struct {
	ago               time.Duration // since its first minute
	succeeded, failed int64
}

// history is an account of hours, the oldest first, that begins eight days before now and is closed until then.
func history(t *testing.T, now time.Time, hours ...answered) account.Account {
	t.Helper()
	var a account.Account
	index := uint64(0)
	next := func(b account.Account, refused *account.Refusal) {
		if refused != nil {
			t.Fatalf("%+v", refused)
		}
		a = b
	}
	closed := now.Add(-8 * 24 * time.Hour)
	until := func(at time.Time) {
		for closed.Before(at) {
			index++
			var minutes []*statepb.MinuteBills
			for range account.MaxClosed {
				if closed.Before(at) {
					minutes = append(minutes, &statepb.MinuteBills{MinuteUnixS: closed.Unix()})
					closed = closed.Add(time.Minute)
				}
			}
			next(a.Close(&statepb.CloseMinutes{Minutes: minutes}, index))
		}
	}
	until(closed.Add(time.Minute))
	for _, h := range hours {
		at := now.Add(-h.ago)
		until(at)
		index++
		next(a.Count(&statepb.CountUsage{
			Runs: []*statepb.UsageRun{{Run: "r/1", Sequence: index}},
			Minutes: []*statepb.CountedMinute{{MinuteUnixS: at.Unix(), Lines: []*statepb.CountedLine{{
				Tenant: "acme", Model: "m", Cluster: "us-a", Region: "us", Source: "us", Input: 10, Work: 10, Succeeded: h.succeeded, Failed: h.failed,
			}}}},
		}, at.UnixMilli(), index))
	}
	until(now)
	return a
}

func TestTheErrorBudgetIsThatOfSevenDays(t *testing.T) {
	const hour, days = time.Hour, 24 * time.Hour
	view := newStage(t).view
	for name, c := range map[string]struct {
		hours              []answered
		requests, failures uint64  // that the router of us saw in its last second
		left               float64 // -1: nobody knows
	}{
		"nothing failed":                               {[]answered{{3 * hour, 1000, 0}}, 0, 0, 1},
		"half of a hundredth failed":                   {[]answered{{3 * hour, 995, 5}}, 0, 0, 0.5},
		"a storm of two days ago counts":               {[]answered{{2 * days, 900, 8}, {3 * hour, 92, 0}}, 0, 0, 0.2},
		"what is older than seven days does not":       {[]answered{{7*days + 3*hour, 500, 500}, {3 * hour, 1000, 0}}, 0, 0, 1},
		"more failed than may":                         {[]answered{{5 * days, 90, 10}}, 0, 0, 0},
		"a bad second is not a bad week":               {[]answered{{3 * hour, 1000, 0}}, 100, 50, 1},
		"nor a good second a good one":                 {[]answered{{3 * hour, 900, 100}}, 100, 0, 0},
		"the last minutes count":                       {[]answered{{2 * time.Minute, 990, 10}}, 0, 0, 0},
		"too few answers are told by the last seconds": {[]answered{{3 * hour, 19, 0}}, 1000, 5, 0.5},
		"no account, and too few requests":             {nil, 1, 1, -1},
		"no account, and nothing failed":               {nil, 100, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var a account.Account
			if c.hours != nil {
				a = history(t, start, c.hours...)
			}
			signals := signal.New(func() time.Time { return start })
			for i := range int64(10) {
				at := start.Add(time.Duration(i-9) * time.Second)
				signals.Put(signal.Observation{
					Node: "n", Hello: &routerpb.Hello{RouterId: "r", Region: "us"}, Received: at, Connected: true,
					Report: &routerpb.Report{AtUnixMs: at.UnixMilli(), WindowMs: 1000, Requests: c.requests, Failures: c.failures},
				})
			}
			got := budget(a, Look{View: view, Signals: signals.Snapshot(start)})
			switch {
			case got == nil && c.left >= 0, got != nil && c.left < 0:
				t.Errorf("got %v", got)
			case got != nil && math.Abs(*got-c.left) > 0.02:
				t.Errorf("%.3f of the budget is left, want %g", *got, c.left)
			}
		})
	}
}
