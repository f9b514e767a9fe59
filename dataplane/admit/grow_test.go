package admit

import (
	"testing"
	"testing/synctest"
	"time"

	"anabranch/api/routerpb"
)

// cutting has a limit end streams that it has no more for.
func cutting(q *routerpb.Quota) *routerpb.Quota {
	q.Overrun = "cut"
	return q
}

// TestWhichLimitCutsAStream lets a stream that reserved 100 tokens of everything grow.
func TestWhichLimitCutsAStream(t *testing.T) {
	for name, c := range map[string]struct {
		quotas []*routerpb.Quota
		to     int64
		grows  bool
		cuts   string // limit; empty: none
	}{
		"there is enough":                {[]*routerpb.Quota{cutting(quota("output-tokens", 1000, "share", 1))}, 500, true, ""},
		"the limit lets it finish":       {[]*routerpb.Quota{quota("output-tokens", 300, "share", 1)}, 500, false, ""},
		"the limit cuts":                 {[]*routerpb.Quota{cutting(quota("output-tokens", 300, "share", 1))}, 500, false, "output-tokens"},
		"another one cuts, which has it": {[]*routerpb.Quota{quota("output-tokens", 300, "share", 1), cutting(quota("total-tokens", 5000, "share", 1))}, 500, false, ""},
		"one that can't lack it cuts":    {[]*routerpb.Quota{quota("output-tokens", 300, "share", 1), cutting(quota("requests", 1, "share", 1))}, 500, false, ""},
		"the budget cuts":                {[]*routerpb.Quota{quota("output-tokens", 1000, "share", 1), cutting(moneyOf(20, "share"))}, 500, false, "money"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newAsker(t, newLink(), tables(t, c.quotas...))
				r, d := k.take(10, 100)
				if !d.Allowed {
					t.Fatalf("%+v", d)
				}
				grows := r.Grow(c.to)
				for range 4 { // what it lacks may be on its way
					pass(100 * time.Millisecond)
					grows = grows || r.Grow(c.to)
				}
				l, cut := r.Cut(c.to)
				if grows != c.grows || cut != (c.cuts != "") || cut && l.ID != c.cuts {
					t.Errorf("it grows: %v; cut: %v by %q", grows, cut, l.ID)
				}
				if _, output := r.Reserved(); output != map[bool]int64{true: c.to, false: 100}[c.grows] {
					t.Errorf("%d tokens are reserved", output)
				}
				if l, cut := r.Cut(100); cut {
					t.Errorf("%s cuts it at what it has", l.ID)
				}
			})
		})
	}
}
