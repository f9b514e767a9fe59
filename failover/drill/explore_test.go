package drill

import (
	"fmt"
	"testing"
	"time"
)

// What may be true of the world in one step of a drill. Each combination of those that can meet is tried in each state that
// can be reached, together with everything that people may say.
type world struct {
	incident, order, leader, gone bool // gone: leases were not renewed
	late                          bool // the present state has lasted as long as any may
	follows, reverted, decided    bool
	bad                           bool // errors of survivors
	blocked                       bool
	forecast                      string
}

// abstract is a run without its times but for those that matter.
type abstract struct {
	state, resume State
	step          int
	rehearsed     bool
	outcome       Outcome
	cause         Cause
	moved, base   bool
	start         bool
}

func abstractOf(r Run) abstract {
	return abstract{r.State, r.Resume, r.Step, r.Rehearsed, r.Outcome, r.Cause, r.Moved(), r.Baseline != nil, !r.Start.IsZero()}
}

var exploredAt = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// concrete gives a run of that shape; its present state was entered at exploredAt.
func (a abstract) concrete() Run {
	r := Run{
		State: a.state, Resume: a.resume, Step: a.step, Rehearsed: a.rehearsed, Outcome: a.outcome, Cause: a.cause, Created: exploredAt, Entered: exploredAt,
		Until: exploredAt.Add(9 * time.Hour), Renewed: exploredAt, PlanSHA256: []byte("plan"), Creator: "ann",
	}
	if a.moved {
		r.NotAfter = exploredAt.Add(4 * time.Hour)
	}
	if a.base {
		r.Baseline = &Baseline{Routers: 100}
	}
	if a.start {
		r.Start = exploredAt
	}
	return r
}

// inputs gives what a step is judged by in a world, and when.
func (w world) inputs(p Plan, a abstract) (Inputs, Run, time.Time) {
	now, r := exploredAt.Add(time.Second), a.concrete()
	if w.late {
		now = exploredAt.Add(time.Hour)
		if a.state == Scheduled && a.start {
			now = exploredAt.Add(time.Minute)
		}
	}
	r.Renewed = now.Add(-time.Second)
	if w.gone {
		r.Renewed = now.Add(-LeaseTTL - RevertMargin)
	}
	in := Inputs{Plan: p, Rules: Rules{Approvals: 1, ApprovalTime: 30 * time.Minute}, LeaderChanged: w.leader, Decided: w.decided, ObjectiveMs: 300}
	in.World = World{Clusters: []Place{{Cluster: "a", Region: "a", Capacity: 1, On: p.Kind != FailbackOnly, Drilled: true, Gateway: true}, {Cluster: "b", Region: "b", Capacity: 9, On: true}}}
	if w.blocked {
		in.World.Rollout = "7"
	}
	if w.incident {
		in.Incident = "b is EVACUATED"
	}
	if w.order {
		in.Order = "freeze"
	}
	if w.forecast != "" {
		in.Forecast = &Forecast{Verdict: w.forecast}
	}
	for at := 3; at >= 0; at-- {
		s := Sample{At: now.Add(-time.Duration(at) * time.Second).UnixMilli(), State: a.state, Step: a.step, Routers: 100, Holding: 100}
		if w.follows {
			s.Obeying = 100
		}
		if w.reverted {
			s.Holding = 0
		}
		c := ClusterSample{Cluster: "b", Requests: 1000}
		if w.bad {
			c.Failures = 100
		}
		s.Clusters = []ClusterSample{c}
		in.Samples = append(in.Samples, s)
	}
	return in, r, now
}

// idle: the world has something in it that nothing looks at in this state, and is the same as one without it.
func (w world) idle(p Plan, a abstract) bool {
	active, leased := a.state.Active(), a.state.Leased()
	return w.decided && p.Kind != Hard && p.Kind != Tier1 || w.blocked && a.state != Precheck && a.state != Scheduled ||
		w.bad && !leased && a.state != Verify || (w.incident || w.order || w.leader) && !active ||
		(w.gone || w.follows || w.reverted) && !leased && a.state != RollingBack
}

