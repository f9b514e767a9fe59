package plan

import (
	"fmt"
	"math"
	"strings"
	"time"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/costmodel"
)

// ExplainedPrice is what work costs on a cluster beyond what is paid anyway.
type ExplainedPrice struct {
	// USDPerMillion units of work. Sunk: its GPUs are paid for whether they work or not, so that it is 0.
	USDPerMillion float64 `json:"usdPerMillion"`
	Sunk          bool    `json:"sunk"`
	// Estimate: some price behind it is one. Unpriced: some price is not known and left out; of a provider, it
	// is taken to be as dear as the dearest.
	Estimate bool `json:"estimate"`
	Unpriced bool `json:"unpriced"`
	// GPUs are the prices behind it; none of a provider, which is paid by the token.
	GPUs []ExplainedGPUs `json:"gpus"`
}

// ExplainedGPUs are some of a cluster's GPUs and their price.
type ExplainedGPUs struct {
	Class    string `json:"class"`
	Count    int    `json:"count"`
	Purchase string `json:"purchase"`
	// USDPerHour of one GPU. Known is false if there is no price.
	USDPerHour float64 `json:"usdPerHour"`
	Known      bool    `json:"known"`
	Estimate   bool    `json:"estimate"`
	// Why the price is taken, and Source, where it is published, are for people. AgeS is for how many seconds
	// it has been known, -1 if that is not known.
	Why    string  `json:"why"`
	Source string  `json:"source"`
	AgeS   float64 `json:"ageS"`
}

// perGPU is what one of the GPUs costs for an hour, in the mean.
func (p ExplainedPrice) perGPU() float64 {
	usd, count := 0.0, 0
	for _, g := range p.GPUs {
		usd += g.USDPerHour * float64(g.Count)
		count += g.Count
	}
	return usd / float64(max(count, 1))
}

// ExplainedCapacity is what a cluster can do for the model, in work units per second.
type ExplainedCapacity struct {
	PerS float64 `json:"perS"`
	// Measured: routers have, MeasuredPerS at last, AgeS seconds ago. Confidence, 0..1, is how far that counts;
	// for the rest, or if it was never measured (AgeS is -1), the cluster is believed to do as well for its prior
	// as others do.
	Measured     bool    `json:"measured"`
	MeasuredPerS float64 `json:"measuredPerS"`
	AgeS         float64 `json:"ageS"`
	Confidence   float64 `json:"confidence"`
	// Doubt, 0..1: what its own router says is contradicted by what is seen from elsewhere.
	Doubt float64 `json:"doubt"`
	// PriorPerS is what it is configured with.
	PriorPerS float64 `json:"priorPerS"`
	// SilentS is how old the newest word of the cluster is in seconds, -1 if there is none; Freshness says what to
	// think of it.
	SilentS   float64 `json:"silentS"`
	Freshness string  `json:"freshness"`
}

// ExplainedLoad is what a cluster has to do for all its models.
type ExplainedLoad struct {
	// InForcePerS is the work that the weights in force send there, WantedPerS what the wanted ones would.
	InForcePerS float64 `json:"inForcePerS"`
	WantedPerS  float64 `json:"wantedPerS"`
	// InForce and Wanted are the same as parts of its capacity, Limit the part that it should work at most.
	InForce float64 `json:"inForce"`
	Wanted  float64 `json:"wanted"`
	Limit   float64 `json:"limit"`
}

func (w *world) explainRoute(d *demand, r *route, in Input, l load) ExplainedRoute {
	s := r.site
	out := ExplainedRoute{
		Cluster: s.id, Region: s.region, InForce: r.before, Wanted: rounded(r.share), Constraints: []Constraint{}, Changes: []Lever{},
		Cost: ExplainedCost{DistanceMs: r.rttMs, MoneyMs: r.moneyMs, CongestionMs: r.congestionMs},
		Load: ExplainedLoad{InForcePerS: l.workInForce, WantedPerS: l.work, InForce: l.useInForce, Wanted: l.use, Limit: rhoMax},
	}
	out.Cost.TotalMs = r.costMs + out.Cost.CongestionMs
	out.Price = w.explainPrice(d, s, in.Now)
	seen := in.Signals.Cluster(s.id, "")
	out.Capacity = ExplainedCapacity{
		PerS: s.capacity[d.model], AgeS: -1, PriorPerS: prior(s.spec), SilentS: -1, Freshness: string(seen.Freshness),
	}
	if able := in.Signals.Ability(s.id, d.model); able.Capacity > 0 && !direct(s.spec) {
		c := &out.Capacity
		c.Measured, c.MeasuredPerS, c.AgeS, c.Confidence, c.Doubt = true, able.Capacity, able.Age.Seconds(), confidence(able), able.Doubt
	}
	if seen.Freshness != signal.Absent {
		out.Capacity.SilentS = seen.Age.Seconds()
	}
	return out
}

