package admit

import (
	"context"
	"log/slog"
	"time"

	"anabranch/dataplane/table"
	"anabranch/ratelimit"
)

// header is what all calls about an organisation have in common.
func (a *Admitter) header(o *table.Organisation) ratelimit.In {
	return ratelimit.In{
		Org: o.ID, Epoch: o.Epoch, Young: o.Young, Policy: o.Version, TTL: ttl, Region: string(a.region), Shares: o.Shares,
	}
}

// level is a limit as calls tell it.
func level(l *table.Limit, o *table.Organisation) ratelimit.Level {
	v := ratelimit.Level{Limit: l.Limit, Alone: l.Degraded == table.DegradedShare}
	if l.Kind != ratelimit.Money {
		v.Cold = o.Cold
	}
	return v
}

// levels are the lane's limits as a call tells them.
func (l *lane) levels(o *table.Organisation, a *Admitter, now time.Time) []ratelimit.Level {
	limits := l.limits()
	out := make([]ratelimit.Level, len(limits))
	for i := range limits {
		out[i] = level(&limits[i], o)
		if l.units[i] != ofMoney {
			continue
		}
		w, err := a.ledger.window(l.tallies[i], now, &limits[i])
		if err != nil {
			continue // a table's calendars are known
		}
		if a.informed == nil || a.informed(now) {
			w.Spent = a.ledger.spent(o.ID, limits[i].ID, w.FromUs)
		}
		out[i].Window = w
	}
	return out
}

// call makes the calls of a batch and takes their answers.
func (a *Admitter) call(ctx context.Context, b *batch) {
	began := a.mono()
	results := b.store.LeaseAll(ctx, b.calls)
	now := a.clock()
	nowNs := a.at(now)
	a.waits.called(time.Duration(nowNs-began), len(b.calls))
	answered := false
	for i := range results {
		answered = answered || results[i].Err == nil
		if p := &b.parts[i]; p.lane != nil {
			a.answer(p.lane, &b.calls[i], &results[i], now)
		} else {
			p.org.meeting.answer(p.former, results[i].Err)
		}
	}
	if answered {
		b.trip.took(nowNs - began)
		for i := range b.parts {
			if !b.parts[i].former {
				b.parts[i].org.far.Store(b.trip.ns.Load())
			}
		}
	}
	b.trip.flying.Add(-1)
}

func (r *roundTrip) took(ns int64) {
	if old := r.ns.Load(); old > 0 {
		ns = old + (ns-old)/8
	}
	r.ns.Store(ns)
}

// answer takes the answer to a call about a meeting. A store that knows a newer epoch refuses the older
// ones already.
func (m *meeting) answer(former bool, err error) {
	if err == nil {
		if former {
			m.former.Store(true)
		} else {
			m.young.Store(true)
		}
	}
	m.flying.Store(false)
}

// answer takes the answer to a lane's call.
func (a *Admitter) answer(l *lane, in *ratelimit.In, r *ratelimit.Result, now time.Time) {
	nowNs := a.at(now)
	due := false
	if r.Err == nil {
		l.holding.Answer(r.Out, nowNs)
		switch r.Out.Status {
		case ratelimit.Granted:
			a.granted(l, in, r.Out, now)
		case ratelimit.Stale:
			a.waits.stales.Inc()
			l.stale.Store(&stale{in.Epoch, in.Policy, nowNs})
		}
		due = l.holding.Due(nowNs)
	}
	l.flying.Store(false)
	l.answered()
	if due {
		a.rouse(l, true)
	}
}

// granted takes in what the store said of the levels.
func (a *Admitter) granted(l *lane, in *ratelimit.In, out ratelimit.Out, now time.Time) {
	nowNs, wallUs := a.at(now), now.UnixMicro()
	org := l.hold.org
	charges := org.granted(l, in, out, nowNs, a.allowance(l, out.Gap, now))
	l.view.Store(newView(l, in, out, nowNs, wallUs))
	if charges != nil {
		l.holding.Charge(charges)
	}
	l.stale.Store(nil)
	if org.back(now) {
		a.log.Info("quotas are leased again", slog.String("organisation", org.id))
	}
}

// granted notes what the store was told and said of each limit, and answers what of the time without it is to be
// charged now (below 0: given back), or nil.
func (o *organisation) granted(l *lane, in *ratelimit.In, out ratelimit.Out, nowNs int64, allowed func(i int) int64) (charges []int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, g := range out.Path {
		x := l.tallies[i]
		told := &in.Path[i]
		x.level, x.levelNs, x.windowUs, x.burst = g.Level, nowNs, told.Window.FromUs, told.Limit.Burst
		x.told.used += told.Used - told.Refund
		x.told.granted += g.Granted
		x.told.back += told.Back
		acc := &x.account
		if acc.outage == 0 || l.shadow {
			continue
		}
		if !x.flows() {
			acc.charged = 0 // it was told with the rest
			continue
		}
		if acc.outage == o.outages {
			acc.allowed = max(acc.allowed, allowed(i))
		}
		acc.answered = true
		if n := acc.tell(); n != 0 {
			if charges == nil {
				charges = make([]int64, len(out.Path))
			}
			charges[i] = n
		}
	}
	return charges
}

// allowance is how much of each limit this router may have spent by itself while the store set it
// aside for it.
func (a *Admitter) allowance(l *lane, gap ratelimit.Gap, now time.Time) func(i int) int64 {
	org := l.hold.org
	if gap == (ratelimit.Gap{}) {
		return func(int) int64 { return 0 }
	}
	org.mu.Lock()
	from, to := time.Duration(0), time.Duration(0)
	if org.outages > 0 {
		from = now.Sub(org.since)
	}
	if !org.away {
		to = now.Sub(org.until)
	}
	org.mu.Unlock()
	limits := l.limits()
	parts := int64(0)
	if t := a.table.Load(); t != nil {
		parts = int64(a.part(t, org) * ratelimit.ShareParts)
	}
	return func(i int) int64 { return ratelimit.Allowance(limits[i].Limit, parts, gap.Within(from, to)) }
}

// leave gives back what is held and tells what was spent, so that nobody has to wait until it is over.
// Nobody spends any more.
func (a *Admitter) leave(ctx context.Context) {
	for range 2 { // a call that was not answered comes first
		a.turn.Lock()
		now := a.clock()
		g := gathering{a: a, now: now, nowNs: a.at(now)}
		fresh, _ := a.queue.take()
		a.owner.lanes = append(a.owner.lanes, fresh...)
		for _, l := range a.owner.lanes {
			g.farewell(l)
		}
		a.turn.Unlock()
		for _, b := range g.batches {
			a.call(ctx, b)
		}
	}
}

// farewell is a lane's last call: it wants nothing, and gives back all.
func (g *gathering) farewell(l *lane) {
	org := l.hold.org
	o := org.now.Load()
	store := g.a.stores.Of(o.Home)
	if l.flying.Load() || store == nil || store.Healthy(org.id) != nil {
		return
	}
	b := g.batch(o.Home, store)
	if b == nil {
		return
	}
	in := g.a.header(o)
	in.Router, in.Path = l.router, l.levels(o, g.a, g.now)
	l.holding.Call(&in, 0, g.nowNs)
	for i := range in.Path {
		in.Path[i].Want = 0
		in.Path[i].Back += l.holding.Left(i, g.nowNs)
	}
	l.flying.Store(true)
	b.add(in, l, org, false)
}
