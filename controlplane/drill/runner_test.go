package drill

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/order"
	"anabranch/api/routerpb"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/failover/drill"
	"anabranch/failover/shift"
)

var start = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

// stage is a control plane without replication, and routers that do as leases say: seconds pass one by one.
type stage struct {
	t       *testing.T
	view    *state.View
	now     time.Time
	signals *signal.Store
	runner  *Runner
	regions []string
	// what is played
	noQuorum bool               // proposals are not committed
	silent   map[string]bool    // regions whose routers say nothing
	deaf     bool               // routers do not obey
	failing  map[string]uint64  // failures per second by cluster
	load     map[string]float64 // saturation by cluster
	local    bool               // each region's requests stay there while its cluster lives
	isolated time.Duration
}

func newStage(t *testing.T) *stage {
	s := &stage{
		t: t, view: state.Empty(), now: start, regions: []string{"us", "eu", "ap"}, silent: map[string]bool{},
		failing: map[string]uint64{}, load: map[string]float64{},
	}
	s.signals = signal.New(func() time.Time { return s.now })
	s.do("boot", &statepb.Command{Op: &statepb.Command_Init{Init: &statepb.Init{ClusterId: "c-1"}}})
	s.do("boot", &statepb.Command{Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 6}}})
	s.put("Model", "m", `{}`)
	for _, r := range s.regions {
		s.put("Region", r, `{"peerURLs":["https://`+r+`:1"]}`)
		s.put("Cluster", r+"-a", `{"region":"`+r+`","models":["m"],"endpoints":[{"id":"e","url":"http://`+r+`:1","class":"h100"}]}`)
	}
	s.put("Tenant", "acme", `{"tier":"top"}`)
	s.put("Tenant", "euro", `{"residency":["us"]}`)
	s.renewLeader()
	for range 30 {
		s.report()
		s.now = s.now.Add(time.Second)
	}
	out := plan.Compute(s.input())
	s.do("system/leader", &statepb.Command{Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: out.Table, Reasons: out.Reasons}}})
	return s
}

func (s *stage) input() plan.Input {
	return plan.Input{Resources: s.view, Signals: s.signals.Snapshot(s.now), Previous: s.view.Table(), Now: s.now, Warm: true}
}

// renewLeader begins a new term.
func (s *stage) renewLeader() {
	if s.runner != nil {
		s.runner.Close()
	}
	s.runner = New(Options{
		Propose: func(_ context.Context, c *statepb.Command) *statepb.Outcome {
			if s.noQuorum {
				return nil
			}
			out := s.apply(c)
			if out.GetCode() != "" {
				s.t.Logf("%s refused: %v", s.now.Format("15:04:05"), out)
				return nil
			}
			return out
		},
		Isolate: func(d time.Duration) error { s.isolated = d; return nil },
		Logger:  slog.New(slog.DiscardHandler),
	})
	s.t.Cleanup(s.runner.Close)
}

func (s *stage) apply(c *statepb.Command) *statepb.Outcome {
	c.Format, c.AtUnixMs = state.FormatOf(c), s.now.UnixMilli()
	next, out, err := state.Apply(s.view, s.view.Index()+1, c)
	if err != nil {
		s.t.Fatal(err)
	}
	s.view = next
	return out
}

func (s *stage) do(who string, c *statepb.Command) uint64 {
	s.t.Helper()
	c.Actor = &statepb.Actor{Name: who, Role: "admin"}
	out := s.apply(c)
	if out.GetCode() != "" {
		s.t.Fatalf("%v: %v", c.GetOp(), out)
	}
	return out.GetRevision()
}

func (s *stage) put(kind, name, spec string) {
	s.t.Helper()
	s.do("ann", &statepb.Command{Op: &statepb.Command_Put{Put: &statepb.Put{Kind: kind, Name: name, Doc: []byte(`{"spec":` + spec + `}`), AnyRevision: true}}})
}

