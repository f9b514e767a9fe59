package drill

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
)

// A scenario is a timeline of one drill. Time passes in seconds; what stands at a time holds before that second's step, and
// what is expected holds after it. Of three clusters us-a is drilled; a hundred routers follow within a second.
//
//	plan KIND [baseline=10s hold=20s verify=10s stages=1/5s,100/5s back=50,100 dwell=5s most=60m scale=0.1 percent=50]
//	rules [approvals=2 regions=2 capacity=0.4 interval=24h window=22:00-04:00 blackout=yes protected=acme forbidden=us+eu]
//	5s  NAME validates | approves | starts | breaks the glass | pauses | resumes | aborts     (or: … refused "part of why")
//	5s  begins at 8h | series until 20h
//	5s  requests 1000 | errors 3% | ttft 900ms | saturation 0.95 | denied 0.2% | broken 2 | silent 30
//	5s  lag 5 | stuck 5 [for good]       routers that do not follow; that do not revert before their lease runs out, or ever
//	5s  incident "what" | order "what" | none
//	5s  leader changes | no leader for 12s
//	5s  decided | forecast BLOCK | forecast none | what would be done differs
//	5s  us-a is DEGRADED | us-a is off | rollout 7 | another drill | budget 10% | ended 3h ago
//	5s  expect STATE[(STEP)] [SHIFTED%] [OUTCOME] [CAUSE] ["part of the reason"]
type scenario struct {
	t       *testing.T
	line    int
	in      Inputs
	run     Run
	start   time.Time
	now     time.Time
	changed time.Time // the last transition, when routers are told
	leaders time.Time // until when there is none
	seen    []string  // states, in order

	requests, broken, silent, lag, stuck int64
	forGood                              bool
	errors, denied, saturation           float64
	ttft                                 float64
}

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 8 {
		t.Fatalf("found %d scenarios (%v)", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for part := range strings.SplitSeq("\n"+string(text), "\n=== ") {
			name, body, _ := strings.Cut(part, "\n")
			if strings.TrimSpace(body) == "" {
				continue
			}
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+"/"+name, func(t *testing.T) { play(t, body) })
		}
	}
}

type words struct {
	line int
	at   time.Duration
	w    []string
}

func play(t *testing.T, text string) {
	t.Helper()
	start := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	s := &scenario{t: t, start: start, now: start, changed: start, requests: 1000, errors: 0.001, saturation: 0.6, ttft: 200}
	s.in = Inputs{
		Rules: DefaultRules(), ObjectiveMs: 300, Forecast: &Forecast{Verdict: VerdictPass}, PlanSHA256: []byte("agreed"),
		World: World{Clusters: []Place{
			{Cluster: "us-a", Region: "us", Capacity: 100, On: true, Health: "HEALTHY", Drilled: true, Gateway: true},
			{Cluster: "eu-a", Region: "eu", Capacity: 100, On: true, Health: "HEALTHY"},
			{Cluster: "ap-a", Region: "ap", Capacity: 100, On: true, Health: "HEALTHY"},
		}},
	}
	s.run = Run{State: Draft, Created: start, Entered: start, Creator: "ann"}
	var lines []words
	for i, raw := range strings.Split(text, "\n") {
		raw, _, _ = strings.Cut(raw, "#")
		w := split(raw)
		if len(w) == 0 {
			continue
		}
		s.line = i + 1
		switch w[0] {
		case "plan":
			s.plan(w[1:])
			continue
		case "rules":
			s.rules(w[1:])
			continue
		}
		lines = append(lines, words{i + 1, s.duration(w[0]), w[1:]})
	}
	slices.SortStableFunc(lines, func(a, b words) int { return int(a.at - b.at) })
	expected := 0
	for at := time.Duration(0); len(lines) > 0; at += time.Second {
		s.now = start.Add(at)
		var expect []words
		for len(lines) > 0 && lines[0].at <= at {
			s.line = lines[0].line
			if lines[0].w[0] == "expect" {
				expect = append(expect, lines[0])
			} else {
				s.say(lines[0].w)
			}
			lines = lines[1:]
		}
		s.tick()
		for _, l := range expect {
			s.line = l.line
			s.expect(l.w[1:])
			expected++
		}
	}
	if expected == 0 {
		t.Fatal("the scenario expects nothing")
	}
}

