package whatif

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/sim"
	"anabranch/sim/world"
)

// small is one of the two fleets in the small.
type small struct {
	in        Input
	suppose   plan.Change
	resources plan.Lookup
	asked     []demand
	scale     float64
}

// built is a fleet that can be run.
type built struct {
	spec    *world.Spec
	own     []*policy.Resource
	drained map[fleet.ClusterID]bool
}

// fleet builds it. A cluster of the world serves one model, so one that serves several becomes one for
// each that is asked for, with its part of the pods by the work that is asked of the model everywhere.
func (s small) fleet(span time.Duration) (built, error) {
	b := built{
		spec:    &world.Spec{Name: "what-if", RTT: map[[2]fleet.RegionID]time.Duration{}, Warmup: warmup, Duration: warmup + span},
		drained: map[fleet.ClusterID]bool{},
	}
	s.regions(&b)
	work := map[fleet.ModelID]float64{}
	for _, d := range s.asked {
		work[d.model] += d.work
	}
	for _, m := range slices.Sorted(maps.Keys(work)) {
		if r := find(s.resources, policy.KindModel, string(m)); r != nil {
			b.spec.Models = append(b.spec.Models, world.Model{
				ID: m, Profile: anyModel, OutputWeight: r.Spec.(*policy.ModelSpec).OutputWeight, FirstToken: s.objective(m), InterToken: anyPace,
			})
		}
	}
	parts := map[string][]string{} // of each cluster of the operator
	book := plan.Prices(s.resources, s.in.Prices, s.in.Signals.At)
	rates := map[string]float64{} // work per second of a pod at full use, by class, model and lengths
	for n, r := range s.resources.List(policy.KindCluster) {
		spec, ok := r.Spec.(*policy.ClusterSpec)
		if !ok {
			continue
		}
		id := fleet.ClusterID(r.Metadata.Name)
		var models []fleet.ModelID
		all := 0.0
		for _, m := range spec.Models {
			if work[fleet.ModelID(m)] > 0 {
				models = append(models, fleet.ModelID(m))
				all += work[fleet.ModelID(m)]
			}
		}
		for i, m := range models {
			c := world.Cluster{ID: id, Region: fleet.RegionID(spec.Region), Model: m}
			if len(models) > 1 {
				c.ID = fleet.ClusterID(fmt.Sprintf("c%d.m%d", n, i))
			}
			c.Pods = []world.Pods{s.pods(id, m, spec, work[m]/all, float64(s.suppose.Book(id, spec, book, s.in.Signals.At).ClusterHour(spec.Region, spec.Bought()).Cost), rates)}
			parts[string(id)] = append(parts[string(id)], string(c.ID))
			b.spec.Clusters = append(b.spec.Clusters, c)
			b.drained[c.ID] = spec.Drained || s.in.Dead[id] || s.suppose.Lost(id, spec)
		}
	}
	if len(b.spec.Clusters) == 0 || len(b.spec.Models) == 0 {
		return b, errNothing
	}
	b.own = append(b.own, s.policies(parts, work)...)
	return b, nil
}

// regions with their distances; one that can't be entered in life can't be here.
func (s small) regions(b *built) {
	for _, r := range s.resources.List(policy.KindRegion) {
		spec, ok := r.Spec.(*policy.RegionSpec)
		if !ok {
			continue
		}
		id := fleet.RegionID(r.Metadata.Name)
		for _, other := range b.spec.Regions {
			ms, known := spec.RTTMs[string(other.ID)]
			if !known {
				ms, known = find(s.resources, policy.KindRegion, string(other.ID)).Spec.(*policy.RegionSpec).RTTMs[r.Metadata.Name]
			}
			if !known {
				ms = policy.DefaultRTTMs
			}
			b.spec.RTT[[2]fleet.RegionID{id, other.ID}] = time.Duration(ms * float64(time.Millisecond))
		}
		b.spec.Regions = append(b.spec.Regions, world.Region{ID: id, Zone: cmp.Or(spec.Zone, string(id))})
		if len(spec.PeerURLs) == 0 {
			b.own = append(b.own, r)
		}
	}
}

// anyPace is no objective for the time between tokens: policies have none.
const anyPace = time.Hour

// objective is the time to the first token that holds for most of a model's requests after the change.
func (s small) objective(m fleet.ModelID) time.Duration {
	best := 0.0
	for _, r := range s.in.After.List(policy.KindTrafficPolicy) {
		spec, ok := r.Spec.(*policy.TrafficPolicySpec)
		if !ok || cmp.Or(fleet.ClassID(spec.Class), fleet.DefaultClass) != fleet.DefaultClass {
			continue
		}
		if named := slices.Contains(spec.Models, string(m)); named || len(spec.Models) == 0 && best == 0 {
			best = spec.TTFTObjectiveMs
		}
	}
	return time.Duration(best * float64(time.Millisecond)) // 0: the world's default
}

