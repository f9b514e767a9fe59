package costmodel

import (
	"cmp"
	"slices"

	"anabranch/api/fleet"
)

// Interval is the time of a cluster that a bill is for.
type Interval struct {
	Cluster fleet.ClusterID
	Region  fleet.RegionID
	// Bill is what the cluster's GPUs cost in the interval; see [Book.Bill].
	Bill Priced
	// Carbon is the cost of its emissions, split in the same way and shown apart; see [Carbon].
	Carbon Micros
	// Capacity is the work that the cluster could have done, as routers measure it: an input token is one
	// whether it was cached or not; of the model of which it could have done the most. 0: not known, so that
	// it was idle only if it did nothing.
	Capacity Work
	// Models are those of which it could have done less, by model: their work counts for more in the same
	// proportion, since it took as much of the cluster's time. One that is missing could be done as fast as any.
	Models []ModelCapacity
}

// ModelCapacity is the work of one model that a cluster could have done.
type ModelCapacity struct {
	Model    fleet.ModelID
	Capacity Work
}

// taken is work of a model in terms of that of which the cluster can do the most.
func (v Interval) taken(model fleet.ModelID, work Work) Work {
	at, found := slices.BinarySearchFunc(v.Models, model, func(m ModelCapacity, id fleet.ModelID) int { return cmp.Compare(m.Model, id) })
	if !found || v.Models[at].Capacity <= 0 || v.Models[at].Capacity >= v.Capacity {
		return work
	}
	scaled, _ := divide(work, int64(v.Capacity), int64(v.Models[at].Capacity))
	return scaled
}

// Line is what requests of one kind used on one cluster.
type Line struct {
	Tenant fleet.TenantID
	Model  fleet.ModelID
	Class  fleet.ClassID
	// Cluster is where they were served, Source the region where they came in.
	Cluster fleet.ClusterID
	Source  fleet.RegionID
	Usage   Usage
}

// Key of the line, on a cluster in a region.
func (l Line) Key(region fleet.RegionID) Key {
	return Key{Tenant: l.Tenant, Model: l.Model, Class: l.Class, Cluster: l.Cluster, Region: region, Source: l.Source}
}

// Attribute splits the bill of an interval by work among those who used the cluster, and says what was paid
// for nothing. It gives what was used with the shares added: what there is of other costs, for egress say, stays
// as it is. The bill is the sum of what is added to Cost and Idle, and the carbon of what is added to Carbon, to
// the micro-dollar. All keys are the cluster's own.
func (v Interval) Attribute(used Rollup) Rollup {
	r := make(Rollup, len(used)+1)
	keys := used.Keys()
	work := make([]Work, 0, len(keys)+1)
	var done, measured Work
	for _, k := range keys {
		s := used[k].Sane()
		share := v.taken(k.Model, s.Work)
		work = append(work, share)
		done = add(done, share)
		measured = add(measured, v.taken(k.Model, add(s.Work, workOf(s.Cached, 1-CachedWeight))))
	}
	// What was idle, in terms of what was done.
	idle := Work(1)
	if done > 0 {
		idle, _ = divide(max(v.Capacity-measured, 0), int64(done), int64(measured))
	}
	work = append(work, idle)
	cost, carbon := Split(v.Bill.Cost, work), Split(v.Carbon, work)
	for i, k := range keys {
		r.Add(k, used[k])
		r.Add(k, v.share(work[i], Sum{Cost: cost[i], Carbon: carbon[i]}))
	}
	if nothing := v.share(idle, Sum{Idle: cost[len(keys)], Carbon: carbon[len(keys)]}); nothing != (Sum{}) {
		r.Add(Key{Cluster: v.Cluster, Region: v.Region}, nothing)
	}
	return r
}

// share says of a share what is to be known of the bill, unless it is of no weight.
func (v Interval) share(weight Work, s Sum) Sum {
	if weight > 0 {
		s.Estimate, s.Unpriced = v.Bill.Estimate, v.Bill.Unpriced
	}
	return s
}
