package endpoint

import (
	"cmp"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/table"
)

const (
	// tailSlack and predictedSlack are how many times the 99th percentile and the predicted
	// first-token time may pass in silence.
	tailSlack      = 2
	predictedSlack = 4
	// remotePlaces is how many places a router of another region may try before it answers.
	remotePlaces = 2
	// gapSlack is how many times the 99th percentile of times between tokens may pass in silence
	// after the first, within stallFloor and stallCeiling.
	gapSlack     = 20
	stallFloor   = 10 * time.Second
	stallCeiling = time.Minute
	// doubtShare of the floor may pass without a token of any request at an endpoint until a canary looks.
	// If it gets nothing either, the endpoint is dead at knownShare of the floor where it is known how long
	// first tokens take there, and at blindShare where it is not: the rest of the floor is for the request to
	// come that meets the silence, and for a look to see it.
	doubtShare, knownShare, blindShare = 0.3, 0.7, 0.9
)

func partOf(of float64, d time.Duration) time.Duration { return time.Duration(of * float64(d)) }

// patience is how long requests may be at the endpoint with nothing to show, and a canary beside them, until it
// counts as dead: less than the floor, which is what a request alone is given, but never less than twice what the
// slowest first tokens took there (of a hundred; while fewer are known, twice that of twenty counts as it), or four
// times what the longest prompt there is believed to take.
func (e *Endpoint) patience(now time.Time) time.Duration {
	var tail time.Duration
	for m := range e.paces.all() {
		took := e.FirstToken(m, now)
		tail = max(tail, cmp.Or(took.P99, tailSlack*took.P95))
	}
	least := blindShare
	if tail > 0 {
		least = knownShare
	}
	return max(partOf(least, e.floor()), tailSlack*tail, predictedSlack*e.backlog.longest())
}

// SilenceBound is how long a request may go without its first token here before its attempt is
// given up: the class's floor, or longer where answers have taken longer or this one is predicted
// to, and never longer than the class's deadline.
func (e *Endpoint) SilenceBound(l *Load, predicted time.Duration, class *table.Class, now time.Time) time.Duration {
	return capped(class, max(class.FirstByteFloor, tailSlack*e.FirstToken(l.Model, now).P99, predictedSlack*predicted))
}

// SilenceBound is the same for a cluster of another region, whose router may try two places; predicted
// includes the way.
func (c *Cluster) SilenceBound(l *Load, predicted time.Duration, class *table.Class, now time.Time) time.Duration {
	return capped(class, max(remotePlaces*class.FirstByteFloor, tailSlack*c.FirstToken(l.Model, now).P99, remotePlaces*predictedSlack*predicted))
}

// Overdue is from when on a request that shows nothing counts as one without an answer, although it may be
// waited for longer: as SilenceBound, whatever answers have taken here; where the answer is not streamed
// as many times longer as a prediction may be off than one of the usual length takes.
func (e *Endpoint) Overdue(l *Load, predicted time.Duration, class *table.Class) time.Duration {
	d := max(class.FirstByteFloor, predictedSlack*predicted)
	if rates := e.rates.of(l.Model); rates != nil && !l.Stream {
		x := rates.Learned()
		d += predictedSlack * seconds(x.Output*(x.Step+x.StepMore*float64(e.InFlight())))
	}
	return d
}

func capped(class *table.Class, d time.Duration) time.Duration {
	if class.FirstByteDeadline > 0 {
		return min(d, class.FirstByteDeadline)
	}
	return d
}

// StallBound is how long a stream may be silent between tokens: what the class says, or twenty times
// what is usual here, from 10 s to a minute; a minute while that is not known.
func (e *Endpoint) StallBound(model fleet.ModelID, class *table.Class, now time.Time) time.Duration {
	return stall(class, e.InterToken(model, now))
}

// StallBound is the same for a cluster of another region, and half more, with the way: its own router
// is to find out first, or it would take its client for gone and learn nothing.
func (c *Cluster) StallBound(model fleet.ModelID, class *table.Class, now time.Time) time.Duration {
	d := stall(class, c.InterToken(model, now))
	return d + d/2 + time.Duration(c.rtt.Load())
}

func stall(class *table.Class, gaps Times) time.Duration {
	switch {
	case class.Stall > 0:
		return class.Stall
	case gaps.P99 == 0:
		return stallCeiling
	}
	return min(max(gapSlack*gaps.P99, stallFloor), stallCeiling)
}

// HedgeAfter is the silence after which a copy of a request may go to another place, where its class
// does not say: the 95th percentile of first-token times here. 0: not known, and no copy should go.
func (e *Endpoint) HedgeAfter(model fleet.ModelID, now time.Time) time.Duration {
	return e.FirstToken(model, now).P95
}

// HedgeAfter is the same for a cluster of another region.
func (c *Cluster) HedgeAfter(model fleet.ModelID, now time.Time) time.Duration {
	return c.FirstToken(model, now).P95
}
