package drill

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"anabranch/api/fleet"
)

// Rules are what all safety rules together allow of drills. The zero value allows everything but what no rule can
// allow: a drill while a region is not healthy, a rollout is in flight or another drill is under way. It asks for no
// approval; [DefaultRules] does.
type Rules struct {
	// MinRegions is how many regions must stay on, that is, have a healthy cluster that takes traffic.
	MinRegions int
	// MaxCapacityRemoved is the share of all capacity, 0..1, that a drill may take out; 0: any.
	MaxCapacityRemoved float64
	// Forbidden pairs of regions may not be out at once, one of them drilled.
	Forbidden [][2]fleet.RegionID
	// Protected tenants are in no drill: a plan may not name them, and one that names no tenants leaves them out. What
	// quotas refuse them is an abort signal.
	Protected []fleet.TenantID
	// Windows are lists of times; in each list one must be open from a drill's start to its last lease.
	Windows [][]Window
	// Blackouts may not be touched.
	Blackouts []Blackout
	// MinErrorBudget is the share of the error budget, 0..1, that must be left: of failures that the answers of the last seven
	// days may have had, see [World.ErrorBudget]. 0: any.
	MinErrorBudget float64
	// Interval is how long after the last drill that moved traffic the next may begin.
	Interval time.Duration
	// Approvals is how many people other than the creator have to approve, ApprovalTime how long that holds; 0: 8 h.
	Approvals    int
	ApprovalTime time.Duration
}

// Defaults of rules, where a rule, or all of them, say nothing.
const (
	DefaultMinRegions         = 1
	DefaultMaxCapacityRemoved = 0.5
	DefaultMinErrorBudget     = 0.25
	DefaultInterval           = 24 * time.Hour
	DefaultApprovals          = 1
	DefaultApprovalTime       = 8 * time.Hour
	// SeriesTime is how long the drills of a schedule are approved together, at most.
	SeriesTime = 90 * 24 * time.Hour
)

// DefaultRules hold where there is no safety rule that speaks of drills.
func DefaultRules() Rules {
	return Rules{
		MinRegions: DefaultMinRegions, MaxCapacityRemoved: DefaultMaxCapacityRemoved, MinErrorBudget: DefaultMinErrorBudget,
		Interval: DefaultInterval, Approvals: DefaultApprovals, ApprovalTime: DefaultApprovalTime,
	}
}

// ApprovalFor is how long an approval holds, and a draft waits for it.
func (r Rules) ApprovalFor() time.Duration {
	if r.ApprovalTime <= 0 {
		return DefaultApprovalTime
	}
	return r.ApprovalTime
}

// ApprovalsFor is how many people have to approve a drill of a kind.
func (r Rules) ApprovalsFor(k Kind) int {
	if k == PlanOnly {
		return 0
	}
	return r.Approvals
}

// Scope gives the tenants that a plan is for: those that it names, or all but protected ones. Nil: all, as none is
// protected.
func (r Rules) Scope(named, all []fleet.TenantID) []fleet.TenantID {
	if len(named) > 0 || len(r.Protected) == 0 {
		return slices.Clone(named)
	}
	out := []fleet.TenantID{}
	for _, t := range all {
		if !slices.Contains(r.Protected, t) {
			out = append(out, t)
		}
	}
	return out
}

// World is what rules are judged by.
type World struct {
	// Clusters of the fleet.
	Clusters []Place
	// Rollout names a rollout in flight, Active another drill that is under way; empty: there is none.
	Rollout string
	Active  string
	// Order words the emergency order that no drill begins under; empty: there is none.
	Order string
	// ErrorBudget is the share that is left, 0..1, of the failures, one in a hundred, that the answers of the last seven days may
	// have had; nil: nobody knows, as there were too few.
	ErrorBudget *float64
	// LastMoved is when the last drill that may have moved traffic ended; zero: there was none.
	LastMoved time.Time
}

// Place is a cluster as rules see it.
type Place struct {
	Cluster fleet.ClusterID
	Region  fleet.RegionID
	// Capacity is work per second, measured or else configured.
	Capacity float64
	// Gateway: it is behind a tier-1 gateway.
	Gateway bool
	// On: it takes traffic. Health is failover's state of it.
	On     bool
	Health string
	// Drilled: the drill takes it out or, of kind failback-only, brings traffic to it.
	Drilled bool
}

// Block is a reason not to begin.
type Block struct {
	Cause Cause  `json:"cause"` // one of those of BLOCKED, or of the capacity check
	Text  string `json:"text"`
}

// Check gives every reason not to begin a drill now; none: it may begin. Dry runs alone may always.
func Check(r Rules, w World, p Plan, now time.Time) []Block {
	if p.Kind == PlanOnly {
		return nil
	}
	c := checker{rules: r, world: w, plan: p, now: now}
	c.busy()
	c.alerts()
	c.times()
	c.regions()
	c.targets()
	return c.out
}

type checker struct {
	rules Rules
	world World
	plan  Plan
	now   time.Time
	out   []Block
}

