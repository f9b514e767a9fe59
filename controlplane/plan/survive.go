package plan

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/failover"
	"anabranch/failover/shift"
)

// Survival is what would become of the demand of now if parts of the fleet were lost: the N+1 matrix.
type Survival struct {
	At time.Time `json:"at"`
	// Model that it is narrowed to; empty: all.
	Model fleet.ModelID `json:"model,omitempty"`
	// Silent regions have no fresh report, so that what their clients ask for is not known, or old.
	Silent []fleet.RegionID `json:"silent"`
	// Rows: without a loss, without each region, without each cluster, then without each two regions.
	Rows []SurvivalRow `json:"rows"`
	// Untried is how many losses were left out for [SurvivalOptions.Most].
	Untried int `json:"untried"`
}

// SurvivalRow is one loss. All work is in work units per second.
type SurvivalRow struct {
	Lost    Loss    `json:"lost"`
	Verdict Verdict `json:"verdict"`
	Why     string  `json:"why"`
	// Clusters that are left, by name.
	Clusters []Headroom `json:"clusters"`
	// MovedPerS is served elsewhere than without the loss, ColdPerS what comes on top since caches there don't
	// know it, and ExtraRTTMs how much further it has to go, in the mean.
	MovedPerS  float64 `json:"movedPerS"`
	ColdPerS   float64 `json:"coldPerS"`
	ExtraRTTMs float64 `json:"extraRTTMs"`
	// Shed is beyond what the survivors can do within the objectives, by priority, the lowest first.
	Shed []Tier `json:"shed"`
	// Stranded may go nowhere that is left.
	Stranded []Stranded `json:"stranded"`
	// Tenants whose residency leaves them no place for some models.
	Tenants []StrandedTenant `json:"tenants"`
	// SpendPerHour is what GPUs cost that are left, used or not, with those that are lost and paid all the
	// same, and what providers ask for the work.
	SpendPerHour Money `json:"spendPerHour"`
}

// Loss is what is taken away; nothing: the fleet is as it is.
type Loss struct {
	Regions  []fleet.RegionID  `json:"regions,omitempty"`
	Clusters []fleet.ClusterID `json:"clusters,omitempty"`
}

// String names what is lost: "us-east-1", or "nothing".
func (l Loss) String() string {
	var names []string
	for _, r := range l.Regions {
		names = append(names, string(r))
	}
	for _, c := range l.Clusters {
		names = append(names, string(c))
	}
	return cmp.Or(strings.Join(names, " + "), "nothing")
}

// takes says whether a site is lost, as a what-if has it.
func (l Loss) takes(s *site) bool {
	return Change{WithoutRegions: l.Regions, WithoutClusters: l.Clusters}.Lost(s.id, s.spec)
}

// Verdict sums a row up.
type Verdict string

// The verdicts: all is served within its objectives; batch traffic is shed, or batch tenants have no place; more
// than that.
const (
	Survives Verdict = "survives"
	Degrades Verdict = "degraded"
	Fails    Verdict = "fails"
)

// Headroom is what a cluster that is left could do beyond what it gets.
type Headroom struct {
	Cluster fleet.ClusterID `json:"cluster"`
	Region  fleet.RegionID  `json:"region"`
	// WorkPerS is what it gets, ColdPerS the part of it that there is since caches are cold.
	WorkPerS float64 `json:"workPerS"`
	ColdPerS float64 `json:"coldPerS"`
	// CapacityPerS is all that it could do, and CanPerS what it can while the first token comes within
	// ObjectiveMs, the strictest objective of its work, in the mean. Measured: capacities are; else some are
	// believed.
	CapacityPerS float64       `json:"capacityPerS"`
	CanPerS      float64       `json:"canPerS"`
	ObjectiveMs  float64       `json:"objectiveMs"`
	Class        fleet.ClassID `json:"class"`
	Measured     bool          `json:"measured"`
	// HeadroomPerS is CanPerS less WorkPerS, below 0 where it gets more than it can do; Headroom the same as
	// a part of CanPerS.
	HeadroomPerS float64 `json:"headroomPerS"`
	Headroom     float64 `json:"headroom"`
}

// Tier is work of one priority.
type Tier struct {
	// Priority; that of the standard tier for work of which it is not told.
	Priority int     `json:"priority"`
	PerS     float64 `json:"workPerS"`
}

// Stranded is a model in a class that may go nowhere for clients of some regions.
type Stranded struct {
	Model   fleet.ModelID    `json:"model"`
	Class   fleet.ClassID    `json:"class"`
	Sources []fleet.RegionID `json:"sources"`
	PerS    float64          `json:"workPerS"`
	Why     string           `json:"why"`
}

// StrandedTenant has no place left for some models.
type StrandedTenant struct {
	Tenant fleet.TenantID  `json:"tenant"`
	Models []fleet.ModelID `json:"models"`
	// Batch: its tier is, so that it is the first to be shed anyway.
	Batch bool `json:"batch"`
}

