package inquiry

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

const (
	// renewEvery is how often routers are asked again, and told with it that somebody still wants to
	// know; lease is how long they go on without.
	renewEvery = 2 * time.Second
	lease      = 10 * time.Second
	// heldNews is how many messages of routers wait for whoever follows, and heldBytes about how many bytes
	// of records: a message may have a megabyte of them.
	heldNews  = 256
	heldBytes = 8 << 20
)

// tail is one follower of this node's routers.
type tail struct {
	filter  *routerpb.DecisionFilter
	rate    uint32
	news    chan News
	held    atomic.Int64  // bytes of records in news
	dropped atomic.Uint64 // that found no place in news
}

// take hands on what a router said, or counts it.
func (t *tail) take(n News) {
	if len(n.Records) == 0 && n.Dropped == 0 {
		return
	}
	n.Dropped += t.dropped.Swap(0)
	size := sizeOf(n)
	if before := t.held.Add(size) - size; before == 0 || before+size <= heldBytes {
		select {
		case t.news <- n:
			return
		default:
		}
	}
	t.held.Add(-size)
	t.dropped.Add(n.Dropped + uint64(len(n.Records)))
}

// taken is told of news that was taken out.
func (t *tail) taken(n News) { t.held.Add(-sizeOf(n)) }

func sizeOf(n News) (bytes int64) {
	for _, r := range n.Records {
		bytes += int64(len(r))
	}
	return bytes
}

// wants says whether routers of a region can have anything to tell.
func (t *tail) wants(region fleet.RegionID) bool {
	regions := t.filter.GetRegions()
	return len(regions) == 0 || slices.Contains(regions, string(region))
}

// Follow tells what the routers connected to this node decide from now on, as far as filter wants it and
// at most perSecond records of each router (0: as many as it gives by itself). It calls tell, one call
// at a time, first with the standing and again with it every two seconds, until ctx ends, and returns
// nil then, or when tell fails, and returns its error. While tell takes its time, what comes is counted
// as dropped.
func (d *Desk) Follow(ctx context.Context, filter *routerpb.DecisionFilter, perSecond uint32, tell func(News) error) error {
	t := &tail{filter: filter, rate: perSecond, news: make(chan News, heldNews)}
	number := d.add(t)
	defer d.remove(number)
	if err := tell(d.renew(number, t)); err != nil {
		return err
	}
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			err = tell(d.renew(number, t))
		case n := <-t.news:
			t.taken(n)
			err = tell(n)
		}
		if err != nil {
			return err
		}
	}
}

func (d *Desk) add(t *tail) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.number++
	d.tails[d.number] = t
	return d.number
}

// remove tells the routers that nobody wants to know any more. One that does not hear of it stops when
// its lease is over.
func (d *Desk) remove(number uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.tails[number]
	delete(d.tails, number)
	for _, l := range d.lines {
		delete(l.refused, number)
		if l.tails && t.wants(l.region) {
			l.try(&routerpb.ToRouter{Body: &routerpb.ToRouter_StopTail{StopTail: &routerpb.StopTail{Number: number}}})
		}
	}
}

// renew asks all routers, those too that have come meanwhile, and gives the standing.
func (d *Desk) renew(number uint64, t *tail) News {
	d.mu.Lock()
	defer d.mu.Unlock()
	var s Standing
	for _, l := range d.sorted() {
		switch {
		case !t.wants(l.region):
		case d.follow(l, number, t):
			s.Following++
		default:
			s.Unable = append(s.Unable, l.router)
		}
	}
	return News{Node: d.node, Standing: s}
}

// follow asks one router. False: it can't be followed. The caller holds the lock.
func (d *Desk) follow(l *line, number uint64, t *tail) bool {
	if !l.tails || !t.wants(l.region) {
		return false
	}
	l.try(&routerpb.ToRouter{Body: &routerpb.ToRouter_Tail{Tail: &routerpb.Tail{
		Number: number, Filter: t.filter, RatePerS: t.rate, LeaseMs: uint32(lease.Milliseconds()),
	}}})
	return !l.refused[number]
}

// try sends a message unless too many wait: it comes again.
func (l *line) try(m *routerpb.ToRouter) {
	select {
	case l.asks <- m:
	default:
	}
}
