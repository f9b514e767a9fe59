package account

import (
	"cmp"
	"maps"
	"math/bits"
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

// within writes a body in so many bytes. If it does not fit, the least keys are put together with others of
// their cluster, about as few as it takes; and if that is not enough the least clusters are. Sums stay what
// they are.
func (b body) within(limit int) []byte {
	data := b.encode()
	if len(data) <= limit {
		return data
	}
	keys := slices.DeleteFunc(b.sums.Keys(), nobodys)
	slices.SortStableFunc(keys, func(k, l costmodel.Key) int { return b.weigh(b.sums[l], b.sums[k]) })
	if kept, ok := b.fit(keys, limit); ok {
		return b.fold(keys[kept:]).encode()
	}
	b = b.fold(keys)
	clusters := b.clusters()
	surely := max(len(clusters)-limit/leastCluster, 0) // more than so many don't fit anyway
	b = b.gather(clusters[:surely])
	clusters = clusters[surely:]
	data = b.gather(clusters).encode()
	if at := sort.Search(len(clusters), func(n int) bool { return len(b.gather(clusters[:n]).encode()) <= limit }); at < len(clusters) {
		data = b.gather(clusters[:at]).encode()
	}
	return data
}

// leastCluster is the fewest bytes that a cluster with its bill or sum can take.
const leastCluster = 7

// fit is how many of the first keys can be told apart within a limit, if the others are put together. Not ok:
// there is no room for the clusters alone.
func (b body) fit(keys []costmodel.Key, limit int) (int, bool) {
	least := b.fold(keys)
	names, places := map[string]bool{"": true}, 0
	for _, k := range least.sums.Keys() {
		for _, n := range namesOf(k) {
			names[n] = true
			places++
		}
	}
	for _, v := range b.bills {
		places += 2 + len(v.Models)
		for _, m := range v.Models {
			names[string(m.Model)] = true
		}
		names[string(v.Cluster)], names[string(v.Region)] = true, true
	}
	// Numbers of what is put together are no larger than those of all. Places of names and lengths of lists take
	// width bytes at most: more names than that can tell apart would not fit.
	const width = 2
	size := len(least.encode()) + (width-1)*(places+2)
	if size > limit {
		return 0, false
	}
	for i, k := range keys {
		s := b.sums[k]
		size++ // flags
		for _, n := range numbers(&s) {
			size += (bits.Len64(uint64(*n)|1) + 6) / 7
		}
		for _, n := range namesOf(k) {
			size += width
			if !names[n] {
				names[n] = true
				size += 2 + len(n)
			}
		}
		if size > limit {
			return i, true
		}
	}
	return len(keys), true
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
