package account

import (
	"cmp"
	"maps"
	"slices"
	"sort"

	"anabranch/api/fleet"
	"anabranch/costmodel"
)

// other is the key of all that there was no room to tell apart on a cluster.
func other(k costmodel.Key) costmodel.Key {
	return costmodel.Key{
		Tenant: costmodel.Other, Model: costmodel.Other, Class: costmodel.Other, Source: costmodel.Other,
		Cluster: k.Cluster, Region: k.Region,
	}
}

// nobodys says that a key is of idle time.
func nobodys(k costmodel.Key) bool {
	return k.Tenant == "" && k.Model == "" && k.Class == "" && k.Source == ""
}

// leastKey and leastCluster are the fewest bytes that a sum, and a cluster with its bill or sum, can take.
const (
	leastKey     = 18
	leastCluster = 7
)

// within writes a body in so many bytes. If it does not fit, the least keys are put together with others of
// their cluster, as few as it takes; and if that is not enough the least clusters are. Sums stay what they are.
func (b body) within(limit int) []byte {
	data := b.encode()
	if len(data) <= limit {
		return data
	}
	keys := slices.DeleteFunc(b.sums.Keys(), nobodys)
	slices.SortStableFunc(keys, func(k, l costmodel.Key) int { return b.weigh(b.sums[k], b.sums[l]) })
	surely := max(len(keys)-limit/leastKey, 0) // more than so many don't fit anyway
	most := b.fold(keys[:surely])
	keys = keys[surely:]
	if data, ok := fewest(len(keys), limit, func(n int) body { return most.fold(keys[:n]) }); ok {
		return data
	}
	b = most.fold(keys)
	clusters := b.clusters()
	surely = max(len(clusters)-limit/leastCluster, 0)
	b = b.gather(clusters[:surely])
	clusters = clusters[surely:]
	data, _ = fewest(len(clusters), limit, func(n int) body { return b.gather(clusters[:n]) })
	return data
}

// fewest writes a body without the first few of n things, of as few as it takes to have it fit. Not ok: it fits
// not even without all of them.
func fewest(n, limit int, without func(int) body) (data []byte, ok bool) {
	if data = without(n).encode(); len(data) > limit {
		return data, false
	}
	return without(sort.Search(n, func(i int) bool { return len(without(i).encode()) <= limit })).encode(), true
}

// weigh orders sums by what they cost; while that is not attributed, by the work that it will be by.
func (b body) weigh(s, t costmodel.Sum) int {
	cost, work := cmp.Compare(s.Paid(), t.Paid()), cmp.Compare(s.Work, t.Work)
	if len(b.bills) > 0 {
		cost, work = work, cost
	}
	return cmp.Or(cost, work, cmp.Compare(s.Succeeded+s.Failed, t.Succeeded+t.Failed), cmp.Compare(s.Bytes, t.Bytes))
}

// fold puts keys together with the others of their clusters.
func (b body) fold(keys []costmodel.Key) body {
	b.sums = maps.Clone(b.sums)
	for _, k := range keys {
		s := b.sums[k]
		delete(b.sums, k)
		b.sums.Add(other(k), s)
	}
	return b
}

// clusters gives those that there are, by what they cost.
func (b body) clusters() []fleet.ClusterID {
	paid := map[fleet.ClusterID]costmodel.Sum{}
	for _, v := range b.bills {
		paid[v.Cluster] = paid[v.Cluster].Plus(costmodel.Sum{Cost: v.Bill.Cost})
	}
	for _, k := range b.sums.Keys() {
		paid[k.Cluster] = paid[k.Cluster].Plus(b.sums[k])
	}
	ids := slices.Sorted(maps.Keys(paid))
	slices.SortStableFunc(ids, func(i, j fleet.ClusterID) int {
		return cmp.Or(cmp.Compare(paid[i].Paid(), paid[j].Paid()), cmp.Compare(paid[i].Work, paid[j].Work))
	})
	return ids
}

// gather puts clusters together, as one that is nowhere.
func (b body) gather(clusters []fleet.ClusterID) body {
	gone := make(map[fleet.ClusterID]bool, len(clusters))
	for _, c := range clusters {
		gone[c] = true
	}
	bills, sums := b.bills, b.sums
	b.bills, b.sums = nil, costmodel.Rollup{}
	for _, v := range bills {
		if gone[v.Cluster] {
			v.Cluster, v.Region = costmodel.Other, costmodel.Other
		}
		b.bill(v)
	}
	for _, k := range sums.Keys() {
		to := k
		if gone[k.Cluster] {
			to.Cluster, to.Region = costmodel.Other, costmodel.Other
		}
		b.sums.Add(to, sums[k])
	}
	return b
}

// bill adds a bill to that of its cluster, and forgets then how fast it does which model; b's bills are its own.
func (b *body) bill(v costmodel.Interval) {
	at, found := slices.BinarySearchFunc(b.bills, v.Cluster, func(v costmodel.Interval, id fleet.ClusterID) int { return cmp.Compare(v.Cluster, id) })
	if !found {
		b.bills = slices.Insert(b.bills, at, v)
		return
	}
	sum := costmodel.Sum{Cost: b.bills[at].Bill.Cost, Carbon: b.bills[at].Carbon, Work: b.bills[at].Capacity}.
		Plus(costmodel.Sum{Cost: v.Bill.Cost, Carbon: v.Carbon, Work: v.Capacity})
	b.bills[at].Bill.Cost, b.bills[at].Carbon, b.bills[at].Capacity, b.bills[at].Models = sum.Cost, sum.Carbon, sum.Work, nil
	b.bills[at].Bill.Estimate = b.bills[at].Bill.Estimate || v.Bill.Estimate
	b.bills[at].Bill.Unpriced = b.bills[at].Bill.Unpriced || v.Bill.Unpriced
}

// attributed is who pays for what: bills split by work among those who used the clusters.
func (b body) attributed() costmodel.Rollup {
	if len(b.bills) == 0 {
		return b.sums
	}
	on, regions := map[fleet.ClusterID]costmodel.Rollup{}, map[fleet.ClusterID]fleet.RegionID{}
	for _, v := range b.bills {
		regions[v.Cluster] = v.Region
	}
	for _, k := range b.sums.Keys() {
		to := k
		if to.Region == "" { // told when the cluster was configured no more
			to.Region = regions[k.Cluster]
		}
		if on[k.Cluster] == nil {
			on[k.Cluster] = costmodel.Rollup{}
		}
		on[k.Cluster].Add(to, b.sums[k])
	}
	out := costmodel.Rollup{}
	for _, v := range b.bills {
		out.Merge(v.Attribute(on[v.Cluster]))
		delete(on, v.Cluster)
	}
	for _, id := range slices.Sorted(maps.Keys(on)) {
		out.Merge(on[id])
	}
	return out
}