func split(s string) []string {
	var out []string
	for i, part := range strings.Split(s, `"`) {
		if i%2 == 1 {
			out = append(out, `"`+part)
			continue
		}
		out = append(out, strings.Fields(part)...)
	}
	return out
}

func (s *scenario) fatal(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("line %d: %s", s.line, fmt.Sprintf(format, args...))
}

func (s *scenario) duration(w string) time.Duration {
	d, err := time.ParseDuration(w)
	if err != nil {
		s.fatal("%v", err)
	}
	return d
}

func (s *scenario) number(w string) float64 {
	v, err := strconv.ParseFloat(strings.TrimSuffix(w, "%"), 64)
	if err != nil {
		s.fatal("%v", err)
	}
	if strings.HasSuffix(w, "%") {
		return v / 100
	}
	return v
}

func (s *scenario) plan(w []string) {
	const sec = time.Second
	p := Plan{
		Kind: Kind(w[0]), Percent: 100, Stages: []Stage{{1, 5 * sec}, {100, 5 * sec}}, Back: []float64{50, 100}, BackDwell: 5 * sec,
		Baseline: 10 * sec, Hold: 20 * sec, Verify: 10 * sec, MostTime: time.Hour, Scale: 1, Abort: DefaultThresholds(),
	}
	for _, option := range w[1:] {
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "baseline":
			p.Baseline = s.duration(value)
		case "hold":
			p.Hold = s.duration(value)
		case "verify":
			p.Verify = s.duration(value)
		case "dwell":
			p.BackDwell = s.duration(value)
		case "most":
			p.MostTime = s.duration(value)
		case "percent":
			p.Percent = s.number(value)
		case "scale":
			p.Test, p.Scale = true, s.number(value)
		case "tenants":
			p.Tenants = []fleet.TenantID{fleet.TenantID(value)}
		case "back":
			p.Back = nil
			for v := range strings.SplitSeq(value, ",") {
				p.Back = append(p.Back, s.number(v))
			}
		case "stages":
			p.Stages = nil
			for v := range strings.SplitSeq(value, ",") {
				percent, dwell, _ := strings.Cut(v, "/")
				p.Stages = append(p.Stages, Stage{s.number(percent), s.duration(dwell)})
			}
		default:
			s.fatal("unknown option %q", option)
		}
	}
	s.in.Plan = p.Resolve()
}

func (s *scenario) rules(w []string) {
	r := &s.in.Rules
	for _, option := range w {
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "approvals":
			r.Approvals = int(s.number(value))
		case "regions":
			r.MinRegions = int(s.number(value))
		case "capacity":
			r.MaxCapacityRemoved = s.number(value)
		case "interval":
			r.Interval = s.duration(value)
		case "protected":
			r.Protected = []fleet.TenantID{fleet.TenantID(value)}
		case "forbidden":
			a, b, _ := strings.Cut(value, "+")
			r.Forbidden = [][2]fleet.RegionID{{fleet.RegionID(a), fleet.RegionID(b)}}
		case "blackout":
			r.Blackouts = []Blackout{{s.start, s.start.Add(time.Hour), "sales"}}
		case "window":
			from, until, _ := strings.Cut(value, "-")
			clock := func(w string) int {
				t, err := time.Parse("15:04", w)
				if err != nil {
					s.fatal("%v", err)
				}
				return t.Hour()*60 + t.Minute()
			}
			r.Windows = [][]Window{{{From: clock(from), Until: clock(until)}}}
		default:
			s.fatal("unknown option %q", option)
		}
	}
}

