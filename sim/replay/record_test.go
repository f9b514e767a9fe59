package replay

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"anabranch/sim/workload"
)

func TestFiguresOfARecord(t *testing.T) {
	for _, c := range []struct {
		name            string
		record          Record
		first, perToken time.Duration
	}{
		{"nothing came", Record{Due: time.Second, Sent: time.Second, Ended: 2 * time.Second, Code: CodeConnect}, 0, 0},
		{"one token", Record{Due: 1, First: 11, Last: 11, OutputTokens: 1}, 10, 0},
		{"two tokens", Record{Due: 1, First: 11, Last: 31, OutputTokens: 2}, 10, 20},
		{"many tokens", Record{Due: 1, Sent: 6, First: 11, Last: 111, OutputTokens: 11}, 10, 10},
		{"all at once", Record{Due: 1, First: 11, Last: 11, OutputTokens: 11}, 10, 0},
	} {
		if f, p := c.record.FirstToken(), c.record.PerToken(); f != c.first || p != c.perToken {
			t.Errorf("%s: first token after %v, then every %v, want %v and %v", c.name, f, p, c.first, c.perToken)
		}
	}
}

func TestSummaryCountsLateness(t *testing.T) {
	var s Summary
	s.add(&Record{Due: 0, Sent: LateBy, Ended: 3})
	s.add(&Record{Due: 0, Sent: LateBy + 1, Ended: 2 * time.Second, Code: CodeTimeout})
	s.add(&Record{Due: 5, Sent: 5, Ended: time.Second})
	want := Summary{Sent: 3, OK: 2, Span: 2 * time.Second, Late: 1, MaxLate: LateBy + 1}
	if s != want {
		t.Errorf("got %+v, want %+v", s, want)
	}
}

func TestCodesHoldNoText(t *testing.T) {
	for in, want := range map[string]string{
		"": "error", "server_error": "server_error", "NotFoundError": "notfounderror", "a b": "error", "über": "error",
		"overloaded-1.5": "overloaded-1.5", "a\nb": "error", string(make([]byte, 65)): "error",
	} {
		if got := word(in); got != want {
			t.Errorf("word(%q) is %q, want %q", in, got, want)
		}
	}
}

// TestAnyReplayKeepsItsPromises lets answers take any time, fail and come back in any order.
func TestAnyReplayKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(rt, "requests")
		bound := rapid.IntRange(1, 8).Draw(rt, "bound")
		takes := rapid.SliceOfN(rapid.IntRange(0, 20_000), n, n).Draw(rt, "milliseconds")
		fails := rapid.SliceOfN(rapid.Bool(), n, n).Draw(rt, "fails")
		a := workload.Arrivals{Rate: rapid.Float64Range(0.1, 5).Draw(rt, "rate"), Process: workload.Constant}
		if rapid.Bool().Draw(rt, "closed") {
			a = workload.Arrivals{Clients: rapid.IntRange(1, 10).Draw(rt, "clients")}
		}
		source := steady(t, n, a)
		var mu sync.Mutex
		flying, most := 0, 0
		to := &target{plays: func(i int, p *playing) {
			mu.Lock()
			flying++
			most = max(most, flying)
			mu.Unlock()
			if fails[i] {
				p.wait(time.Duration(takes[i]) * time.Millisecond)
				p.begin(503)
			} else {
				p.answer(time.Duration(takes[i])*time.Millisecond, 0, 1, 0)
			}
			mu.Lock()
			flying--
			mu.Unlock()
		}}
		synctest.Test(t, func(t *testing.T) {
			ended, last := map[uint64]bool{}, time.Duration(0)
			sum, err := Run(t.Context(), source, Options{URL: "http://router", Transport: to, InFlight: bound}, func(r Record) {
				if ended[r.Request.ID] || r.Sent < r.Due || r.Ended < r.Sent || r.Ended < last {
					rt.Errorf("record %+v after %v", r, last)
				}
				ended[r.Request.ID], last = true, r.Ended
			})
			bad := 0
			for _, f := range fails {
				if f {
					bad++
				}
			}
			if err != nil || len(ended) != n || sum.Sent != n || sum.OK != n-bad || sum.Span != last {
				rt.Errorf("%d records, summary %+v, error %v", len(ended), sum, err)
			}
			if sum.MostInFlight > bound || most > bound || sum.Held == 0 && sum.MaxLate > 0 || sum.Held > 0 && sum.MostInFlight < bound {
				rt.Errorf("summary %+v with a bound of %d, the target saw %d", sum, bound, most)
			}
		})
	})
}
