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
	// A cluster that has finished shownFrom of its claim begins to show it, and at shownWhole it has: more can't be
	// seen, as work comes unevenly.
	shownFrom  = 0.6
	shownWhole = 0.75
	// mostGuess is how many times too good a measurement by little work may be.
	mostGuess = 1.4
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
			if others := w.shown(m, s); others > 0 {
				a.Capacity = proven(a, prior(s.spec)*others)
			}
			s.capacity[m] = reckon(a, prior(s.spec)*ratio)
		}
	}
}

// shown is the most that any other cluster does of a model for its prior, of those that have shown it by what they
// finished; 0: none has.
func (w *world) shown(m fleet.ModelID, but *site) float64 {
	most := 0.0
	for _, s := range w.sites {
		if a := s.ability[m]; s != but && confidence(a) >= 0.5 && a.Doubt < 0.5 && showing(a) == 1 {
			most = max(most, bounded(a.Capacity)/prior(s.spec))
		}
	}
	return most
}

// showing is how far a cluster has shown what it claims, 0..1, by the most that it was seen to finish.
func showing(a signal.Ability) float64 {
	if a.Capacity <= 0 {
		return 0
	}
	return min(max((a.Most/a.Capacity-shownFrom)/(shownWhole-shownFrom), 0), 1)
}

// proven is what counts of a claim beyond what others have shown that they do. As long as the cluster has not shown it
// itself it was measured with little to do, and what it does with a full batch is a guess, mostly too good.
func proven(a signal.Ability, others float64) float64 {
	if a.Capacity <= others {
		return a.Capacity
	}
	return max(mix(others, a.Capacity, showing(a)), a.Capacity/mostGuess)
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