func worlds() []world {
	var out []world
	for bits := range 1 << 10 {
		on := func(i int) bool { return bits&(1<<i) != 0 }
		w := world{incident: on(0), order: on(1), leader: on(2), gone: on(3), late: on(4), follows: on(5), reverted: on(6), decided: on(7), bad: on(8), blocked: on(9)}
		if w.follows && w.reverted || w.incident && w.order {
			continue
		}
		out = append(out, w)
	}
	return out
}

// TestEveryReachableStateIsSafe explores each kind from DRAFT on, by everything that can happen and that people can say.
func TestEveryReachableStateIsSafe(t *testing.T) {
	all := worlds()
	for _, kind := range []Kind{PlanOnly, Shadow, Soft, Hard, ControlPlane, QuotaStore, Tier1, FailbackOnly} {
		p := Plan{
			Kind: kind, Percent: 100, Stages: []Stage{{1, 10 * time.Second}, {50, 10 * time.Second}, {100, 10 * time.Second}}, Back: []float64{50, 100},
			BackDwell: 10 * time.Second, Baseline: 3 * time.Second, Hold: 10 * time.Second, Verify: 10 * time.Second, MostTime: time.Hour, Scale: 1, Abort: DefaultThresholds(),
		}.Resolve()
		e := explorer{t: t, plan: p, next: map[abstract]map[abstract]bool{}}
		e.explore(all)
		e.ends()
		e.aborts()
		e.everywhere()
		t.Logf("%s: %d runs", kind, len(e.next))
	}
}

type explorer struct {
	t    *testing.T
	plan Plan
	next map[abstract]map[abstract]bool
}

func (e *explorer) explore(all []world) {
	start := abstractOf(Run{State: Draft})
	queue := []abstract{start}
	e.next[start] = map[abstract]bool{}
	for len(queue) > 0 {
		a := queue[0]
		queue = queue[1:]
		reach := func(to Run, by string) {
			e.check(a, to, by)
			b := abstractOf(to)
			e.next[a][b] = true
			if e.next[b] == nil {
				e.next[b] = map[abstract]bool{}
				queue = append(queue, b)
			}
		}
		for _, w := range all {
			if w.idle(e.plan, a) {
				continue
			}
			for _, forecast := range []string{"", VerdictPass, VerdictBlock} {
				if w.forecast = forecast; a.state != Precheck && forecast != "" {
					continue // nothing else looks at it
				}
				in, r, now := w.inputs(e.plan, a)
				to, what := Step(r, in, now)
				if (len(what) == 0) != (abstractOf(to) == a) {
					e.t.Errorf("%+v: %v in %+v", a, what, w)
				}
				reach(to, fmt.Sprintf("%+v", w))
			}
		}
		for _, d := range []Decision{
			{Act: ActValidate, PlanSHA256: []byte("plan")},
			{Act: ActValidate, Refused: CapacityFailed, Cause: CauseCapacity},
			{Act: ActApprove, Who: "bob", PlanSHA256: []byte("plan")},
			{Act: ActStart},
			{Act: ActStart, BreakGlass: "why"},
			{Act: ActPause},
			{Act: ActResume},
			{Act: ActAbort},
		} {
			if to, _, err := Decide(a.concrete(), e.plan.Kind, Rules{Approvals: 1}, d, exploredAt.Add(time.Second)); err == nil {
				reach(to, string(d.Act))
			}
		}
	}
}

// check holds a transition to what must never be.
func (e *explorer) check(from abstract, to Run, by string) {
	f := EffectOf(e.plan, to)
	bad := func(what string) { e.t.Fatalf("%s: %+v to %+v by %s: %s", e.plan.Kind, from, to, by, what) }
	switch {
	case from.state != to.State && !Legal(from.state, to.State):
		bad("no such transition")
	case from.state == to.State && from.step != to.Step && to.State != Failback:
		bad("a step without a transition")
	case (f.Shifted > 0 || f.Dead || f.QuotaStoreLost) && (!f.Leased || !to.State.Leased() || to.NotAfter.IsZero() || to.Renewed.IsZero()):
		bad("something is done without a lease")
	case f.Leased && !to.State.Active():
		bad("a lease of what is not under way")
	case (to.State == RollingBack || to.State == Verify || to.State == Done) && f != Effect{}:
		bad("something is done after the end")
	case to.State == Paused && !to.Resume.Leased() || to.State == Paused && to.Resume == Paused || to.State != Paused && to.Resume != "":
		bad("nowhere to go on")
	case to.State == Done && to.Outcome == "":
		bad("over without an outcome")
	case to.State.Leased() && to.Outcome != "":
		bad("goes on with an outcome")
	case to.Step < 0 || (to.State == Shifting || to.State == Dwell) && to.Step >= len(e.plan.Stages) || to.State == Failback && to.Step >= len(e.plan.Back):
		bad("no such stage")
	case from.outcome != "" && to.Outcome != from.outcome:
		bad("the outcome changed")
	}
	// What is shifted goes on only by way of the rehearsal.
	if e.plan.Staged() && to.State == Shifting && to.Step > 0 && !to.Rehearsed {
		bad("the rollback was not rehearsed")
	}
}