// lease is what a node would hand out now; 0 shifted and no sequence: none.
func (s *stage) lease() (sequence uint64, e drill.Effect) {
	d := s.view.ActiveDrill()
	if d == nil {
		return 0, e
	}
	p, ok := planOf(d)
	if !ok {
		s.t.Fatal("the plan can't be read")
	}
	run := state.DrillRun(d)
	if e = drill.EffectOf(p, run); !e.Leased || s.now.Sub(run.Renewed) >= drill.LeaseTTL {
		return 0, drill.Effect{}
	}
	return d.GetSequence(), e
}

// report has a router of each region obey its lease and say so.
func (s *stage) report() {
	sequence, effect := s.lease()
	d := s.view.ActiveDrill()
	for _, region := range s.regions {
		if s.silent[region] {
			continue
		}
		if s.deaf {
			sequence = 0
		}
		r := &routerpb.Report{AtUnixMs: s.now.UnixMilli(), WindowMs: 1000, Requests: 100}
		for _, c := range s.regions {
			id := c + "-a"
			one := &routerpb.ClusterSignal{
				Cluster: id, Model: "m", Scraped: c == region, EndpointsTotal: 1, EndpointsReady: 1, Saturation: max(s.load[id], 0.3), CapacityWork: 10_000,
				Requests: 30, Failures: s.failing[id], LoadWork: 1000,
			}
			if s.local && !one.GetScraped() {
				one.Requests, one.Failures = 0, 0
			}
			r.Clusters = append(r.Clusters, one)
		}
		r.Demand = []*routerpb.DemandSignal{{Model: "m", Class: "interactive", RequestsPerS: 10, WorkPerS: 2000}}
		if d != nil && len(d.GetBaseSha256()) > 0 {
			g := &routerpb.DrillSignal{Id: d.GetId(), Sequence: sequence, Scoped: 100, Streams: 10}
			if sequence != 0 {
				g.ShiftedPpm = uint32(effect.Shifted)
				g.Away = uint64(effect.Shifted / 10_000)
				if effect.Dead && (!s.local || region == "us") {
					g.EjectedUnixMs = uint64(s.now.UnixMilli())
				}
			}
			g.Tiers = []*routerpb.TierSignal{{Tier: "top", Total: 100, Ttft: []uint64{0, 0, 100}}}
			r.Drill = g
		}
		s.signals.Put(signal.Observation{
			Hello: &routerpb.Hello{RouterId: "r-" + region, Region: region}, Report: r, Received: s.now, Connected: true, Node: "n1",
		})
	}
}

// second lets one pass.
func (s *stage) second() {
	s.now = s.now.Add(time.Second)
	s.report()
	s.runner.Step(s.t.Context(), Look{View: s.view, Signals: s.signals.Snapshot(s.now), MicrosPerMinute: 7, Input: DryInput{Plan: s.input()}})
	s.runner.check.running.Wait() // dry runs take no time here
	s.runner.early.running.Wait()
}

// until lets seconds pass until a drill is in a state, and gives how long that took.
func (s *stage) until(id uint64, want drill.State, most time.Duration) time.Duration {
	s.t.Helper()
	began := s.now
	for s.view.Drill(id).GetState() != string(want) {
		if s.now.Sub(began) > most {
			s.t.Fatalf("after %s the drill is %s: %s", most, s.view.Drill(id).GetState(), s.story(id))
		}
		s.second()
	}
	return s.now.Sub(began)
}

func (s *stage) story(id uint64) string {
	var b strings.Builder
	for _, e := range s.view.Drill(id).GetEvents() {
		fmt.Fprintf(&b, "\n%s %s %d %s: %s", time.UnixMilli(e.GetAtUnixMs()).UTC().Format("15:04:05"), e.GetState(), e.GetStep(), e.GetKind(), e.GetText())
	}
	return b.String()
}

// begin makes a drill, has it validated and approved, and starts it.
func (s *stage) begin(spec string) uint64 {
	s.t.Helper()
	id := s.begun(spec)
	if s.view.Drill(id).GetState() == string(drill.Scheduled) {
		s.do("ann", &statepb.Command{Op: &statepb.Command_DecideDrill{DecideDrill: &statepb.DecideDrill{Id: id, Act: state.DrillStart}}})
	}
	return id
}

