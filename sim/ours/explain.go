package ours

import (
	"fmt"
	"strings"

	"anabranch/sim/world"
)

// why is a reason, where one is wanted.
func (ro *router) why(v *world.View, reason string) string {
	if !v.Explain {
		return ""
	}
	return reason
}

// explain says why a cluster is the next, in the words of route: its own reason, and what the others are
// or why they are none.
func (ro *router) explain(v *world.View, t *trip) string {
	if !v.Explain {
		return ""
	}
	var b strings.Builder
	target := t.spot.target
	fmt.Fprintf(&b, "%s: %s, weight %.2f", target.Cluster.ID, target.Reason, target.Weight)
	if s := target.Place.Saturation; s > 0 {
		fmt.Fprintf(&b, ", saturation %.2f", s)
	}
	if target.Remote {
		fmt.Fprintf(&b, ", %v away", target.RTT)
	}
	if t.pass != nil && t.pass.Waited > 0 {
		fmt.Fprintf(&b, "; %s", t.pass)
	}
	for i := range t.choice.Targets {
		if other := &t.choice.Targets[i]; other != target {
			fmt.Fprintf(&b, "; %s %s", other.Cluster.ID, other.Reason)
		}
	}
	removals(&b, t)
	return b.String()
}

// refused says why a request is.
func (ro *router) refused(v *world.View, t *trip, code string) string {
	if !v.Explain {
		return ""
	}
	var b strings.Builder
	b.WriteString(code)
	removals(&b, t)
	return b.String()
}

func removals(b *strings.Builder, t *trip) {
	for _, r := range t.choice.Removed {
		fmt.Fprintf(b, "; not %s: %s", r.Cluster, r)
	}
}

// explainPick says why an endpoint is chosen, in the words of pick.
func (ro *router) explainPick(v *world.View, t *trip) string {
	if !v.Explain {
		return ""
	}
	r := &t.spot.reason
	return fmt.Sprintf("%s of %d: first token in %.0f ms (wait %.0f, prefill %.0f, adapter %.0f, KV %.0f)", r.Why, t.spot.among,
		r.Seconds*1e3, r.Times.Wait*1e3, r.Times.Prefill*1e3, r.Times.Adapter*1e3, r.Times.KV*1e3)
}
