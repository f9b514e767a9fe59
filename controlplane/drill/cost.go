package drill

import (
	"time"

	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
)

// CostPerMinute is what the GPUs of all clusters cost a minute, in micro-dollars, by the prices that plans go by. GPUs
// without a price are left out.
func CostPerMinute(v *state.View, signals signal.Snapshot) int64 {
	book := plan.Prices(v, v.Offers(), signals.At)
	var sum int64
	for _, r := range v.List(policy.KindCluster) {
		if spec, ok := r.Spec.(*policy.ClusterSpec); ok {
			sum += int64(book.Bill(spec.Region, spec.Bought(), signals.At, signals.At.Add(time.Minute)).Cost)
		}
	}
	return sum
}