// begun makes a drill, and has it validated and approved.
func (s *stage) begun(spec string) uint64 {
	s.t.Helper()
	parsed, err := SpecOf([]byte(spec))
	if err != nil {
		s.t.Fatal(err)
	}
	doc, err := json.Marshal(parsed)
	if err != nil {
		s.t.Fatal(err)
	}
	id := s.do("ann", &statepb.Command{Op: &statepb.Command_CreateDrill{CreateDrill: &statepb.CreateDrill{Spec: doc}}})
	found, err := DryRun(s.t.Context(), DryInput{View: s.view, Signals: s.signals.Snapshot(s.now), Plan: s.input()}, parsed)
	if err != nil {
		s.t.Fatal(err)
	}
	s.do("ann", &statepb.Command{Op: &statepb.Command_DecideDrill{DecideDrill: found.Decision(id)}})
	if d := s.view.Drill(id); d.GetState() == string(drill.Pending) {
		s.do("bob", &statepb.Command{Op: &statepb.Command_DecideDrill{DecideDrill: &statepb.DecideDrill{Id: id, Act: state.DrillApprove, PlanSha256: d.GetPlanSha256()}}})
	}
	return id
}

// quick is a soft drill of us that takes about a minute and a half.
const quick = `{"kind":"soft","target":{"region":"us"},"steps":[{"percent":1,"dwellSeconds":5},{"percent":100,"dwellSeconds":5}],
"baselineSeconds":5,"holdSeconds":10,"verifySeconds":5,"failback":{"steps":[50,100],"dwellSeconds":5}}`

func TestASoftDrillRunsThrough(t *testing.T) {
	s := newStage(t)
	id := s.begin(quick)
	s.until(id, drill.Hold, 90*time.Second)
	s.until(id, drill.Done, 90*time.Second)
	d := s.view.Drill(id)
	if d.GetOutcome() != string(drill.Succeeded) || !d.GetRehearsed() {
		t.Fatalf("%s (%s)%s", d.GetOutcome(), d.GetCause(), s.story(id))
	}
	doc, err := drill.Unpack(d.GetReport())
	if err != nil {
		t.Fatal(err)
	}
	r, err := drill.Decode(doc)
	if err != nil || r.ID != id || r.Outcome != drill.Succeeded || r.During.Seconds == 0 || r.Before.Seconds == 0 || len(r.Approvals) != 1 {
		t.Errorf("reported %+v, %v", r, err)
	}
	if r.Forecast == nil || len(r.Survivors) != 2 {
		t.Errorf("survivors %v", r.Survivors)
	}
}

func TestALeaderThatComesLaterPausesIt(t *testing.T) {
	for _, at := range []drill.State{drill.Shifting, drill.Dwell, drill.Hold, drill.Failback} {
		t.Run(string(at), func(t *testing.T) {
			s := newStage(t)
			id := s.begin(quick)
			s.until(id, at, 3*time.Minute)
			s.renewLeader()
			s.until(id, drill.Paused, 3*time.Second)
			if d := s.view.Drill(id); d.GetReason() != "leader change" || d.GetResume() != string(at) {
				t.Errorf("paused as %v", d)
			}
			s.do("ann", &statepb.Command{Op: &statepb.Command_DecideDrill{DecideDrill: &statepb.DecideDrill{Id: id, Act: state.DrillResume}}})
			s.until(id, drill.Done, 3*time.Minute)
			if d := s.view.Drill(id); d.GetOutcome() != string(drill.Succeeded) {
				t.Errorf("%s (%s)%s", d.GetOutcome(), d.GetCause(), s.story(id))
			}
		})
	}
}

