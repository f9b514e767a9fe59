package ratelimit

import (
	"sync"
	"testing"
)

// What is tried for and not had must not look as if it was spent to a call that is made meanwhile: the store
// would take it for a debt, refuse others, and fill up when it is given back.
func TestWhatIsNotHadIsNeverToldAsSpent(t *testing.T) {
	r, a := newRouter("r", rate("org", 1_000_000, 1_000_000), rate("own", 1000, 1000)), &Account{}
	r.Spend([]int64{10, 10}, ms)
	now := 2 * ms
	r.refresh(t, a, now)
	done := make(chan struct{})
	var asking sync.WaitGroup
	for _, costs := range [][]int64{{900_000, 900_000}, {5000, 5000}, {900, 900}} {
		asking.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					r.Spend(costs, 2*ms)
				}
			}
		})
	}
	for range 5000 {
		now += ms / 100
		in := r.call(now)
		for i := range in.Path {
			in.Path[i].Want = 0 // so that none of them can be had
			if in.Path[i].Used+in.Path[i].Refund > 0 {
				t.Errorf("%d used and %d refunded of %s, and nothing was had", in.Path[i].Used, in.Path[i].Refund, in.Path[i].Limit.ID)
			}
		}
		r.Answer(a.Lease(&in, now/1000), now)
		if t.Failed() {
			break
		}
	}
	close(done)
	asking.Wait()
}
