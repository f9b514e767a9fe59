package policy

import (
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/failover/drill"
)

// DrillPlanSpec says how a failover is rehearsed. A drill is one run of it.
type DrillPlanSpec struct {
	// Kind is plan-only (simulate), shadow (count what would move), soft (shift in steps), hard (treat as dead without
	// warning), control-plane (isolate the leader), quota-store (lose Redis), tier1 (lose a cluster's gateway) or
	// failback-only (bring traffic back to what is drained, and take it away again).
	Kind string `json:"kind"`
	// Target is what the drill takes out. Kinds control-plane and quota-store have none.
	Target DrillTarget `json:"target,omitzero"`
	// Models narrows the drill to requests for these base models. Empty: all that the target serves.
	Models []string `json:"models,omitempty"`
	// Tenants narrows it to requests of these tenants. Empty: all but those that safety rules protect.
	Tenants []string `json:"tenants,omitempty"`
	// Percent of those requests that take part, above 0 and at most 100, default 100.
	Percent float64 `json:"percent,omitempty"`
	// Steps of the shift, for kinds soft and shadow; the first is rolled back once and taken again. Default 1 % for 60 s,
	// 10 % for 60 s, 50 % for 120 s and 100 % for 180 s.
	Steps []DrillStep `json:"steps,omitempty"`
	// BaselineSeconds is how long all is measured before, default 300; HoldSeconds how long all stays shifted, default 600;
	// VerifySeconds how long it is watched after, default 300. Each is from 1 to 14,400.
	BaselineSeconds int `json:"baselineSeconds,omitempty"`
	HoldSeconds     int `json:"holdSeconds,omitempty"`
	VerifySeconds   int `json:"verifySeconds,omitempty"`
	// Failback is the way back.
	Failback DrillFailback `json:"failback,omitzero"`
	// MaxDurationSeconds is when routers take all back whatever happens, from 60 to 14,400, default 3,600.
	MaxDurationSeconds int `json:"maxDurationSeconds,omitempty"`
	// Test marks a plan whose times may be scaled.
	Test bool `json:"test,omitempty"`
	// TimeScale multiplies the times of baseline, steps, hold, failback and verify, and the time between two drills, above
	// 0 and at most 1; only with test. Leases and the times of abort are never scaled. Default 1.
	TimeScale float64 `json:"timeScale,omitempty"`
	// Abort says when the drill stops by itself.
	Abort DrillAbort `json:"abort,omitzero"`
	// Schedule makes drills by itself. Nil: people make them.
	Schedule *DrillSchedule `json:"schedule,omitempty"`
}

// DrillTarget names one region, one cluster, or several clusters of one region.
type DrillTarget struct {
	Region   string   `json:"region,omitempty"`
	Cluster  string   `json:"cluster,omitempty"`
	Clusters []string `json:"clusters,omitempty"`
}

// DrillStep is one step of the shift.
type DrillStep struct {
	// Percent of the requests that are shifted, above 0 and at most 100.
	Percent float64 `json:"percent"`
	// DwellSeconds is how long it stays so, from 1 to 14,400.
	DwellSeconds int `json:"dwellSeconds"`
}

// DrillFailback is the way back.
type DrillFailback struct {
	// Steps are how many per cent of the traffic are back, rising, the last 100; default 10, 25, 50, 100.
	Steps []float64 `json:"steps,omitempty"`
	// DwellSeconds is how long each of them lasts at least, from 1 to 14,400, default 60.
	DwellSeconds int `json:"dwellSeconds,omitempty"`
}

// DrillAbort says when a drill stops by itself. Each limit holds for its own time.
type DrillAbort struct {
	// ErrorIncrease is by how much the share of failing requests of clusters that stay, 0 to 1, may exceed the baseline's;
	// default 0.01 for 15 s.
	ErrorIncrease DrillLimit `json:"errorIncrease,omitzero"`
	// ErrorMost is that share whatever the baseline was; default 0.05 for 3 s.
	ErrorMost DrillLimit `json:"errorMost,omitzero"`
	// TTFTFactor is how many times the baseline's 95th percentile of first tokens of the top tier may be exceeded, where
	// that is more than the objective; default 1.5 for 30 s.
	TTFTFactor DrillLimit `json:"ttftFactor,omitzero"`
	// SaturationSoft and SaturationHard are of any cluster that stays; default 0.9 for 15 s and 1.0 for 3 s.
	SaturationSoft DrillLimit `json:"saturationSoft,omitzero"`
	SaturationHard DrillLimit `json:"saturationHard,omitzero"`
	// QuotaDenied is the share of protected tenants' requests that quotas refuse; default 0.001 for 15 s.
	QuotaDenied DrillLimit `json:"quotaDenied,omitzero"`
	// BrokenStreams is the share of open streams that break within the time; default 0.0005 in 10 s.
	BrokenStreams DrillLimit `json:"brokenStreams,omitzero"`
	// SilentRouters is the share of routers that are not heard; default 0.2 for 15 s.
	SilentRouters DrillLimit `json:"silentRouters,omitzero"`
}

// DrillLimit is a value that may not be exceeded for a time.
type DrillLimit struct {
	// Over is the value; 0: the default.
	Over float64 `json:"over,omitempty"`
	// Seconds is the time, from 1 to 300; 0: the default.
	Seconds int `json:"seconds,omitempty"`
}

