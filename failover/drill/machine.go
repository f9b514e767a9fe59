package drill

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// RehearseFor is how long the rehearsed stage is shifted at least, so that there is something to roll back.
	RehearseFor = 5 * time.Second
	// ShiftWithin is how long routers have to follow an order: as long as a lease lives. One that has not followed
	// by then holds no lease at all.
	ShiftWithin = LeaseTTL
	// RevertWithin is how long routers have to revert in the rehearsal. The goal is 5 s; their reports take a few more.
	RevertWithin = 15 * time.Second
	// DecideWithin is how long it may take until a place that is treated as dead is found to be so.
	DecideWithin = 60 * time.Second
	// PauseFor is how long a pause may last.
	PauseFor = 5 * time.Minute
	// LeaderGap is how long there may be no leader before the drill is left to end.
	LeaderGap = 10 * time.Second
	// StartGrace is how late a drill may begin after its time.
	StartGrace = 10 * time.Minute
	// PrecheckWithin is how long the dry run before the start may take.
	PrecheckWithin = 2 * time.Minute
	// RevertMargin is added to the time after which a lease has run out for certain, for clocks that tick apart.
	RevertMargin = 5 * time.Second
)

// Inputs is what a step is judged by.
type Inputs struct {
	Plan  Plan
	Rules Rules
	// World is what the rules are judged by, before anything is shifted.
	World World
	// Forecast is the dry run made since PRECHECK began; nil: it is not finished. PlanSHA256 is the [Hash] of what
	// would be done now; nil: not known yet.
	Forecast   *Forecast
	PlanSHA256 []byte
	// SeriesUntil is how long the series that the drill is of is approved, for exactly its spec; zero: it is not.
	SeriesUntil time.Time
	// Incident tells of a real failover anywhere, of which no drill is the cause; empty: there is none.
	Incident string
	// Order tells of an operator's order that beats drills; empty: there is none.
	Order string
	// LeaderChanged: whoever asks leads only since after the drill's last change or renewal.
	LeaderChanged bool
	// Decided: the drilled places that are treated as dead were found to be so. Whoever finds it notes it, [OfDecision].
	Decided bool
	// ObjectiveMs is the first-token objective of the top tier; 0: there is none.
	ObjectiveMs float64
	// Samples of the drill, oldest first, one a second.
	Samples []Sample
}

// nexts are the transitions.
var nexts = map[State][]State{
	Draft:       {Validated, Done},
	Validated:   {Pending, Scheduled, Done},
	Pending:     {Scheduled, Done},
	Scheduled:   {Precheck, Done},
	Precheck:    {Measuring, RollingBack, Done},
	Measuring:   {Shifting, Failback, RollingBack},
	Shifting:    {Dwell, Hold, Paused, RollingBack},
	Dwell:       {Shifting, Hold, Paused, RollingBack},
	Hold:        {Failback, Paused, RollingBack},
	Failback:    {Failback, Verify, Paused, RollingBack},
	Paused:      {Shifting, Dwell, Hold, Failback, RollingBack},
	RollingBack: {Verify},
	Verify:      {Done},
}

// Next gives the states that a drill may go to from another; none: it is over, or there is no such state. A new
// drill is in [Draft].
func Next(from State) []State { return slices.Clone(nexts[from]) }

// Legal says whether a drill may go from one state to another. FAILBACK goes to itself, one stage on.
func Legal(from, to State) bool { return slices.Contains(nexts[from], to) }

// Step moves a drill on by at most one transition. It changes nothing of what it is given; the happenings are nil when
// nothing did. Whoever replicates the run sets Renewed when leases are renewed; all else comes from here
// and from [Decide].
func Step(r Run, in Inputs, now time.Time) (Run, []Happening) {
	m := machine{run: r, in: in, now: now}
	switch {
	case r.State == Done:
	case !r.State.Active():
		m.wait()
	case !m.interrupted():
		m.progress()
	}
	return m.run, m.events
}

