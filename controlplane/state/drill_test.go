package state

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/controlplane/state/statepb"
	"anabranch/failover/drill"
)

// said has somebody say something, at a second.
func said(name string, second int64, op any) *statepb.Command {
	c := command(op)
	c.Actor, c.AtUnixMs, c.Format = &statepb.Actor{Name: name}, second*1000, 6
	return c
}

// drilling is a cluster at level 6 with a draft of a drill, made by ann at second 10.
func drilling(t *testing.T) (*history, uint64) {
	h := start(t)
	h.do(raise(6))
	out := h.do(said("ann", 10, &statepb.CreateDrill{Spec: []byte(`{"kind":"soft"}`)}))
	if out.GetCode() != "" {
		t.Fatal(out)
	}
	return h, out.GetRevision()
}

func dryRun(id uint64) *statepb.DecideDrill {
	return &statepb.DecideDrill{Id: id, Act: DrillValidate, Resolved: []byte(`{"clusters":["a"]}`), Forecast: []byte(`{"verdict":"PASS"}`)}
}

// approved has bob approve a drill that is validated.
func (h *history) approved(id uint64, second int64) {
	h.t.Helper()
	h.done(said("ann", second, dryRun(id)))
	h.done(said("bob", second, &statepb.DecideDrill{Id: id, Act: DrillApprove, PlanSha256: h.Drill(id).GetPlanSha256()}))
}

// steer moves a drill on as the leader does, from what it is now.
func (h *history) steer(id uint64, second int64, to drill.State, change func(*statepb.SteerDrill)) *statepb.Outcome {
	h.t.Helper()
	d := h.Drill(id)
	s := &statepb.SteerDrill{Id: id, IfRevision: d.GetRevision(), State: string(to), Step: d.GetStep(), Rehearsed: d.GetRehearsed()}
	if change != nil {
		change(s)
	}
	return h.do(said("system/leader", second, s))
}

// begun has cat start a drill that is approved, and the leader begin it.
func (h *history) begun(id uint64, second int64) {
	h.t.Helper()
	h.done(said("cat", second, &statepb.DecideDrill{Id: id, Act: DrillStart}))
	h.through(id, second, drill.Precheck)
}

// through takes a drill that is started along states, one a second.
func (h *history) through(id uint64, second int64, states ...drill.State) {
	h.t.Helper()
	for i, to := range states {
		if out := h.steer(id, second+int64(i), to, nil); out.GetCode() != "" {
			h.t.Fatalf("to %s: %v", to, out)
		}
	}
}

// ended ends a drill from any state, with a report.
func (h *history) ended(id uint64, second int64, report string) {
	h.t.Helper()
	sum := sha256.Sum256([]byte(report))
	h.through(id, second, drill.RollingBack, drill.Verify)
	out := h.steer(id, second, drill.Done, func(s *statepb.SteerDrill) {
		s.Outcome, s.Cause, s.Report, s.ReportSha256 = string(drill.Interrupted), "incident", []byte(report), sum[:]
	})
	if out.GetCode() != "" {
		h.t.Fatal(out)
	}
}