func TestAPauseThatNobodyEndsRollsBack(t *testing.T) {
	s := newStage(t)
	id := s.begin(quick)
	s.until(id, drill.Hold, 3*time.Minute)
	s.renewLeader()
	s.until(id, drill.Paused, 3*time.Second)
	if took := s.until(id, drill.RollingBack, 6*time.Minute); took < 5*time.Minute {
		t.Errorf("after %s", took)
	}
	s.until(id, drill.Done, time.Minute)
	if d := s.view.Drill(id); d.GetOutcome() != string(drill.Failed) || d.GetCause() != string(drill.CauseLeader) {
		t.Errorf("%s (%s)", d.GetOutcome(), d.GetCause())
	}
}

// Without quorum nothing is renewed: routers' leases end by themselves, and whoever commits again finds them run out.
func TestWithoutQuorumNothingIsRenewed(t *testing.T) {
	s := newStage(t)
	id := s.begin(quick)
	s.until(id, drill.Hold, 3*time.Minute)
	s.noQuorum = true
	before := s.view.Drill(id)
	for range 40 {
		s.second()
	}
	if d := s.view.Drill(id); d.GetSequence() != before.GetSequence() || d.GetState() != string(drill.Hold) {
		t.Errorf("renewed as %v", d)
	}
	if sequence, _ := s.lease(); sequence != 0 {
		t.Error("there is a lease still")
	}
	s.noQuorum = false
	s.until(id, drill.Done, time.Minute)
	if d := s.view.Drill(id); d.GetOutcome() != string(drill.Failed) || d.GetCause() != string(drill.CauseLease) {
		t.Errorf("%s (%s)%s", d.GetOutcome(), d.GetCause(), s.story(id))
	}
}

func TestWhatEndsADrillBeforeItsTime(t *testing.T) {
	for name, c := range map[string]struct {
		play    func(*stage)
		outcome drill.Outcome
		cause   drill.Cause
		within  time.Duration
	}{
		"survivors fail":       {func(s *stage) { s.failing["eu-a"] = 20 }, drill.Failed, drill.CauseErrors, 20 * time.Second},
		"a survivor is full":   {func(s *stage) { s.load["ap-a"] = 1.2 }, drill.Failed, drill.CauseSaturation, 10 * time.Second},
		"routers fall silent":  {func(s *stage) { s.silent["eu"] = true }, drill.Failed, drill.CauseSight, 30 * time.Second},
		"an operator drains":   {func(s *stage) { s.drain("eu-a") }, drill.Interrupted, drill.CauseOperator, 2 * time.Second},
		"an operator pins":     {func(s *stage) { s.pin("eu-a", 40) }, drill.Interrupted, drill.CauseOperator, 2 * time.Second},
		"something fails over": {func(s *stage) { s.sick("ap-a", "FAILING_OVER") }, drill.Interrupted, drill.CauseIncident, 2 * time.Second},
		"drills are stopped":   {func(s *stage) { s.order(order.StopDrills, "") }, drill.Interrupted, drill.CauseOperator, 2 * time.Second},
		"a region is left":     {func(s *stage) { s.order(order.Evacuate, "region/ap") }, drill.Interrupted, drill.CauseOperator, 2 * time.Second},
		"changes are frozen": {func(s *stage) {
			s.now = s.now.Add(time.Millisecond)
			s.do("ann", &statepb.Command{Op: &statepb.Command_SteerChange{SteerChange: &statepb.SteerChange{Act: state.ActFreeze}}})
		}, drill.Interrupted, drill.CauseOperator, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			id := s.begin(strings.Replace(quick, `"holdSeconds":10`, `"holdSeconds":300`, 1))
			s.until(id, drill.Hold, 3*time.Minute)
			c.play(s)
			if took := s.until(id, drill.RollingBack, time.Minute); took > c.within {
				t.Errorf("after %s, want %s", took, c.within)
			}
			d := s.view.Drill(id)
			if d.GetOutcome() != string(c.outcome) || d.GetCause() != string(c.cause) {
				t.Errorf("%s (%s)%s", d.GetOutcome(), d.GetCause(), s.story(id))
			}
			s.until(id, drill.Done, 2*time.Minute)
		})
	}
}