func (c *checker) block(cause Cause, format string, args ...any) {
	c.out = append(c.out, Block{cause, fmt.Sprintf(format, args...)})
}

// busy: what else is going on, or has been lately.
func (c *checker) busy() {
	if c.world.Active != "" {
		c.block(CauseDrill, "%s is under way, and at most one drill is", c.world.Active)
	}
	if c.world.Order != "" {
		c.block(CauseOperator, "%s", c.world.Order)
	}
	if c.world.Rollout != "" {
		c.block(CauseRollout, "rollout %s is in flight", c.world.Rollout)
	}
	wait := c.plan.scaled(c.rules.Interval)
	if next := c.world.LastMoved.Add(wait); c.plan.Kind.Moves() && !c.world.LastMoved.IsZero() && c.now.Before(next) {
		c.block(CauseDrill, "a drill ended at %s, and the next may begin %s later, at %s", utc(c.world.LastMoved), wait, utc(next))
	}
}

// alerts: whatever is not as it should be.
func (c *checker) alerts() {
	var sick []string
	for _, p := range c.world.Clusters {
		if !fit(p.Health, c.plan.Kind) && (p.Health != "DRAINED" || p.On) {
			sick = append(sick, fmt.Sprintf("%s is %s", p.Cluster, p.Health))
		}
	}
	if len(sick) > 0 {
		c.block(CauseAlert, "not all regions are healthy: %s", strings.Join(sick[:min(len(sick), 5)], ", "))
	}
	if b := c.world.ErrorBudget; b != nil && !(*b >= c.rules.MinErrorBudget) {
		c.block(CauseAlert, "%.0f %% of the error budget is left, and %.0f %% must be", 100**b, 100*c.rules.MinErrorBudget)
	}
}

func (c *checker) times() { c.out = append(c.out, c.rules.InTime(c.plan, c.now)...) }

// InTime gives the windows and blackouts that do not let a drill of a plan begin at a time; none: they do.
func (r Rules) InTime(p Plan, start time.Time) []Block {
	var out []Block
	end := start.Add(p.Length())
	for _, list := range r.Windows {
		if len(list) > 0 && !open(list, start, end) {
			out = append(out, Block{CauseWindow, fmt.Sprintf("the windows for drills do not hold from %s until it would be over, at %s; they are %s", utc(start), utc(end), describe(list))})
		}
	}
	for _, b := range r.Blackouts {
		if b.Touches(start, end) {
			out = append(out, Block{CauseWindow, strings.TrimSuffix(fmt.Sprintf("blackout from %s until %s: %s", utc(b.From), utc(b.Until), b.Reason), ": ")})
		}
	}
	return out
}

// regions: how much may be out at once.
func (c *checker) regions() {
	if !c.plan.Kind.Removes() {
		return
	}
	var (
		all, removed float64
		on           = map[fleet.RegionID]bool{}
		out          = map[fleet.RegionID]bool{}
		drilled      = map[fleet.RegionID]bool{}
	)
	for _, p := range c.world.Clusters {
		if !p.On {
			out[p.Region] = true
			continue
		}
		all += p.Capacity
		if p.Drilled {
			removed += p.Capacity
			out[p.Region], drilled[p.Region] = true, true
		} else {
			on[p.Region] = true
		}
	}
	if len(on) < c.rules.MinRegions {
		c.block(CauseRule, "%d regions would stay on, and %d must", len(on), c.rules.MinRegions)
	}
	if most := c.rules.MaxCapacityRemoved; most > 0 && all > 0 && removed > (most+tiny)*all {
		c.block(CauseRule, "it takes out %.0f %% of the capacity, at most %.0f %% may be", 100*removed/all, 100*most)
	}
	for _, pair := range c.rules.Forbidden {
		a, b := pair[0], pair[1]
		if (drilled[a] || drilled[b]) && out[a] && out[b] {
			c.block(CauseRule, "%s and %s may not be out at once", a, b)
		}
	}
}

// targets: whether there is what the kind needs, and nobody in it who may not be.
func (c *checker) targets() {
	for _, t := range c.plan.Tenants {
		if slices.Contains(c.rules.Protected, t) {
			c.block(CauseRule, "tenant %s is protected from drills", t)
		}
	}
	p := c.plan.Kind
	if p == ControlPlane || p == QuotaStore {
		return
	}
	drilled := 0
	for _, place := range c.world.Clusters {
		switch {
		case !place.Drilled:
			continue
		case p == FailbackOnly && place.On:
			c.block(CauseRule, "%s takes traffic: drain it first, or it can't be brought back", place.Cluster)
		case p != FailbackOnly && !place.On:
			c.block(CauseRule, "%s takes no traffic already", place.Cluster)
		case p == Tier1 && !place.Gateway:
			c.block(CauseRule, "%s has no tier-1 gateway", place.Cluster)
		}
		drilled++
	}
	if drilled == 0 {
		c.block(CauseRule, "what it is for does not exist (any more)")
	}
}

func utc(t time.Time) string { return t.UTC().Format(time.RFC3339) }
