package dataplane

import (
	"sync"
	"time"

	"anabranch/api/fleet"
)

// The retry budget: retries sent to a place may be a tenth of the requests sent there in the last
// ten seconds, and never fewer than a floor, so that a quiet place still helps. They count where a
// retry goes to, since that is where a storm of them would do harm. (Retry budgets: Google, Site
// Reliability Engineering, chapter 21, "Handling Overload".)
const (
	budgetShare = 0.1
	budgetFloor = 20
	budgetSpan  = 10 * time.Second
)

// budget counts requests and retries for each place over the last ten seconds, a second at a time.
type budget struct {
	mu     sync.Mutex // guards places
	places map[fleet.ClusterID]*spending
}

// spending is one place's ring of seconds.
type spending struct {
	newest            int64 // second
	requests, retries [budgetSpan / time.Second]int
}

func newBudget() *budget { return &budget{places: make(map[fleet.ClusterID]*spending)} }

// sent counts a first attempt to a place.
func (b *budget) sent(place fleet.ClusterID, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.at(place, now)
	s.requests[s.newest%int64(len(s.requests))]++
}

// retry says whether a retry may go to a place, and counts it if so. Exempt retries always may,
// and count as requests there.
func (b *budget) retry(place fleet.ClusterID, exempt bool, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.at(place, now)
	i := s.newest % int64(len(s.requests))
	if exempt {
		s.requests[i]++
		return true
	}
	if s.status().Left <= 0 {
		return false
	}
	s.retries[i]++
	return true
}

// status is how the budget of a place stands.
func (b *budget) status(place fleet.ClusterID, now time.Time) RetryStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.at(place, now).status()
}

// status sums the seconds.
func (s *spending) status() RetryStatus {
	var sum RetryStatus
	for i := range s.requests {
		sum.Requests += s.requests[i]
		sum.Retries += s.retries[i]
	}
	sum.Left = max(max(budgetFloor, int(budgetShare*float64(sum.Requests)))-sum.Retries, 0)
	return sum
}

// at is a place's ring, turned to now.
func (b *budget) at(place fleet.ClusterID, now time.Time) *spending {
	s := b.places[place]
	if s == nil {
		s = &spending{}
		b.places[place] = s
	}
	second := now.Unix()
	for n := max(s.newest+1, second-int64(len(s.requests))+1); n <= second; n++ {
		s.requests[n%int64(len(s.requests))] = 0
		s.retries[n%int64(len(s.retries))] = 0
	}
	s.newest = max(s.newest, second)
	return s
}

// keep forgets the places that the table does not have any more.
func (b *budget) keep(has func(fleet.ClusterID) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.places {
		if !has(id) {
			delete(b.places, id)
		}
	}
}