func TestADrillGoesItsWay(t *testing.T) {
	h, id := drilling(t)
	if d := h.Drill(id); d.GetState() != "DRAFT" || d.GetCreator().GetName() != "ann" || d.GetCreatedUnixMs() != 10_000 || d.GetStateUnixMs() != 10_000 {
		t.Errorf("made as %v", d)
	}
	h.approved(id, 20)
	if d := h.Drill(id); d.GetState() != "SCHEDULED" || d.GetApprovedUntilUnixMs() != 20_000+8*3600*1000 || d.GetNeeded() != 1 || h.ActiveDrill() != nil {
		t.Errorf("approved as %v", d)
	}
	h.begun(id, 30)
	if d := h.ActiveDrill(); d.GetId() != id || d.GetState() != "PRECHECK" || d.GetStartedUnixMs() != 30_000 || d.GetBroken() != nil || d.GetSequence() == 0 {
		t.Errorf("started as %v", d)
	}
	base := bytes.Repeat([]byte{7}, 32)
	if out := h.steer(id, 31, drill.Measuring, func(s *statepb.SteerDrill) { s.BaseSha256, s.NotAfterUnixMs = base, 99_000 }); out.GetCode() != "" {
		t.Fatal(out)
	}
	before, changed := h.Drill(id).GetSequence(), h.Drill(id).GetRevision()
	entries := h.AuditKept()
	for second := range int64(3) {
		h.done(said("system/leader", 40+second, &statepb.RenewDrill{Id: id, IfRevision: changed, Samples: []byte{byte(second)}}))
	}
	if d := h.Drill(id); d.GetSequence() != before+3 || d.GetRenewedUnixMs() != 42_000 || !bytes.Equal(d.GetSamples(), []byte{0, 1, 2}) || d.GetRevision() != changed || h.AuditKept() != entries {
		t.Errorf("renewed as %v, %d entries more", d, h.AuditKept()-entries)
	}
	if out := h.steer(id, 50, drill.Shifting, func(s *statepb.SteerDrill) { s.Baseline = []byte(`{}`) }); out.GetCode() != "" {
		t.Fatal(out)
	}
	h.through(id, 51, drill.Dwell, drill.Shifting, drill.Dwell, drill.Hold, drill.Failback, drill.Verify)
	if d := h.Drill(id); !bytes.Equal(d.GetBaseSha256(), base) || d.GetNotAfterUnixMs() != 99_000 || string(d.GetBaseline()) != "{}" {
		t.Errorf("documents are lost on the way: %v", d)
	}
	sum := sha256.Sum256([]byte("r"))
	if out := h.steer(id, 60, drill.Done, func(s *statepb.SteerDrill) {
		s.Outcome, s.Report, s.ReportSha256 = string(drill.Succeeded), []byte("zip"), sum[:]
	}); out.GetCode() != "" {
		t.Fatal(out)
	}
	d := h.Drill(id)
	if d.GetState() != "DONE" || d.GetOutcome() != "SUCCEEDED" || d.GetEndedUnixMs() != 60_000 || d.GetSamples() != nil || string(d.GetReport()) != "zip" || d.GetPreviousSha256() != nil {
		t.Errorf("ended as %v", d)
	}
	if h.ActiveDrill() != nil || !bytes.Equal(h.LastReport(), sum[:]) {
		t.Error("it is still under way, or its report is not the last")
	}
	var states []string
	for _, e := range d.GetEvents() {
		states = append(states, e.GetState())
	}
	if got, want := strings.Join(states, " "), "DRAFT VALIDATED PENDING_APPROVAL SCHEDULED SCHEDULED PRECHECK BASELINE SHIFTING DWELL SHIFTING DWELL HOLD FAILBACK VERIFY DONE"; got != want {
		t.Errorf("events of\n%s, want\n%s", got, want)
	}
}

