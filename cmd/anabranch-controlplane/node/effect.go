package node

import (
	"slices"
	"sync"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
	"anabranch/failover/drill"
)

// effects says what drills as they stand ask of routers. What a drill is to do never changes, and is read once, as each
// stream asks after each change. The zero effects is ready for use.
type effects struct {
	mu   sync.Mutex // guards what is below
	id   uint64     // of the drill that was read last
	plan drill.Plan
	ok   bool // its plan can be read
}

// of is what a drill asks of routers: nothing, if this build can't read its plan.
func (e *effects) of(d *statepb.Drill) drill.Effect {
	plan, ok := e.planOf(d)
	if !ok {
		return drill.Effect{}
	}
	return drill.EffectOf(plan, drill.Run{
		State: drill.State(d.GetState()), Step: int(d.GetStep()), Rehearsed: d.GetRehearsed(), Resume: drill.State(d.GetResume()),
	})
}

func (e *effects) planOf(d *statepb.Drill) (drill.Plan, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.id != d.GetId() {
		e.id, e.plan, e.ok = d.GetId(), drill.Plan{}, false
		r, err := policy.FromCanonical(policy.KindDrillPlan, "drill", slices.Concat([]byte(`{"spec":`), d.GetSpec(), []byte(`}`)))
		if err != nil {
			return e.plan, false
		}
		if spec, is := r.Spec.(*policy.DrillPlanSpec); is {
			e.plan, e.ok = spec.Plan(), true
		}
	}
	return e.plan, e.ok
}
