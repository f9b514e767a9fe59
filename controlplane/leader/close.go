package leader

import (
	"context"
	"time"

	"anabranch/controlplane/account"
	"anabranch/controlplane/billing"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// accountLevel is the feature level from which on there is an account.
const accountLevel = 5

// gapAfter is how long a gap must have been due before it is made: a clock that has jumped is set right meanwhile.
const gapAfter = 10 * time.Minute

// believes says whether it is as late as the clock says. Minutes beyond a gap can't be taken back: one look with a
// clock that is a year ahead would end all that the account keeps, and close nothing more for a year.
func (l *loop) believes(a account.Account, now time.Time) bool {
	if a.Begun().IsZero() || now.Sub(a.Closed()) <= billing.MaxGap {
		l.gap = time.Time{}
		return true
	}
	if l.gap.IsZero() {
		l.gap = now
		l.logger.Warn("the account has not been closed for so long that the time until now becomes a gap, unless the clock is wrong",
			"closed", a.Closed(), "now", now, "after", gapAfter)
	}
	return now.Sub(l.gap) >= gapAfter // by the monotonic clock
}

// closeMinutes has the minutes that are over billed. A new leader waits as long as after each minute: routers
// tell what they used without one first, and its bill is not to come before that.
func (l *loop) closeMinutes(ctx context.Context, view *state.View, signals signal.Snapshot, now time.Time) {
	if view.FeatureLevel() < accountLevel || now.Sub(l.began) < billing.Grace {
		return
	}
	if !l.believes(view.Account(), now) {
		return
	}
	command := billing.Close(billing.Due{
		Account: view.Account(), Held: billing.Held(view), Now: now,
		Capacity: signals.Capacity,
	})
	if command == nil {
		return
	}
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c := &statepb.Command{
		AtUnixMs: l.o.Now().UnixMilli(),
		Actor:    &statepb.Actor{Name: actor, Role: "admin", Reason: "the minutes are over"},
		Op:       &statepb.Command_CloseMinutes{CloseMinutes: command},
	}
	c.Format = state.FormatOf(c)
	outcome, err := l.o.Propose(short, c)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		l.metrics.unbilled.Inc()
		l.logger.Warn("close minutes of the account", "error", err) // the next tick tries again
	case outcome.GetCode() == state.CodePrecondition: // another leader was first, or this one without knowing
	case outcome.GetCode() != "":
		l.metrics.unbilled.Inc()
		l.logger.Error("minutes of the account refused", "code", outcome.GetCode(), "field", outcome.GetField(), "reason", outcome.GetMessage())
	}
}
