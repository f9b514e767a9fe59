package bound

import (
	"math"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/sim/world"
)

// TestRegionsThatPeakInTurnNeedLessTogether: what is busy in one minute here and in the next there takes
// half the pods as one fleet, but for what may not leave.
func TestRegionsThatPeakInTurnNeedLessTogether(t *testing.T) {
	spec := twoRegions()
	pod := spec.Clusters[0].Pods[0].Options.Profile.PrefillRate(1)
	minutes := int32(60 * pod) // what a pod does in a minute
	record := func(at time.Duration, region, tenant, pods int32) world.Record {
		return world.Record{At: at, Region: region, Tenant: tenant, Prompt: pods * minutes}
	}
	for name, c := range map[string]struct {
		records    []world.Record
		own, fleet float64
	}{
		"in turn": {[]world.Record{record(0, 0, 1, 4), record(time.Minute, 1, 1, 4)}, 8, 4},
		"at once": {[]world.Record{record(0, 0, 1, 4), record(time.Second, 1, 1, 4), record(time.Minute, 1, 1, 1)}, 8, 8},
		"a hospital's in turn, which may be done in Europe only": {
			[]world.Record{record(0, 0, 1, 4), record(time.Minute, 1, 0, 4)}, 8, 4,
		},
		"what was not answered is no work": {
			[]world.Record{record(0, 0, 1, 4), {At: time.Minute, Region: 1, Cluster: -1, Prompt: 9 * minutes}}, 4, 4,
		},
	} {
		got, err := RegionPeaks(&world.Result{Spec: spec, Tenants: []fleet.TenantID{"hospital", "shop"}, Records: c.records}, time.Minute)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var own, all float64
		for i := range got.Own {
			own, all = own+got.Own[i], all+got.Fleet[i]
		}
		if math.Abs(own-c.own) > 0.01 || math.Abs(all-c.fleet) > 0.01 {
			t.Errorf("%s: %.2f pods apart and %.2f together, want %v and %v", name, own, all, c.own, c.fleet)
		}
	}
	if got, err := RegionPeaks(&world.Result{Spec: spec}, time.Minute); err != nil || got.OwnHours != 0 || got.FleetHours != 0 {
		t.Errorf("%+v, %v: want that no work takes no pods", got, err)
	}
}