func TestWhatMayNotBeSaidToADrillIsRefused(t *testing.T) {
	sum := func(h *history, id uint64) []byte { return h.Drill(id).GetPlanSha256() }
	start := func(id uint64) *statepb.DecideDrill { return &statepb.DecideDrill{Id: id, Act: DrillStart} }
	act := func(id uint64, act string) *statepb.DecideDrill { return &statepb.DecideDrill{Id: id, Act: act} }
	for name, c := range map[string]struct {
		before      func(h *history, id uint64)
		cmd         func(h *history, id uint64) *statepb.Command
		code, field string
	}{
		"no such drill": {cmd: func(_ *history, id uint64) *statepb.Command { return said("ann", 20, act(id+9, DrillAbort)) }, code: CodeNotFound, field: "id"},
		"no such act":   {cmd: func(_ *history, id uint64) *statepb.Command { return said("ann", 20, act(id, "hurry")) }, code: CodeInvalid, field: "act"},
		"start of a draft": {
			cmd: func(_ *history, id uint64) *statepb.Command { return said("ann", 20, start(id)) }, code: CodePrecondition, field: "state",
		},
		"break the glass for a draft": {
			cmd: func(_ *history, id uint64) *statepb.Command {
				return said("ann", 20, &statepb.DecideDrill{Id: id, Act: DrillStart, BreakGlass: "fire"})
			}, code: CodePrecondition, field: "state",
		},
		"start without approval": {
			before: func(h *history, id uint64) { h.done(said("ann", 20, dryRun(id))) },
			cmd:    func(_ *history, id uint64) *statepb.Command { return said("ann", 21, start(id)) }, code: CodePrecondition, field: "state",
		},
		"a second dry run": {
			before: func(h *history, id uint64) { h.done(said("ann", 20, dryRun(id))) },
			cmd:    func(_ *history, id uint64) *statepb.Command { return said("ann", 21, dryRun(id)) }, code: CodePrecondition, field: "state",
		},
		"the same person twice": {
			before: func(h *history, id uint64) { h.approved(id, 20) },
			cmd: func(h *history, id uint64) *statepb.Command {
				return said("bob", 21, &statepb.DecideDrill{Id: id, Act: DrillApprove, PlanSha256: sum(h, id)})
			}, code: CodePrecondition, field: "state",
		},
		"approval of a draft": {
			cmd: func(h *history, id uint64) *statepb.Command {
				return said("bob", 20, &statepb.DecideDrill{Id: id, Act: DrillApprove})
			}, code: CodePrecondition, field: "state",
		},
		"approval by who made it": {
			before: func(h *history, id uint64) { h.done(said("ann", 20, dryRun(id))) },
			cmd: func(h *history, id uint64) *statepb.Command {
				return said("ann", 21, &statepb.DecideDrill{Id: id, Act: DrillApprove, PlanSha256: sum(h, id)})
			}, code: CodeOwnProposal, field: "id",
		},
		"approval of what was there before": {
			before: func(h *history, id uint64) { h.done(said("ann", 20, dryRun(id))) },
			cmd: func(h *history, id uint64) *statepb.Command {
				return said("bob", 21, &statepb.DecideDrill{Id: id, Act: DrillApprove, PlanSha256: make([]byte, 32)})
			}, code: CodePrecondition, field: "plan_sha256",
		},
		"approval of no series": {
			before: func(h *history, id uint64) { h.done(said("ann", 20, dryRun(id))) },
			cmd: func(h *history, id uint64) *statepb.Command {
				return said("bob", 21, &statepb.DecideDrill{Id: id, Act: DrillApprove, PlanSha256: sum(h, id), Series: true})
			}, code: CodeInvalid, field: "series",
		},
		"pause of what has not begun": {cmd: func(_ *history, id uint64) *statepb.Command { return said("ann", 20, act(id, DrillPause)) }, code: CodePrecondition, field: "state"},
		"resume of what is not paused": {
			before: func(h *history, id uint64) { h.approved(id, 20); h.begun(id, 21) },
			cmd:    func(_ *history, id uint64) *statepb.Command { return said("ann", 22, act(id, DrillResume)) }, code: CodePrecondition, field: "state",
		},
		"pause before anything has moved": {
			before: func(h *history, id uint64) { h.approved(id, 20); h.begun(id, 21) },
			cmd:    func(_ *history, id uint64) *statepb.Command { return said("ann", 22, act(id, DrillPause)) }, code: CodePrecondition, field: "state",
		},
		"a dry run of what is under way": {
			before: func(h *history, id uint64) { h.approved(id, 20); h.begun(id, 21) },
			cmd:    func(_ *history, id uint64) *statepb.Command { return said("ann", 22, dryRun(id)) }, code: CodePrecondition, field: "state",
		},
		"a dry run without findings": {cmd: func(_ *history, id uint64) *statepb.Command { return said("ann", 20, act(id, DrillValidate)) }, code: CodeInvalid, field: "resolved"},
		"a dry run that ends it oddly": {
			cmd: func(_ *history, id uint64) *statepb.Command {
				d := dryRun(id)
				d.Refused = "SUCCEEDED"
				return said("ann", 20, d)
			}, code: CodeInvalid, field: "act",
		},
		"abort of what is over": {
			before: func(h *history, id uint64) { h.done(said("ann", 20, act(id, DrillAbort))) },
			cmd:    func(_ *history, id uint64) *statepb.Command { return said("ann", 21, act(id, DrillAbort)) }, code: CodePrecondition, field: "state",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, id := drilling(t)
			if c.before != nil {
				c.before(h, id)
			}
			before := proto.CloneOf(h.Drill(id))
			out := h.do(c.cmd(h, id))
			if out.GetCode() != c.code || out.GetField() != c.field || out.GetMessage() == "" {
				t.Errorf("got %v, want %s of %s", out, c.code, c.field)
			}
			if !proto.Equal(h.Drill(id), before) {
				t.Errorf("a refusal made %v of %v", h.Drill(id), before)
			}
		})
	}
}