type machine struct {
	run    Run
	in     Inputs
	now    time.Time
	events []Happening
}

// enter goes to a state; why is for people.
func (m *machine) enter(to State, step int, why string) {
	reason := why
	if to == Verify && m.run.Outcome != "" { // why it was rolled back is what people ask for, to its end and after it
		reason = m.run.Reason + "; " + why
	}
	m.run.State, m.run.Step, m.run.Entered, m.run.Reason = to, step, m.now, reason
	if to != Paused {
		m.run.Resume = ""
	}
	if to.Leased() {
		m.run.Renewed = m.now
	}
	switch to {
	case Precheck:
		m.run.Started = m.now
	case Done:
		m.run.Ended = m.now
	default:
	}
	m.tell(OfTransition, why, "")
}

func (m *machine) tell(kind, text, actor string) {
	m.events = append(m.events, Happening{AtUnixMs: m.now.UnixMilli(), State: m.run.State, Step: m.run.Step, Kind: kind, Text: text, Actor: actor})
}

func (m *machine) end(outcome Outcome, cause Cause, why string) {
	m.run.Outcome, m.run.Cause = outcome, cause
	m.enter(Done, 0, why)
}

func (m *machine) rollBack(outcome Outcome, cause Cause, why string) {
	m.run.Outcome, m.run.Cause = outcome, cause
	m.enter(RollingBack, 0, why)
}

func (m *machine) pause(cause Cause, why string) {
	from, step := m.run.State, m.run.Step
	m.run.Cause = cause
	m.enter(Paused, step, why)
	m.run.Resume = from
}

// elapsed is the time in the present state.
func (m *machine) elapsed() time.Duration { return m.now.Sub(m.run.Entered) }

// wait is for drills that have not begun.
func (m *machine) wait() {
	r := &m.run
	switch {
	case m.in.Plan.Kind == PlanOnly && r.State != Draft:
		m.end(Succeeded, "", "the dry run is all that was asked for") // whoever approved it
		return
	case r.State == Scheduled:
		m.scheduled()
		return
	}
	deadline := r.Created.Add(m.in.Rules.ApprovalFor())
	if !r.Start.IsZero() {
		deadline = r.Start.Add(StartGrace)
	}
	series := m.in.SeriesUntil.After(m.now) && !m.in.SeriesUntil.Before(r.Start)
	switch {
	case !m.now.Before(deadline):
		m.end(Expired, CauseUnapproved, "nobody validated and approved it until "+deadline.UTC().Format(time.RFC3339))
	case r.State == Draft:
	case series:
		r.Until = m.in.SeriesUntil
		m.enter(Scheduled, 0, "its series is approved")
	case r.State == Validated && m.in.Rules.ApprovalsFor(m.in.Plan.Kind) == 0:
		r.Until = m.now.Add(m.in.Rules.ApprovalFor())
		m.enter(Scheduled, 0, "it needs no approval")
	case r.State == Validated:
		m.enter(Pending, 0, fmt.Sprintf("waits for the approval of %d", m.in.Rules.ApprovalsFor(m.in.Plan.Kind)))
	}
}

// scheduled begins what is due.
func (m *machine) scheduled() {
	r := &m.run
	switch {
	case r.Start.IsZero():
		if !m.now.Before(r.Until) {
			m.end(Expired, CauseNotStarted, "nobody started it while it was approved")
		}
	case m.now.Before(r.Start):
	case m.now.After(r.Start.Add(StartGrace)):
		m.end(Expired, CauseMissed, fmt.Sprintf("was to begin at %s, and nobody was there to begin it", r.Start.UTC().Format(time.RFC3339)))
	case !r.Start.Before(r.Until):
		m.end(Expired, CauseUnapproved, "its approval did not last until its start")
	case m.in.World.Active != "":
		m.end(Blocked, CauseDrill, m.in.World.Active+" is under way, and at most one drill is")
	case m.in.World.Order != "":
		m.end(Blocked, CauseOperator, m.in.World.Order)
	default:
		m.enter(Precheck, 0, "its time has come")
	}
}

