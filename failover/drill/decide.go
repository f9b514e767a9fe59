package drill

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Act is what a person, or the node that made a dry run, says to a drill.
type Act string

// The acts.
const (
	ActValidate Act = "validate"
	ActApprove  Act = "approve"
	ActStart    Act = "start"
	ActPause    Act = "pause"
	ActResume   Act = "resume"
	ActAbort    Act = "abort"
)

// Decision is an act and what comes with it.
type Decision struct {
	Act Act
	// Who decides, and Why; empty: no reason was given.
	Who string
	Why string
	// PlanSHA256: validate, what the dry run was of; approve, what the approver was shown.
	PlanSHA256 []byte
	// Refused and Cause: validate, the outcome when it is not to go on. Empty: it is.
	Refused Outcome
	Cause   Cause
	// BreakGlass: start, why it is not to wait for approval. Empty: it is.
	BreakGlass string
}

// What [Decide] refuses.
var (
	// ErrState: the drill is in a state in which the act means nothing.
	ErrState = errors.New("not in this state")
	// ErrPlan: what is approved is not what the drill is.
	ErrPlan = errors.New("another plan")
	// ErrPerson: who approves has created it, or has approved it already.
	ErrPerson = errors.New("not by the same person")
	// ErrAct: there is no such act, or it lacks something.
	ErrAct = errors.New("no such act")
)

// Decide applies an act. An error wraps one of the Err values and says what to do; the run is then as it was.
func Decide(r Run, kind Kind, rules Rules, d Decision, now time.Time) (Run, []Happening, error) {
	m := machine{run: r, in: Inputs{Plan: Plan{Kind: kind}, Rules: rules}, now: now}
	var err error
	switch d.Act {
	case ActValidate:
		err = m.validated(d)
	case ActApprove:
		err = m.approve(d)
	case ActStart:
		err = m.start(d)
	case ActPause:
		err = m.hold(d)
	case ActResume:
		err = m.resume()
	case ActAbort:
		err = m.abort(d)
	default:
		err = fmt.Errorf("%w: %.20q; acts are validate, approve, start, pause, resume and abort", ErrAct, d.Act)
	}
	if err != nil {
		return r, nil, err
	}
	for i := range m.events {
		m.events[i].Actor = d.Who
	}
	return m.run, m.events, nil
}

func (m *machine) refuse(hint string) error {
	return fmt.Errorf("%w: the drill is %s; %s", ErrState, m.run.State, hint)
}

func (m *machine) validated(d Decision) error {
	if m.run.State != Draft {
		return m.refuse("only a draft can be validated: create another drill")
	}
	if d.Refused != "" {
		if d.Refused != CapacityFailed && d.Refused != Blocked {
			return fmt.Errorf("%w: a dry run refuses with %s or %s, not %.30q", ErrAct, CapacityFailed, Blocked, d.Refused)
		}
		m.end(d.Refused, d.Cause, why(d, "the dry run does not let it"))
		return nil
	}
	if len(d.PlanSHA256) == 0 {
		return fmt.Errorf("%w: validate without the hash of what was simulated", ErrAct)
	}
	m.run.PlanSHA256 = bytes.Clone(d.PlanSHA256)
	m.enter(Validated, 0, why(d, "the dry run lets it"))
	return nil
}

func (m *machine) approve(d Decision) error {
	switch {
	case m.run.State != Pending && m.run.State != Validated:
		return m.refuse("only one that is validated, and not approved yet, can be approved")
	case !bytes.Equal(m.run.PlanSHA256, d.PlanSHA256):
		return fmt.Errorf("%w: what you were shown is not what the drill is now; look at it again", ErrPlan)
	case d.Who == "" || d.Who == m.run.Creator:
		return fmt.Errorf("%w: who created a drill can't approve it; ask somebody else", ErrPerson)
	case slices.ContainsFunc(m.run.Approvals, func(a Approval) bool { return a.Who == d.Who }):
		return fmt.Errorf("%w: you have approved it already; ask somebody else", ErrPerson)
	}
	m.run.Approvals = append(slices.Clone(m.run.Approvals), Approval{d.Who, m.now})
	if missing := m.in.Rules.ApprovalsFor(m.in.Plan.Kind) - len(m.run.Approvals); missing > 0 {
		m.tell(OfOperator, fmt.Sprintf("approved; %d more needed", missing), d.Who)
		return nil
	}
	m.run.Until = m.now.Add(m.in.Rules.ApprovalFor())
	m.enter(Scheduled, 0, why(d, "approved"))
	return nil
}

func (m *machine) start(d Decision) error {
	switch {
	case m.run.State == Scheduled:
		m.run.Start = m.now
		m.tell(OfOperator, why(d, "to begin now"), d.Who)
		return nil
	case m.run.State != Validated && m.run.State != Pending:
		return m.refuse("only one that is validated and approved can be started")
	case d.BreakGlass == "":
		return m.refuse("it waits for approval; break the glass, with a reason, if that can't be waited for")
	}
	m.run.Broken, m.run.Start, m.run.Until = d.BreakGlass, m.now, m.now.Add(m.in.Rules.ApprovalFor())
	m.enter(Scheduled, 0, "started without approval: "+d.BreakGlass)
	return nil
}

func (m *machine) hold(d Decision) error {
	if !Legal(m.run.State, Paused) {
		return m.refuse("only one that shifts, dwells, holds or fails back can be paused")
	}
	m.pause(CauseOperator, why(d, "paused by an operator"))
	return nil
}

func (m *machine) resume() error {
	if m.run.State != Paused {
		return m.refuse("only a paused one can be resumed")
	}
	m.run.Cause = ""
	m.enter(m.run.Resume, m.run.Step, "resumed")
	return nil
}

func (m *machine) abort(d Decision) error {
	switch {
	case m.run.State == RollingBack || m.run.State == Verify || m.run.State == Done:
		return m.refuse("there is nothing left to abort")
	case m.run.State.Active():
		m.rollBack(Interrupted, CauseOperator, why(d, "aborted by an operator"))
	default:
		m.end(Interrupted, CauseOperator, why(d, "cancelled"))
	}
	return nil
}

func why(d Decision, otherwise string) string {
	if d.Why == "" {
		return otherwise
	}
	return otherwise + ": " + d.Why
}