// policies as far as they are about classes: what steers requests by headers and tenants is left out,
// since the requests here say their class.
func (s small) policies(parts map[string][]string, work map[fleet.ModelID]float64) []*policy.Resource {
	var out []*policy.Resource
	for _, r := range s.resources.List(policy.KindTrafficPolicy) {
		spec, ok := r.Spec.(*policy.TrafficPolicySpec)
		if !ok {
			continue
		}
		here := *spec
		here.Match, here.Rewrite, here.Split, here.Shadow, here.Hedge, here.Rescue = nil, nil, nil, nil, nil, false
		here.Models, here.Clusters = nil, nil
		for _, m := range spec.Models {
			if work[fleet.ModelID(m)] > 0 {
				here.Models = append(here.Models, m)
			}
		}
		for _, c := range spec.Clusters {
			here.Clusters = append(here.Clusters, parts[c]...)
		}
		if len(spec.Models) > 0 && len(here.Models) == 0 || len(spec.Clusters) > 0 && len(here.Clusters) == 0 {
			continue
		}
		copied := *r
		copied.Spec, copied.Written = &here, nil
		out = append(out, &copied)
	}
	return out
}

func find(all plan.Lookup, kind policy.Kind, name string) *policy.Resource {
	for _, r := range all.List(kind) {
		if r.Metadata.Name == name {
			return r
		}
	}
	return nil
}

// What stands in for classes of GPU and models that package sim has no profile of.
const (
	anyClass = "h100"
	anyModel = "llama-3.1-8b"
)

// pods are those of a model's part of a cluster, in the small. Their speed is such that together they do
// what was measured of the cluster, or what it is believed to do, whatever the profile of their class.
func (s small) pods(id fleet.ClusterID, m fleet.ModelID, spec *policy.ClusterSpec, part, microUSDPerHour float64, rates map[string]float64) world.Pods {
	endpoints := float64(max(len(spec.Endpoints), s.in.Signals.Cluster(id, "").Total, 1))
	capacity := s.in.Signals.Capacity(id, m)
	if capacity <= 0 {
		capacity = cmp.Or(spec.PriorWork, policy.DefaultPriorWork*endpoints)
	}
	capacity *= s.suppose.CapacityFactor(id)
	part *= s.scale
	count := max(1, math.Round(endpoints*part))
	class := anyClass
	if len(spec.Endpoints) > 0 {
		class = spec.Endpoints[0].Class
	}
	profile, err := sim.Lookup(class, string(m))
	if err != nil {
		if profile, err = sim.Lookup(class, anyModel); err != nil {
			profile, _ = sim.Lookup(anyClass, anyModel) // which there is
		}
	}
	key := profile.Class + " " + profile.Model + " " + string(m)
	if rates[key] == 0 {
		rates[key] = s.rate(profile, m)
	}
	faster := capacity * part / count / rates[key]
	profile.Bandwidth *= faster
	profile.FLOPS *= faster
	profile.PeakFLOPS *= faster
	profile.Overhead = time.Duration(float64(profile.Overhead) / faster)
	return world.Pods{
		Class: class, Count: int(count), Options: sim.Options{Profile: profile},
		PriceMicroUSD: int64(microUSDPerHour * part / count),
	}
}

// batch is how many requests a pod is given to find out what it does at full use.
const batch = 128

// rate is the work per second that a pod does at full use, with requests for the model as they are asked
// for in the mean.
func (s small) rate(p sim.Profile, m fleet.ModelID) float64 {
	var sum, prompt, output float64
	for _, d := range s.asked {
		if d.model == m {
			sum, prompt, output = sum+d.rate, prompt+d.rate*d.prompt, output+d.rate*d.output
		}
	}
	in, out := max(int(prompt/sum), 1), max(int(output/sum), 1)
	e := sim.New(sim.Options{Profile: p})
	for i := range batch {
		if err := e.Submit(0, sim.Request{ID: uint64(i + 1), PromptTokens: in, OutputTokens: out}); err != nil {
			return policy.DefaultPriorWork // one that does not fit: what such a pod is believed to do
		}
	}
	last := time.Duration(0)
	for {
		at, more := e.Next()
		if !more {
			break
		}
		e.Advance(at)
		last = at
	}
	weight := policy.DefaultOutputWeight
	if r := find(s.resources, policy.KindModel, string(m)); r != nil {
		weight = cmp.Or(r.Spec.(*policy.ModelSpec).OutputWeight, weight)
	}
	return batch * (float64(in) + weight*float64(out)) / max(last.Seconds(), 1e-6)
}