// interrupted looks at what ends or pauses a drill whatever it is doing: first what is real, then operators, then
// leases and leaders, then the signals.
func (m *machine) interrupted() bool {
	r := &m.run
	if r.State == RollingBack || r.State == Verify {
		return false // nothing is shifted, or it is on its way back
	}
	switch {
	case m.in.Incident != "":
		m.rollBack(Interrupted, CauseIncident, "a real incident: "+m.in.Incident)
		return true
	case m.in.Order != "":
		m.rollBack(Interrupted, CauseOperator, "an operator's order: "+m.in.Order)
		return true
	case !r.State.Leased():
		return false
	case !m.now.Before(r.NotAfter):
		m.rollBack(Failed, CauseLease, "its leases have reached their end at "+r.NotAfter.UTC().Format(time.RFC3339))
		return true
	case m.now.Sub(r.Renewed) >= LeaseTTL:
		m.rollBack(Failed, CauseLease, fmt.Sprintf("leases were not renewed for %s and have run out", m.now.Sub(r.Renewed).Round(time.Second)))
		return true
	case m.in.LeaderChanged && m.in.Plan.Kind != ControlPlane:
		if m.now.Sub(r.Renewed) >= RenewEvery+LeaderGap {
			m.rollBack(Failed, CauseLeader, fmt.Sprintf("there was no leader for more than %s", LeaderGap))
			return true
		}
		if r.State != Paused {
			m.pause(CauseLeader, "leader change")
			return true
		}
	}
	if j := Judge(m.in.Plan, r.Baseline, m.in.Samples, m.in.ObjectiveMs, m.now); j.Breach != nil {
		m.tell(OfSignal, j.Breach.String(), "")
		m.rollBack(Failed, j.Breach.Cause, j.Breach.String())
		return true
	}
	return false
}

func (m *machine) progress() {
	switch m.run.State {
	case Precheck:
		m.precheck()
	case Measuring:
		m.measure()
	case Shifting:
		m.shift()
	case Dwell:
		m.dwell()
	case Hold:
		if m.elapsed() >= m.in.Plan.Hold {
			m.enter(Failback, 0, m.back(0))
		}
	case Failback:
		m.failback()
	case Paused:
		m.paused()
	case RollingBack:
		m.revert()
	case Verify:
		m.verify()
	default:
	}
}

func (m *machine) precheck() {
	if blocks := Check(m.in.Rules, m.in.World, m.in.Plan, m.now); len(blocks) > 0 {
		texts := make([]string, len(blocks))
		for i, b := range blocks {
			texts[i] = b.Text
		}
		m.end(Blocked, blocks[0].Cause, strings.Join(texts, "; "))
		return
	}
	f := m.in.Forecast
	switch {
	case f == nil:
		if m.elapsed() >= PrecheckWithin {
			m.end(Blocked, CauseRule, fmt.Sprintf("the dry run before the start did not finish within %s", PrecheckWithin))
		}
	case f.Verdict == VerdictBlock:
		m.end(CapacityFailed, CauseCapacity, f.Worst())
	case m.run.Broken == "" && len(m.run.PlanSHA256) > 0 && len(m.in.PlanSHA256) > 0 && !bytes.Equal(m.run.PlanSHA256, m.in.PlanSHA256):
		m.end(Blocked, CauseRule, "what would be done now is not what was approved: validate it anew")
	default:
		m.enter(Measuring, 0, "rules and dry run let it: "+f.Worst())
	}
}

