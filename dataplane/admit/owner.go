package admit

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/table"
	"anabranch/ratelimit"
)

const (
	// tick is the time between two turns of the owner.
	tick = 5 * time.Millisecond
	// patience is how much longer than a turn the owner waits for the next, of very many paths: a
	// twentieth of a processor is enough for it. But no longer than maxTick.
	patience = 20
	maxTick  = 50 * time.Millisecond
	// restTick is that while nothing is held and nobody waits.
	restTick = 250 * time.Millisecond
	// ttl of all leases.
	ttl = ratelimit.DefaultTTL
	// maxBatch bounds the calls of one round trip.
	maxBatch = 256
	// maxAlong is the most lanes that are looked at to fill a round trip out of turn.
	maxAlong = 64
	// hungryPause is what each lane that the store has refused stretches the time between two calls of all of
	// them by: together they make no more than 4,000 calls a second, a tenth of what one Redis answers. But
	// they call as often as others: twice in a lease's time.
	hungryPause = 250 * time.Microsecond
	// maxFlying bounds the round trips to one store at the same time: as many as fill the longest
	// distance, and no more than that from a store that is slow.
	maxFlying = 16
	// staleRetry is how often a store that has heard of a newer policy is tried with the old one, in
	// case it was the store that went back.
	staleRetry = time.Second
	// far ahead nothing is due of a Holding that will never have to be told of by itself.
	far = time.Hour
)

// owner is what only the owner's turn touches.
type owner struct {
	lanes      []*lane
	table      *table.Table // that paths were last taken from
	roundTrips map[fleet.RegionID]*roundTrip
	unmet      []*organisation // whose stores may have to be told of them
	sweepNs    int64           // when it was last swept
	hungry     int             // lanes that a store has refused, in the last turn
}

// batch is calls to one store.
type batch struct {
	home  fleet.RegionID
	store Store
	trip  *roundTrip
	calls []ratelimit.In
	parts []part // of the calls
}

// part is whose call it is.
type part struct {
	lane   *lane // nil: the organisation is met
	org    *organisation
	former bool // it is met at its former home
}

// roundTrip is how calls to one store go.
type roundTrip struct {
	flying atomic.Int32
	ns     atomic.Int64 // smoothed
}

// Turn makes one turn of the owner: it makes all calls that are due and takes their answers. Run does so
// by itself.
func (a *Admitter) Turn(ctx context.Context, now time.Time) {
	for _, b := range a.due(now, true) {
		a.call(ctx, b)
	}
}

// own makes turns until ctx ends, then gives back what is held.
func (a *Admitter) own(ctx context.Context) error {
	var calls sync.WaitGroup
	defer calls.Wait()
	// A call that is on its way when ctx ends may be carried out and is waited for: stores have budgets.
	work := context.WithoutCancel(ctx)
	fly := func(all bool) {
		for _, b := range a.due(a.clock(), all) {
			calls.Go(func() { a.call(work, b) })
		}
	}
	timer := time.NewTimer(tick)
	defer timer.Stop()
	idle := false
	for {
		select {
		case <-timer.C:
			began := time.Now()
			fly(true)
			if idle = a.resting(); idle {
				timer.Reset(restTick)
			} else {
				timer.Reset(min(max(tick, patience*time.Since(began)), maxTick))
			}
		case <-a.queue.bell:
			fly(false)
			if idle {
				idle = false
				timer.Reset(tick)
			}
		case <-ctx.Done():
			calls.Wait()
			a.leave(work)
			return nil
		}
	}
}

// due takes stock at a time and answers the calls to be made. Not all: only about lanes that have asked
// to be looked at.
func (a *Admitter) due(now time.Time, all bool) []*batch {
	a.turn.Lock()
	defer a.turn.Unlock()
	o := &a.owner
	fresh, soon := a.queue.take()
	o.lanes = append(o.lanes, fresh...)
	if t := a.table.Load(); t != nil && t != o.table {
		o.table = t
		a.adopt(t)
	}
	g := gathering{a: a, now: now, nowNs: a.at(now)}
	if !all {
		for _, l := range soon {
			g.consider(l, false)
		}
		if len(o.lanes) <= maxAlong {
			g.along()
		}
		return g.batches
	}
	keep, hungry := o.lanes[:0], 0
	for _, l := range o.lanes {
		if l.holding.Hungry() {
			hungry++
		}
		g.consider(l, false)
		if !g.quiet(l) {
			keep = append(keep, l)
		}
	}
	clear(o.lanes[len(keep):])
	o.lanes, o.hungry = keep, hungry
	g.along()
	g.meetTheYoung()
	a.sweep(g.nowNs)
	return g.batches
}

// resting says whether nothing is held and nobody waits, so that turns may be rare.
func (a *Admitter) resting() bool {
	a.turn.Lock()
	defer a.turn.Unlock()
	return len(a.owner.lanes) == 0
}

// gathering is the calls of one turn.
type gathering struct {
	a       *Admitter
	now     time.Time
	nowNs   int64
	batches []*batch
}

// along adds calls that will be due before long to round trips that are made anyway.
func (g *gathering) along() {
	if len(g.batches) == 0 {
		return
	}
	for _, l := range g.a.owner.lanes {
		if !l.flying.Load() && l.holding.Soon(g.nowNs) && g.room(l.hold.org.now.Load().Home) != nil {
			g.consider(l, true)
		}
	}
}

