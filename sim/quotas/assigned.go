package quotas

import (
	"math"
	"sort"
	"time"
)

// Times of assigned rates. Doorman's configuration has refresh_interval and lease_length; its examples
// renew every few seconds.
const (
	assignEvery = time.Second
	assignedFor = 5 * time.Second
	// spare is how much more a router asks for than was asked of it in the last second.
	spare = 1.5
)

// assigned gives each router a rate of each limit, as github.com/youtube/doorman does: routers tell each
// second what they want, the server never has more leased than there is, and divides by its FAIR_SHARE
// (doc/algorithms.md). A router keeps to its rate with a bucket of its own. Whose lease is over keeps to
// the safe capacity, its even part.
type assigned struct {
	w       *world
	leases  [][]grant // by limit and router
	routers []*paced
}

// grant is a rate in units per second.
type grant struct {
	rate  float64
	wants float64
	until int64
}

// paced is a router's buckets.
type paced struct {
	rate, level []float64
	until       int64
	at          int64
	asked       []float64 // since the last call
	busy        bool
}

func newAssigned(w *world) scheme {
	a := &assigned{w: w, routers: make([]*paced, len(w.routers))}
	a.lose()
	for i := range w.routers {
		a.crash(i)
		w.after(w.random.Int64N(assignEvery.Nanoseconds()), func() { a.renew(i) })
	}
	return a
}

func (a *assigned) crash(router int) {
	n := len(a.w.limits)
	p := &paced{rate: make([]float64, n), level: make([]float64, n), asked: make([]float64, n), at: a.w.now}
	a.routers[router] = p
}

func (a *assigned) lose() {
	a.leases = make([][]grant, len(a.w.limits))
	for i := range a.leases {
		a.leases[i] = make([]grant, len(a.w.routers))
	}
}

// perSecond is what flows into a limit.
func (a *assigned) perSecond(limit int) float64 {
	l := a.w.limits[limit]
	return float64(l.Amount) / float64(l.PeriodMs) * 1000
}

// fill brings a router's buckets to now.
func (a *assigned) fill(p *paced) {
	passed := time.Duration(a.w.now - p.at).Seconds()
	p.at = a.w.now
	for i := range p.level {
		rate := p.rate[i]
		if a.w.now >= p.until {
			rate = a.perSecond(i) / float64(len(a.w.routers)) // the safe capacity
		}
		p.level[i] = min(p.level[i]+rate*passed, rate*a.w.spec.Burst.Seconds())
	}
}

func (a *assigned) ask(r *request) {
	p := a.routers[r.router]
	a.fill(p)
	way := path(r.tenant)
	passes := true
	for i, l := range way {
		p.asked[l] += float64(r.costs[i])
		// A request larger than a router's whole bucket passes a full one, or it never would.
		passes = passes && p.level[l] >= min(float64(r.costs[i]), p.rate[l]*a.w.spec.Burst.Seconds()*0.999)
	}
	if !passes {
		a.w.deny(r)
		return
	}
	for i, l := range way {
		p.level[l] -= float64(r.costs[i])
	}
	a.w.admit(r)
}

// renew asks for new rates.
func (a *assigned) renew(router int) {
	a.w.after(assignEvery.Nanoseconds(), func() { a.renew(router) })
	p := a.routers[router]
	if p.busy {
		return
	}
	p.busy = true
	wants := make([]float64, len(p.asked))
	for i, n := range p.asked {
		wants[i] = max(n/assignEvery.Seconds()*spare, 1)
	}
	clear(p.asked)
	gets := make([]float64, len(wants))
	sent := a.w.now
	a.w.send(router, patience, func() {
		a.w.result.Messages++
		for i := range wants {
			gets[i] = a.assign(i, router, wants[i])
		}
	}, func(answered bool) {
		p.busy = false
		if answered {
			a.fill(p)
			p.until = sent + assignedFor.Nanoseconds()
			copy(p.rate, gets)
		}
	})
}

// assign leases a rate of a limit: the router's fair share, and no more than is not leased.
func (a *assigned) assign(limit, router int, wants float64) float64 {
	now := a.w.storeUs()
	leases := a.leases[limit]
	leases[router] = grant{wants: wants, rate: leases[router].rate, until: now + assignedFor.Microseconds()}
	capacity := a.perSecond(limit)
	var all []float64
	others := 0.0
	for i, g := range leases {
		if g.until <= now {
			continue
		}
		all = append(all, g.wants)
		if i != router {
			others += g.rate
		}
	}
	gets := max(min(wants, fairShare(capacity, all), capacity-others), 0)
	leases[router].rate = gets
	return gets
}

// fairShare is the most that one of them may get so that all together get no more than the capacity.
func fairShare(capacity float64, wants []float64) float64 {
	sort.Float64s(wants)
	for i, n := range wants {
		share := capacity / float64(len(wants)-i)
		if n >= share {
			return share
		}
		capacity -= n
	}
	return math.Inf(1)
}
