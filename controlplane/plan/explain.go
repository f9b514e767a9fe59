package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
)

// Ask says what is to be explained.
type Ask struct {
	Model fleet.ModelID
	// Class and Source narrow it, and Cluster the clusters that are told of; empty: all.
	Class   fleet.ClassID
	Source  fleet.RegionID
	Cluster fleet.ClusterID
	// Effort bounds the search for what would change shares: in it the problem is solved anew so often that this
	// many routes are weighed in all. 0: it is not looked for.
	Effort int
}

// DefaultEffort takes about a second.
const DefaultEffort = 150_000

// Explanation says why the traffic for a model goes where it does.
type Explanation struct {
	Model   fleet.ModelID     `json:"model"`
	Demands []ExplainedDemand `json:"demands"` // by class and source
	// Solved is how many times the problem was solved anew for what would change shares. Cut: more would have
	// been needed, so that some of it is not told.
	Solved int  `json:"solved"`
	Cut    bool `json:"cut"`
}

// ExplainedDemand is the traffic of one class from one region.
type ExplainedDemand struct {
	Class  fleet.ClassID  `json:"class"`
	Source fleet.RegionID `json:"source"`
	// Summary says in a sentence where it goes and why.
	Summary  string  `json:"summary"`
	WorkPerS float64 `json:"workPerS"`
	// Policy that governs it; empty: none, and the defaults hold.
	Policy    string             `json:"policy"`
	Objective ExplainedObjective `json:"objective"`
	// Standing of the move from the shares in force to those that are wanted, and why.
	Standing Standing `json:"standing"`
	Why      string   `json:"why"`
	// SecondsLeft of a move at its present pace; 0: nothing moves.
	SecondsLeft float64 `json:"secondsLeft"`
	// LevelMs is the marginal cost at which the demand is served: no cluster that could take more of it is
	// cheaper, and none that it uses dearer unless a rule says so.
	LevelMs float64 `json:"levelMs"`
	// Shed is what of it is more than may be served, the first to be shed first.
	Shed     []ShedWork       `json:"shed"`
	Clusters []ExplainedRoute `json:"clusters"`
	// Changes are the demand of this region, and the capacity and prices of its own clusters, at which its traffic
	// would begin to go elsewhere, or to stay.
	Changes []Lever `json:"changes"`
}

// ShedWork is work of one priority that is more than may be served.
type ShedWork struct {
	Priority int32 `json:"priority"`
	// Tier whose requests have that priority by default, or the priority in words.
	Tier string `json:"tier"`
	// Part of what is asked for at that priority, 0..1, and how much that is in work units per second.
	Part     float64 `json:"part"`
	WorkPerS float64 `json:"workPerS"`
}

// shedWork is what is shed of a demand.
func (d *demand) shedWork() []ShedWork {
	out := []ShedWork{}
	for _, s := range d.shed {
		for _, t := range d.tiers {
			if t.priority == s.priority && d.work > 0 {
				out = append(out, ShedWork{s.priority, tierName(s.priority), s.part, s.part * t.part * d.work})
			}
		}
	}
	return out
}

// ExplainedObjective is what a policy wants, in words and numbers.
type ExplainedObjective struct {
	// Title is one of latency first; latency, then cost; balanced; cost, then latency; cost first.
	Title          string  `json:"title"`
	CostPreference float64 `json:"costPreference"` // 0..1
	FirstTokenMs   float64 `json:"firstTokenMs"`
	// WorthMs is what the policy pays, in ms of distance, to go to a place that is free rather than to the
	// dearest.
	WorthMs float64 `json:"worthMs"`
}

// Standing says how the shares in force stand to those that are wanted.
type Standing string

// The standings.
const (
	StandingFirst    Standing = "first"     // there are none in force yet
	StandingSettled  Standing = "settled"   // they are what is wanted, or nearly
	StandingMoving   Standing = "moving"    // on the way
	StandingAtOnce   Standing = "at once"   // something else than load has changed, so that they jump
	StandingHeld     Standing = "held"      // they would move, and may not yet
	StandingStranded Standing = "stranded"  // nothing may serve it
	StandingLastGood Standing = "last good" // nothing is healthy: the last good ones stay
)

