package drill

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"time"

	"anabranch/api/fleet"
)

// Plan is what a drill is to do, with all defaults filled in and, in one that is marked test, the time scale
// applied. It is the same as long as the drill lives.
type Plan struct {
	Kind Kind `json:"kind"`
	// Models and Tenants narrow the scope; empty: all. Percent of the requests within it, above 0, at most 100.
	Models  []fleet.ModelID  `json:"models,omitempty"`
	Tenants []fleet.TenantID `json:"tenants,omitempty"`
	Percent float64          `json:"percent"`
	// Stages of the shift, rising; at least one. Those of kinds without stages are one of 100 %.
	Stages []Stage `json:"stages"`
	// Back is how many per cent of the traffic are back in each stage of the way back, rising, the last 100.
	Back []float64 `json:"back"`
	// BackDwell is how long each of them lasts at least.
	BackDwell time.Duration `json:"backDwell"`
	// Baseline is measured that long; Hold is how long all stays shifted, Verify how long it is watched after.
	Baseline time.Duration `json:"baseline"`
	Hold     time.Duration `json:"hold"`
	Verify   time.Duration `json:"verify"`
	// MostTime is how long leases are renewed at most, from the first on. It is never scaled.
	MostTime time.Duration `json:"mostTime"`
	// Test marks a plan whose times are scaled by Scale, 0 < Scale <= 1. Scale is 1 for all others.
	Test  bool    `json:"test,omitempty"`
	Scale float64 `json:"scale"`
	// Abort says when it stops by itself.
	Abort Thresholds `json:"abort"`
}

// Stage is one stage of a shift.
type Stage struct {
	// Percent of the scope's requests, above 0, at most 100, and Dwell how long it stays so.
	Percent float64       `json:"percent"`
	Dwell   time.Duration `json:"dwell"`
}

// Defaults of a plan. Those of the stages are [DefaultStages] and [DefaultBack].
const (
	DefaultPercent   = 100.0
	DefaultBaseline  = 5 * time.Minute
	DefaultHold      = 10 * time.Minute
	DefaultVerify    = 5 * time.Minute
	DefaultBackDwell = 60 * time.Second
	DefaultMostTime  = 60 * time.Minute
	MaxTime          = 4 * time.Hour
)

// DefaultStages are those of a shift when its author says nothing.
func DefaultStages() []Stage {
	return []Stage{{1, 60 * time.Second}, {10, 60 * time.Second}, {50, 120 * time.Second}, {100, 180 * time.Second}}
}

// DefaultBack are the stages of the way back when its author says nothing.
func DefaultBack() []float64 { return []float64{10, 25, 50, 100} }

// Resolve gives the plan as it is carried out: with the stages that its kind has, and scaled if it is a test.
// It is to be called once, on times as they were written.
func (p Plan) Resolve() Plan {
	if !p.Test || p.Scale <= 0 || p.Scale > 1 {
		p.Scale = 1
	}
	p.Stages, p.Back = slices.Clone(p.Stages), slices.Clone(p.Back)
	if !p.Staged() {
		p.Stages = []Stage{{Percent: 100}}
	}
	switch p.Kind {
	case ControlPlane, QuotaStore, PlanOnly, Shadow:
		p.Back = []float64{100} // nothing comes back by degrees, as nothing went
	default:
	}
	for i := range p.Stages {
		p.Stages[i].Dwell = p.scaled(p.Stages[i].Dwell)
	}
	for _, d := range []*time.Duration{&p.Baseline, &p.Hold, &p.Verify, &p.BackDwell} {
		*d = p.scaled(*d)
	}
	return p
}

func (p Plan) scaled(d time.Duration) time.Duration { return time.Duration(float64(d) * p.Scale) }

// Staged says whether the shift has stages, the first of which is rehearsed: tried, rolled back and tried again.
func (p Plan) Staged() bool { return p.Kind == Soft || p.Kind == Shadow }

// Moves says whether a drill of this kind can touch requests. Those that can't need no approval of others, and
// do not count as a drill that ran lately.
func (k Kind) Moves() bool { return k != PlanOnly && k != Shadow }

// Removes says whether a drill of this kind takes clusters out.
func (k Kind) Removes() bool { return k == Soft || k == Hard || k == Tier1 }

// Length is how long a drill of this plan takes from its start to its last lease, if all goes well: what has to fit
// into a window. The few seconds that routers need to follow are counted as five a stage.
func (p Plan) Length() time.Duration {
	const follow = 5 * time.Second
	sum := p.Baseline
	if p.Kind != FailbackOnly {
		sum += p.Hold
		for _, s := range p.Stages {
			sum += s.Dwell + follow
		}
		if p.Staged() {
			sum += RehearseFor + follow
		}
	}
	return sum + time.Duration(len(p.Back))*(p.BackDwell+follow)
}

// LeasedLength is the part of [Plan.Length] in which routers hold leases, which MostTime has to cover.
func (p Plan) LeasedLength() time.Duration { return p.Length() - p.Baseline }

// Hash names what is approved: what the plan says, which clusters, regions and models it came to mean, and the
// verdict of the dry run with the tenants that it strands. Figures of the dry run, routers, and tenants that the plan
// does not name are left out: they differ from one minute to the next and change nothing of what was agreed to. Spec
// is canonical JSON, so that the same plan has the same hash wherever it is made.
func Hash(spec []byte, r Resolved, f Forecast) []byte {
	type stranded struct {
		Tenant fleet.TenantID `json:"tenant"`
		Model  fleet.ModelID  `json:"model"`
	}
	essence := struct {
		Spec     json.RawMessage   `json:"spec"`
		Clusters []fleet.ClusterID `json:"clusters"`
		Regions  []fleet.RegionID  `json:"regions"`
		Models   []fleet.ModelID   `json:"models"`
		Verdict  string            `json:"verdict"`
		Stranded []stranded        `json:"stranded"`
	}{
		Spec: spec, Verdict: f.Verdict,
		Clusters: slices.Sorted(slices.Values(r.Clusters)),
		Regions:  slices.Sorted(slices.Values(r.Regions)),
		Models:   slices.Sorted(slices.Values(r.Models)),
	}
	for _, s := range f.Stranded {
		essence.Stranded = append(essence.Stranded, stranded{s.Tenant, s.Model})
	}
	slices.SortFunc(essence.Stranded, func(a, b stranded) int {
		return slices.Compare([]string{string(a.Tenant), string(a.Model)}, []string{string(b.Tenant), string(b.Model)})
	})
	raw, err := json.Marshal(essence)
	if err != nil { // spec is no JSON: it still has a name of its own
		raw = append([]byte("not JSON: "), spec...)
	}
	sum := sha256.Sum256(raw)
	return sum[:]
}
