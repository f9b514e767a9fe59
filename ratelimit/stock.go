package ratelimit

// stock is the authority's state of one level: what is there, and what routers hold of it.
type stock struct {
	// bucket of a rate, stamped by the organisation's flow. Of Money, Level is what is left, StampUs the start of its window and Part
	// the budget that it was counted from; below 0 if it began cold, because nobody knew what was spent. Of
	// Slots, only Level counts.
	bucket Bucket
	// gen is the generation that cur was leased in; prev was in the one before.
	gen       int64
	cur, prev int64
}

// newStock is the state of a level that is not remembered. lostUs is when the authority lost its
// memory or became the organisation's home; below 0: never.
func newStock(l *Level, gen, lostUs int64, f flow) stock {
	s := stock{gen: gen}
	burst := l.Limit.Burst
	cold := percent(burst, l.Cold)
	switch l.Limit.Kind {
	case Slots:
	case Money:
		from, spent := l.window(f.seenUs)
		s.bucket = Bucket{Level: burst, StampUs: from, Part: burst}
		switch {
		case spent >= 0:
			s.bucket.Level = max(burst-spent, -burst)
		case lostUs >= from, lostUs >= 0 && f.seenUs < from:
			s.bucket.Level, s.bucket.Part = cold, -burst
		}
	default:
		s.bucket = Bucket{Level: cold, StampUs: lostUs}
		if lostUs < 0 {
			s.bucket = Full(l.Limit, f.us)
		}
	}
	return s
}

// percent of n, rounded down.
func percent(n, of int64) int64 { return n/100*of + n%100*of/100 }

// window is the start of the window that nowUs is in, and what the ledger knows to be spent in it. A router
// whose clock is ahead tells of a window that is still to come, and knows nothing of this one.
func (l *Level) window(nowUs int64) (fromUs, spent int64) {
	switch {
	case nowUs >= l.Window.NextUs:
		return l.Window.NextUs, -1
	case nowUs < l.Window.FromUs:
		return l.Window.FromUs, -1
	}
	return l.Window.FromUs, l.Window.Spent
}

// room is the burst, and of Slots what is left of it beside the parts that are set aside: a
// region that is cut off goes on with as many requests as its share allows it.
func (l *Level) room(aside int64) int64 {
	burst := l.Limit.Burst
	if l.Limit.Kind == Slots && l.Alone {
		return burst - burst/ShareParts*aside - ceilDiv(burst%ShareParts*aside, ShareParts)
	}
	return burst
}

// top is the most of the room that may be there beside what routers hold.
func (s *stock) top(l *Level, room int64) int64 { return max(room-s.cur-s.prev, -l.Limit.Burst) }

// at brings the level to the last call: leases that are over no longer count, and the bucket fills for as
// long as each of them left room.
func (s *stock) at(l *Level, room int64, g generation, f flow) {
	if s.gen < g.n {
		s.until(l, s.prev, f.when(g.start(s.gen+1)))
		s.prev, s.cur = s.cur, 0
		if s.gen+1 < g.n {
			s.until(l, s.prev, f.when(g.start(s.gen+2)))
			s.prev = 0
		}
		s.gen = g.n
	}
	top := s.top(l, room)
	switch l.Limit.Kind {
	case Slots:
		s.bucket = Bucket{Level: top}
	case Money:
		burst := l.Limit.Burst
		from, spent := l.window(f.seenUs)
		switch {
		case f.seenUs < from: // what is counted goes on until then
		case s.bucket.StampUs < from:
			s.bucket = Bucket{Level: top, StampUs: from, Part: burst}
		case s.bucket.StampUs > l.Window.NextUs && from == l.Window.FromUs:
			s.bucket.StampUs = from // a router whose clock was far ahead asked first
		}
		if budget := -s.bucket.Part; budget > 0 && spent >= 0 { // somebody knows by now
			s.bucket.Level += max(budget-spent, -budget) - percent(budget, l.Cold)
			s.bucket.Part = budget
		}
		if s.bucket.Part > 0 {
			s.bucket.Level += burst - s.bucket.Part
			s.bucket.Part = burst
		}
		s.bucket.Level = min(max(s.bucket.Level, -burst), top)
	default:
		s.bucket = s.bucket.refill(l.Limit, f.us, top)
	}
}

// until fills a rate up to a time of the flow at which some leases end, if there are any.
func (s *stock) until(l *Level, ending, us int64) {
	if ending > 0 && us > s.bucket.StampUs && l.Limit.Kind != Slots && l.Limit.Kind != Money {
		s.bucket = s.bucket.refill(l.Limit, us, s.top(l, l.Limit.Burst))
	}
}

// settle counts what a router tells of the held units that it was leased in generation gen, and
// answers how many it carries on. What was spent beyond those held is a debt.
func (s *stock) settle(l *Level, room, held, gen int64, alive bool) (carried int64) {
	used, back, refund := l.Bounded()
	covered := min(used, held)
	change := refund - (used - covered)
	if alive {
		returned := min(back, held-covered)
		if gen == s.gen {
			s.cur = max(s.cur-held, 0)
		} else {
			s.prev = max(s.prev-held, 0)
		}
		carried = held - covered - returned
		s.cur += carried
		change += returned
	} else if l.Limit.Kind == Money {
		// What a lease that is over has left of a rate flows in anew. Of a budget it would be gone.
		change += held - covered
	}
	burst := l.Limit.Burst
	if l.Limit.Kind == Slots {
		s.bucket.Level = s.top(l, room)
		return carried
	}
	s.bucket.Level = min(max(s.bucket.Level+change, -burst), s.top(l, room))
	return carried
}

// grant hands out n units, to be held.
func (s *stock) grant(n int64) {
	s.bucket.Level -= n
	s.cur += n
}
