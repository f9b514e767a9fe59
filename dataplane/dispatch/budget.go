package dispatch

import (
	"sync"
	"sync/atomic"
	"time"

	"anabranch/api/fleet"
)

// The retry budget: retries sent to a place may be a tenth of the requests sent there in the last
// ten seconds, and never fewer than a floor, so that a quiet place still helps. They count where a
// retry goes to, since that is where a storm of them would do harm. (Retry budgets: Google, Site
// Reliability Engineering, chapter 21, "Handling Overload".)
const (
	budgetShare = 0.1
	// BudgetFloor is how many retries a place may get in ten seconds however few requests it has.
	BudgetFloor = 20
	budgetSpan  = 10 * time.Second
)

// Budget counts requests and retries for each place over the last ten seconds, a second at a time. The
// zero Budget has counted nothing; it is safe for concurrent use.
type Budget struct {
	places sync.Map // of *spending, by fleet.ClusterID
}

// spending is what one place was sent.
type spending struct{ requests, retries perSecond }

// Sent counts a first attempt to a place.
func (b *Budget) Sent(place fleet.ClusterID, now time.Time) {
	b.of(place).requests.add(now.Unix(), 1)
}

// Retry says whether a retry may go to a place, and counts it if so. Exempt retries always may,
// and count as requests there.
func (b *Budget) Retry(place fleet.ClusterID, exempt bool, now time.Time) bool {
	s, second := b.of(place), now.Unix()
	if exempt {
		s.requests.add(second, 1)
		return true
	}
	s.retries.add(second, 1) // first, or several would find the same one left
	if s.retries.sum(second) <= s.allowed(second) {
		return true
	}
	s.retries.add(second, -1)
	return false
}

// Status is how the budget of a place stands: what it got in the last ten seconds, and how many retries
// it may get now.
func (b *Budget) Status(place fleet.ClusterID, now time.Time) (requests, retries, left int) {
	s, second := b.of(place), now.Unix()
	n := s.retries.sum(second)
	return int(s.requests.sum(second)), int(n), int(max(s.allowed(second)-n, 0))
}

// allowed is how many retries may have been sent there.
func (s *spending) allowed(second int64) int64 {
	return max(BudgetFloor, int64(budgetShare*float64(s.requests.sum(second))))
}

func (b *Budget) of(place fleet.ClusterID) *spending {
	if s, ok := b.places.Load(place); ok {
		return s.(*spending)
	}
	s, _ := b.places.LoadOrStore(place, &spending{})
	return s.(*spending)
}

// Keep forgets the places that the table does not have any more.
func (b *Budget) Keep(has func(fleet.ClusterID) bool) {
	b.places.Range(func(id, _ any) bool {
		if !has(id.(fleet.ClusterID)) {
			b.places.Delete(id)
		}
		return true
	})
}

// perSecond counts over the last ten seconds, without a lock. Each place of the ring holds a second in
// the upper half and its count in the lower.
type perSecond [budgetSpan / time.Second]atomic.Uint64

// add counts n more. A second older than what the ring holds counts as the one that took its place: the
// clock was set back.
func (r *perSecond) add(second int64, n int32) {
	slot := &r[second%int64(len(r))]
	for {
		was := slot.Load()
		is := was
		if int64(was>>32) < second {
			is = uint64(second) << 32
		}
		if slot.CompareAndSwap(was, is&^0xffffffff|uint64(uint32(is)+uint32(n))) {
			return
		}
	}
}

// sum is the count of the last ten seconds.
func (r *perSecond) sum(second int64) (n int64) {
	for i := range r {
		if v := r[i].Load(); int64(v>>32) > second-int64(len(r)) {
			n += int64(uint32(v))
		}
	}
	return n
}
