package ours

import (
	"anabranch/dataplane/meter"
	"anabranch/sim/workload"
)

// release names a request that the gate has decided on.
func (ro *router) release() (id uint64, ok bool) {
	if len(ro.waits) == 0 {
		return 0, false
	}
	ro.gate.Look()
	if int64(len(ro.waits)) == ro.gate.Len() {
		return 0, false
	}
	var best *trip // of those that are let in at once the highest goes first
	for _, t := range ro.waits {
		if pass, refusal := t.wait.Over(); (pass != nil || refusal != nil) && (best == nil || t.priority > best.priority) {
			best = t
		}
	}
	if best == nil {
		return 0, false
	}
	return best.request.ID, true
}

// unwait takes a trip out of those that wait.
func (ro *router) unwait(t *trip) {
	for i, x := range ro.waits {
		if x == t {
			ro.waits = append(ro.waits[:i], ro.waits[i+1:]...)
			break
		}
	}
	t.wait = nil
}

// gone ends a request whose client has left while it waited.
func (ro *router) gone(r *workload.Request) {
	t := ro.trips[r.ID]
	if t == nil || t.wait == nil {
		return
	}
	t.wait.Leave(false)
	ro.unwait(t)
	ro.finish(t, meter.Usage{}, meter.NotSent, false)
}