// ExplainedRoute is a cluster that could serve a demand.
type ExplainedRoute struct {
	Cluster fleet.ClusterID `json:"cluster"`
	Region  fleet.RegionID  `json:"region"`
	// InForce is its share, 0..1, in the table in force, Next in the next one, Wanted in the solution.
	InForce float64 `json:"inForce"`
	Next    float64 `json:"next"`
	Wanted  float64 `json:"wanted"`
	// Reason is the constraint that binds the share.
	Reason string `json:"reason"`
	// Constraints are all that bind it; none: costs alone decide.
	Constraints []Constraint      `json:"constraints"`
	Cost        ExplainedCost     `json:"cost"`
	Price       ExplainedPrice    `json:"price"`
	Capacity    ExplainedCapacity `json:"capacity"`
	Load        ExplainedLoad     `json:"load"`
	// Changes are what would raise or lower its share by a point.
	Changes []Lever `json:"changes"`
}

// Constraint is one rule or circumstance that binds a share.
type Constraint struct {
	Kind ConstraintKind `json:"kind"`
	Text string         `json:"text"`
}

// ConstraintKind sorts constraints.
type ConstraintKind string

// The kinds of constraints.
const (
	ConstraintHealth    ConstraintKind = "health"
	ConstraintDrain     ConstraintKind = "drain"
	ConstraintRamp      ConstraintKind = "ramp"
	ConstraintPin       ConstraintKind = "pin"
	ConstraintResidency ConstraintKind = "residency"
	ConstraintWeight    ConstraintKind = "weight"
	ConstraintMaxShare  ConstraintKind = "maxShare"
	ConstraintMinShare  ConstraintKind = "minShare"
	ConstraintPremium   ConstraintKind = "premium"
	ConstraintSpill     ConstraintKind = "spill"
	ConstraintFull      ConstraintKind = "full"
	ConstraintProbe     ConstraintKind = "probe"
	ConstraintDeadBand  ConstraintKind = "deadBand"
	ConstraintGrowth    ConstraintKind = "growth"
	ConstraintCold      ConstraintKind = "cold"
	ConstraintPrice     ConstraintKind = "pricePace"
	ConstraintHeld      ConstraintKind = "held"
)

// ExplainedCost is the marginal cost of a unit of work, in ms: what one more of them costs.
type ExplainedCost struct {
	// DistanceMs is the RTT; MoneyMs the price as the policy values it; CongestionMs by how much one more
	// delays itself and all others there, with the load that is wanted.
	DistanceMs   float64 `json:"distanceMs"`
	MoneyMs      float64 `json:"moneyMs"`
	CongestionMs float64 `json:"congestionMs"`
	TotalMs      float64 `json:"totalMs"`
	// AboveLevelMs is by how much it is dearer than the level of the demand: without a constraint a cluster
	// above it gets nothing. Below 0 a constraint keeps traffic away.
	AboveLevelMs float64 `json:"aboveLevelMs"`
}

// ErrNoDemand says that there is no such model, class or region.
var ErrNoDemand = errors.New("no such traffic")

// Explain plans as [Compute] does, and says why the shares for a model are what they are. The error wraps
// ErrNoDemand.
func Explain(in Input, ask Ask) (Explanation, error) {
	w := survey(in)
	demands := w.demands(in)
	w.decide(demands, in)
	w.settle(demands, in)
	out := Explanation{Model: ask.Model, Demands: []ExplainedDemand{}}
	asked := slices.DeleteFunc(slices.Clone(demands), func(d *demand) bool {
		return d.model != ask.Model || ask.Class != "" && d.class != ask.Class || ask.Source != "" && d.source != ask.Source
	})
	search := newSearch(in, demands, ask.Effort, len(asked))
	loads := w.loads(demands)
	for _, d := range asked {
		e := w.explain(d, in, loads)
		e.Clusters = slices.DeleteFunc(e.Clusters, func(r ExplainedRoute) bool { return ask.Cluster != "" && r.Cluster != ask.Cluster })
		out.Demands = append(out.Demands, e)
		search.of(d, &out.Demands[len(out.Demands)-1])
	}
	out.Solved, out.Cut = search.solved, search.cut
	if len(out.Demands) == 0 || ask.Cluster != "" && !slices.ContainsFunc(out.Demands, func(d ExplainedDemand) bool { return len(d.Clusters) > 0 }) {
		return out, fmt.Errorf("model %q, class %q, from %q, to %q: %w", ask.Model, ask.Class, ask.Source, ask.Cluster, ErrNoDemand)
	}
	return out, nil
}