// order gives an emergency order for five minutes.
func (s *stage) order(kind order.Kind, target string) uint64 {
	s.t.Helper()
	s.now = s.now.Add(time.Millisecond)
	o := order.Order{Kind: kind, Target: target, Actor: "ann", Reason: "test", At: s.now, Expires: s.now.Add(5 * time.Minute)}
	return s.do("ann", &statepb.Command{Op: &statepb.Command_PutOrder{PutOrder: &statepb.PutOrder{Order: o.Proto()}}})
}

func TestNoDrillBeginsWhileAnEmergencyOrderStands(t *testing.T) {
	s := newStage(t)
	s.order(order.Restore, "region/ap") // which takes nothing away
	id := s.begin(quick)
	s.until(id, drill.Precheck, 10*time.Second)
	s.do("ann", &statepb.Command{Op: &statepb.Command_DecideDrill{DecideDrill: &statepb.DecideDrill{Id: id, Act: state.DrillAbort, Why: "over"}}})
	s.until(id, drill.Done, 2*time.Minute)

	// One that is due while the order stands ends without having begun.
	due := s.begin(quick)
	stop := s.order(order.StopDrills, "")
	s.until(due, drill.Done, 10*time.Second)
	if d := s.view.Drill(due); d.GetOutcome() != string(drill.Blocked) || d.GetCause() != string(drill.CauseOperator) || d.GetStartedUnixMs() != 0 ||
		!strings.Contains(d.GetReason(), fmt.Sprintf("emergency order %d: stop-drills by ann, until", stop)) {
		t.Errorf("%s (%s): %s", d.GetOutcome(), d.GetCause(), d.GetReason())
	}

	// Nobody starts one, and is told what stands against it.
	late := s.begun(quick)
	out := s.apply(&statepb.Command{Op: &statepb.Command_DecideDrill{DecideDrill: &statepb.DecideDrill{Id: late, Act: state.DrillStart}}})
	if out.GetCode() != state.CodePrecondition || !strings.Contains(out.GetMessage(), fmt.Sprintf("emergency order %d of ann stops drills until", stop)) {
		t.Errorf("a start under the order: %v", out)
	}
	s.do("bob", &statepb.Command{Op: &statepb.Command_EndOrder{EndOrder: &statepb.EndOrder{Id: strconv.FormatUint(stop, 10)}}})
	s.do("ann", &statepb.Command{Op: &statepb.Command_DecideDrill{DecideDrill: &statepb.DecideDrill{Id: late, Act: state.DrillStart}}})
	s.until(late, drill.Precheck, 10*time.Second)
}

func (s *stage) drain(cluster string) {
	region := strings.TrimSuffix(cluster, "-a")
	s.put("Cluster", cluster, `{"region":"`+region+`","models":["m"],"drained":true,"endpoints":[{"id":"e","url":"http://`+region+`:1","class":"h100"}]}`)
}

func (s *stage) pin(cluster string, percent int) {
	region := strings.TrimSuffix(cluster, "-a")
	s.put("Cluster", cluster, fmt.Sprintf(`{"region":"%s","models":["m"],"pin":{"percent":%d,"until":"2099-01-01T00:00:00Z"},"endpoints":[{"id":"e","url":"http://%s:1","class":"h100"}]}`, region, percent, region))
}

func (s *stage) sick(cluster, is string) {
	s.do("system/leader", &statepb.Command{Op: &statepb.Command_Publish{Publish: &statepb.Publish{Health: []*statepb.ClusterHealth{{Cluster: cluster, State: is}}}}})
}