// room is a batch to the region's store that has room for a call, or nil.
func (g *gathering) room(home fleet.RegionID) *batch {
	for _, b := range g.batches {
		if b.home == home && len(b.calls) < maxBatch {
			return b
		}
	}
	return nil
}

// consider adds the lane's call if one is due, or is soon enough, and can be made.
func (g *gathering) consider(l *lane, soon bool) {
	if l.flying.Load() {
		return
	}
	org := l.hold.org
	o := org.now.Load()
	moved := l.epoch != 0 && l.epoch != o.Epoch
	if !moved && !soon && !l.holding.Due(g.nowNs) {
		return
	}
	if l.holding.Hungry() && time.Duration(g.nowNs-l.calledNs) < g.a.owner.pause() {
		return
	}
	store := g.a.stores.Of(o.Home)
	if store == nil || g.a.unwell(org) != nil {
		return
	}
	if s := l.stale.Load(); s.of(o) && time.Duration(g.nowNs-s.atNs) < staleRetry {
		return
	}
	if !g.met(org, o, store) {
		return
	}
	b := g.batch(o.Home, store)
	if b == nil {
		return
	}
	if moved {
		// What was told to the former home, if it was, is no matter for the new one, which starts anew:
		// the call that was not answered is taken back, and made as a new one.
		l.holding.Answer(ratelimit.Out{Status: ratelimit.Stale}, g.nowNs)
	}
	in := g.a.header(o)
	in.Router, in.Path = l.router, l.levels(o, g.a, g.now)
	l.holding.Call(&in, ratelimit.Span(time.Duration(b.trip.ns.Load())), g.nowNs)
	l.epoch, l.calledNs = o.Epoch, g.nowNs
	l.flying.Store(true)
	b.add(in, l, org, false)
}

// pause is the least time between two calls about a lane that its store has refused.
func (o *owner) pause() time.Duration {
	return min(max(ratelimit.HungryEvery, time.Duration(o.hungry)*hungryPause), ttl/2)
}

// quiet takes a lane off the list about which nothing will be due until somebody rouses it.
func (g *gathering) quiet(l *lane) bool {
	later := g.nowNs + int64(far)
	if l.flying.Load() || l.holding.Due(later) {
		return false
	}
	l.listed.Store(false)
	// Somebody may have been too late to see that.
	return !l.holding.Due(later) || !l.listed.CompareAndSwap(false, true)
}

// met says whether the organisation's stores know of its epoch, and adds the call that tells them.
func (g *gathering) met(org *organisation, o *table.Organisation, home Store) bool {
	due, former, wait := org.meeting.step(o, g.nowNs, ttl+g.a.budget)
	if !due {
		return !wait
	}
	region, store := o.Home, home
	if former {
		if region, store = o.FormerHome, g.a.stores.Of(o.FormerHome); store == nil {
			return !wait
		}
	}
	path := g.greeting(org, o, former)
	if len(path) == 0 {
		return !wait
	}
	b := g.batch(region, store)
	if b == nil {
		return !wait
	}
	m := &org.meeting
	m.seq++
	m.triedNs = g.nowNs
	m.flying.Store(true)
	in := g.a.header(o)
	in.Router, in.Seq, in.Path = g.a.run+"/met", m.seq, path
	b.add(in, nil, org, former)
	return !wait
}

// greeting is limits to call about that want nothing. The level of a budget begins with what the ledger
// knows: before that is heard, the home is not told of it.
func (g *gathering) greeting(org *organisation, o *table.Organisation, former bool) (path []ratelimit.Level) {
	p := org.sample.Load()
	if p == nil {
		return nil
	}
	limits := p.Limits
	if len(limits) == 0 {
		limits = p.Shadow
	}
	for i := range limits {
		v := level(&limits[i], o)
		if limits[i].Kind == ratelimit.Money {
			v.Window, _ = limits[i].Calendar.Window(g.now, limits[i].Place) // a table's calendars are known
			if v.Window.Spent = g.a.ledger.spent(o.ID, limits[i].ID, v.Window.FromUs); v.Window.Spent < 0 && !former {
				continue
			}
		}
		path = append(path, v)
	}
	return path
}

// meetTheYoung has the stores of new organisations know of them before they are needed.
func (g *gathering) meetTheYoung() {
	left := g.a.owner.unmet[:0]
	for _, org := range g.a.owner.unmet {
		o := org.now.Load()
		org.meeting.settle(o)
		if org.gone.Load() || org.meeting.epoch == o.Epoch && org.meeting.former.Load() && org.meeting.young.Load() {
			org.unmet = false
			continue
		}
		left = append(left, org)
		if store := g.a.stores.Of(o.Home); store != nil && g.a.unwell(org) == nil {
			g.met(org, o, store)
		}
	}
	clear(g.a.owner.unmet[len(left):])
	g.a.owner.unmet = left
}

// batch is one to a store with room for a call. Nil: enough are on their way.
func (g *gathering) batch(home fleet.RegionID, store Store) *batch {
	if b := g.room(home); b != nil {
		return b
	}
	trip := g.a.owner.roundTrips[home]
	if trip == nil {
		trip = &roundTrip{}
		g.a.owner.roundTrips[home] = trip
	}
	if trip.flying.Load() >= maxFlying {
		return nil
	}
	trip.flying.Add(1)
	b := &batch{home: home, store: store, trip: trip}
	g.batches = append(g.batches, b)
	return b
}

func (b *batch) add(in ratelimit.In, l *lane, org *organisation, former bool) {
	b.calls = append(b.calls, in)
	b.parts = append(b.parts, part{l, org, former})
}
