package admit

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/api/routerpb"
)

// Of a limit beside which another has plenty all is let in, and nobody is refused before it is used up: the store grants
// of both the part that the scarcer has of what is wanted, which may be less than one request needs of the other.
func TestNobodyIsRefusedWhileThereIsEnoughOfAllLimits(t *testing.T) {
	tokens := func() *routerpb.Quota { return quota("total-tokens", 60_000_000, "share", 1) }
	for name, of := range map[string]func(n int64) []*routerpb.Quota{
		"requests beside tokens": func(n int64) []*routerpb.Quota {
			return []*routerpb.Quota{quota("requests", n, "share", 1), tokens()}
		},
		"requests at the same time beside tokens": func(n int64) []*routerpb.Quota {
			return []*routerpb.Quota{slotsOf(n, "share"), tokens()}
		},
		"a budget beside requests and tokens": func(n int64) []*routerpb.Quota {
			return []*routerpb.Quota{moneyOf(21*n, "share"), quota("requests", 60_000, "share", 1), tokens()} // 21 each
		},
	} {
		for _, n := range []int64{3, 5, 10, 20} {
			for _, gap := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond, 200 * time.Millisecond} {
				t.Run(fmt.Sprintf("%s, %d each %v", name, n, gap), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						l := newLink()
						l.delay = time.Millisecond
						k := newAsker(t, l, tables(t, of(n)...))
						for at := range n {
							if _, d := k.take(4, 256); !d.Allowed {
								t.Fatalf("request %d of %d is refused: %+v", at+1, n, d)
							}
							pass(gap)
						}
						if _, d := k.take(4, 256); d.Allowed && gap < 200*time.Millisecond {
							t.Fatalf("%d of %d pass", n+1, n)
						}
					})
				})
			}
		}
	}
}

// Where the store has enough of all that is missing, and just hasn't lent it, it is the scarcest limit that is named.
func TestALimitOfWhichThereIsPlentyIsNotBlamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newAsker(t, newLink(), tables(t, quota("input-tokens", 60_000_000, "share", 1), quota("requests", 3, "share", 1)))
		r, _ := k.take(4, 256)
		l := r.hold.main
		k.stop()
		pass(2 * ttl) // nothing is held any more
		l.view.Store(&view{
			atNs: k.a.mono(), levels: []int64{59_999_990, 1}, held: []int64{0, 0}, endMs: []int64{0, 0}, tightest: 1, requests: 1, tokens: 0, slots: -1,
		})
		d := l.refused([]int64{4, 1}, k.a.mono())
		if d.Limit.ID != "requests" || d.Remaining != 1 || d.RetryAfterMs != moment {
			t.Errorf("%+v", d)
		}
	})
}
