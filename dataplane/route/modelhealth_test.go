package route

import (
	"testing"

	"anabranch/api/routerpb"
)

// What the health of one model bars there is not sent there for it, though the cluster as a whole is well.
func TestTheHealthOfTheModelBarsACluster(t *testing.T) {
	ill := func(model string, share float64) func(*routerpb.Table) {
		return func(pb *routerpb.Table) {
			pb.Clusters[0].ModelHealth = []*routerpb.ModelHealth{{Model: model, Health: "EVACUATED", HealthCap: share}}
		}
	}
	for name, tt := range map[string]struct {
		change func(*routerpb.Table)
		barred bool
	}{
		"the model asked for":   {ill("m", 0), true},
		"in a ramp":             {ill("m", 0.1), false},
		"another model":         {ill("another", 0), false},
		"nothing is said of it": {func(*routerpb.Table) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(fleetOf(t, "us-a us 0.5\neu-a eu 0.5", tt.change))
			first := in.Table.Serving(in.Model.ID)[0].ID
			c := Choose(in)
			removed := false
			for _, r := range c.Removed {
				removed = removed || r.Cluster == first && r.Reason == Unhealthy
			}
			if removed != tt.barred {
				t.Errorf("%s is removed: %v; %+v", first, removed, c.Removed)
			}
		})
	}
}
