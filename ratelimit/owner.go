package ratelimit

import (
	"math"
	"slices"
	"time"
)

// How a router asks for leases.
const (
	// MinSpan is the least demand that is asked for in advance.
	MinSpan = 250 * time.Millisecond
	// MaxSpan is the most, where the authority has plenty.
	MaxSpan = 2 * time.Second
	// HungryEvery is how often a router that got less than it wanted asks again.
	HungryEvery = 50 * time.Millisecond
	// smoothing is the time constant of the demand's moving average.
	smoothing = 500 * time.Millisecond
	// spreading is that of its variance, which bursts must not surprise again and again.
	spreading = 5 * time.Second
	// roomy is how many times what it wants to hold the authority must have for a router to hold more.
	roomy = 8
	// idle is the part of a unit that is not worth holding one for.
	idle = 0.01
)

// Span is how much demand to ask for in advance where a round trip takes so long: three of them, and
// not less than MinSpan.
func Span(roundTrip time.Duration) time.Duration { return min(max(MinSpan, 3*roundTrip), MaxSpan) }

// demand is what is asked for, as exponentially weighted moving averages.
type demand struct {
	rate   float64 // units per second
	spread float64 // variance of the units of a second
}

// add counts units that came over a time, all of them lately if that is shorter.
func (d *demand) add(units int64, over, latest time.Duration) {
	if over <= 0 {
		return
	}
	lately := min(over, latest).Seconds()
	now := float64(max(units, 0))
	off := now - d.rate*lately
	d.spread += (1 - math.Exp(-over.Seconds()/spreading.Seconds())) * (off*off/lately - d.spread)
	d.rate += (1 - math.Exp(-over.Seconds()/smoothing.Seconds())) * (now/lately - d.rate)
}

// of is what to have ready for a span: the demand that is expected, and twice its standard deviation,
// or nothing where nothing has come for long.
func (d *demand) of(span time.Duration) float64 {
	expected := d.rate * span.Seconds()
	if expected < idle {
		return 0
	}
	return expected + 2*math.Sqrt(d.spread*span.Seconds())
}

// Due says whether the authority should be called now: because somebody waits, half of what was
// wanted or half of the lease's time is gone, or there is something to tell.
func (h *Holding) Due(nowNs int64) bool {
	since := time.Duration(nowNs - h.sentNs)
	switch {
	case h.pending != nil:
		return time.Duration(nowNs-h.triedNs) >= HungryEvery
	case h.Hungry():
		return since >= HungryEvery
	case h.asked.Load():
		return true
	}
	return h.worn(2, since)
}

// worn says whether one part in so many of what was wanted, or of the time of a lease that there is
// anything to tell of, is gone.
func (h *Holding) worn(in int64, since time.Duration) bool {
	busy := false
	for i := range h.levels {
		l := &h.levels[i]
		left := l.left.Load()
		if target := l.target.Load(); target > 0 && left < target-target/in {
			return true
		}
		busy = busy || l.base != 0 || left != 0 || l.used != 0 || l.back.Load() != 0
	}
	return busy && since >= h.ttl/time.Duration(in)
}

// Soon says whether a call will be due before long, so that it may as well be made along with another one that
// is due now: a quarter of what was wanted or of the lease's time is gone. It is true of whatever is
// due.
func (h *Holding) Soon(nowNs int64) bool {
	if h.Due(nowNs) {
		return true
	}
	return h.pending == nil && !h.hungry.Load() && h.worn(4, time.Duration(nowNs-h.sentNs))
}

// Call fills in the call that is due: its number, and of each level what is wanted, was used and
// comes back. A call that was not answered is repeated as it was, whatever in now says. The span
// is that of [Span]; it grows where the authority has plenty. The path must have the limits of the
// Holding, in their order; their numbers may change.
func (h *Holding) Call(in *In, span time.Duration, nowNs int64) {
	if h.pending != nil {
		*in = *h.pending
		in.Path = slices.Clone(in.Path)
		h.triedNs = nowNs
		return
	}
	if nowNs >= h.untilNs.Load() {
		h.end()
	}
	h.asked.Store(false)
	over, lately := smoothing, smoothing // what comes after a long silence came lately
	if h.seq > 0 {
		over = time.Duration(nowNs - h.sentNs)
		if h.triedNs > h.sentNs {
			lately = over // it was no silence: nobody answered
		}
	}
	var room [MaxPath]int64
	targets := room[:len(h.levels)]
	for i := range h.levels {
		h.levels[i].most.Store(in.Path[i].Limit.Burst)
		targets[i] = h.levels[i].tell(&in.Path[i], max(span, h.span), over, lately)
	}
	h.fit(targets, in.Path)
	for i := range h.levels {
		h.levels[i].ask(&in.Path[i], targets[i])
	}
	h.uneven = h.hungry.Load() && h.even(in.Path)
	h.seq++
	in.Seq = h.seq
	h.sentNs, h.triedNs, h.ttl = nowNs, nowNs, in.TTL
	kept := *in
	kept.Path = slices.Clone(in.Path)
	h.pending = &kept
}

// fit cuts what is wanted of all levels to the part of it that a bucket of each has room for. A tenant
// of which far more is asked than its own limit allows would else take all of its organisation's along,
// and leave it idle. What one request needs is not cut.
func (h *Holding) fit(targets []int64, path []Level) {
	part := 1.0
	for i, target := range targets {
		if !h.levels[i].slots {
			part = min(part, float64(path[i].Limit.Burst)/float64(max(target, 1)))
		}
	}
	for i := range targets {
		if l := &h.levels[i]; !l.slots && part < 1 {
			targets[i] = max(int64(math.Ceil(float64(targets[i])*part)), l.needed)
		}
	}
}