func TestOneDrillAtATime(t *testing.T) {
	h, first := drilling(t)
	h.done(said("ann", 11, &statepb.CreateDrill{Spec: []byte(`{"kind":"hard"}`)}))
	second := h.Index()
	h.approved(first, 20)
	h.approved(second, 20)
	h.begun(first, 21)
	if out := h.do(said("ann", 22, &statepb.DecideDrill{Id: second, Act: DrillStart})); out.GetCode() != CodeExists {
		t.Errorf("started: %v", out)
	}
	if out := h.steer(second, 22, drill.Precheck, nil); out.GetCode() != CodeExists {
		t.Errorf("steered: %v", out)
	}
	h.ended(first, 23, "one")
	h.begun(second, 24)
	if h.ActiveDrill().GetId() != second {
		t.Error("the second has not begun")
	}
}

func TestApprovalsAreAudited(t *testing.T) {
	h, id := drilling(t)
	h.approved(id, 20)
	if d := h.Drill(id); d.GetState() != "SCHEDULED" || d.GetApprovals()[0].GetActor().GetName() != "bob" || d.GetApprovals()[0].GetAtUnixMs() != 20_000 {
		t.Errorf("approved as %v", d)
	}
	var trail []string
	for _, e := range h.Audit(0, 0) {
		if e.GetKind() == KindDrill {
			trail = append(trail, e.GetAction()+" "+e.GetCode()+" by "+e.GetActor())
		}
	}
	if got, want := strings.Join(trail, ", "), "create DRAFT by ann, update PENDING_APPROVAL by ann, approve SCHEDULED by bob"; got != want {
		t.Errorf("audited as %s", got)
	}
}

// What is approved is the plan and what it came to mean, not the figures of a dry run, which differ each minute.
func TestThePlanHashIsOfWhatWasAgreedTo(t *testing.T) {
	sum := func(change func(*statepb.DecideDrill)) string {
		h, id := drilling(t)
		d := dryRun(id)
		change(d)
		h.done(said("ann", 20, d))
		return string(h.Drill(id).GetPlanSha256())
	}
	first := sum(func(*statepb.DecideDrill) {})
	if len(first) != sha256.Size {
		t.Fatalf("%d bytes", len(first))
	}
	if sum(func(d *statepb.DecideDrill) { d.Forecast = []byte(`{"verdict":"PASS","peakWork":7}`) }) != first {
		t.Error("another figure is another plan")
	}
	if sum(func(d *statepb.DecideDrill) { d.Forecast = []byte(`{"verdict":"WARN"}`) }) == first {
		t.Error("another verdict is the same plan")
	}
	if sum(func(d *statepb.DecideDrill) { d.Resolved = []byte(`{"clusters":["b"]}`) }) == first {
		t.Error("other clusters are the same plan")
	}
}

func TestBrokenGlassIsMarkedAndAudited(t *testing.T) {
	h, id := drilling(t)
	h.done(said("ann", 20, dryRun(id)))
	h.done(said("ann", 21, &statepb.DecideDrill{Id: id, Act: DrillStart, BreakGlass: "the auditor is here"}))
	h.through(id, 21, drill.Precheck)
	d := h.ActiveDrill()
	if d.GetBroken().GetWhy() != "the auditor is here" || d.GetBroken().GetActor().GetName() != "ann" || len(h.BrokenGlass(time.Unix(22, 0))) != 1 {
		t.Errorf("started as %v", d)
	}
	found := false
	for _, e := range h.Audit(0, 0) {
		found = found || e.GetAction() == ActionBreakGlass && e.GetKind() == KindDrill && e.GetName() == fmt.Sprint(id)
	}
	if !found {
		t.Error("the trail does not tell")
	}
	// Who has an approval breaks nothing.
	h.ended(id, 30, "x")
	h.done(said("ann", 31, &statepb.CreateDrill{Spec: []byte(`{}`)}))
	next := h.Index()
	h.approved(next, 32)
	h.done(said("ann", 33, &statepb.DecideDrill{Id: next, Act: DrillStart, BreakGlass: "just in case"}))
	h.through(next, 33, drill.Precheck)
	if h.ActiveDrill().GetBroken() != nil {
		t.Error("the glass is broken for what is approved")
	}
}

