package admit

import (
	"testing"
	"testing/synctest"
	"time"
)

// A quota in shadow that comes or goes beside a limit makes another path of the same limits. The store must not
// take the calls about it for late ones, or for repetitions, of those about the path before.
func TestAQuotaInShadowThatComesOrGoesTakesNothingFromTheLimitBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		alone := tables(t, quota("requests", 60_000, "share", 1))
		k := newAsker(t, l, alone)
		want := int64(0)
		for turn := range 6 {
			for at := range 20 {
				r, d := k.take(1, 1)
				if !d.Allowed || d.Degraded {
					t.Fatalf("turn %d, request %d: %+v", turn, at, d)
				}
				want++
				if at == 10 { // some end under the next table
					defer r.Settle(1, 1, 1)
				} else {
					r.Settle(1, 1, 1)
				}
				pass(100 * time.Millisecond)
			}
			pass(time.Duration(turn%3) * 5 * time.Second)
			if turn%2 == 0 {
				k.apply(tables(t, quota("requests", 60_000, "share", 1), shadowed(quota("total-tokens", 10, "share", 1))))
			} else {
				k.apply(alone)
			}
		}
		pass(5 * time.Second)
		if got := l.charged("requests"); got != want {
			t.Errorf("%d charged, want %d", got, want)
		}
	})
}
