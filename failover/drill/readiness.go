package drill

import (
	"time"

	"anabranch/api/fleet"
)

// Readiness says whether a region may be drilled now, and if not why.
type Readiness struct {
	Region fleet.RegionID `json:"region"`
	// Clusters that a drill of the region would be about.
	Clusters []fleet.ClusterID `json:"clusters"`
	// Ready: nothing is against it. Blocks are all that is.
	Ready  bool    `json:"ready"`
	Blocks []Block `json:"blocks"`
	// Opens is when times alone (windows, blackouts, and how long ago the last drill was) would let it begin; zero: not
	// within [OpensWithin].
	Opens time.Time `json:"opens,omitzero"`
	// Forecast of the dry run. First tokens are not simulated in it.
	Forecast Forecast `json:"forecast"`
	// Last is the last drill of it that may have moved traffic; nil: none is remembered.
	Last *LastRun `json:"last,omitempty"`
}

// LastRun is how a drill of a region ended.
type LastRun struct {
	// ID of the drill, as text.
	ID      string    `json:"id"`
	Kind    Kind      `json:"kind"`
	Outcome Outcome   `json:"outcome"`
	Cause   Cause     `json:"cause,omitempty"`
	EndedAt time.Time `json:"endedAt"`
}

// OpensWithin is how far ahead an opening is looked for: windows are times of the week.
const OpensWithin = 8 * 24 * time.Hour

// ReadinessOf judges a region by what is against a drill of it now: rules, the state of the fleet, times, and the verdict
// of the dry run. Region, Clusters, Opens and Last are the caller's.
func ReadinessOf(r Rules, w World, p Plan, f Forecast, now time.Time) Readiness {
	out := Readiness{Blocks: append([]Block{}, Check(r, w, p, now)...), Forecast: f}
	if f.Verdict == VerdictBlock && p.Kind != PlanOnly && p.Kind != Shadow {
		out.Blocks = append(out.Blocks, Block{CauseCapacity, f.Worst()})
	}
	out.Ready = len(out.Blocks) == 0
	return out
}

// Opens is when times alone let a drill of a plan begin: windows, blackouts, and how long ago the last one ended. Zero:
// not within [OpensWithin].
func (r Rules) Opens(p Plan, lastMoved, now time.Time) time.Time {
	from := now
	if p.Kind.Moves() && !lastMoved.IsZero() {
		from = later(now, lastMoved.Add(p.scaled(r.Interval)))
	}
	at, _ := r.Opening(p, from, OpensWithin)
	return at
}