// even lets a router that got less than it wanted ask for nothing of levels of which it holds enough, and says
// whether there were any: where a request waits, what that needs, else more than twice the part that is held of
// another level. The authority grants of all levels the part that the scarcest has: one that is empty, and of
// which enough is held here, would keep the others from being granted, and what is held of it from ever being
// spent.
func (h *Holding) even(path []Level) (some bool) {
	waiting, least := false, math.Inf(1)
	part := func(i int) float64 {
		l := &h.levels[i]
		return float64(l.base) / float64(l.base+path[i].Want)
	}
	for i := range path {
		waiting = waiting || h.levels[i].lacks()
		if path[i].Want > 0 {
			least = min(least, part(i))
		}
	}
	for i := range path {
		enough := part(i) > 2*least
		if waiting {
			enough = !h.levels[i].lacks()
		}
		if path[i].Want > 0 && enough {
			path[i].Want, some = 0, true
		}
	}
	return some
}

// lacks says whether less is held than a request needed that waits.
func (l *heldLevel) lacks() bool { return l.needed > max(l.left.Load(), 0) }

// end drops what is left of a lease whose time is over. The authority counts it as spent.
func (h *Holding) end() {
	h.untilNs.Store(0)
	for i := range h.levels {
		l := &h.levels[i]
		if l.slots {
			l.left.Add(-l.base) // those in use remain, as a debt
		} else {
			l.used += l.base - l.left.Swap(0)
		}
		l.base = 0
	}
}

// tell writes what the authority should know of the level, and takes it out of the level. It answers how
// much to hold, of slots beside those in use.
func (l *heldLevel) tell(to *Level, span, over, lately time.Duration) (target int64) {
	left := l.left.Load()
	unmet := l.unmet.Swap(0)
	l.needed = l.need.Swap(0)
	var use int64
	to.Used, to.Back, to.Refund = 0, 0, 0
	if l.slots {
		use = l.base - left // in use now
		l.demand.rate = max(float64(use+unmet), l.demand.rate/2)
	} else {
		spent := l.base - left
		l.demand.add(spent+unmet, over, lately)
		// A refund makes up for what was spent since the last call before it reaches further back.
		refund := l.back.Swap(0)
		again := min(refund, max(spent, 0))
		// Below 0 is a debt, which is the authority's from now on.
		carried := max(left+again, 0)
		l.left.Add(carried - left)
		spent += l.used - refund
		to.Used, to.Refund = max(spent, 0), max(-spent, 0)
		l.used, l.base = 0, carried
	}
	return max(l.wanted(span, use)-use, l.needed)
}

// ask writes what is wanted of the level, or given back, to hold the target.
func (l *heldLevel) ask(to *Level, target int64) {
	l.target.Store(target)
	if l.slots {
		target += l.base - l.left.Load() // those in use
	}
	held := l.base
	surplus := int64(0)
	if target == 0 || held > 2*target+1 {
		surplus = min(held-target, max(l.left.Load(), 0))
	}
	// Nobody holds more than a limit that was lowered has in all.
	surplus = max(surplus, min(held-to.Limit.Burst, max(l.left.Load(), 0)))
	if surplus > 0 {
		if l.left.Add(-surplus) < 0 { // somebody was quicker
			l.left.Add(surplus)
		} else {
			to.Back += surplus
			l.base -= surplus
			held -= surplus
		}
	}
	to.Want = min(max(target-held, 0), MaxWant, to.Limit.Burst)
}

// wanted is what to hold: the demand of a span, or of slots, those that are in use or were lately and
// one more.
func (l *heldLevel) wanted(span time.Duration, use int64) int64 {
	if l.slots {
		if l.demand.rate < 1 {
			return use
		}
		return max(use, int64(l.demand.rate)) + 1
	}
	return int64(math.Ceil(min(l.demand.of(span), MaxWant)))
}

// Answer takes the authority's answer to the last call, and says whether it changed anything: a
// stale call must be made anew under a newer policy, with what it told.
func (h *Holding) Answer(out Out, nowNs int64) bool {
	call := h.pending
	if call == nil {
		return false
	}
	h.pending = nil
	if out.Status != Granted || len(out.Path) != len(h.levels) {
		for i := range h.levels {
			l := &h.levels[i]
			told := &call.Path[i]
			l.used += told.Used - told.Refund
			l.base += told.Back
			l.left.Add(told.Back)
		}
		return false
	}
	until := h.sentNs + out.Valid.Nanoseconds()
	short, plenty, refused := h.uneven, true, false
	for i, g := range out.Path {
		l := &h.levels[i]
		want := call.Path[i].Want
		short = short || g.Granted < want
		plenty = plenty && g.Level > min(call.Path[i].Limit.Burst/2, roomy*l.target.Load())
		// What had been dropped here and is still held there is held again, and the other way round.
		left := l.left.Add(g.Held - l.base)
		l.base = g.Held
		l.there.Store(max(g.Level, 0))
		refused = refused || max(left, 0)+max(g.Level, 0) < max(l.needed, 1)
	}
	h.hungry.Store(short)
	h.far.Store(time.Duration(nowNs-h.sentNs) > HungryEvery)
	h.refused.Store(short && refused)
	switch {
	case plenty:
		h.span = min(2*max(h.span, MinSpan), MaxSpan)
	case short:
		h.span = 0
	default:
		h.span /= 2
	}
	h.untilNs.Store(until)
	if nowNs >= until {
		h.end()
	}
	return true
}
