package rest

import (
	"fmt"
	"strings"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// maxMovesTold bounds what a refused write tells of what it would move.
const maxMovesTold = 10

// moderate refuses a write that would move more of the traffic at once than the safety rules allow,
// unless its author says that it shall, and why: then that is added to the reason in the audit trail.
//
// Glass says that the author breaks the glass, which allows it too; then large says whether that was needed.
func (r resources) moderate(c echo.Context, view *state.View, cmd *statepb.Command, glass bool) (large bool, err error) {
	allowed, err := flag(c, "allow_large_change")
	if err != nil {
		return false, err
	}
	limit := policy.SafetyOf(view).MaxMovedShare
	was := view.Table()
	if limit <= 0 || r.o.Table == nil || was == nil {
		return false, nil
	}
	next, out := state.Rehearse(view, cmd)
	if out.GetCode() != "" {
		return false, nil // whoever applies it in earnest says what is wrong
	}
	signals := r.o.Signals.Snapshot(r.o.Now())
	// What earlier writes and load would move is none of this one's.
	without, with := r.o.Table(view, was, signals), r.o.Table(next, was, signals)
	share := plan.MovedShare(without, with, signals)
	if share <= limit {
		return false, nil
	}
	if allowed || glass {
		if strings.TrimSpace(cmd.GetActor().GetReason()) == "" {
			return false, newProblem(codeInvalidRequest, "allow_large_change needs a reason: send it as "+headerReason+".")
		}
		allowance := fmt.Sprintf("; allowed to move %.0f %% of all traffic at once", 100*share)
		cmd.Actor.Reason = printable(cmd.GetActor().GetReason(), maxReason-len(allowance)-len("\uFFFD")) + allowance
		return !allowed, nil
	}
	var told []policy.Problem
	for _, m := range plan.Moves(without, with, signals) {
		if len(told) == maxMovesTold {
			break
		}
		var parts []string
		for _, s := range m.Clusters {
			parts = append(parts, fmt.Sprintf("%s %.0f %% → %.0f %%", s.Cluster, 100*s.From, 100*s.To))
		}
		told = append(told, policy.Problem{
			Field: "spec", Reason: fmt.Sprintf("moves model %s, class %s, from %s: %s", m.Model, m.Class, m.Source, strings.Join(parts, ", ")),
			Fix: "change less at a time, or send ?allow_large_change=true with a reason",
		})
	}
	return false, newProblem(codeChangeTooLarge, fmt.Sprintf(
		"It would send %.0f %% of all traffic elsewhere at once; the safety rules allow one change %.0f %%. Change less at a time, or send ?allow_large_change=true and the header %s.",
		100*share, 100*limit, headerReason), told...)
}