func TestAnApprovedSeriesNeedsNoFurtherApproval(t *testing.T) {
	h := start(t)
	h.do(raise(6))
	const spec = `{"kind":"soft","percent":50}`
	next := func(second int64, spec string) *statepb.Drill {
		h.done(said("system/leader", second, &statepb.CreateDrill{Plan: "weekly", Series: "weekly", Spec: []byte(spec), StartUnixMs: second*1000 + 60_000}))
		id := h.Index()
		h.done(said("system/leader", second, dryRun(id)))
		return h.Drill(id)
	}
	first := next(10, spec)
	if first.GetState() != "PENDING_APPROVAL" {
		t.Fatalf("nobody has approved it, and it is %s", first.GetState())
	}
	h.done(said("bob", 20, &statepb.DecideDrill{Id: first.GetId(), Act: DrillApprove, PlanSha256: first.GetPlanSha256(), Series: true}))
	for _, c := range []struct {
		name, spec string
		second     int64
		want       string
	}{
		{"the same again", spec, 86_400, "SCHEDULED"},
		{"the last day", spec, 20 + 90*86_400 - 61, "SCHEDULED"},
		{"too late", spec, 20 + 90*86_400, "PENDING_APPROVAL"},
		{"another plan", `{"kind":"soft","percent":100}`, 86_400, "PENDING_APPROVAL"},
	} {
		if d := next(c.second, c.spec); d.GetState() != c.want {
			t.Errorf("%s: %s", c.name, d.GetState())
		}
	}
	if len(h.SeriesApprovals()) != 1 {
		t.Errorf("%v", h.SeriesApprovals())
	}
}

func TestADryRunThatFailsEndsTheDrill(t *testing.T) {
	for outcome, cause := range map[drill.Outcome]string{drill.CapacityFailed: "us-a at 1.20", drill.Blocked: "window"} {
		h, id := drilling(t)
		d := dryRun(id)
		d.Refused, d.Cause = string(outcome), cause
		h.done(said("ann", 20, d))
		if got := h.Drill(id); got.GetState() != "DONE" || got.GetOutcome() != string(outcome) || got.GetCause() != cause || len(got.GetForecast()) == 0 {
			t.Errorf("%v", got)
		}
	}
}

func TestAPlanIsNotApproved(t *testing.T) {
	h := start(t)
	h.do(raise(6))
	h.done(said("ann", 10, &statepb.CreateDrill{Spec: []byte(`{"kind":"plan-only"}`)}))
	id := h.Index()
	h.done(said("ann", 11, dryRun(id)))
	if d := h.Drill(id); d.GetState() != "VALIDATED" || d.GetNeeded() != 0 {
		t.Errorf("%v", d)
	}
	if out := h.steer(id, 12, drill.Done, func(s *statepb.SteerDrill) { s.Outcome = string(drill.Succeeded) }); out.GetCode() != "" {
		t.Error(out)
	}
}

func TestPauseRemembersWhereToGoOn(t *testing.T) {
	h, id := drilling(t)
	h.approved(id, 20)
	h.begun(id, 21)
	h.through(id, 22, drill.Measuring, drill.Shifting, drill.Dwell)
	h.done(said("cat", 30, &statepb.DecideDrill{Id: id, Act: DrillPause, Why: "lunch"}))
	if d := h.Drill(id); d.GetState() != "PAUSED" || d.GetResume() != "DWELL" || d.GetReason() != "paused by an operator: lunch" {
		t.Errorf("paused as %v", d)
	}
	sequence := h.Drill(id).GetSequence()
	if out := h.do(said("cat", 31, &statepb.DecideDrill{Id: id, Act: DrillPause})); out.GetCode() != CodePrecondition || h.Drill(id).GetSequence() != sequence {
		t.Errorf("a second pause: %v", out)
	}
	h.done(said("cat", 32, &statepb.DecideDrill{Id: id, Act: DrillResume}))
	if d := h.Drill(id); d.GetState() != "DWELL" || d.GetResume() != "" || d.GetSequence() <= sequence {
		t.Errorf("resumed as %v", d)
	}
	h.done(said("cat", 33, &statepb.DecideDrill{Id: id, Act: DrillAbort, Why: "enough"}))
	if d := h.Drill(id); d.GetState() != "ROLLING_BACK" || d.GetOutcome() != "INTERRUPTED" || d.GetCause() != string(drill.CauseOperator) {
		t.Errorf("called off as %v", d)
	}
	h.through(id, 34, drill.Verify)
	if out := h.do(said("cat", 35, &statepb.DecideDrill{Id: id, Act: DrillAbort})); out.GetCode() != CodePrecondition || h.Drill(id).GetState() != "VERIFY" {
		t.Errorf("a second stop: %v", out)
	}
}

