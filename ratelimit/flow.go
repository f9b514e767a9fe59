package ratelimit

// flow is an organisation's own time, by which its rates fill: as fast as the clock while all regions
// are heard, slower by the shares of those that are not. It never goes back.
type flow struct {
	// seenUs is the authority's clock at the last call.
	seenUs int64
	// steadyUs is how long the organisation has been known: the clock without its steps back.
	steadyUs int64
	// us is the flow's time, and part what is set aside beyond whole microseconds, in
	// ShareParts-ths: it starts one short of the next, so that us is rounded down.
	us, part int64
	// evenUs is since when, by the clock, the flow has run as fast as it: what it showed before can't be told,
	// but was no later.
	evenUs int64
}

// firstFlow is that of an authority without a memory.
func firstFlow(nowUs int64) flow {
	return flow{seenUs: nowUs, us: nowUs, part: ShareParts - 1, evenUs: nowUs}
}

// region is what an authority remembers of a region.
type region struct {
	// heardUs is when, in steady time, a router there called last.
	heardUs int64
	// cur and prev count the lanes that held or wanted something when last heard, by generations as
	// leases are: those of gen, and those of the one before.
	gen, cur, prev int64
	// fromUs and toUs are the last gap in steady time. fromUs below 0: since always.
	fromUs, toUs int64
}

// unheard is a region that the authority remembers nothing of.
var unheard = region{fromUs: -1}

// silentUs is for how much of the time from one steady time to a later one the region's share is set aside.
// One that had nothing in hand when last heard is not missed.
func (r region) silentUs(fromUs, toUs int64) int64 {
	if r.cur+r.prev == 0 {
		return 0
	}
	return max(toUs-max(fromUs, r.heardUs+SilentAfter.Microseconds()), 0)
}

// at counts on to nowUs, and answers the parts that are set aside now, beside those of the region with the
// index mine.
func (f flow) at(nowUs int64, shares []Share, regions []region, mine int) (to flow, aside int64) {
	fromUs := f.steadyUs
	if nowUs < f.seenUs {
		f.seenUs, f.evenUs = nowUs, nowUs
	}
	f.steadyUs += nowUs - f.seenUs
	whole, rest := nowUs-f.seenUs, f.part
	f.seenUs = nowUs
	for i, s := range shares {
		silent := regions[i].silentUs(fromUs, f.steadyUs)
		if silent == 0 {
			continue
		}
		whole -= silent / ShareParts * s.Parts
		rest += silent % ShareParts * s.Parts
		f.evenUs = nowUs
		if i != mine {
			aside += s.Parts
		}
	}
	f.us += whole - rest/ShareParts
	f.part = rest % ShareParts
	return f, aside
}

// when is what the flow showed at a time of the clock up to the last call, or later where that can't be told.
func (f flow) when(us int64) int64 { return f.us - (f.seenUs - max(us, f.evenUs)) }

// hear counts a call of one of the region's lanes, which was busy or not in generation gen and is or
// isn't now.
func (r region) hear(f flow, g generation, gen int64, was, is bool) region {
	if r.silentUs(r.heardUs, f.steadyUs) > 0 {
		r.fromUs, r.toUs = r.heardUs+SilentAfter.Microseconds(), f.steadyUs
	}
	r.heardUs = f.steadyUs
	if r.gen < g.n {
		r.prev, r.cur = r.cur, 0
		if r.gen+1 < g.n {
			r.prev = 0
		}
		r.gen = g.n
	}
	switch {
	case was && gen == g.n:
		r.cur = max(r.cur-1, 0)
	case was:
		r.prev = max(r.prev-1, 0)
	}
	if is {
		r.cur++
	}
	return r
}

// gap is the region's last, as a router is told of it.
func (r region) gap(f flow) Gap {
	g := Gap{From: Always, To: micros(f.steadyUs - r.toUs)}
	if r.fromUs >= 0 {
		g.From = micros(f.steadyUs - r.fromUs)
	}
	return g
}