func (w *world) explainPrice(d *demand, s *site, now time.Time) ExplainedPrice {
	book := w.prices(s)
	hour := book.ClusterHour(string(s.region), s.spec.Bought())
	out := ExplainedPrice{
		USDPerMillion: w.marginal(s, d.model).USD(), Estimate: hour.Estimate, Unpriced: hour.Unpriced || w.unpriced(s, d.model),
		GPUs: []ExplainedGPUs{},
	}
	metered := false
	for _, g := range s.spec.Bought() {
		e := ExplainedGPUs{Class: g.Class, Count: g.Count, Purchase: string(g.Purchase), AgeS: -1}
		if e.Purchase == "" {
			e.Purchase = string(costmodel.OnDemand)
		}
		one := book.ClusterHour(string(s.region), []costmodel.GPUs{g})
		metered = metered || one.Cost > 0 || one.Unpriced
		found, known := book.Find(costmodel.Want{Class: g.Class, Region: string(s.region), Instance: g.Instance, Zone: g.Zone, Purchase: g.Purchase})
		if known {
			e.Known, e.USDPerHour, e.Estimate = true, found.GPUsPerHour(1).USD(), found.Estimate
			e.Why, e.Source = found.Why(), found.Source
			if !found.AsOf.IsZero() {
				e.AgeS = now.Sub(found.AsOf).Seconds()
			}
		}
		out.GPUs = append(out.GPUs, e)
	}
	out.Sunk = len(out.GPUs) > 0 && !metered
	return out
}

// constraints are all that bind a route's share.
func (d *demand) constraints(r *route, e ExplainedRoute, standing Standing) []Constraint {
	out := []Constraint{}
	add := func(kind ConstraintKind, format string, args ...any) {
		out = append(out, Constraint{kind, fmt.Sprintf(format, args...)})
	}
	switch {
	case r.excluded && len(d.pinned) > 0 && d.excludedByPin(r):
		add(ConstraintPin, "%s", r.barred)
	case r.excluded:
		add(ConstraintResidency, "%s", r.barred)
	case r.site.spec.Drained:
		add(ConstraintDrain, "%s", r.barred)
	case r.cap() <= 0:
		add(ConstraintHealth, "%s", r.barred)
	case r.ordered && d.policy.Spill == policy.SpillNever && strings.HasPrefix(r.barred, keepsAt):
		add(ConstraintSpill, "%s", r.barred)
	case r.isTooFar():
		add(ConstraintPremium, "%s", r.barred)
	case r.ordered:
		add(ConstraintWeight, "%s", r.barred)
	}
	if r.dear {
		add(ConstraintPremium, tooDear)
	}
	if r.because != "" && r.barred == "" {
		add(ConstraintRamp, "%s", r.because)
	}
	switch {
	case r.barred != "" || !r.reserve:
	case d.policy.Spill == policy.SpillNever:
		add(ConstraintSpill, "the policy sends there only what home may not have")
	default:
		add(ConstraintPremium, "the policy sends there only what nearer or cheaper clusters, in reduced use, may not have")
	}
	if r.outweighed {
		add(ConstraintWeight, "%s", r.weight())
	}
	switch {
	case r.limited && r.drawn != "":
		add(ConstraintMinShare, "%s", r.limit())
	case r.limited:
		add(ConstraintMaxShare, "%s", r.limit())
	}
	if r.stuck || r.barred == "" && !r.mayGrow() {
		add(ConstraintHealth, "%s", r.stall())
	}
	if r.probe {
		add(ConstraintProbe, "it gets %.1f %% so that it stays measured: nothing else would go there", 100*r.share)
	}
	if e.Load.Wanted >= rhoMax-0.02 && r.barred == "" {
		add(ConstraintFull, "at %.2f of its capacity, of which it should use %.2f at most", e.Load.Wanted, rhoMax)
	}
	d.motion(r, e, standing, add)
	return out
}

// motion is what keeps a share from being the one that is wanted.
func (d *demand) motion(r *route, e ExplainedRoute, standing Standing, add func(ConstraintKind, string, ...any)) {
	left := math.Abs(e.Wanted - e.Next)
	if left < quantum {
		return
	}
	switch {
	case (standing == StandingMoving || standing == StandingAtOnce) && e.Wanted > e.Next && e.Next >= r.allowed(d)-quantum:
		add(ConstraintCold, "its caches are cold for requests from %s (%.0f %% warm): what it gets grows with what it does", d.source, 100*r.warmth())
	case standing == StandingSettled:
		add(ConstraintDeadBand, "%.1f points from what is wanted: less than %g moves nothing", 100*left, 100*deadBand)
	case standing == StandingHeld, standing == StandingLastGood:
		add(ConstraintHeld, "%s", d.why)
	case standing == StandingMoving && d.repriced:
		add(ConstraintPrice, "%s", repriced)
	case standing == StandingMoving && d.thrifty:
		add(ConstraintPrice, "it only saves money: moves by at most %g points a minute", 60*100*priceGrowth)
	case standing == StandingMoving:
		add(ConstraintGrowth, "on the way: no region's share rises by more than %g points a second", 100*growth)
	}
}

// excludedByPin says whether it is a pin that keeps a demand away.
func (d *demand) excludedByPin(r *route) bool {
	for _, id := range d.pinned {
		if id == string(r.site.id) {
			return false
		}
	}
	return true
}
