package meter

import (
	"sync"

	"anabranch/ratelimit"
)

// ledger is the queue between the requests that end and the worker that settles them. Differences
// of the same bucket add up in it, so that it is bounded by the number of buckets and not by the
// number of requests, and one call settles many.
type ledger struct {
	most  int
	ready chan struct{} // holds a token while there may be something to settle

	mu      sync.Mutex // guards the rest
	tenants map[string]*page
	order   []string // tenants in the order in which they came
	buckets int
}

// page is what one tenant has to settle.
type page struct {
	path  []ratelimit.Charge
	index map[string]int // limit to its place in path
}

// entry is one call's worth for one tenant.
type entry struct {
	tenant string
	path   []ratelimit.Charge
}

func newLedger(most int) *ledger {
	return &ledger{most: most, ready: make(chan struct{}, 1), tenants: make(map[string]*page)}
}

// add adds differences to a tenant's page and says how many found no room.
func (l *ledger) add(tenant string, path []ratelimit.Charge) (lost int) {
	if len(path) == 0 {
		return 0
	}
	l.mu.Lock()
	p := l.tenants[tenant]
	if p == nil {
		p = &page{index: make(map[string]int)}
		l.tenants[tenant] = p
		l.order = append(l.order, tenant)
	}
	for _, c := range path {
		if i, ok := p.index[c.Limit.ID]; ok {
			p.path[i].Limit = c.Limit
			p.path[i].Cost += c.Cost
			continue
		}
		if l.buckets >= l.most {
			lost++
			continue
		}
		l.buckets++
		p.index[c.Limit.ID] = len(p.path)
		p.path = append(p.path, c)
	}
	l.mu.Unlock()
	select {
	case l.ready <- struct{}{}:
	default:
	}
	return lost
}

// drain takes everything out, first come first, in paths that one call can carry.
func (l *ledger) drain() []entry {
	l.mu.Lock()
	tenants, order := l.tenants, l.order
	l.tenants, l.order, l.buckets = make(map[string]*page), nil, 0
	l.mu.Unlock()
	var out []entry
	for _, tenant := range order {
		path := tenants[tenant].path
		for len(path) > 0 {
			n := min(len(path), ratelimit.MaxPath)
			out = append(out, entry{tenant, path[:n]})
			path = path[n:]
		}
	}
	return out
}

// waiting counts the buckets with something to settle.
func (l *ledger) waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buckets
}