// everywhere: nothing is shown of states that are not reached.
func (e *explorer) everywhere() {
	seen, outcomes := map[State]bool{}, map[Outcome]bool{}
	for a := range e.next {
		seen[a.state], outcomes[a.outcome] = true, true
	}
	want := []State{Draft, Validated, Done}
	if e.plan.Kind != PlanOnly {
		want = append(want, Pending, Scheduled, Precheck, Measuring, Failback, Paused, RollingBack, Verify)
	}
	if e.plan.Kind != PlanOnly && e.plan.Kind != FailbackOnly {
		want = append(want, Shifting, Hold)
	}
	if e.plan.Staged() {
		want = append(want, Dwell)
	}
	for _, s := range want {
		if !seen[s] {
			e.t.Errorf("%s: %s is not reached", e.plan.Kind, s)
		}
	}
	for _, o := range []Outcome{Succeeded, Failed, Interrupted, CapacityFailed, Blocked, Expired} {
		if !outcomes[o] && (e.plan.Kind != PlanOnly || o != Blocked && o != Failed) {
			e.t.Errorf("%s: %s is not reached", e.plan.Kind, o)
		}
	}
}

// ends: from every run DONE can be reached.
func (e *explorer) ends() {
	reaches := map[abstract]bool{}
	for changed := true; changed; {
		changed = false
		for a, next := range e.next {
			if reaches[a] {
				continue
			}
			ok := a.state == Done
			for b := range next {
				ok = ok || reaches[b]
			}
			if ok {
				reaches[a], changed = true, true
			}
		}
	}
	for a := range e.next {
		if !reaches[a] {
			e.t.Errorf("%s: no way to an end from %+v", e.plan.Kind, a)
		}
	}
}

// aborts: what was shifted and did not succeed has gone through ROLLING_BACK and VERIFY; or was in VERIFY, by way of
// all of FAILBACK, already. So no transition of a leased state, or of ROLLING_BACK, leads to DONE or to VERIFY otherwise.
func (e *explorer) aborts() {
	for a, next := range e.next {
		for b := range next {
			switch {
			case b.state == Done && a.state != Done && a.state != Verify && a.moved:
				e.t.Errorf("%s: %+v ends without VERIFY: %+v", e.plan.Kind, a, b)
			case b.state == Verify && a.state.Leased() && (b.outcome != "" || a.state != Failback || a.step != len(e.plan.Back)-1):
				e.t.Errorf("%s: %+v is not rolled back: %+v", e.plan.Kind, a, b)
			case b.outcome != "" && a.outcome == "" && a.state.Leased() && b.state != RollingBack:
				e.t.Errorf("%s: %+v is not rolled back: %+v", e.plan.Kind, a, b)
			}
		}
	}
}

// TestAtMostOneDrillIsActive steps two drills, of which each sees whether the other is, in every order.
func TestAtMostOneDrillIsActive(t *testing.T) {
	for first := range 2 {
		runs := [2]Run{}
		for i := range runs {
			runs[i] = Run{State: Scheduled, Created: exploredAt, Entered: exploredAt, Start: exploredAt, Until: exploredAt.Add(time.Hour)}
		}
		for k := range 2 {
			i := (first + k) % 2
			in := Inputs{Plan: Plan{Kind: Soft}}
			if runs[1-i].State.Active() {
				in.World.Active = "the other"
			}
			runs[i], _ = Step(runs[i], in, exploredAt)
		}
		if runs[first].State != Precheck || runs[1-first].State != Done || runs[1-first].Outcome != Blocked {
			t.Errorf("%+v", runs)
		}
	}
}