var acts = map[string]Act{
	"validates": ActValidate, "approves": ActApprove, "starts": ActStart, "breaks": ActStart, "pauses": ActPause, "resumes": ActResume, "aborts": ActAbort,
}

func (s *scenario) say(w []string) {
	if len(w) > 1 && acts[w[1]] != "" {
		s.decide(w)
		return
	}
	text := func() string { return strings.TrimPrefix(w[len(w)-1], `"`) }
	switch w[0] {
	case "begins":
		s.run.Start = s.start.Add(s.duration(w[2]))
	case "series":
		s.in.SeriesUntil = s.start.Add(s.duration(w[2]))
	case "requests":
		s.requests = int64(s.number(w[1]))
	case "errors":
		s.errors = s.number(w[1])
	case "ttft":
		s.ttft = float64(s.duration(w[1]).Milliseconds())
	case "saturation":
		s.saturation = s.number(w[1])
	case "denied":
		s.denied = s.number(w[1])
	case "broken":
		s.broken = int64(s.number(w[1]))
	case "silent":
		s.silent = int64(s.number(w[1]))
	case "lag":
		s.lag = int64(s.number(w[1]))
	case "stuck":
		s.stuck, s.forGood = int64(s.number(w[1])), len(w) > 2
	case "incident":
		s.in.Incident = text()
	case "order":
		s.in.Order = text()
	case "none":
		s.in.Incident, s.in.Order = "", ""
	case "leader":
		s.in.LeaderChanged = true
	case "no":
		s.leaders = s.now.Add(s.duration(w[3]))
		s.in.LeaderChanged = true
	case "decided":
		s.in.Decided = true
	case "forecast":
		s.in.Forecast = &Forecast{Verdict: w[1], Survivors: []Survivor{{Cluster: "eu-a", With: 0.97}}}
		if w[1] == "none" {
			s.in.Forecast = nil
		}
	case "what":
		s.in.PlanSHA256 = []byte("differs")
	case "rollout":
		s.in.World.Rollout = w[1]
	case "another":
		s.in.World.Active = "drill 7"
	case "budget":
		left := s.number(w[1])
		s.in.World.ErrorBudget = &left
	case "ended":
		s.in.World.LastMoved = s.now.Add(-s.duration(w[1]))
	default:
		s.place(w)
	}
}

func (s *scenario) place(w []string) {
	i := slices.IndexFunc(s.in.World.Clusters, func(p Place) bool { return string(p.Cluster) == w[0] })
	if i < 0 || len(w) != 3 || w[1] != "is" {
		s.fatal("unknown statement %q", w)
	}
	switch p := &s.in.World.Clusters[i]; w[2] {
	case "off":
		p.On, p.Health = false, "DRAINED"
	default:
		p.Health = w[2]
	}
}

func (s *scenario) decide(w []string) {
	d := Decision{Act: acts[w[1]], Who: w[0], PlanSHA256: []byte("agreed")}
	if w[1] == "breaks" {
		d.BreakGlass = "region burns"
	}
	rest := w[2:]
	before := s.run
	run, what, err := Decide(s.run, s.in.Plan.Kind, s.in.Rules, d, s.now)
	if i := slices.Index(rest, "refused"); i >= 0 {
		want := strings.TrimPrefix(rest[len(rest)-1], `"`)
		if err == nil || !strings.Contains(err.Error(), want) {
			s.fatal("want a refusal with %q, got %v", want, err)
		}
		return
	}
	if err != nil {
		s.fatal("%v", err)
	}
	s.run = run
	s.moved(before, what)
}

