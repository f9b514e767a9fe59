package whatif

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
)

// Lengths of requests, of which only the work is reported: prompts are taken to be promptPerOutput times
// as long as answers, and both are bounded, so that they fit any pod.
const (
	promptPerOutput = 4
	mostOutput      = 1000
	leastOutput     = 2
)

// demand is the traffic of a model and class from a region.
type demand struct {
	model  fleet.ModelID
	class  fleet.ClassID
	source fleet.RegionID
	// work units a second, and requests a second with so many tokens in the mean.
	work, rate     float64
	prompt, output float64
}

// demands are those that routers report for models and regions that there are before and after, the
// largest first.
func demands(in Input) []demand {
	var out []demand
	weights := map[fleet.ModelID]float64{}
	base := map[fleet.ModelID]fleet.ModelID{} // of each name that clients may ask for
	for _, r := range in.After.List(policy.KindModel) {
		if s, ok := r.Spec.(*policy.ModelSpec); ok && has(in.Before.List(policy.KindModel), r.Metadata.Name) {
			id := fleet.ModelID(r.Metadata.Name)
			weights[id] = s.OutputWeight
			for _, name := range slices.Concat([]string{r.Metadata.Name}, s.Aliases, s.Adapters) {
				base[fleet.ModelID(name)] = id
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(base)) {
		for _, r := range in.After.List(policy.KindRegion) {
			if !has(in.Before.List(policy.KindRegion), r.Metadata.Name) {
				continue
			}
			for _, class := range classes(in) {
				d := demand{model: base[name], class: class, source: fleet.RegionID(r.Metadata.Name)}
				seen := in.Signals.Demand(name, class, d.source)
				if seen.RequestsPerS <= 0 || seen.WorkPerS <= 0 {
					continue
				}
				weight := cmp.Or(weights[d.model], policy.DefaultOutputWeight)
				d.work = seen.WorkPerS
				d.output = min(max(seen.WorkPerS/seen.RequestsPerS/(promptPerOutput+weight), leastOutput), mostOutput)
				d.prompt = promptPerOutput * d.output
				d.rate = d.work / (d.prompt + weight*d.output)
				out = append(out, d)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b demand) int { return cmp.Compare(b.work, a.work) })
	return out[:min(len(out), maxStreams)]
}

// supposed is demand as a change makes it; what nobody asks for any more is left out.
func supposed(asked []demand, c plan.Change) []demand {
	var out []demand
	for _, d := range asked {
		factor := c.DemandFactor(d.source)
		if d.work, d.rate = d.work*factor, d.rate*factor; d.rate > 0 {
			out = append(out, d)
		}
	}
	return out
}

// busier is the demand that has more requests.
func busier(a, b []demand) []demand {
	rate := func(list []demand) (sum float64) {
		for _, d := range list {
			sum += d.rate
		}
		return sum
	}
	if rate(b) > rate(a) {
		return b
	}
	return a
}

// classes are those of the policies before or after, and the default one.
func classes(in Input) []fleet.ClassID {
	all := []fleet.ClassID{fleet.DefaultClass}
	for _, r := range slices.Concat(in.Before.List(policy.KindTrafficPolicy), in.After.List(policy.KindTrafficPolicy)) {
		if s, ok := r.Spec.(*policy.TrafficPolicySpec); ok && s.Class != "" {
			all = append(all, fleet.ClassID(s.Class))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func has(list []*policy.Resource, name string) bool {
	return slices.ContainsFunc(list, func(r *policy.Resource) bool { return r.Metadata.Name == name })
}

// thin chooses which part of all requests and pods is simulated, and for how long.
func thin(asked []demand, requests int) (scale float64, span time.Duration) {
	rate := 0.0
	for _, d := range asked {
		rate += d.rate
	}
	scale = min(1, mostPerSecond/rate)
	seconds := float64(requests) / (rate * scale)
	return scale, min(max(time.Duration(seconds*float64(time.Second)), shortest), longest).Round(time.Second)
}
