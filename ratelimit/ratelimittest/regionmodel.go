package ratelimittest

import (
	"time"

	"anabranch/ratelimit"
)

// modelRegions is what leaseModel knows of regions: which of their lanes had something in hand, each on its own.
type modelRegions struct {
	known map[string]*modelRegion
	born  int64 // first call of all
	seen  int64 // last one
	// aside is what was set aside since born, in microseconds times parts.
	aside int64
	// even is since when nothing was.
	even int64
}

type modelRegion struct {
	heard int64
	busy  map[string]int64 // lanes, and until when they count
	gap   [2]int64
}

// missed is for how long until now, but not before the last call, the region has been missed.
func (r *modelRegions) missed(name string, now int64) int64 {
	k := r.known[name]
	if k == nil || len(k.busy) == 0 {
		return 0
	}
	return max(0, now-max(r.seen, k.heard+ratelimit.SilentAfter.Microseconds()))
}

// at counts on, and says what parts are set aside now beside the caller's.
func (r *modelRegions) at(now int64, in *ratelimit.In) (aside int64) {
	if r.seen == 0 {
		r.born, r.seen, r.even = now, now, now
	}
	for _, s := range in.Shares {
		missed := r.missed(s.Region, now)
		if missed == 0 {
			continue
		}
		r.aside += missed * s.Parts
		r.even = now
		if s.Region != in.Region {
			aside += s.Parts
		}
	}
	r.seen = now
	return aside
}

// flow is the time by which rates fill: what was set aside comes off, and a part of a microsecond with it.
func (r *modelRegions) flow(us int64) int64 {
	us = max(us, r.even)
	return us - (r.aside+ratelimit.ShareParts-1)/ratelimit.ShareParts
}

// hear counts the call, and answers the region's last gap.
func (r *modelRegions) hear(now int64, in *ratelimit.In, busy bool, ends int64) ratelimit.Gap {
	shared := false
	for _, s := range in.Shares {
		shared = shared || s.Region == in.Region
	}
	if !shared {
		return ratelimit.Gap{}
	}
	k := r.known[in.Region]
	if k == nil {
		k = &modelRegion{busy: map[string]int64{}, gap: [2]int64{-1, r.born}}
		r.known[in.Region] = k
	}
	if back := k.heard + ratelimit.SilentAfter.Microseconds(); len(k.busy) > 0 && now > back {
		k.gap = [2]int64{back, now}
	}
	k.heard = now
	for lane, until := range k.busy {
		if until <= now || lane == in.Lane() {
			delete(k.busy, lane)
		}
	}
	if busy {
		k.busy[in.Lane()] = ends
	}
	gap := ratelimit.Gap{From: ratelimit.Always, To: time.Duration(now-k.gap[1]) * time.Microsecond}
	if k.gap[0] >= 0 {
		gap.From = time.Duration(now-k.gap[0]) * time.Microsecond
	}
	return gap
}
