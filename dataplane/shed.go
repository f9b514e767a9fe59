package dataplane

import (
	"fmt"

	"anabranch/dataplane/dispatch"
	"anabranch/dataplane/queue"
	"anabranch/dataplane/subscribe"
)

// shedByPlan refuses a request that there is no room for in any region, as the table has it. False: it may go on.
// What quotas have set aside for it goes back as it does for all that is sent nowhere: they come first, as what
// they deny is no demand, and one tenant that asks for more than it may have must not have others shed.
func (r *Router) shedByPlan(x *trip) bool {
	shed := x.table.Shed(x.model.ID, x.class.ID, r.region)
	if shed.Part == 0 {
		return false
	}
	current := r.o.Sight(r.now()) == subscribe.Current
	verdict, part := r.sight.Sheds(shed, x.priority, x.choice.Targets, current, r.random())
	if verdict == dispatch.Unconcerned {
		return false
	}
	what := fmt.Sprintf("%.0f %% of %s", 100*part, queue.Tier(x.priority))
	switch verdict {
	case dispatch.Shed:
		x.record.Shed = "shed by plan: " + what
		x.shed(r.gate.Planned(x.priority))
		return true
	case dispatch.Drawn:
		x.record.Shed = "let in by draw, the plan sheds " + what
	case dispatch.Roomy:
		x.record.Shed = "let in as this region has room, though the plan sheds " + what
	case dispatch.Outdated:
		x.record.Shed = "let in as the plan is too old, which sheds " + what
	}
	r.metrics.unshed.WithLabelValues(queue.Tier(x.priority), verdict.String()).Inc()
	return false
}
