package ratelimit

// Bucket is the state of one limit. The zero Bucket is not full; [Full] makes one that is.
//
// All arithmetic is in whole numbers, and the part of a unit that has flowed in but is not whole
// yet is kept in Part, so that however often a bucket is looked at, over any time t it takes in
// exactly floor(rate × t) units: none lost, none invented.
type Bucket struct {
	// Level is the units that may be taken now, from −Burst (debt) to Burst.
	Level int64
	// StampUs is the time in microseconds up to which inflow has been counted.
	StampUs int64
	// Part is the inflow counted but not yet a whole unit, in Period-ths of a unit.
	Part int64
}

// Full is the bucket of a limit that nobody has drawn on.
func Full(l Limit, nowUs int64) Bucket { return Bucket{Level: l.Burst, StampUs: nowUs} }

// Refill counts the inflow up to nowUs. A clock that has gone backwards costs nothing but the
// inflow until it started again: the stamp follows it down. A limit that was lowered since the
// last call clamps at once, one that was raised fills at its new rate.
func (b Bucket) Refill(l Limit, nowUs int64) Bucket { return b.refill(l, nowUs, l.Burst) }

// refill is Refill of a bucket that holds no more than top, since the rest of the burst is in other hands.
func (b Bucket) refill(l Limit, nowUs, top int64) Bucket {
	period := l.Period()
	b.Level = min(max(b.Level, -l.Burst), top)
	b.Part = min(b.Part, period-1)
	if nowUs < b.StampUs {
		b.StampUs = nowUs
	}
	passed := (nowUs - b.StampUs) / l.Unit()
	if passed >= ceilDiv((top-b.Level)*period-b.Part, l.Amount) {
		return Bucket{Level: top, StampUs: nowUs}
	}
	inflow := passed*l.Amount + b.Part
	b.Level += inflow / period
	b.Part = inflow % period
	b.StampUs += passed * l.Unit()
	return b
}

// Charge takes cost units whether or not they are there, down to a debt of −Burst: the settling of
// a use that was larger than its reserve. Call Refill first.
func (b Bucket) Charge(l Limit, cost int64) Bucket {
	b.Level = max(b.Level-min(cost, 2*l.Burst), -l.Burst)
	return b
}

// Give gives back units that were taken and not used, never above Burst. Call Refill first.
func (b Bucket) Give(l Limit, units int64) Bucket {
	b.Level = min(b.Level+min(units, 2*l.Burst), l.Burst)
	if b.Level == l.Burst {
		b.Part = 0
	}
	return b
}

// WaitMs is how long until the bucket holds the given level, in milliseconds rounded up, if nobody
// draws on it: 0 when it does now. The level must not be above Burst. Call Refill first.
func (b Bucket) WaitMs(l Limit, level int64) int64 {
	if b.Level >= level {
		return 0
	}
	wait := ceilDiv((level-b.Level)*l.Period()-b.Part, l.Amount)
	return ceilDiv(wait*l.Unit(), 1000)
}