// moved checks a change, whoever made it.
func (s *scenario) moved(before Run, what []Happening) {
	if before.State == s.run.State && before.Step == s.run.Step && before.Rehearsed == s.run.Rehearsed {
		return
	}
	if !Legal(before.State, s.run.State) {
		s.t.Errorf("line %d: %s to %s", s.line, before.State, s.run.State)
	}
	if len(what) == 0 || s.run.Reason == "" || !s.run.Entered.Equal(s.now) {
		s.t.Errorf("line %d: %s to %s is not told: %+v", s.line, before.State, s.run.State, s.run)
	}
	s.changed = s.now
	s.seen = append(s.seen, string(s.run.State))
}

func (s *scenario) tick() {
	if s.now.Before(s.leaders) {
		return
	}
	s.in.Samples = append(s.in.Samples, s.sample())
	before := s.run
	run, what := Step(s.run, s.in, s.now)
	s.run = run
	s.moved(before, what)
	if s.now.Sub(s.run.Renewed) >= RenewEvery && s.run.State.Leased() {
		s.run.Renewed = s.now
	}
	s.in.LeaderChanged = false
	e := EffectOf(s.in.Plan, s.run)
	if e.Leased && (!s.run.State.Leased() || s.now.After(s.run.NotAfter)) || !e.Leased && e.Shifted > 0 {
		s.t.Errorf("line %d: %+v in %+v", s.line, e, s.run)
	}
}

// sample is the second as it looks: a hundred routers, ten thousand streams, a third of the requests at each cluster.
func (s *scenario) sample() Sample {
	const routers = 100
	told := s.now.After(s.changed)
	e := EffectOf(s.in.Plan, s.run)
	out := Sample{
		At: s.now.UnixMilli(), State: s.run.State, Step: s.run.Step, Shifted: e.Shifted, Routers: routers, Silent: int(s.silent), Streams: 10_000,
		Protected: s.requests, ProtectedDenied: int64(s.denied * float64(s.requests)),
	}
	switch {
	case e.Leased && told:
		out.Obeying, out.Holding = routers-int(s.lag), routers
	case e.Leased || !told:
		out.Holding = routers
	case s.run.Moved() && (s.forGood || s.now.Sub(s.run.Renewed) < LeaseTTL):
		out.Holding = int(s.stuck)
	}
	ttft := make([]int64, Buckets)
	ttft[Bucket(s.ttft)] = s.requests
	out.Tiers = []TierSample{{Tier: "top", Total: s.requests, Broken: s.broken, TTFT: ttft}}
	for _, p := range s.in.World.Clusters {
		out.Clusters = append(out.Clusters, ClusterSample{
			Cluster: p.Cluster, Drilled: p.Drilled, Saturation: s.saturation, Requests: s.requests, Failures: int64(s.errors * float64(s.requests)), Health: p.Health,
		})
	}
	return out
}

func (s *scenario) expect(w []string) {
	state, step, _ := strings.Cut(w[0], "(")
	if string(s.run.State) != state || step != "" && strconv.Itoa(s.run.Step) != strings.TrimSuffix(step, ")") {
		s.t.Errorf("line %d: at %s want %s, is %s(%d) %s %s: %s; came by %s", s.line, s.now.Sub(s.start), w[0], s.run.State, s.run.Step, s.run.Outcome, s.run.Cause, s.run.Reason, strings.Join(s.seen, " "))
		return
	}
	for _, x := range w[1:] {
		text, quoted := strings.CutPrefix(x, `"`)
		share := EffectOf(s.in.Plan, s.run).Shifted
		switch {
		case quoted && !strings.Contains(s.run.Reason, text):
			s.t.Errorf("line %d: want %q in %q", s.line, text, s.run.Reason)
		case quoted:
		case strings.HasSuffix(x, "%"):
			if want := int(s.number(x)*Whole + 0.5); share != want {
				s.t.Errorf("line %d: want %s shifted, are %d ppm", s.line, x, share)
			}
		case x != string(s.run.Outcome) && x != string(s.run.Cause):
			s.t.Errorf("line %d: want %s, is %q of %q", s.line, x, s.run.Outcome, s.run.Cause)
		}
	}
}
