package bound

import (
	"math"
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/sim/world"
)

// Run is what a run has done, as work.
type Run struct {
	Clusters []Cluster
	// Intervals have the work of requests that arrived in them. May are the clusters of the request's
	// model where its tenant may be served.
	Intervals []Interval
	// Served is the work that each cluster has done of it.
	Served []int64
}

// FromResult takes the work of a run's answers, by intervals of their arrivals: prompt tokens that were
// not cached, and output tokens by their model's weight. So it is the same work that [Price] puts at where
// it was done and [Cost] at where it would have been cheapest. A cluster's rate is that of its pods at
// prefill, its price what it came to in the run, and the most that it can do is what it has done in an
// interval, if that is more than its rate.
func FromResult(r *world.Result, every time.Duration) Run {
	spec := r.Spec
	run := Run{Clusters: make([]Cluster, len(spec.Clusters)), Served: make([]int64, len(spec.Clusters))}
	if every <= 0 || len(r.Records) == 0 {
		return run
	}
	start := r.Records[0].At
	last := start
	for i := range r.Records {
		last = max(last, r.Records[i].At)
	}
	n := int((last-start)/every) + 1
	peak := make([][]int64, n)
	sums := make([]map[[2]int32]int64, n) // by model and tenant
	for i := range n {
		peak[i] = make([]int64, len(spec.Clusters))
		sums[i] = map[[2]int32]int64{}
	}
	for i := range r.Records {
		x := &r.Records[i]
		if x.Cluster < 0 {
			continue
		}
		done := work(r, x)
		at := int((x.At - start) / every)
		sums[at][[2]int32{x.Model, x.Tenant}] += done
		peak[at][x.Cluster] += done
		run.Served[x.Cluster] += done
	}
	for i := range n {
		in := Interval{Length: every}
		for _, key := range sorted(sums[i]) {
			in.Demands = append(in.Demands, Demand{Work: sums[i][key], May: may(r, key)})
		}
		run.Intervals = append(run.Intervals, in)
	}
	for c := range spec.Clusters {
		run.Clusters[c] = cluster(r, c)
		for i := range n {
			run.Clusters[c].Most = max(run.Clusters[c].Most, float64(peak[i][c])/every.Seconds())
		}
	}
	return run
}

// work of an answer.
func work(r *world.Result, x *world.Record) int64 {
	return int64(x.Prompt-x.Cached) + int64(math.Round(r.Spec.Models[x.Model].OutputWeight*float64(x.Output)))
}

// cluster is a cluster's rate and price over the run, by what its pods were paid for.
func cluster(r *world.Result, c int) Cluster {
	var rate, price, alive float64
	for _, kind := range r.Spec.Clusters[c].Pods {
		rate += float64(kind.Count) * kind.Options.Profile.PrefillRate(1)
		price += float64(kind.Count) * float64(kind.PriceMicroUSD)
	}
	if c < len(r.Pods) {
		var paid float64
		for _, p := range r.Pods[c] {
			paid += float64(p.MicroUSD)
			alive += p.Alive.Hours()
		}
		pods := 0
		for _, kind := range r.Spec.Clusters[c].Pods {
			pods += kind.Count
		}
		if alive > 0 {
			price = paid / alive * float64(pods)
		}
	}
	return Cluster{Rate: rate, MicroUSD: int64(math.Round(price))}
}

// may are the clusters of the model where the tenant may be served.
func may(r *world.Result, key [2]int32) []int {
	within := residency(r, key[1])
	clusters := []int{}
	for c := range r.Spec.Clusters {
		if r.Spec.Clusters[c].Model == r.Spec.Models[key[0]].ID && r.Spec.May(within, r.Spec.RegionOf(c)) {
			clusters = append(clusters, c)
		}
	}
	return clusters
}

// residency of a tenant; nil: anywhere.
func residency(r *world.Result, tenant int32) []string {
	var id fleet.TenantID
	if t := int(tenant); t >= 0 && t < len(r.Tenants) {
		id = r.Tenants[t]
	}
	for _, t := range r.Spec.Tenants {
		if t.ID == id {
			return t.Residency
		}
	}
	return nil
}

func sorted(sums map[[2]int32]int64) [][2]int32 {
	keys := make([][2]int32, 0, len(sums))
	for key := range sums {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b [2]int32) int { return slices.Compare(a[:], b[:]) })
	return keys
}