// DrillSchedule says when drills begin by themselves. They are made ahead of time, and need approval like others: of
// each drill, or of all that the same plan makes within 90 days.
type DrillSchedule struct {
	// Cron is minute, hour, day of month, month and day of week, as in "0 4 * * Tue".
	Cron string `json:"cron"`
	// TimeZone of the clock that is meant, as in "Europe/Berlin", default UTC. What falls into an hour that clocks skip
	// begins when they are put forward; what falls into one that they show twice begins once.
	TimeZone string `json:"timeZone,omitempty"`
	// Blackouts are times in which none begins.
	Blackouts []DrillBlackout `json:"blackouts,omitempty"`
}

// DrillBlackout is a stretch of time without drills.
type DrillBlackout struct {
	// From and Until bound it: days as in 2026-12-24, Until included, or times as in 2026-12-24T18:00, Until not included.
	From  string `json:"from"`
	Until string `json:"until"`
	// TimeZone of the clock that is meant. Default: that of the schedule, or UTC.
	TimeZone string `json:"timeZone,omitempty"`
	// Reason is told to whoever wants a drill then.
	Reason string `json:"reason,omitempty"`
}

// staged: the drill goes in steps, which its author may give.
func (s *DrillPlanSpec) staged() bool {
	return s.Kind == string(drill.Soft) || s.Kind == string(drill.Shadow)
}

// targeted: the drill is of some clusters.
func (s *DrillPlanSpec) targeted() bool {
	return s.Kind != string(drill.ControlPlane) && s.Kind != string(drill.QuotaStore)
}

func (s *DrillPlanSpec) defaults() {
	fill(&s.Percent, drill.DefaultPercent)
	if len(s.Steps) == 0 && s.staged() {
		for _, d := range drill.DefaultStages() {
			s.Steps = append(s.Steps, DrillStep{d.Percent, seconds(d.Dwell)})
		}
	}
	fill(&s.BaselineSeconds, seconds(drill.DefaultBaseline))
	fill(&s.HoldSeconds, seconds(drill.DefaultHold))
	fill(&s.VerifySeconds, seconds(drill.DefaultVerify))
	if len(s.Failback.Steps) == 0 {
		s.Failback.Steps = drill.DefaultBack()
	}
	fill(&s.Failback.DwellSeconds, seconds(drill.DefaultBackDwell))
	fill(&s.MaxDurationSeconds, seconds(drill.DefaultMostTime))
	fill(&s.TimeScale, DefaultTimeScale)
	usual := drill.DefaultThresholds()
	for _, l := range s.Abort.limits(&usual) {
		fill(&l.own.Over, l.resolved.Over)
		fill(&l.own.Seconds, seconds(l.resolved.For))
	}
	if c := s.Schedule; c != nil {
		fill(&c.TimeZone, DefaultTimeZone)
		for i := range c.Blackouts {
			fill(&c.Blackouts[i].TimeZone, c.TimeZone)
		}
	}
}

func seconds(d time.Duration) int { return int(d / time.Second) }

// abortLimit is a limit beside what drills know it as.
type abortLimit struct {
	field    string
	own      *DrillLimit
	resolved *drill.Limit
	most     float64 // that Over may be
}

// limits pairs all of them.
func (a *DrillAbort) limits(t *drill.Thresholds) []abortLimit {
	return []abortLimit{
		{"errorIncrease", &a.ErrorIncrease, &t.ErrorIncrease, 1},
		{"errorMost", &a.ErrorMost, &t.ErrorMost, 1},
		{"ttftFactor", &a.TTFTFactor, &t.TTFT, 100},
		{"saturationSoft", &a.SaturationSoft, &t.SaturationSoft, 10},
		{"saturationHard", &a.SaturationHard, &t.SaturationHard, 10},
		{"quotaDenied", &a.QuotaDenied, &t.Quota, 1},
		{"brokenStreams", &a.BrokenStreams, &t.Streams, 1},
		{"silentRouters", &a.SilentRouters, &t.Silent, 1},
	}
}

// Plan gives the spec, whose defaults are filled in, as it is carried out.
func (s *DrillPlanSpec) Plan() drill.Plan {
	of := func(n int) time.Duration { return time.Duration(n) * time.Second }
	p := drill.Plan{
		Kind: drill.Kind(s.Kind), Percent: s.Percent, Back: slices.Clone(s.Failback.Steps), BackDwell: of(s.Failback.DwellSeconds),
		Baseline: of(s.BaselineSeconds), Hold: of(s.HoldSeconds), Verify: of(s.VerifySeconds), MostTime: of(s.MaxDurationSeconds),
		Test: s.Test, Scale: s.TimeScale,
	}
	for _, m := range s.Models {
		p.Models = append(p.Models, fleet.ModelID(m))
	}
	for _, t := range s.Tenants {
		p.Tenants = append(p.Tenants, fleet.TenantID(t))
	}
	for _, step := range s.Steps {
		p.Stages = append(p.Stages, drill.Stage{Percent: step.Percent, Dwell: of(step.DwellSeconds)})
	}
	for _, l := range s.Abort.limits(&p.Abort) {
		*l.resolved = drill.Limit{Over: l.own.Over, For: of(l.own.Seconds)}
	}
	return p.Resolve()
}

// Calendar gives when drills begin by themselves; an error says what of it can't be read. Nil: never.
func (s *DrillPlanSpec) Calendar() (*drill.Schedule, error) {
	if s.Schedule == nil {
		return nil, nil
	}
	place, err := time.LoadLocation(s.Schedule.TimeZone)
	if err != nil {
		return nil, err
	}
	var out []drill.Blackout
	for _, b := range s.Schedule.Blackouts {
		one, err := b.times()
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	c, err := drill.NewSchedule(s.Schedule.Cron, place, out)
	if err != nil {
		return nil, err
	}
	return &c, nil
}
