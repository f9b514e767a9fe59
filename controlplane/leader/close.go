package leader

import (
	"context"
	"time"

	"anabranch/controlplane/billing"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// accountLevel is the feature level from which on there is an account.
const accountLevel = 5

// closeMinutes has the minutes that are over billed. A new leader waits as long as after each minute: routers
// tell what they used without one first, and its bill is not to come before that.
func (l *loop) closeMinutes(ctx context.Context, view *state.View, signals signal.Snapshot, now time.Time) {
	if view.FeatureLevel() < accountLevel || now.Sub(l.began) < billing.Grace {
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
