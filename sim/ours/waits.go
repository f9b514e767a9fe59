package ours

import (
	"time"

	"anabranch/dataplane/meter"
	"anabranch/sim/workload"
	"anabranch/sim/world"
)

// release names a request that the gate has decided on, or that has rested.
func (ro *router) release() (id uint64, ok bool) {
	if len(ro.waits) == 0 {
		return 0, false
	}
	ro.gate.Look()
	var best *trip // of those that are let in at once the highest goes first
	if ro.resting > 0 || int64(len(ro.waits)) != ro.gate.Len() {
		for _, t := range ro.waits {
			if t.over(ro.now) && (best == nil || t.priority > best.priority) {
				best = t
			}
		}
	}
	if best == nil {
		return 0, false
	}
	return best.request.ID, true
}

// over says whether a trip has been let in or refused, or has rested.
func (t *trip) over(now time.Time) bool {
	if t.wait == nil {
		return !now.Before(t.rests)
	}
	pass, refusal := t.wait.Over()
	return pass != nil || refusal != nil
}

// again is dataplane's of the name: what was tried is forgotten, and room asked for again.
func (ro *router) again(t *trip, v *world.View) world.Route {
	t.trail.Again()
	ro.choose(t)
	return ro.queue(t, v)
}

// unwait takes a trip out of those that wait.
func (ro *router) unwait(t *trip) {
	for i, x := range ro.waits {
		if x == t {
			ro.waits = append(ro.waits[:i], ro.waits[i+1:]...)
			break
		}
	}
	if !t.rests.IsZero() {
		ro.resting--
	}
	t.wait, t.rests = nil, time.Time{}
}

// gone ends a request whose client has left while it waited.
func (ro *router) gone(r *workload.Request) {
	t := ro.trips[r.ID]
	if t == nil || t.wait == nil && t.rests.IsZero() {
		return
	}
	if t.wait != nil {
		t.wait.Leave(false)
	}
	ro.unwait(t)
	ro.finish(t, meter.Usage{}, meter.NotSent, false)
}
