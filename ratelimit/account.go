package ratelimit

import "time"

// Account is an authority's state of one organisation, and the arithmetic of leases on it. It has no
// clock and no locks. The zero Account has never heard of its organisation.
type Account struct {
	epoch  int64
	lostUs int64 // when the epoch began without a memory; -1: with all that there ever was
	policy int64
	gen    generation
	stocks map[string]stock
	lanes  map[string]lane
}

// lane is the last answer to one router about one path.
type lane struct {
	epoch, seq, gen int64
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
		a.gen = firstGeneration(nowUs, ttl)
	}
	a.gen = a.gen.at(nowUs, ttl)
	stocks := make([]stock, len(in.Path))
	grants := make([]Grant, len(in.Path))
	alive := last.epoch == a.epoch && a.gen.lives(last.gen)
	for i := range in.Path {
		l := &in.Path[i]
		s, ok := a.stocks[l.Limit.ID]
		if !ok {
			s = newStock(l, a.gen.n, a.lostUs, nowUs)
		}
		s.at(l, a.gen, nowUs)
		var held int64
		if last.epoch == a.epoch && i < len(last.out.Path) {
			held = last.out.Path[i].Held
		}
		grants[i].Held = s.settle(l, held, last.gen, alive)
		stocks[i] = s
	}
	share(in, stocks, grants)
	for i := range in.Path {
		hold := !in.Strict || in.Path[i].Limit.Kind == Slots
		stocks[i].grant(grants[i].Granted, hold)
		if hold {
			grants[i].Held += grants[i].Granted
		}
		grants[i].Level = stocks[i].bucket.Level
		a.stocks[in.Path[i].Limit.ID] = stocks[i]
	}
	out := Out{Status: Granted, Epoch: a.epoch, Valid: time.Duration(ttl) * time.Microsecond, Path: grants}
	a.lanes[name] = lane{epoch: a.epoch, seq: in.Seq, gen: a.gen.n, out: out}
	return out
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
		a.stocks = make(map[string]stock)
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
		if in.Strict {
			return
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

// laneGenerations is how long a call may be repeated without being taken for a new one, at least.
const laneGenerations = 64

// Left is what the account has of a limit, as after the last call, and what routers hold of it; ok
// is false for one that it has never heard of.
func (a *Account) Left(limit string) (level, held int64, ok bool) {
	s, ok := a.stocks[limit]
	return s.bucket.Level, s.cur + s.prev, ok
}
