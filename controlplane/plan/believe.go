package plan

import (
	"math"
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
)

const (
	// blackOut is for how long what has only just been measured or heard of moves no weights: first figures
	// are those of cold starts and few requests. After it a measurement counts more and more for as long again.
	blackOut = 10 * time.Second
	// fades is how long it takes until a measurement that is not renewed counts half of what it did, from the
	// moment when it is no longer heard of. Hardware does not change by itself: what changes a cluster
	// unseen is an autoscaler or a person, which takes such a time.
	fades = 15 * time.Minute
	// mostOverPrior is by how much a cluster may be better for its prior than the middle one of those that
	// were measured for the model, on its word alone: GPUs of two generations differ by less. MostOverWork is
	// how many times the most that it was ever seen to finish it may claim beyond that: it then gets more to
	// do, and can show more.
	mostOverPrior = 4
	mostOverWork  = 2
	// leastOfPrior is what a claim that is contradicted counts at least: those who contradict it may have a
	// bad way to it.
	leastOfPrior = 0.5
	// leastWork and mostWork bound what is taken for a capacity, in work units per second: whatever a
	// router measures, sums and quotients of capacities stay within what numbers can hold.
	leastWork = 1
	mostWork  = 1e12
)

// believe sets what each site is taken to do. What is not measured is taken to do as well for its prior as the
// middle one of those that were measured for the model does for its own: a measurement here and a guess there
// would compare like apples and pears. Where nothing can ever be measured the prior is what its author knows,
// and stands.
func (w *world) believe() {
	ratios := map[fleet.ModelID][]float64{}
	for _, s := range w.sites {
		for m, a := range s.ability {
			if confidence(a) > 0 || a.Since >= blackOut && a.Capacity > 0 {
				ratios[m] = append(ratios[m], bounded(a.Capacity)/prior(s.spec))
			}
		}
	}
	for _, list := range ratios {
		slices.Sort(list)
	}
	for _, s := range w.sites {
		for m, a := range s.ability {
			ratio := 1.0
			if n := len(ratios[m]); n > 0 && !direct(s.spec) {
				ratio = ratios[m][(n-1)/2]
			}
			s.capacity[m] = reckon(a, prior(s.spec)*ratio)
		}
	}
}

// reckon is what a cluster is taken to do in work units per second: what is measured of it, within bounds, as
// far as that can be trusted, and else what others do for their priors. Both are mixed as ratios, not as
// differences: half of the trust between 1,000 and 4,000 is 2,000.
func reckon(a signal.Ability, prior float64) float64 {
	trust := confidence(a)
	if trust <= 0 {
		return bounded(prior)
	}
	claim := min(a.Capacity, max(mostOverPrior*prior, mostOverWork*a.Most))
	claim = mix(claim, min(claim, max(a.Most, leastOfPrior*prior)), a.Doubt)
	return bounded(mix(prior, claim, trust))
}

// mix goes from a to b, both above 0, by a part of their ratio.
func mix(a, b, part float64) float64 {
	a, b = bounded(a), bounded(b)
	if part <= 0 || a == b {
		return a
	}
	return a * math.Pow(b/a, min(part, 1))
}

// confidence is what a measured capacity counts, 0..1, as the time goes since it began to be measured and since
// it last was.
func confidence(a signal.Ability) float64 {
	if a.Capacity <= 0 {
		return 0
	}
	began := (a.Since - blackOut).Seconds() / blackOut.Seconds()
	old := max(a.Age-signal.StaleFor, 0).Seconds() / fades.Seconds()
	return min(max(began, 0), 1) * math.Exp2(-old)
}

// bounded brings a capacity within bounds.
func bounded(work float64) float64 {
	if math.IsNaN(work) {
		return leastWork
	}
	return min(max(work, leastWork), mostWork)
}

// prior is the capacity that a cluster is configured with, in work units per second.
func prior(spec *policy.ClusterSpec) float64 {
	work := spec.PriorWork
	if work <= 0 || math.IsNaN(work) {
		work = policy.DefaultPriorWork * float64(max(len(spec.Endpoints), 1))
	}
	return bounded(work)
}
