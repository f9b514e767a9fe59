package drill

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/signal"
	"anabranch/failover/drill"
)

// silentAfter is how long a router may say nothing before it counts as silent.
const silentAfter = 5 * time.Second

// sampler makes one sample a second of what routers report. A report is counted once, whenever it comes.
type sampler struct {
	counted map[fleet.RouterID]int64 // when the last report of a router that was counted was made, Unix ms
	known   map[fleet.RouterID]bool  // routers that were heard in the baseline
	// holds is when routers said last that they hold a lease, those whose last word that is.
	holds map[fleet.RouterID]time.Time
}

func newSampler() *sampler {
	return &sampler{counted: map[fleet.RouterID]int64{}, known: map[fleet.RouterID]bool{}, holds: map[fleet.RouterID]time.Time{}}
}

// sight is what a second is sampled from.
type sight struct {
	id       uint64
	run      drill.Run
	shifted  int
	since    uint64 // sequence of the lease with which the present state began
	leased   bool
	drilled  []fleet.ClusterID
	clusters []place
	signals  signal.Snapshot
	micros   int64
}

// place is a cluster and what failover says of it.
type place struct {
	id     fleet.ClusterID
	health string
}

// take gives the sample of a second.
func (s *sampler) take(of sight) drill.Sample {
	now := of.signals.At
	out := drill.Sample{
		At: now.UnixMilli(), State: of.run.State, Step: of.run.Step, Shifted: of.shifted, MicrosPerMinute: of.micros,
	}
	counts := map[fleet.ClusterID]*drill.ClusterSample{}
	tiers := map[string]*drill.TierSample{}
	for _, o := range of.signals.Routers {
		id := o.Router()
		heard := o.Connected && o.Report != nil && o.Age(now) <= silentAfter
		if of.run.State == drill.Measuring && heard {
			s.known[id] = true
		}
		if s.known[id] && !heard {
			out.Silent++
		}
		r := o.Report
		d := r.GetDrill()
		switch {
		case r != nil && d.GetId() == of.id && d.GetSequence() != 0:
			s.holds[id] = o.Received
		case r != nil:
			delete(s.holds, id)
		}
		if heard {
			out.Routers++
			if of.leased && d.GetId() == of.id && d.GetSequence() >= max(of.since, 1) && int(d.GetShiftedPpm()) == of.shifted {
				out.Obeying++
			}
			out.Streams += max(d.GetStreams(), 0)
			out.StreamsLeft += max(d.GetStreamsLeft(), 0)
		}
		if r == nil || r.GetAtUnixMs() <= s.counted[id] {
			continue
		}
		s.counted[id] = r.GetAtUnixMs()
		count(&out, tiers, counts, r, of.id)
	}
	for id, said := range s.holds {
		if now.Sub(said) > drill.LeaseTTL+drill.RevertMargin { // it has run out for certain
			delete(s.holds, id)
			continue
		}
		out.Holding++
	}
	out.Tiers = tiersInOrder(tiers)
	for _, p := range of.clusters {
		load := of.signals.Cluster(p.id, "")
		c := drill.ClusterSample{
			Cluster: p.id, Drilled: slices.Contains(of.drilled, p.id), Health: p.health,
			Saturation: load.Saturation, Queue: load.Waiting, KV: load.KVUsage,
		}
		if n := counts[p.id]; n != nil {
			c.Requests, c.Failures = n.Requests, n.Failures
		}
		out.Clusters = append(out.Clusters, c)
	}
	return out
}

// count adds one report.
func count(out *drill.Sample, tiers map[string]*drill.TierSample, clusters map[fleet.ClusterID]*drill.ClusterSample, r *routerpb.Report, id uint64) {
	for _, c := range r.GetClusters() {
		of := clusters[fleet.ClusterID(c.GetCluster())]
		if of == nil {
			of = &drill.ClusterSample{}
			clusters[fleet.ClusterID(c.GetCluster())] = of
		}
		of.Requests += clip(c.GetRequests())
		of.Failures += clip(c.GetFailures())
	}
	d := r.GetDrill()
	if d.GetId() != id {
		return
	}
	out.Scoped += clip(d.GetScoped())
	out.Away += clip(d.GetAway())
	out.Protected += clip(d.GetProtectedRequests())
	out.ProtectedDenied += clip(d.GetProtectedDenied())
	out.PrefixTokens += clip(d.GetPrefixTokens())
	out.CachedTokens += clip(d.GetCachedTokens())
	for _, t := range d.GetTiers() {
		of := tiers[t.GetTier()]
		if of == nil {
			of = &drill.TierSample{Tier: t.GetTier()}
			tiers[t.GetTier()] = of
		}
		of.Total += clip(t.GetTotal())
		of.Retried += clip(t.GetRetried())
		of.Shed += clip(t.GetShed())
		of.Limited += clip(t.GetLimited())
		of.Lost += clip(t.GetLost())
		of.Broken += clip(t.GetBroken())
		for i, n := range t.GetTtft()[:min(len(t.GetTtft()), drill.Buckets)] {
			for len(of.TTFT) <= i {
				of.TTFT = append(of.TTFT, 0)
			}
			of.TTFT[i] += clip(n)
		}
	}
}

// mostCounted bounds what one report may claim, so that sums stay numbers.
const mostCounted = 1 << 40

func clip(n uint64) int64 { return int64(min(n, mostCounted)) } //nolint:gosec // bounded

// tierOrder is the top first.
var tierOrder = []string{"top", "standard", "best-effort", "batch"}

func tiersInOrder(tiers map[string]*drill.TierSample) []drill.TierSample {
	var out []drill.TierSample
	for _, t := range tiers {
		out = append(out, *t)
	}
	rank := func(tier string) int {
		if i := slices.Index(tierOrder, tier); i >= 0 {
			return i
		}
		return len(tierOrder)
	}
	slices.SortFunc(out, func(a, b drill.TierSample) int {
		return cmp.Or(cmp.Compare(rank(a.Tier), rank(b.Tier)), strings.Compare(a.Tier, b.Tier))
	})
	return out
}
