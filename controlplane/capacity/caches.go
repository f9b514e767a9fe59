package capacity

import (
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/account"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/costmodel"
	"anabranch/failover/shift"
)

const (
	// cachesOver is the time over which caches are measured, and cachesEvery how often that is done anew.
	cachesOver  = time.Hour
	cachesEvery = time.Minute
)

// caches are what the account says of prefix caches. The zero caches know nothing.
type caches struct {
	at    time.Time
	known map[fleet.ModelID]shift.Cold
}

// of a model; false: too little was used to tell.
func (c *caches) of(model fleet.ModelID) (shift.Cold, bool) {
	cold, known := c.known[model]
	return cold, known
}

// see reads the account of the last hour, if it is time to.
func (c *caches) see(view *state.View, now time.Time) {
	if age := now.Sub(c.at); c.known != nil && age >= 0 && age < cachesEvery {
		return
	}
	c.at, c.known = now, map[fleet.ModelID]shift.Cold{}
	report, err := view.Account().Ask(account.Query{From: now.Add(-cachesOver), Until: now, By: costmodel.ByModel})
	if err != nil { // of an hour there are never too many rows: nothing is known
		return
	}
	weights := map[fleet.ModelID]float64{}
	for _, r := range view.List(policy.KindModel) {
		if spec, ok := r.Spec.(*policy.ModelSpec); ok {
			weights[fleet.ModelID(r.Metadata.Name)] = spec.OutputWeight
		}
	}
	for _, r := range report.Rows {
		weight, there := weights[r.Key.Model]
		if weight <= 0 {
			weight = policy.DefaultOutputWeight
		}
		if cold, known := shift.Measured(r.Input, r.Cached, r.Output, weight); known && there {
			c.known[r.Key.Model] = cold
		}
	}
}
