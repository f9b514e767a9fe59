package plan

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"anabranch/api/fleet"
	"anabranch/controlplane/plan/flow"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
)

const (
	// shedMs is what it costs in ms not to serve a request of priority 0. It is ten times that for each shedRise
	// of priority more, between priorities of leastPriority and mostPriority. Within a tier it rises by the
	// shedSpread part while all is shed, so that demands alike lose like parts.
	shedMs        = 25_000
	shedRise      = 60
	shedSpread    = 0.2
	leastPriority = -30
	mostPriority  = 120
)

// shed is what of a demand is not served.
type shed struct {
	priority int32
	// part of what is asked for at that priority, 0..1.
	part float64
}

// tier is a part of a demand of one priority.
type tier struct {
	priority int32
	part     float64 // of the demand
}

// leastTier is the part of a demand that a priority must have to be planned with by itself. Less counts as of
// the next one above it that has, or of the highest.
const leastTier = 1e-3

// standard is the only tier of a demand of which nothing is told.
var standard = []tier{{policy.TierPriority(policy.DefaultTier), 1}}

// divide finds the tiers of a demand, the first to be shed first, of what is asked for by the names of its model.
func (d *demand) divide(names []string, s signal.Snapshot) {
	if d.tiers = standard; d.work <= 0 {
		return
	}
	work := map[int32]float64{}
	for _, name := range names {
		told, not := s.Tiers(fleet.ModelID(name), d.class, d.source)
		work[policy.TierPriority(policy.DefaultTier)] += not
		for _, t := range told {
			work[policy.CountsAs(t.Priority)] += t.WorkPerS
		}
	}
	d.tiers = tiersOf(work)
}

// tiersOf are the parts of work by priority.
func tiersOf(work map[int32]float64) []tier {
	priorities, sum := slices.Sorted(maps.Keys(work)), 0.0
	for _, p := range priorities {
		sum += work[p]
	}
	if sum <= 0 {
		return standard
	}
	var out []tier
	small := 0.0
	for _, p := range priorities {
		if small += work[p] / sum; small >= leastTier {
			out, small = append(out, tier{p, small}), 0
		}
	}
	out[len(out)-1].part += small
	return out
}

// step is what it costs not to serve a tier of a demand that is so many times as much work while caches are cold: as much
// more than else, or what comes cold would be shed where there is room, and before what is less urgent.
func (t tier) step(cold float64) flow.Step {
	ms := cold * shedMs * math.Pow(10, float64(min(max(t.priority, leastPriority), mostPriority))/shedRise)
	return flow.Step{CostMs: ms, TiltMs: shedSpread * ms, Part: t.part}
}

// overflow tells what is shed, or "".
func (d *demand) overflow() string {
	if d.work <= 0 || len(d.shed) == 0 {
		return ""
	}
	var parts []string
	for _, s := range d.shed {
		parts = append(parts, fmt.Sprintf("%.0f %% of %s", math.Ceil(100*s.part), tierName(s.priority)))
	}
	return "more is asked for than may be served: " + strings.Join(parts, ", ") + " is to be shed"
}

// tierName is the tier whose requests have a priority by default, or says the priority.
func tierName(priority int32) string {
	for _, name := range policy.Tiers() {
		if policy.TierPriority(name) == priority {
			return name
		}
	}
	return fmt.Sprintf("priority %d", priority)
}
