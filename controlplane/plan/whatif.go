package plan

import (
	"maps"
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
	"anabranch/failover"
)

// Effect is what a change would do once all weights have settled.
type Effect struct {
	Before Picture `json:"before"`
	After  Picture `json:"after"`
	// Moves are the shares that differ.
	Moves []Move `json:"moves"`
}

// Picture is a fleet at rest: where the demand of now would be served if weights moved at once.
type Picture struct {
	Demands []DemandPicture `json:"demands"` // by model, class and source
	Sites   []SitePicture   `json:"sites"`   // by cluster
	// WorkPerS is all that is asked for, StrandedPerS the part that nothing may serve, OverPerS what is beyond
	// the limits of the clusters that it goes to. All in work units per second.
	WorkPerS     float64 `json:"workPerS"`
	StrandedPerS float64 `json:"strandedPerS"`
	OverPerS     float64 `json:"overPerS"`
	// Shed is what is to be shed, as it is more than clusters can do at all, by priority, the first to be shed
	// first.
	Shed []ShedWork `json:"shed"`
	// RTTMs is the distance to where work is served, in the mean.
	RTTMs float64 `json:"rttMs"`
	// BillPerHour is what all GPUs cost that are not lost, used or not. MarginalPerHour is what the work costs
	// beyond what is paid anyway: tokens of providers, GPUs on demand and on the spot market as far as they are
	// used.
	BillPerHour     Money `json:"billPerHour"`
	MarginalPerHour Money `json:"marginalPerHour"`
}

// Money is an amount with what is to be known of it.
type Money struct {
	USD float64 `json:"usd"`
	// Estimate: some price behind it is one. Unpriced: some price is not known, and left out.
	Estimate bool `json:"estimate"`
	Unpriced bool `json:"unpriced"`
}

func (m *Money) add(usd float64, estimate, unpriced bool) {
	m.USD += usd
	m.Estimate, m.Unpriced = m.Estimate || estimate, m.Unpriced || unpriced
}

// DemandPicture is where the demand for a model and class from a region goes.
type DemandPicture struct {
	Model    fleet.ModelID  `json:"model"`
	Class    fleet.ClassID  `json:"class"`
	Source   fleet.RegionID `json:"source"`
	WorkPerS float64        `json:"workPerS"`
	// Shares of clusters, those above 0. None: it is stranded.
	Shares []ClusterShare `json:"shares"`
	// RTTMs in the mean. Stranded says why nothing may serve it; empty: something may.
	RTTMs    float64    `json:"rttMs"`
	Stranded string     `json:"stranded,omitempty"`
	Shed     []ShedWork `json:"shed"`
}

// ClusterShare is a cluster's part, 0..1, of a demand.
type ClusterShare struct {
	Cluster fleet.ClusterID `json:"cluster"`
	Share   float64         `json:"share"`
}

// SitePicture is what a cluster has to do.
type SitePicture struct {
	Cluster fleet.ClusterID `json:"cluster"`
	Region  fleet.RegionID  `json:"region"`
	// Lost: nothing can go there, by its health or by supposition.
	Lost     bool    `json:"lost"`
	WorkPerS float64 `json:"workPerS"`
	// CapacityPerS is what it could do of the mix that it has, of its best model while it has nothing to do.
	// Use is work over capacity, and Limit the part that it should work at most.
	CapacityPerS float64 `json:"capacityPerS"`
	Use          float64 `json:"use"`
	Limit        float64 `json:"limit"`
	OverPerS     float64 `json:"overPerS"`
	// CongestionMs is by how much one more request delays itself and others.
	CongestionMs    float64 `json:"congestionMs"`
	BillPerHour     Money   `json:"billPerHour"`
	MarginalPerHour Money   `json:"marginalPerHour"`
}

// lost is the health of what a change takes away.
var lost = failover.Cluster{State: failover.Evacuated, Reason: "supposed to be lost"}

// WhatIf plans with and without a change, and compares. Both plans are the solutions for the demand that is
// smoothed now: without weights in force nothing is held or damped. The change must be one that
// [Change.Check] lets through.
func WhatIf(in Input, c Change) Effect {
	in.Previous, in.Beside, in.Warm, in.Frozen = nil, nil, true, false
	e := Effect{Before: picture(in), After: picture(in.with(c))}
	e.Moves = movesBetween(e.Before, e.After)
	return e
}

// setWhole gives all models of a cluster one health.
func setWhole(health map[failover.Place]failover.Cluster, id fleet.ClusterID, spec *policy.ClusterSpec, c failover.Cluster) {
	for _, m := range spec.Models {
		health[failover.Place{Cluster: id, Model: fleet.ModelID(m)}] = c
	}
}

// with is the input as a change makes it.
func (in Input) with(c Change) Input {
	x := suppositions{Change: c}
	if in.supposed != nil {
		x.ofModel, x.ofClass = in.supposed.ofModel, in.supposed.ofClass
	}
	in.supposed = &x
	if len(c.WithoutRegions)+len(c.WithoutClusters) == 0 {
		return in
	}
	health := maps.Clone(in.Health)
	if health == nil {
		health = map[failover.Place]failover.Cluster{}
	}
	for _, r := range in.Resources.List(policy.KindCluster) {
		spec, ok := r.Spec.(*policy.ClusterSpec)
		if id := fleet.ClusterID(r.Metadata.Name); ok && c.Lost(id, spec) {
			setWhole(health, id, spec, lost)
		}
	}
	in.Health = health
	return in
}