func TestTheLeaderSteersWhatItHasSeen(t *testing.T) {
	h, id := drilling(t)
	if out := h.steer(id, 20, drill.Precheck, nil); out.GetCode() != CodePrecondition {
		t.Errorf("a draft begins by itself: %v", out)
	}
	h.approved(id, 20)
	if out := h.steer(id, 21, drill.Precheck, nil); out.GetCode() != CodePrecondition || out.GetField() != "approvals" {
		t.Errorf("it begins and nobody has started it: %v", out)
	}
	h.begun(id, 21)
	revision := h.Drill(id).GetRevision()
	h.through(id, 22, drill.Measuring)
	for name, c := range map[string]struct {
		op          any
		code, field string
	}{
		"from an older state":   {&statepb.SteerDrill{Id: id, IfRevision: revision, State: "SHIFTING"}, CodePrecondition, "if_revision"},
		"renewed from an older": {&statepb.RenewDrill{Id: id, IfRevision: revision}, CodePrecondition, "if_revision"},
		"no such drill":         {&statepb.RenewDrill{Id: id + 100}, CodeNotFound, "id"},
		"out of turn":           {&statepb.SteerDrill{Id: id, IfRevision: h.Drill(id).GetRevision(), State: "HOLD"}, CodePrecondition, "state"},
		"to nowhere":            {&statepb.SteerDrill{Id: id, IfRevision: h.Drill(id).GetRevision(), State: "LIMBO"}, CodePrecondition, "state"},
		"a short hash":          {&statepb.SteerDrill{Id: id, IfRevision: h.Drill(id).GetRevision(), State: "SHIFTING", BaseSha256: []byte{1}}, CodeInvalid, "base_sha256"},
		"a report too early":    {&statepb.SteerDrill{Id: id, IfRevision: h.Drill(id).GetRevision(), State: "SHIFTING", Report: []byte{1}}, CodeInvalid, "report"},
	} {
		if out := h.do(said("system/leader", 30, c.op)); out.GetCode() != c.code || out.GetField() != c.field {
			t.Errorf("%s: %v", name, out)
		}
	}
	h.through(id, 40, drill.RollingBack, drill.Verify)
	if out := h.steer(id, 42, drill.Done, nil); out.GetCode() != CodeInvalid || out.GetField() != "outcome" {
		t.Errorf("over without outcome: %v", out)
	}
}

func TestDrillsAreForgottenInOrder(t *testing.T) {
	h := start(t)
	h.do(raise(6))
	var ids []uint64
	previous := []byte(nil)
	for i := range MaxDrills + 5 {
		second := int64(100 * (i + 1))
		h.done(said("ann", second, &statepb.CreateDrill{Spec: []byte(`{}`)}))
		id := h.Index()
		ids = append(ids, id)
		h.approved(id, second+1)
		h.begun(id, second+2)
		h.done(said("system/leader", second+3, &statepb.RenewDrill{Id: id, IfRevision: h.Drill(id).GetRevision(), Samples: []byte("sample")}))
		h.ended(id, second+4, fmt.Sprint("report ", i))
		if d := h.Drill(id); !bytes.Equal(d.GetPreviousSha256(), previous) {
			t.Fatalf("report %d names %x before it, want %x", i, d.GetPreviousSha256(), previous)
		}
		previous = h.Drill(id).GetReportSha256()
	}
	if len(h.Drills()) != MaxDrills || h.Drill(ids[4]) != nil || h.Drill(ids[5]) == nil || h.DrillsForgotten() == 0 {
		t.Errorf("%d drills, forgotten up to %d", len(h.Drills()), h.DrillsForgotten())
	}
	reports := 0
	for _, d := range h.Drills() {
		if d.GetSamples() != nil {
			t.Fatalf("drill %d keeps its samples", d.GetId())
		}
		if len(d.GetReport()) > 0 {
			reports++
		}
	}
	if reports != MaxReports || h.Drill(ids[len(ids)-MaxReports]).GetReport() == nil {
		t.Errorf("%d reports", reports)
	}
}

