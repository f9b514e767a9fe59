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
	// leastInput is how many input tokens say something of a cache.
	leastInput = 100_000
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
		if weight, known := weights[r.Key.Model]; known && r.Input >= leastInput {
			c.known[r.Key.Model] = coldOf(r.Usage, weight)
		}
	}
}

// coldOf tells of caches what usage tells: what part of prompts they knew, and what part of the work was left of
// prompts by that. Reading a cache is no work.
func coldOf(u costmodel.Usage, outputWeight float64) shift.Cold {
	if outputWeight <= 0 {
		outputWeight = policy.DefaultOutputWeight
	}
	cached := min(max(u.Cached, 0), u.Input)
	prefill := float64(u.Input - cached)
	cold := shift.Cold{Hit: float64(cached) / float64(u.Input)}
	if all := prefill + outputWeight*float64(u.Output); all > 0 {
		cold.Prefill = prefill / all
	}
	return cold
}
