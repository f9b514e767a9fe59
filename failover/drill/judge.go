package drill

import (
	"fmt"
	"time"

	"anabranch/api/fleet"
)

// Limit is a value that may not be exceeded for a time.
type Limit struct {
	Over float64       `json:"over"`
	For  time.Duration `json:"for"`
}

// Thresholds say when a drill stops by itself. Their times are never scaled.
type Thresholds struct {
	// ErrorIncrease is by how much the share of failing requests at survivors may exceed the baseline's, ErrorMost what
	// it may not exceed whatever the baseline was.
	ErrorIncrease Limit `json:"errorIncrease"`
	ErrorMost     Limit `json:"errorMost"`
	// TTFT is how many times the baseline's 95th percentile of the top tier may be exceeded, where that is more than
	// the objective.
	TTFT Limit `json:"ttft"`
	// SaturationSoft and SaturationHard are of any survivor.
	SaturationSoft Limit `json:"saturationSoft"`
	SaturationHard Limit `json:"saturationHard"`
	// Quota is the share of protected tenants' requests that quotas refuse.
	Quota Limit `json:"quota"`
	// Streams is how many streams may break within the time, as a share of those that are open.
	Streams Limit `json:"streams"`
	// Silent is the share of the routers of the baseline that may not be heard.
	Silent Limit `json:"silent"`
}

// DefaultThresholds hold when the author of a plan says nothing.
func DefaultThresholds() Thresholds {
	const s = time.Second
	return Thresholds{
		ErrorIncrease: Limit{0.01, 15 * s}, ErrorMost: Limit{0.05, 3 * s}, TTFT: Limit{1.5, 30 * s},
		SaturationSoft: Limit{0.90, 15 * s}, SaturationHard: Limit{1.0, 3 * s},
		Quota: Limit{0.001, 15 * s}, Streams: Limit{0.0005, 10 * s}, Silent: Limit{0.20, 15 * s},
	}
}

// Floors below which a figure says nothing; DESIGN.md tells why.
const (
	// Few is how many requests, or first tokens, a rate or a percentile needs.
	Few = 20
	// FewBad is how many of them must be bad, so that one accident is not a rate.
	FewBad = 3
	// Patience is how far back is looked for that many.
	Patience = 60 * time.Second
)

// Breach is a limit that was exceeded for its time.
type Breach struct {
	Cause Cause `json:"cause"`
	// Signal says what it is, and Where of which cluster or tier; empty: of all.
	Signal string `json:"signal"`
	Where  string `json:"where,omitempty"`
	// Value exceeded Threshold since Since, Unix ms, for at least For.
	Value     float64       `json:"value"`
	Threshold float64       `json:"threshold"`
	Since     int64         `json:"since"`
	For       time.Duration `json:"for"`
}

// String tells of it for people.
func (b Breach) String() string {
	what, scale, unit := b.Signal, 100.0, " %"
	if b.Cause == CauseTTFT {
		scale, unit = 1, " ms"
	}
	if b.Where != "" {
		what += " of " + b.Where
	}
	if b.Signal == signalHealth {
		return what + " is not what traffic may go to"
	}
	return fmt.Sprintf("%s is %.4g%s, over %.4g%s since %s", what, scale*b.Value, unit, scale*b.Threshold, unit, time.UnixMilli(b.Since).UTC().Format("15:04:05"))
}

// The names of the signals.
const (
	signalErrors     = "error rate"
	signalTTFT       = "first token p95"
	signalSaturation = "saturation"
	signalQuota      = "share of protected requests refused by quotas"
	signalStreams    = "share of streams broken"
	signalSilent     = "share of routers silent"
	signalHealth     = "health"
)

// Judgement is what the abort signals say.
type Judgement struct {
	// Breach is the first limit, in the order of [Thresholds], that was exceeded for its time; nil: none.
	Breach *Breach
	// Thin are the signals that could not be judged for want of requests, in the same order.
	Thin []string
}

// Judge looks at the seconds of a drill that has leases, oldest first. Only those since leases were last given count, and
// nothing is judged when the newest is more than 3 s old. Baseline nil is one in which nothing was measured.
func Judge(p Plan, b *Baseline, samples []Sample, objectiveMs float64, now time.Time) Judgement {
	w := leased(samples)
	if len(w) == 0 || now.UnixMilli()-w[len(w)-1].At > gap.Milliseconds() {
		return Judgement{}
	}
	if b == nil {
		b = &Baseline{}
	}
	j := judge{plan: p, base: b, seconds: w}
	t := p.Abort
	j.rate(CauseErrors, signalErrors, Limit{b.Errors + t.ErrorIncrease.Over, t.ErrorIncrease.For}, j.errors)
	j.rate(CauseErrors, signalErrors, t.ErrorMost, j.errors)
	j.ttft(objectiveMs)
	j.saturation(t.SaturationSoft)
	j.saturation(t.SaturationHard)
	j.rate(CauseQuota, signalQuota, t.Quota, refused)
	j.streams()
	j.silent()
	return j.out
}