// picture solves the problem of an input.
func picture(in Input) Picture {
	w := survey(in)
	demands := w.demands(in)
	w.solve(demands)
	p := Picture{Demands: []DemandPicture{}, Sites: []SitePicture{}}
	work := map[*site]map[fleet.ModelID]float64{}
	served, distance := 0.0, 0.0
	for _, d := range demands {
		one := w.pictureOf(d)
		p.WorkPerS += d.work
		if one.Stranded != "" {
			p.StrandedPerS += d.work
		} else {
			served += d.work
			distance += d.work * one.RTTMs
		}
		for _, r := range d.routes {
			if r.share > 0 {
				if work[r.site] == nil {
					work[r.site] = map[fleet.ModelID]float64{}
				}
				work[r.site][d.model] += d.work * r.share
			}
		}
		p.Demands = append(p.Demands, one)
	}
	p.Shed = shedInAll(p.Demands)
	if served > 0 {
		p.RTTMs = distance / served
	}
	for _, s := range w.sites {
		one := w.sitePicture(s, work[s], in.Now)
		p.OverPerS += one.OverPerS
		p.BillPerHour.add(one.BillPerHour.USD, one.BillPerHour.Estimate, one.BillPerHour.Unpriced)
		p.MarginalPerHour.add(one.MarginalPerHour.USD, one.MarginalPerHour.Estimate, one.MarginalPerHour.Unpriced)
		p.Sites = append(p.Sites, one)
	}
	return p
}

// shedInAll adds up what is shed of demands.
func shedInAll(demands []DemandPicture) []ShedWork {
	shed, asked := map[int32]float64{}, map[int32]float64{}
	for _, d := range demands {
		for _, s := range d.Shed {
			shed[s.Priority] += s.WorkPerS
			asked[s.Priority] += s.WorkPerS / s.Part
		}
	}
	out := []ShedWork{}
	for _, priority := range slices.Sorted(maps.Keys(shed)) {
		out = append(out, ShedWork{priority, tierName(priority), shed[priority] / asked[priority], shed[priority]})
	}
	return out
}

func (w *world) pictureOf(d *demand) DemandPicture {
	out := DemandPicture{Model: d.model, Class: d.class, Source: d.source, WorkPerS: d.work, Shares: []ClusterShare{}, Shed: []ShedWork{}}
	if !d.usable() {
		out.Stranded = d.stranded()
		return out
	}
	out.Shed = d.shedWork()
	for _, r := range d.routes {
		if r.share > 0 {
			out.Shares = append(out.Shares, ClusterShare{r.site.id, r.share})
			out.RTTMs += r.share * w.rtt(d.source, r.site.region)
		}
	}
	return out
}

// stranded says why nothing may serve a demand.
func (d *demand) stranded() string {
	if len(d.routes) == 0 {
		return "no cluster that can be reached serves the model"
	}
	var dead, ruled bool
	for _, r := range d.routes {
		dead = dead || r.unwell() && !r.excluded
		ruled = ruled || r.excluded
	}
	switch {
	case dead && ruled:
		return "what its pins and residency allow is lost"
	case dead:
		return "all clusters that serve the model are lost"
	case ruled:
		return "its pins and residency allow no cluster that serves the model"
	}
	return "every cluster that serves the model is barred by an operator"
}

// sitePicture is what a site has to do for the work of its models.
func (w *world) sitePicture(s *site, work map[fleet.ModelID]float64, now time.Time) SitePicture {
	out := SitePicture{Cluster: s.id, Region: s.region, Lost: s.whole.Cap() <= 0, Limit: rhoMax}
	best := 0.0
	for _, m := range slices.Sorted(maps.Keys(s.capacity)) {
		best = max(best, s.capacity[m])
		out.WorkPerS += work[m]
		out.Use += work[m] / s.capacity[m]
		price, unpriced := w.marginal(s, m), w.unpriced(s, m)
		if work[m] > 0 {
			m := w.prices(s).Marginal(string(s.region), s.spec.Bought(), 1)
			out.MarginalPerHour.add(0, m.Estimate, m.Unpriced || unpriced)
		}
		out.MarginalPerHour.USD += price.USD() * work[m] * time.Hour.Seconds() / 1e6
	}
	out.CapacityPerS = best
	if out.Use > 0 {
		out.CapacityPerS = out.WorkPerS / out.Use
	}
	out.OverPerS = max(out.Use-rhoMax, 0) * out.CapacityPerS
	out.CongestionMs = s.congestionMs
	if !out.Lost {
		bill := w.prices(s).Bill(string(s.region), s.spec.Bought(), now, now.Add(time.Hour))
		out.BillPerHour = Money{bill.Cost.USD(), bill.Estimate, bill.Unpriced}
	}
	return out
}

// movesBetween are the shares that two pictures of the same demands differ in.
func movesBetween(before, after Picture) []Move {
	moves := []Move{}
	for i, d := range after.Demands {
		if i >= len(before.Demands) {
			break // both have the same demands
		}
		m := Move{Model: d.Model, Class: d.Class, Source: d.Source, WorkPerS: d.WorkPerS}
		if m.Clusters = moved(sharesBy(before.Demands[i]), sharesBy(d)); len(m.Clusters) > 0 {
			moves = append(moves, m)
		}
	}
	return moves
}

func sharesBy(d DemandPicture) map[string]float64 {
	out := map[string]float64{}
	for _, s := range d.Shares {
		out[string(s.Cluster)] = s.Share
	}
	return out
}