// load is what part of its capacity a site uses, with the weights in force and the wanted ones, and the work
// that is in units per second.
type load struct{ use, useInForce, work, workInForce float64 }

// loads are those of all sites.
func (w *world) loads(demands []*demand) map[*site]load {
	out := map[*site]load{}
	for _, d := range demands {
		for _, r := range d.routes {
			l := out[r.site]
			part := d.work / r.site.capacity[d.model]
			l.use += r.share * part
			l.work += r.share * d.work
			l.useInForce += r.before * part
			l.workInForce += r.before * d.work
			out[r.site] = l
		}
	}
	return out
}

func (w *world) explain(d *demand, in Input, loads map[*site]load) ExplainedDemand {
	out := ExplainedDemand{
		Class: d.class, Source: d.source, WorkPerS: d.work, Policy: d.governed, Why: d.why,
		Objective: ExplainedObjective{
			Title: policy.ObjectiveTitle(d.policy.CostPreference), CostPreference: d.policy.CostPreference,
			FirstTokenMs: d.policy.TTFTObjectiveMs, WorthMs: min(max(d.policy.CostPreference, 0), 1) * d.policy.TTFTObjectiveMs,
		},
		Clusters: []ExplainedRoute{}, Changes: []Lever{}, Shed: d.shedWork(), LevelMs: d.levelMs,
	}
	next := map[string]float64{}
	for _, c := range d.out {
		next[c.GetCluster()] = c.GetWeight()
	}
	out.Standing, out.SecondsLeft = d.standing(next)
	for _, r := range d.routes {
		e := w.explainRoute(d, r, in, loads[r.site])
		e.Next = next[string(r.site.id)]
		e.Reason = r.reason(d, e.Next)
		e.Cost.AboveLevelMs = e.Cost.TotalMs - out.LevelMs
		e.Constraints = d.constraints(r, e, out.Standing)
		out.Clusters = append(out.Clusters, e)
	}
	slices.SortStableFunc(out.Clusters, inOrder(d.source))
	out.Summary = summary(d, out)
	return out
}

// inOrder puts home before others, larger shares before smaller ones.
func inOrder(home fleet.RegionID) func(a, b ExplainedRoute) int {
	rank := func(r ExplainedRoute) float64 {
		x := max(r.InForce, r.Next, r.Wanted)
		if r.Region == home {
			x += 2
		}
		return x
	}
	return func(a, b ExplainedRoute) int {
		switch x, y := rank(a), rank(b); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	}
}

// standing compares the shares in force with the next and the wanted ones.
func (d *demand) standing(next map[string]float64) (Standing, float64) {
	far, moved, rise := 0.0, 0.0, 0.0
	for _, r := range d.routes {
		to := next[string(r.site.id)]
		far, moved = max(far, math.Abs(r.share-r.before)), max(moved, math.Abs(to-r.before))
		rise += max(r.share-to, 0)
	}
	switch {
	case len(d.out) == 0:
		return StandingStranded, 0
	case !d.usable():
		return StandingLastGood, 0
	case d.before == nil:
		return StandingFirst, 0
	case d.displaced != "" && moved >= quantum/2:
		return StandingAtOnce, 0
	case far <= deadBand:
		return StandingSettled, 0
	case moved < quantum/2 && strings.HasPrefix(d.why, "held"):
		return StandingHeld, 0
	case d.repriced || d.thrifty:
		return StandingMoving, rise / priceGrowth
	}
	return StandingMoving, rise / growth
}