// gap is how far samples may be apart and still follow each other.
const gap = 3 * time.Second

// leased are the newest samples under a lease that follow each other, as many as any limit looks at.
func leased(samples []Sample) []Sample {
	const most = 600 // seconds: no limit is longer
	first := len(samples)
	for first > 0 && len(samples)-first < most && samples[first-1].State.Leased() {
		first--
	}
	return samples[first:]
}

type judge struct {
	plan    Plan
	base    *Baseline
	seconds []Sample // never empty
	out     Judgement
}

func (j *judge) newest() Sample { return j.seconds[len(j.seconds)-1] }

func (j *judge) breach(b Breach) {
	if j.out.Breach == nil {
		j.out.Breach = &b
	}
}

func (j *judge) thin(signal string) {
	if n := len(j.out.Thin); n == 0 || j.out.Thin[n-1] != signal {
		j.out.Thin = append(j.out.Thin, signal)
	}
}

// counted says whether a cluster's figures count: survivors' always, drilled ones' where traffic is brought to them.
func (j *judge) counted(s Sample, c ClusterSample) bool {
	return !c.Drilled || s.State == Failback || j.plan.Kind == FailbackOnly
}

func (j *judge) errors(s Sample) (bad, all int64) {
	for _, c := range s.Clusters {
		if j.counted(s, c) {
			bad, all = bad+c.Failures, all+c.Requests
		}
	}
	return bad, all
}

func refused(s Sample) (bad, all int64) { return s.ProtectedDenied, s.Protected }

// held says since when something has been so in every second up to the newest, for at least a time. A second of which
// nothing is known (known false) neither helps nor hinders.
func (j *judge) held(d time.Duration, is func(i int) (so, known bool)) (from int64, ok bool) {
	last := len(j.seconds) - 1
	before := j.seconds[last].At
	found := false
	for i := last; i >= 0; i-- {
		at := j.seconds[i].At
		if before-at > gap.Milliseconds() {
			break
		}
		so, known := is(i)
		if known && !so {
			break
		}
		before = at
		if known {
			from, found = at, true
		} else if i == last {
			return 0, false
		}
		if found && j.seconds[last].At-from+time.Second.Milliseconds() >= d.Milliseconds() {
			return from, true
		}
	}
	return 0, false
}

func (j *judge) saturation(l Limit) {
	for at, c := range j.newest().Clusters {
		if !j.counted(j.newest(), c) {
			continue
		}
		from, ok := j.held(l.For, func(i int) (bool, bool) {
			s, found := clusterAt(j.seconds[i].Clusters, c.Cluster, at)
			return found && s.Saturation > l.Over+tiny, found
		})
		if ok {
			j.breach(Breach{Cause: CauseSaturation, Signal: signalSaturation, Where: string(c.Cluster), Value: c.Saturation, Threshold: l.Over, Since: from, For: l.For})
		}
	}
}

// tiny keeps what is exactly at a limit from exceeding it by an error of arithmetic.
const tiny = 1e-9

// clusterAt finds a cluster in a sample, first where it stood in another.
func clusterAt(all []ClusterSample, id fleet.ClusterID, at int) (ClusterSample, bool) {
	if at < len(all) && all[at].Cluster == id {
		return all[at], true
	}
	for _, c := range all {
		if c.Cluster == id {
			return c, true
		}
	}
	return ClusterSample{}, false
}

// streams has no time to last: what broke is gone. The limit's time is how long it is counted.
func (j *judge) streams() {
	l := j.plan.Abort.Streams
	var broken, open, n int64
	from := j.newest().At
	for i := len(j.seconds) - 1; i >= 0 && j.newest().At-j.seconds[i].At < l.For.Milliseconds(); i-- {
		s := j.seconds[i]
		open, n = open+s.Streams, n+1
		for _, t := range s.Tiers {
			if t.Broken > 0 {
				broken, from = broken+t.Broken, s.At
			}
		}
	}
	mean := max(1, float64(open)/float64(n))
	if v := float64(broken) / mean; broken >= FewBad && v > l.Over+tiny {
		j.breach(Breach{Cause: CauseStreams, Signal: signalStreams, Value: min(v, 1), Threshold: l.Over, Since: from, For: l.For})
	}
}

func (j *judge) silent() {
	l := j.plan.Abort.Silent
	of := func(s Sample) float64 { return share(int64(s.Silent), int64(max(j.base.Routers, s.Routers, s.Silent))) }
	if from, ok := j.held(l.For, func(i int) (bool, bool) { return of(j.seconds[i]) > l.Over+tiny, true }); ok {
		j.breach(Breach{Cause: CauseSight, Signal: signalSilent, Value: of(j.newest()), Threshold: l.Over, Since: from, For: l.For})
	}
}