func TestTheWorstModelStandsForAClusterInDrills(t *testing.T) {
	s := newStage(t)
	health := func(of ...string) {
		var all []*statepb.ClusterHealth
		for i, is := range of {
			all = append(all, &statepb.ClusterHealth{Cluster: "us-a", Model: []string{"", "m", "n"}[i], State: is})
		}
		s.do("system/leader", &statepb.Command{Op: &statepb.Command_Publish{Publish: &statepb.Publish{Health: all}}})
	}
	for _, c := range []struct {
		of   []string
		want string
	}{
		{[]string{"HEALTHY", "HEALTHY", "DEGRADED"}, "DEGRADED"},
		{[]string{"DEGRADED", "EVACUATED", "HEALTHY"}, "EVACUATED"},
		{[]string{"HEALTHY", "HEALTHY", "HEALTHY"}, "HEALTHY"},
	} {
		health(c.of...)
		if got := healthBy(s.view)["us-a"]; got != c.want {
			t.Errorf("of %v: %q, want %s", c.of, got, c.want)
		}
	}
}

func TestAHardDrillIsFoundDeadBeforeItsWaysAreInForce(t *testing.T) {
	s := newStage(t)
	id := s.begin(strings.Replace(quick, `"kind":"soft"`, `"kind":"hard"`, 1))
	s.until(id, drill.Shifting, time.Minute)
	took := s.until(id, drill.Hold, time.Minute)
	if took < agreeFor {
		t.Errorf("decided after %s", took)
	}
	kinds := map[string]int{}
	for _, e := range s.view.Drill(id).GetEvents() {
		kinds[e.GetKind()]++
	}
	if kinds[drill.OfDecision] != 1 || kinds[drill.OfRouter] != 3 {
		t.Errorf("noted %v", kinds)
	}
	s.until(id, drill.Done, 3*time.Minute)
	if d := s.view.Drill(id); d.GetOutcome() != string(drill.Succeeded) {
		t.Errorf("%s (%s)%s", d.GetOutcome(), d.GetCause(), s.story(id))
	}
}

// As fleets do that prefer what is near: routers elsewhere have nothing to find dead, whatever they serve.
func TestARegionThatNobodyElseSendsToIsFoundDeadByItsOwnRouters(t *testing.T) {
	s := newStage(t)
	s.local = true
	id := s.begin(strings.Replace(quick, `"kind":"soft"`, `"kind":"hard"`, 1))
	s.until(id, drill.Shifting, time.Minute)
	if took := s.until(id, drill.Hold, 10*time.Second); took < agreeFor {
		t.Errorf("decided after %s", took)
	}
}

func TestADrillOfTheControlPlaneGoesOnUnderAnotherLeader(t *testing.T) {
	s := newStage(t)
	id := s.begin(`{"kind":"control-plane","baselineSeconds":5,"holdSeconds":5,"verifySeconds":5}`)
	s.until(id, drill.Shifting, time.Minute)
	s.second()
	if s.isolated <= 0 || s.isolated >= drill.LeaseTTL {
		t.Fatalf("isolated for %s", s.isolated)
	}
	s.renewLeader()
	s.until(id, drill.Hold, 3*time.Second)
	s.until(id, drill.Done, 3*time.Minute)
	if d := s.view.Drill(id); d.GetOutcome() != string(drill.Succeeded) {
		t.Errorf("%s (%s)%s", d.GetOutcome(), d.GetCause(), s.story(id))
	}
}

func TestADryRunSaysWhatWouldBe(t *testing.T) {
	s := newStage(t)
	spec, err := SpecOf([]byte(quick))
	if err != nil {
		t.Fatal(err)
	}
	in := DryInput{View: s.view, Signals: s.signals.Snapshot(s.now), Plan: s.input()}
	one, err := DryRun(t.Context(), in, spec)
	if err != nil {
		t.Fatal(err)
	}
	two, _ := DryRun(t.Context(), in, spec)
	a, _ := json.Marshal(one)
	b, _ := json.Marshal(two)
	if string(a) != string(b) {
		t.Errorf("the same input finds\n%s\n%s", a, b)
	}
	if !slices.Equal(one.Resolved.Clusters, []fleet.ClusterID{"us-a"}) || !slices.Equal(one.Resolved.Regions, []fleet.RegionID{"us"}) || len(one.Resolved.Routers) != 3 {
		t.Errorf("resolved %+v", one.Resolved)
	}
	if one.Refused != "" || one.Forecast.Verdict != drill.VerdictPass || len(one.Forecast.Survivors) != 2 {
		t.Errorf("found %+v", one)
	}
	for _, x := range one.Forecast.Survivors {
		if x.With <= x.Before || !x.Measured {
			t.Errorf("survivor %+v", x)
		}
	}
	if len(one.Forecast.Stranded) != 1 || one.Forecast.Stranded[0].Tenant != "euro" {
		t.Errorf("stranded %+v", one.Forecast.Stranded)
	}
}

