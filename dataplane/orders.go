package dataplane

import (
	"context"
	"math"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/override"
	"anabranch/dataplane/route"
)

// Emergency orders that hold on this router; see package override.

// ordersEvery is how soon an order to shed reaches what waits.
const ordersEvery = 200 * time.Millisecond

// obeyOrders tells the gate what priority is shed, until ctx ends.
func (r *Router) obeyOrders(ctx context.Context) error {
	tick := time.NewTicker(ordersEvery)
	defer tick.Stop()
	held := int32(math.MinInt32)
	for {
		below, sheds := r.o.Orders().ShedBelow()
		if !sheds {
			below = math.MinInt32
		}
		if below != held {
			held = below
			r.gate.Shed(below, time.Time{})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// orders lets a choice of clusters heed what orders hold now.
func (x *trip) orders(v *override.View, in *route.Input) {
	if len(v.Given()) == 0 {
		return
	}
	region := func(id fleet.ClusterID) fleet.RegionID { return x.table.Clusters[id].Region }
	in.Evacuated = func(id fleet.ClusterID) (string, bool) { return v.Evacuated(id, region(id)) }
	in.Restored = func(id fleet.ClusterID) bool { return v.Restored(id, region(id)) }
}