// measure waits for the baseline. Seconds that nobody measured are waited for: a leader that is new has none yet.
func (m *machine) measure() {
	const enough = 0.8
	p := m.in.Plan
	if m.elapsed() < p.Baseline {
		return
	}
	seen := taken(m.in.Samples, m.run.Entered, func(s Sample) bool { return s.State == Measuring })
	if float64(len(seen)) < max(1, enough*p.Baseline.Seconds()) {
		if m.elapsed() >= 2*p.Baseline+ShiftWithin {
			m.rollBack(Failed, CauseSight, fmt.Sprintf("only %d s of the baseline could be measured", len(seen)))
		}
		return
	}
	b := Measure(seen)
	b.ObjectiveMs = m.in.ObjectiveMs
	m.run.Baseline, m.run.NotAfter = &b, m.now.Add(p.MostTime)
	if p.Kind == FailbackOnly {
		m.enter(Failback, 0, m.back(0))
		return
	}
	m.enter(Shifting, 0, m.to(0))
}

func (m *machine) to(step int) string {
	p := m.in.Plan
	switch p.Kind {
	case Hard, Tier1:
		return "what is drilled is treated as dead"
	case ControlPlane:
		return "the leader is isolated"
	case QuotaStore:
		return "the quota store is treated as lost"
	default:
	}
	return fmt.Sprintf("to %g %%", p.Stages[step].Percent*p.Percent/100)
}

func (m *machine) back(step int) string { return fmt.Sprintf("%g %% back", m.in.Plan.Back[step]) }

func (m *machine) rehearsing() bool {
	return m.in.Plan.Staged() && m.run.Step == 0 && !m.run.Rehearsed
}

func (m *machine) shift() {
	p := m.in.Plan
	followed := m.followed()
	switch p.Kind {
	case Hard, Tier1:
		switch {
		case followed && m.in.Decided:
			m.enter(Hold, 0, "routers and the control plane have found it dead")
		case m.elapsed() >= DecideWithin:
			m.rollBack(Failed, CauseDetection, fmt.Sprintf("what is treated as dead was not found dead within %s", DecideWithin))
		}
		return
	case ControlPlane:
		switch {
		case m.in.LeaderChanged:
			m.enter(Hold, 0, "another node leads")
		case m.elapsed() >= ShiftWithin-RevertMargin:
			m.rollBack(Failed, CauseDetection, "no other node took the lead")
		}
		return
	default:
	}
	switch {
	case !followed:
		m.late(0)
	case m.rehearsing():
		if m.elapsed() >= RehearseFor {
			m.enter(Dwell, 0, "the rollback is rehearsed")
		}
	case p.Kind == QuotaStore:
		m.enter(Hold, 0, "routers do without the quota store")
	default:
		m.enter(Dwell, m.run.Step, fmt.Sprintf("99 %% of routers shift %g %%", p.Stages[m.run.Step].Percent*p.Percent/100))
	}
}

// late gives up when routers have not followed within their time after some other time.
func (m *machine) late(after time.Duration) {
	if m.elapsed() < after+ShiftWithin {
		return
	}
	obeying, routers := 0, 0
	if s, ok := m.last(); ok {
		obeying, routers = s.Obeying, s.Routers
	}
	m.rollBack(Failed, CausePropagation, fmt.Sprintf("only %d of %d routers followed within %s", obeying, routers, ShiftWithin))
}

func (m *machine) dwell() {
	p := m.in.Plan
	if m.rehearsing() {
		switch {
		case m.reverted():
			m.run.Rehearsed = true
			m.enter(Shifting, 0, "the rollback works: again "+m.to(0))
		case m.elapsed() >= RevertWithin:
			m.rollBack(Failed, CauseRollback, fmt.Sprintf("the rehearsed rollback did not reach 99 %% of routers within %s", RevertWithin))
		}
		return
	}
	stay := p.Stages[m.run.Step].Dwell
	switch {
	case m.elapsed() < stay:
	case !m.followed():
		m.late(stay)
	case m.run.Step+1 < len(p.Stages):
		m.enter(Shifting, m.run.Step+1, m.to(m.run.Step+1))
	default:
		m.enter(Hold, 0, "all stages are shifted")
	}
}