func TestADryRunThatWouldOverloadSurvivorsRefuses(t *testing.T) {
	s := newStage(t)
	spec, _ := SpecOf([]byte(`{"kind":"soft","target":{"region":"us"}}`))
	in := DryInput{View: s.view, Signals: s.signals.Snapshot(s.now), Plan: s.input()}
	found, err := forecast(t.Context(), in, spec.Plan(), resolve(in, spec, policy.DrillRulesOf(s.view)))
	if err != nil || found.Verdict != drill.VerdictPass {
		t.Fatalf("%+v, %v", found, err)
	}
	e := plan.Rehearsal(in.Plan, plan.Drill{Kind: drill.Soft, Clusters: []fleet.ClusterID{"us-a"}}, 4)
	all := survivors(in, e, drill.Resolved{Clusters: []fleet.ClusterID{"us-a"}}, drill.Soft, 1, shift.Unmeasured.Factor())
	if verdict(all) != drill.VerdictBlock {
		t.Errorf("four times as much is %s: %+v", verdict(all), all)
	}
}

func TestSchedulesMakeDrills(t *testing.T) {
	s := newStage(t)
	s.put("DrillPlan", "weekly", strings.Replace(quick, `"kind":"soft"`, `"kind":"soft","schedule":{"cron":"0 12 * * *"}`, 1))
	for range 15 {
		s.second()
	}
	drills := s.view.Drills()
	if len(drills) != 1 || drills[0].GetSeries() != "weekly" || drills[0].GetState() != string(drill.Pending) {
		t.Fatalf("made %v", drills)
	}
	if at := time.UnixMilli(drills[0].GetStartUnixMs()).UTC(); at != time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) {
		t.Errorf("to begin at %s", at)
	}
	id := drills[0].GetId()
	s.do("bob", &statepb.Command{Op: &statepb.Command_DecideDrill{DecideDrill: &statepb.DecideDrill{
		Id: id, Act: state.DrillApprove, PlanSha256: drills[0].GetPlanSha256(), Series: true,
	}}})
	s.now = time.Date(2026, 11, 30, 11, 59, 30, 0, time.UTC)
	s.until(id, drill.Precheck, time.Minute)
	s.until(id, drill.Done, 5*time.Minute)
	// The next of the series needs nobody.
	s.now = time.Date(2026, 12, 1, 5, 0, 0, 0, time.UTC)
	for range 30 {
		s.second()
	}
	last := s.view.Drills()[len(s.view.Drills())-1]
	if last.GetId() == id || last.GetState() != string(drill.Scheduled) {
		t.Errorf("the next is %v", last)
	}
}

func TestAScheduledDrillThatNobodyApprovesExpires(t *testing.T) {
	s := newStage(t)
	s.put("DrillPlan", "weekly", strings.Replace(quick, `"kind":"soft"`, `"kind":"soft","schedule":{"cron":"0 12 * * *"}`, 1))
	for range 15 {
		s.second()
	}
	id := s.view.Drills()[0].GetId()
	s.now = time.Date(2026, 11, 30, 12, 9, 50, 0, time.UTC)
	s.until(id, drill.Done, time.Minute)
	if d := s.view.Drill(id); d.GetOutcome() != string(drill.Expired) {
		t.Errorf("%s (%s)", d.GetOutcome(), d.GetCause())
	}
}