// SurvivalOptions say what losses are looked at.
type SurvivalOptions struct {
	// Model narrows the matrix to the clusters that serve a model and what is asked for there. Empty: all.
	Model fleet.ModelID
	// Cold gives what is measured of a model's prefix caches. Nil, or false: [shift.Unmeasured] holds.
	Cold func(fleet.ModelID) (shift.Cold, bool)
	// Pairs: losses of two regions at once too.
	Pairs bool
	// Most bounds the losses to those of so many regions, by what is done there now, and leaves out those of clusters
	// and pairs: of a large fleet each costs a good part of a second. 0: no bound.
	Most int
}

// mostPlanned bounds a matrix: routes times losses. At two to three million routes a second that is some
// seconds.
const mostPlanned = 10_000_000

// ErrTooMuch says that a matrix would take too long.
var ErrTooMuch = errors.New("too many routes and losses to look at all of them")

// tooMuch says that so many losses can't be tried.
func tooMuch(demands []*demand, losses int) error {
	routes := 0
	for _, d := range demands {
		routes += len(d.routes)
	}
	if routes*losses > mostPlanned {
		return fmt.Errorf("%w: %d routes, %d losses", ErrTooMuch, routes, losses)
	}
	return nil
}

// Survive tries each loss. It plans for the demand that is smoothed now, twice for each: with what is left, and
// again with what moves counted as much more as cold caches make of it. Clients of a region that is lost go on
// asking from where they are. The weights in force play no part.
func Survive(in Input, o SurvivalOptions) (Survival, error) {
	in.Previous, in.Beside, in.Warm, in.Frozen = nil, nil, true, false
	out := Survival{At: in.Now, Model: o.Model, Silent: in.silent(), Rows: []SurvivalRow{}}
	m := &matrix{in: in, o: o, sites: survey(in).sites}
	w := survey(in)
	losses, demands := lossesOf(w, o), w.demands(in)
	if o.Model != "" {
		demands = related(demands, o.Model)
	}
	if o.Most > 0 {
		losses = slices.DeleteFunc(losses, func(l Loss) bool { return len(l.Regions) != 1 && len(l.Clusters)+len(l.Regions) > 0 })
		out.Untried = max(0, len(losses)-1-o.Most)
	}
	if err := tooMuch(demands, len(losses)-out.Untried); err != nil {
		return out, err
	}
	_, demands = m.solved(Loss{}, nil)
	m.before = sharesOfAll(demands)
	if out.Untried > 0 {
		losses = busiest(losses, demands, o.Most)
	}
	for _, loss := range losses {
		out.Rows = append(out.Rows, m.row(loss))
	}
	return out, nil
}

// busiest keeps of losses of a region each those of most work, in their order, and that of nothing.
func busiest(losses []Loss, demands []*demand, most int) []Loss {
	work := map[fleet.RegionID]float64{}
	for _, d := range demands {
		for _, r := range d.routes {
			work[r.site.region] += d.work * r.share
		}
	}
	var regions []fleet.RegionID
	for _, l := range losses {
		regions = append(regions, l.Regions...)
	}
	slices.SortStableFunc(regions, func(a, b fleet.RegionID) int { return cmp.Compare(work[b], work[a]) })
	regions = regions[:most]
	return slices.DeleteFunc(losses, func(l Loss) bool { return len(l.Regions) == 1 && !slices.Contains(regions, l.Regions[0]) })
}

// silent lists the regions of which nothing fresh is known.
func (in Input) silent() []fleet.RegionID {
	out := []fleet.RegionID{}
	for _, r := range in.Resources.List(policy.KindRegion) {
		id := fleet.RegionID(r.Metadata.Name)
		if in.Signals.Region(id).Freshness != signal.Fresh {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// lossesOf lists what is tried: nothing, what has clusters that matter, and two regions of those.
func lossesOf(w *world, o SurvivalOptions) []Loss {
	regions := map[fleet.RegionID]bool{}
	var clusters []Loss
	for _, s := range w.sites {
		if _, serves := s.capacity[o.Model]; o.Model != "" && !serves {
			continue
		}
		clusters = append(clusters, Loss{Clusters: []fleet.ClusterID{s.id}})
		if (Loss{Regions: []fleet.RegionID{s.region}}).takes(s) {
			regions[s.region] = true
		}
	}
	out, sorted := []Loss{{}}, slices.Sorted(maps.Keys(regions))
	for _, r := range sorted {
		out = append(out, Loss{Regions: []fleet.RegionID{r}})
	}
	out = append(out, clusters...)
	for i, a := range sorted {
		for _, b := range sorted[i+1:] {
			if o.Pairs {
				out = append(out, Loss{Regions: []fleet.RegionID{a, b}})
			}
		}
	}
	return out
}

// without is the input as a loss leaves it.
func (in Input) without(l Loss, sites []*site) Input {
	health := maps.Clone(in.Health)
	if health == nil {
		health = map[failover.Place]failover.Cluster{}
	}
	for _, s := range sites {
		if l.takes(s) {
			setWhole(health, s.id, s.spec, failover.Cluster{State: failover.Evacuated, Reason: "lost"})
		}
	}
	in.Health = health
	return in
}
