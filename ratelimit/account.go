package ratelimit

import "time"

// Account is an authority's state of one organisation, and the arithmetic of leases on it. It has no
// clock and no locks. The zero Account has never heard of its organisation.
type Account struct {
	epoch  int64
	lostUs int64 // when the epoch began without a memory; -1: with all that there ever was
	policy int64
	gen    generation
	flow   flow
	// regions are those that have been heard and have a share.
	regions map[string]region
	stocks  map[string]stock
	lanes   map[string]lane
}

// lane is the last answer to one router about one path.
type lane struct {
	epoch, seq, gen int64
	busy            bool // held or wanted something
	out             Out
}

// Lease settles and grants at the given time, in microseconds of the Unix epoch. The call must be
// valid.
func (a *Account) Lease(in *In, nowUs int64) Out {
	name := in.Lane()
	last := a.lanes[name]
	if in.Seq == last.seq {
		return last.out
	}
	if in.Seq < last.seq {
		return Out{Status: Late, Epoch: a.epoch}
	}
	if !a.enter(in, nowUs) {
		return Out{Status: Stale, Epoch: a.epoch}
	}
	ttl := in.TTL.Microseconds()
	if len(a.stocks) == 0 {
		a.gen, a.flow = firstGeneration(nowUs, ttl), firstFlow(nowUs)
	}
	a.gen = a.gen.at(nowUs, ttl)
	regions, mine := a.heard(in)
	var aside int64
	a.flow, aside = a.flow.at(nowUs, in.Shares, regions, mine)
	stocks := make([]stock, len(in.Path))
	grants := make([]Grant, len(in.Path))
	alive := last.epoch == a.epoch && a.gen.lives(last.gen)
	for i := range in.Path {
		l := &in.Path[i]
		s, ok := a.stocks[l.Limit.ID]
		if !ok {
			s = newStock(l, a.gen.n, a.lostUs, a.flow)
		}
		room := l.room(aside)
		s.at(l, room, a.gen, a.flow)
		var held int64
		if last.epoch == a.epoch && i < len(last.out.Path) {
			held = last.out.Path[i].Held
		}
		grants[i].Held = s.settle(l, room, held, last.gen, alive)
		stocks[i] = s
	}
	share(in, stocks, grants)
	busy := false
	for i := range in.Path {
		stocks[i].grant(grants[i].Granted)
		grants[i].Held += grants[i].Granted
		grants[i].Level = stocks[i].bucket.Level
		busy = busy || grants[i].Held > 0 || in.Path[i].Want > 0
		a.stocks[in.Path[i].Limit.ID] = stocks[i]
	}
	out := Out{Status: Granted, Epoch: a.epoch, Valid: micros(ttl), Path: grants}
	if mine >= 0 {
		r := regions[mine].hear(a.flow, a.gen, last.gen, alive && last.busy, busy)
		out.Gap = r.gap(a.flow)
		a.regions[in.Region] = r
	}
	a.lanes[name] = lane{epoch: a.epoch, seq: in.Seq, gen: a.gen.n, busy: busy, out: out}
	return out
}

// heard is what is remembered of each region with a share, and the index of the call's own; -1: it
// has none.
func (a *Account) heard(in *In) (regions []region, mine int) {
	regions, mine = make([]region, len(in.Shares)), -1
	for i, s := range in.Shares {
		r, ok := a.regions[s.Region]
		if !ok {
			r = unheard
		}
		regions[i] = r
		if s.Region == in.Region {
			mine = i
		}
	}
	return regions, mine
}

// enter brings the account to the call's epoch and policy, or says that the call is older.
func (a *Account) enter(in *In, nowUs int64) bool {
	if in.Epoch < a.epoch || in.Policy < a.policy {
		return false
	}
	if a.lanes == nil {
		a.lanes = make(map[string]lane)
	}
	if in.Epoch > a.epoch {
		lost := nowUs
		if a.epoch == 0 && in.Young {
			lost = -1
		}
		a.epoch, a.lostUs = in.Epoch, lost
		a.stocks, a.regions = make(map[string]stock), make(map[string]region)
	}
	a.policy = in.Policy
	return true
}

// share fills in what each level grants. A lease gets of every level the part that the scarcest of
// them has of what is wanted of it, rounded up: more would lie idle in the router's hands.
func share(in *In, stocks []stock, grants []Grant) {
	part := int64(grain)
	for i := range stocks {
		want, there := in.Path[i].Want, max(stocks[i].bucket.Level, 0)
		if there >= want {
			continue
		}
		part = min(part, ceilDiv(there*grain, want))
	}
	for i := range stocks {
		want := in.Path[i].Want
		grants[i].Granted = min(ceilDiv(want*part, grain), max(stocks[i].bucket.Level, 0))
	}
}

// forget drops the lanes of routers that have been silent for many generations.
func (a *Account) forget() {
	for name, l := range a.lanes {
		if l.gen < a.gen.n-laneGenerations {
			delete(a.lanes, name)
		}
	}
}

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// laneGenerations is how long a call may be repeated without being taken for a new one, at least.
const laneGenerations = 64

// Left is what the account has of a limit, as after the last call, and what routers hold of it; ok
// is false for one that it has never heard of.
func (a *Account) Left(limit string) (level, held int64, ok bool) {
	s, ok := a.stocks[limit]
	return s.bucket.Level, s.cur + s.prev, ok
}
