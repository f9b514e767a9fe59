package costmodel

import "anabranch/api/fleet"

// Interval is the time of a cluster that a bill is for.
type Interval struct {
	Cluster fleet.ClusterID
	Region  fleet.RegionID
	// Bill is what the cluster's GPUs cost in the interval; see [Book.Bill].
	Bill Micros
	// Carbon is the cost of its emissions, split in the same way and shown apart; see [Carbon].
	Carbon Micros
	// Capacity is the work that the cluster could have done. 0: not known, so that it was idle only if
	// it did nothing.
	Capacity Work
	// SpreadIdle makes those who used the cluster pay for its idle time too, by what they used.
	SpreadIdle bool
}

// Line is what requests of one kind used on the cluster.
type Line struct {
	Tenant fleet.TenantID
	Model  fleet.ModelID
	Class  fleet.ClassID
	Usage  Usage
}

// Attribute splits the bill of an interval by work among those whose requests were served, and says what
// was paid for nothing. Cost and Idle of the rollup add up to the bill, and its Carbon to the carbon, to
// the micro-dollar. Weights are asked for once per line. The order of lines plays no part.
func (v Interval) Attribute(lines []Line, weights func(fleet.ModelID) Weights) Rollup {
	r := Rollup{}
	for _, l := range lines {
		u := l.Usage.sane()
		r.Add(Key{l.Tenant, l.Model, l.Class, v.Cluster, v.Region}, Sum{Usage: u, Work: weights(l.Model).Work(u)})
	}
	keys := r.Keys()
	work := make([]Work, 0, len(keys)+1)
	var done Work
	for _, k := range keys {
		work = append(work, r[k].Work)
		done = add(done, r[k].Work)
	}
	idle := v.Capacity - done // below 0: no weight
	switch {
	case done == 0:
		idle = 1
	case v.SpreadIdle:
		idle = 0
	}
	keys, work = append(keys, Key{Cluster: v.Cluster, Region: v.Region}), append(work, idle)
	cost, carbon := Split(v.Bill, work), Split(v.Carbon, work)
	for i, k := range keys {
		s := Sum{Cost: cost[i], Carbon: carbon[i]}
		if i == len(keys)-1 {
			s.Cost, s.Idle = 0, cost[i]
		}
		if s != (Sum{}) {
			r.Add(k, s)
		}
	}
	return r
}
