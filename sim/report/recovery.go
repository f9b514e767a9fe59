package report

import (
	"time"

	"anabranch/sim/report/stat"
	"anabranch/sim/world"
)

// Buckets of time by which recovery is judged are at least so long, and hold at least so many
// requests on average.
const (
	minBucket   = 5 * time.Second
	minInBucket = 20
	backAt      = 0.95 // of the goodput before
	inTurn      = 3    // buckets
)

// recovery is from the first event after from, if there is one.
func recovery(r *world.Result, requests []Request, from time.Duration, objective func(string) Objective) Recovery {
	none := Recovery{Seconds: stat.Unknown, Lost: stat.Unknown, Peak: stat.Unknown}
	at := time.Duration(-1)
	for _, e := range r.Spec.Events {
		if e.At > from && (at < 0 || e.At < at) {
			at = e.At
		}
	}
	if at < 0 || len(requests) == 0 || requests[len(requests)-1].At <= at {
		return none
	}
	lost := 0
	var goodBefore, before float64
	for i := range requests {
		q := &requests[i]
		if q.End == world.Denied {
			continue
		}
		if q.At >= at-time.Minute && q.End != world.OK {
			lost++
		}
		if q.At < at {
			before++
			if q.good(objective(q.Model)) {
				goodBefore++
			}
		}
	}
	back := none.Seconds
	if before > 0 {
		back = back95(requests, at, goodBefore/before, objective)
	}
	return Recovery{Seconds: back, Lost: stat.Number(lost), Peak: peak(r, at)}
}

// back95 is the seconds from the event until the goodput of three buckets in turn is back. Buckets in
// which nothing arrived are as the one before.
func back95(requests []Request, at time.Duration, before float64, objective func(string) Objective) stat.Number {
	end := requests[len(requests)-1].At
	after := 0
	for i := range requests {
		if requests[i].At >= at {
			after++
		}
	}
	width := max(minBucket, (end-at)*minInBucket/time.Duration(after))
	good, all := make([]float64, (end-at)/width+1), make([]float64, (end-at)/width+1)
	for i := range requests {
		q := &requests[i]
		if q.At < at || q.End == world.Denied {
			continue
		}
		k := (q.At - at) / width
		all[k]++
		if q.good(objective(q.Model)) {
			good[k]++
		}
	}
	row, ok := 0, true
	for k := range all {
		if all[k] > 0 {
			ok = good[k] >= backAt*before*all[k]
		}
		if row++; !ok {
			row = 0
		}
		if row == inTurn {
			return stat.Number((time.Duration(k+1-inTurn) * width).Seconds())
		}
	}
	return stat.Number((end - at).Seconds())
}

// peak is the longest queue of a cluster from at on, per pod ready.
func peak(r *world.Result, at time.Duration) stat.Number {
	out := stat.Unknown
	for c, waiting := range r.Series.Waiting {
		for i, point := range r.Points {
			if point >= at && r.Series.Ready[c][i] > 0 {
				out = higher(out, stat.Number(waiting[i]/r.Series.Ready[c][i]))
			}
		}
	}
	return out
}
