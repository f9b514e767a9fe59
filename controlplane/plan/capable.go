package plan

import (
	"sync"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
)

// waitPart is the part of an objective that requests may wait in any case. An objective below what a first token
// takes by itself (serviceMs, as the curve has it) can't be held by replicas: they can see to it that there is no
// more waiting than that.
const waitPart = 0.1

// promptness is the mean time to the first token in ms as a function of load over capacity, for a site of so
// many slots. It belongs to the curve by which the planner divides work: that is the marginal cost m of a load,
// so that the mean one is the integral of m from 0 to the load, over the load.
type promptness struct {
	ms    [knots + 1]float64
	curve *curve
}

func newPromptness(c *curve) *promptness {
	p := promptness{curve: c}
	p.ms[0] = serviceMs
	sum, before := 0.0, c.at(0)
	for i := 1; i <= knots; i++ {
		here := c.at(float64(i) * knot)
		sum += (before + here) / 2 * knot // the curve is straight between knots
		before = here
		p.ms[i] = serviceMs + sum/(float64(i)*knot)
	}
	return &p
}

// at gives the mean time to the first token at a load of rho times the capacity. Beyond the last knot it takes the
// curve to go on straight.
func (p *promptness) at(rho float64) float64 {
	x := max(rho, 0) / knot
	if beyond := rho - knots*knot; beyond > 0 {
		sum := (p.ms[knots]-serviceMs)*knots*knot + beyond*(p.curve.at(knots*knot)+p.curve.at(rho))/2
		return serviceMs + sum/rho
	}
	i := int(min(x, knots-1))
	return p.ms[i] + (x-float64(i))*(p.ms[i+1]-p.ms[i])
}

// within gives the largest load over capacity at which the first token comes within an objective in ms. False: it
// comes later without any load; then so much of the objective is waited as waitPart says.
func (p *promptness) within(objectiveMs float64) (rho float64, holds bool) {
	if !(objectiveMs > 1) { // nor a number
		objectiveMs = 1
	}
	least := serviceMs + waitPart*objectiveMs
	holds = objectiveMs >= least
	objectiveMs = max(objectiveMs, least)
	if p.ms[knots] <= objectiveMs {
		return knots * knot, holds
	}
	low, high := 0, knots // within at low, not at high
	for high-low > 1 {
		if middle := (low + high) / 2; p.ms[middle] <= objectiveMs {
			low = middle
		} else {
			high = middle
		}
	}
	return (float64(low) + (objectiveMs-p.ms[low])/(p.ms[high]-p.ms[low])) * knot, holds
}

// prompt are the promptnesses of sites by their endpoints, made when they are asked for. There are only so many,
// and they never change.
var prompt = func() (all [maxSlots/slotsPerEndpoint + 1]func() *promptness) {
	for i := range all {
		all[i] = sync.OnceValue(func() *promptness { return newPromptness(newCurve(slotsOf(i))) })
	}
	return all
}()

// promptnessOf a site with so many endpoints.
func promptnessOf(endpoints int) *promptness { return prompt[slotsOf(endpoints)/slotsPerEndpoint]() }

// slotsOf is how many requests so many endpoints have in their batches together.
func slotsOf(endpoints int) int {
	return min(max(endpoints, 1), maxSlots/slotsPerEndpoint) * slotsPerEndpoint
}

// endpoints of a site: those that are listed or were found, at least 1. A member that every router reaches by
// itself is counted with as many as would do what it is believed to.
func (in Input) endpoints(s *site) int {
	if direct(s.spec) {
		return int(max(min(prior(s.spec)/policy.DefaultPriorWork, maxSlots), 1))
	}
	return max(len(s.spec.Endpoints), in.Signals.Cluster(s.id, "").Total, 1)
}

// counted says whether the endpoints of a site are known: that they are listed, or were found by somebody who
// said so lately. Of one that is not, no number could be told that does no harm.
func (in Input) counted(s *site) bool {
	return len(s.spec.Endpoints) > 0 || in.Signals.Cluster(s.id, "").Total > 0
}

// measured says whether all that a site is taken to do was.
func (in Input) measured(s *site) bool {
	for m := range s.capacity {
		if in.Signals.Capacity(s.id, m) <= 0 {
			return false
		}
	}
	return !direct(s.spec)
}

// objectives are the strictest first-token objectives in ms of the work on each site, and whose they are. Of a
// site that has none it is that of the policy that speaks for it as a whole.
func (w *world) objectives(demands []*demand) map[*site]objective {
	out := map[*site]objective{}
	for _, d := range demands {
		for _, r := range d.routes {
			if of, known := out[r.site]; d.work*r.share > 0 && (!known || d.policy.TTFTObjectiveMs < of.ms) {
				out[r.site] = objective{d.policy.TTFTObjectiveMs, d.class}
			}
		}
	}
	for _, s := range w.sites {
		if _, known := out[s]; !known {
			out[s] = objective{w.speaker(s.spec).TTFTObjectiveMs, fleet.DefaultClass}
		}
	}
	return out
}

// objective of a class in ms.
type objective struct {
	ms    float64
	class fleet.ClassID
}
