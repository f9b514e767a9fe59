package gateway

import (
	"sync"

	"anabranch/api/fleet"
)

// signals are what a scrape of one pod says.
type signals struct {
	waiting, running float64
	kvUsage          float64 // 0 to 1
}

// member is one pod as the pool sees it.
type member struct {
	Endpoint
	host     string // of the URL
	ready    bool
	misses   int // scrapes failed in a row
	signals  signals
	inFlight int // own requests
}

// load is what picking goes by: the scraped requests, or the own ones if those are more, so that
// a burst between two scrapes spreads.
func (m *member) load() float64 {
	return max(m.signals.waiting+m.signals.running, float64(m.inFlight))
}

// maxMisses is how many scrapes may fail in a row before a pod is no longer ready. A refused
// connection ends it at once.
const maxMisses = 2

// pool is the pods and what is known of them.
type pool struct {
	queueThreshold, kvThreshold float64

	mu      sync.Mutex // guards what follows
	members []*member
	turn    int // where the next search starts, so that ties rotate
}

// pick takes the ready pod with the least load that is not in tried, and counts one request in
// flight there; release ends it.
func (p *pool) pick(tried map[fleet.EndpointID]bool) *member {
	p.mu.Lock()
	defer p.mu.Unlock()
	var best *member
	for i := range p.members {
		m := p.members[(p.turn+i)%len(p.members)]
		if !m.ready || tried[m.ID] {
			continue
		}
		if best == nil || m.load() < best.load() {
			best = m
		}
	}
	p.turn++
	if best != nil {
		best.inFlight++
	}
	return best
}

func (p *pool) release(m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.inFlight--
}

// observe takes in a scrape.
func (p *pool) observe(m *member, s signals) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.ready, m.misses, m.signals = true, 0, s
}

// miss takes in a scrape or connect that failed.
func (p *pool) miss(m *member, refused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.misses++
	if refused || m.misses >= maxMisses {
		m.ready = false
	}
}

// view is a snapshot of the pool.
type view struct {
	ready            int
	waiting, running float64 // means over ready pods
	kvUsage          float64
	saturation       float64 // 1 and more: full; 1 without a ready pod
	queues           map[string]float64
}

// view sums up the ready pods. Saturation is the mean of how far each pod is towards the nearer
// of its thresholds, as in llm-d's utilization detector; a pool without a ready pod is full.
func (p *pool) view() view {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := view{queues: map[string]float64{}}
	for _, m := range p.members {
		if !m.ready {
			continue
		}
		v.ready++
		v.waiting += m.signals.waiting
		v.running += m.signals.running
		v.kvUsage += m.signals.kvUsage
		v.saturation += max(m.signals.waiting/p.queueThreshold, m.signals.kvUsage/p.kvThreshold)
		v.queues[m.host] = m.signals.waiting
	}
	if v.ready == 0 {
		v.saturation = 1
		return v
	}
	n := float64(v.ready)
	v.waiting, v.running, v.kvUsage, v.saturation = v.waiting/n, v.running/n, v.kvUsage/n, v.saturation/n
	return v
}