func TestDrillsAreBounded(t *testing.T) {
	h, id := drilling(t)
	for h.waitingDrills() < MaxWaiting {
		h.done(said("ann", 11, &statepb.CreateDrill{Spec: []byte(`{}`)}))
	}
	if out := h.do(said("ann", 12, &statepb.CreateDrill{Spec: []byte(`{}`)})); out.GetCode() != CodeTooMany {
		t.Errorf("one more: %v", out)
	}
	for name, spec := range map[string]string{"none": "", "a list": "[]", "null": "null", "broken": "{", "large": `{"a":"` + strings.Repeat("x", MaxDrillSpec) + `"}`} {
		if out := h.do(said("ann", 12, &statepb.CreateDrill{Spec: []byte(spec)})); out.GetCode() != CodeInvalid || out.GetField() != "spec" {
			t.Errorf("%s: %v", name, out)
		}
	}
	h.approved(id, 20)
	h.begun(id, 21)
	many := make([]*statepb.DrillEvent, MaxDrillEvents+7)
	for i := range many {
		many[i] = &statepb.DrillEvent{AtUnixMs: int64(i), Kind: "signal", Text: strings.Repeat("y", 10_000)}
	}
	h.done(said("system/leader", 22, &statepb.RenewDrill{Id: id, IfRevision: h.Drill(id).GetRevision(), Events: many, Samples: make([]byte, MaxSamples)}))
	h.done(said("system/leader", 23, &statepb.RenewDrill{Id: id, IfRevision: h.Drill(id).GetRevision(), Samples: []byte{1}}))
	d := h.Drill(id)
	if len(d.GetEvents()) != MaxDrillEvents || len(d.GetEvents()[0].GetText()) > maxAuditText || d.GetEvents()[0].GetAtUnixMs() != 7 {
		t.Errorf("%d events", len(d.GetEvents()))
	}
	if len(d.GetSamples()) != MaxSamples || !d.GetDropped() || d.GetRenewedUnixMs() != 23_000 {
		t.Error("samples beyond the bound, or the lease is not renewed for their sake")
	}
}

func TestDrillsOutliveRestarts(t *testing.T) {
	h, id := drilling(t)
	h.approved(id, 20)
	h.begun(id, 21)
	h.done(said("system/leader", 22, &statepb.RenewDrill{Id: id, IfRevision: h.Drill(id).GetRevision(), Samples: []byte("s")}))
	h.ended(id, 23, "r")
	h.done(said("ann", 31, &statepb.CreateDrill{Spec: []byte(`{}`), Series: "s"}))
	var b bytes.Buffer
	if err := Encode(h.View, &b); err != nil {
		t.Fatal(err)
	}
	v, err := Decode(&b)
	if err != nil || !Equal(v, h.View) || len(v.Drills()) != 2 || !bytes.Equal(v.LastReport(), h.LastReport()) {
		t.Fatalf("restored: %v", err)
	}
	two := &statepb.Drills{Drills: []*statepb.Drill{{Id: 1, State: "HOLD"}, {Id: 2, State: "DWELL"}}}
	if err := (&drills{}).read(two); err == nil {
		t.Error("two drills under way are read")
	}
	two.Drills[0].Id, two.Drills[1].State = 3, "DONE"
	if err := (&drills{}).read(two); err == nil {
		t.Error("drills out of order are read")
	}
}

func TestADrillIsMadeOnceByAKey(t *testing.T) {
	h, _ := drilling(t)
	c := said("ann", 20, &statepb.CreateDrill{Spec: []byte(`{}`)})
	c.Once = &statepb.Once{Key: "k", RequestSha256: make([]byte, 32)}
	h.done(c)
	id, n := h.Index(), len(h.Drills())
	out := h.do(c)
	if a := out.GetAnswer(); len(h.Drills()) != n || a.GetKind() != KindDrill || a.GetName() != fmt.Sprint(id) || !a.GetCreated() {
		t.Errorf("again: %v", out)
	}
}

// done says that a command was.
func (h *history) done(cmd *statepb.Command) {
	h.t.Helper()
	if out := h.do(cmd); out.GetCode() != "" {
		h.t.Fatalf("%v: %v", cmd.GetOp(), out)
	}
}