func (m *machine) failback() {
	p := m.in.Plan
	if m.elapsed() < p.BackDwell {
		return
	}
	if !m.followed() {
		m.late(p.BackDwell)
		return
	}
	stage := taken(m.in.Samples, m.run.Entered, func(s Sample) bool { return s.State == Failback && s.Step == m.run.Step })
	if b := Gate(p, m.run.Baseline, stage, m.in.ObjectiveMs); b != nil {
		m.tell(OfSignal, b.String(), "")
		m.rollBack(Failed, CauseFailback, fmt.Sprintf("with %s: %s", m.back(m.run.Step), b))
		return
	}
	switch next := m.run.Step + 1; {
	case next < len(p.Back):
		m.enter(Failback, next, m.back(next))
	case p.Kind == FailbackOnly:
		m.enter(RollingBack, 0, "all was back and is taken away again")
	default:
		m.enter(Verify, 0, "all is back")
	}
}

func (m *machine) paused() {
	if m.elapsed() < PauseFor {
		return
	}
	why := fmt.Sprintf("nobody resumed it within %s", PauseFor)
	if m.run.Cause == CauseLeader {
		m.rollBack(Failed, CauseLeader, why)
		return
	}
	m.rollBack(Interrupted, CauseOperator, why)
}

func (m *machine) revert() {
	switch {
	case !m.run.Moved():
		m.enter(Verify, 0, "nothing was shifted")
	case m.reverted():
		m.enter(Verify, 0, fmt.Sprintf("99 %% of routers have reverted after %s", m.elapsed().Round(time.Second)))
	case m.now.Sub(m.run.Renewed) >= LeaseTTL+RevertMargin:
		m.enter(Verify, 0, "the last lease has run out")
	}
}

func (m *machine) verify() {
	settled := m.run.Outcome != ""
	switch {
	case !m.run.Moved():
		m.end(m.run.Outcome, m.run.Cause, m.run.Reason)
	case !settled && m.in.Incident != "":
		m.end(Interrupted, CauseIncident, "a real incident: "+m.in.Incident)
	case !settled && m.in.Order != "":
		m.end(Interrupted, CauseOperator, "an operator's order: "+m.in.Order)
	case m.elapsed() < m.in.Plan.Verify:
	default:
		m.compare(settled)
	}
}

// compare ends the drill by how the time after it compares with the baseline. An outcome that is certain already stays.
func (m *machine) compare(settled bool) {
	outcome, cause, why := Succeeded, Cause(""), "all is again as before"
	seen := taken(m.in.Samples, m.run.Entered, func(s Sample) bool { return s.State == Verify })
	if b := Gate(m.in.Plan, m.run.Baseline, seen, m.in.ObjectiveMs); b != nil {
		m.tell(OfSignal, b.String(), "")
		outcome, cause, why = Failed, CauseVerify, "it is not again as before: "+b.String()
	}
	if settled {
		outcome, cause, why = m.run.Outcome, m.run.Cause, m.run.Reason+"; "+why
	}
	m.end(outcome, cause, why)
}

// last is the newest sample that was taken in the present state and stage.
func (m *machine) last() (Sample, bool) {
	if len(m.in.Samples) == 0 {
		return Sample{}, false
	}
	s := m.in.Samples[len(m.in.Samples)-1]
	return s, s.State == m.run.State && s.Step == m.run.Step && s.At >= m.run.Entered.UnixMilli()
}

// followed: 99 % of the routers obey the last lease.
func (m *machine) followed() bool {
	s, ok := m.last()
	return ok && s.Routers > 0 && 100*s.Obeying >= 99*s.Routers
}

// reverted: no more than 1 % of the routers may still shift anything.
func (m *machine) reverted() bool {
	s, ok := m.last()
	return ok && s.Routers > 0 && 100*s.Holding <= s.Routers
}

// taken are the samples from a time on that fit.
func taken(samples []Sample, from time.Time, fits func(Sample) bool) []Sample {
	first := len(samples)
	for first > 0 && samples[first-1].At >= from.UnixMilli() {
		first--
	}
	var out []Sample
	for _, s := range samples[first:] {
		if fits(s) {
			out = append(out, s)
		}
	}
	return out
}
