package rest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/account"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/costmodel"
)

// SimulationTimeout bounds both runs of a simulation together.
const SimulationTimeout = 4 * time.Second

// DryRun answers a write with ?dry_run=true: what it would make, and how that differs.
type DryRun struct {
	// Resource is absent for a deletion.
	Resource *policy.Resource `json:"resource,omitempty"`
	Diff     []policy.Change  `json:"diff"`
	// ApprovalsNeeded is how many others would have to approve it first; absent: nobody.
	ApprovalsNeeded int `json:"approvalsNeeded,omitempty"`
	// Lint is what would be allowed and hardly meant: of the resource, and what is new elsewhere.
	Lint []policy.Warning `json:"lint"`
	// Simulation is what would become of traffic; absent with ?simulate=false.
	Simulation *Simulation `json:"simulation,omitempty"`
}

// Simulation compares the routing table in force with the one that would follow, and what a simulated
// fleet makes of the resources before and after.
type Simulation struct {
	// Note says why something is not told, or what the figures leave out; empty: nothing is to be said.
	Note string `json:"note"`
	// Weights are the shares that would move, Clusters the clusters' shares of all traffic that would.
	Weights  []plan.Move      `json:"weights"`
	Clusters []plan.ShareMove `json:"clusters"`
	// Tenants are those that would move, by what they asked for in the last hour, and those that would have no place.
	Tenants []plan.TenantMove `json:"tenants"`
	// Before and After are absent if there was nothing to simulate.
	Before *Forecast `json:"before,omitempty"`
	After  *Forecast `json:"after,omitempty"`
}

// Forecast is what a simulated fleet did. Figures that are not known are absent.
type Forecast struct {
	// Seconds of virtual time, and Requests that came in it.
	Seconds  float64 `json:"seconds"`
	Requests int     `json:"requests"`
	// TTFTP50Ms and TTFTP99Ms are times to the first token.
	TTFTP50Ms *float64 `json:"ttftP50Ms,omitempty"`
	TTFTP99Ms *float64 `json:"ttftP99Ms,omitempty"`
	// Goodput is the share of requests that were answered within the objectives, Shed of those that were
	// refused for want of room, Failed of those that nothing could answer: 0..1.
	Goodput float64 `json:"goodput"`
	Shed    float64 `json:"shed"`
	Failed  float64 `json:"failed"`
	// MicroUSDPerAnswer is what the fleet costs for a whole answer, in millionths of a dollar.
	MicroUSDPerAnswer *float64 `json:"microUSDPerAnswer,omitempty"`
}

// Simulator forecasts what becomes of the traffic that signals tell, with the resources of two states.
// Both forecasts are nil if there is nothing to simulate; the note says why, or what they leave out.
type Simulator interface {
	Simulate(ctx context.Context, before, after *state.View, signals signal.Snapshot) (was, willBe *Forecast, note string, err error)
	// Suppose forecasts the same of one state, without and with a change.
	Suppose(ctx context.Context, of *state.View, change plan.Change, signals signal.Snapshot) (was, willBe *Forecast, note string, err error)
}

// pretend answers a dry run.
func (r resources) pretend(c echo.Context, view *state.View, ch change, approvals int) error {
	simulate, err := flagOr(c, "simulate", true)
	if err != nil {
		return err
	}
	next, out := state.Rehearse(view, r.command(c, ch))
	if p := problemOfOutcome(out); p != nil {
		return p
	}
	signals := r.o.Signals.Snapshot(r.o.Now())
	answer := DryRun{
		ApprovalsNeeded: approvals,
		Diff:            policy.Diff(ch.old, ch.next),
		Lint:            warnings(c, next, policy.Brought(r.kind, ch.name, lint(view, signals), lint(next, signals))),
	}
	if ch.next != nil {
		would := *ch.next
		would.Metadata.Revision, would.Metadata.UpdatedBy = 0, actor(c).GetName()
		would.Metadata.CreatedAt, would.Metadata.UpdatedAt = time.Time{}, time.Time{}
		if ch.old != nil {
			would.Metadata.Revision, would.Metadata.CreatedAt, would.Metadata.UpdatedAt = ch.old.Metadata.Revision, ch.old.Metadata.CreatedAt, ch.old.Metadata.UpdatedAt
		}
		answer.Resource = r.dresser(view)(&would)
	}
	if simulate {
		answer.Simulation = r.outlook(c, view, next, signals)
		answer.Lint = append(answer.Lint, warnings(c, next, r.unsurvived(ch, next, signals))...)
	}
	return c.JSON(http.StatusOK, answer)
}

// unsurvived warns of losses that the policy of a change wants to survive and would not. It plans each loss, which takes too
// long to be asked for at every key.
func (r resources) unsurvived(ch change, next *state.View, signals signal.Snapshot) []policy.Warning {
	if r.o.Planned == nil || r.kind != policy.KindTrafficPolicy {
		return nil
	}
	own := policy.Plural(r.kind) + "/" + ch.name
	return slices.DeleteFunc(plan.Unsurvived(r.o.Planned(next, signals)), func(w policy.Warning) bool { return w.Resource != own })
}

func lint(view *state.View, signals signal.Snapshot) []policy.Warning {
	return slices.Concat(policy.Lint(view, view.Offers()...), policy.LintFailover(view, signals.At), plan.Overpromised(plan.Input{Resources: view, Signals: signals}))
}

// mostMovers bounds the tenants that a simulation names.
const mostMovers = 200

// outlook is what would become of traffic, with the tenants that the caller may see.
func (s *Server) outlook(c echo.Context, before, after *state.View, signals signal.Snapshot) *Simulation {
	sim := s.simulate(c.Request().Context(), before, after, signals)
	now := s.o.Now()
	scope := identity(c).Scope
	for _, t := range plan.TenantMoves(sim.Weights, lately(before, now), policy.Stranded(before, after, now)) {
		if scope.Seen(string(t.Tenant)) && len(sim.Tenants) < mostMovers {
			sim.Tenants = append(sim.Tenants, t)
		}
	}
	return sim
}

// lately is what tenants asked for in the last hour, by the account; nothing if that knows nothing of it.
func lately(view *state.View, now time.Time) []plan.Asked {
	told, err := view.Account().Ask(account.Query{From: now.Add(-time.Hour), Until: now, By: costmodel.ByTenant | costmodel.ByModel | costmodel.ByClass | costmodel.BySource})
	if err != nil {
		return nil
	}
	out := make([]plan.Asked, 0, len(told.Rows))
	for _, row := range told.Rows {
		out = append(out, plan.Asked{
			Tenant: row.Key.Tenant, Model: row.Key.Model, Class: cmp.Or(row.Key.Class, fleet.DefaultClass), Source: row.Key.Source, Work: float64(row.Work),
		})
	}
	return out
}

// simulate compares tables, and lets the simulator compare what becomes of traffic. What fails of it is
// told in the note: the dry run has its answer without.
func (s *Server) simulate(ctx context.Context, before, after *state.View, signals signal.Snapshot) *Simulation {
	sim := &Simulation{Weights: []plan.Move{}, Clusters: []plan.ShareMove{}, Tenants: []plan.TenantMove{}}
	if s.o.Table == nil {
		sim.Note = "This node does not plan."
		return sim
	}
	was := before.Table()
	if was == nil {
		was = s.o.Table(before, nil, signals)
	}
	willBe := s.o.Table(after, was, signals)
	sim.Weights, sim.Clusters = plan.Moves(was, willBe, signals), plan.Totals(was, willBe, signals)
	switch {
	case s.o.Simulator == nil:
		sim.Note = "This node has no simulator: only weights are compared."
		return sim
	case willBe == nil:
		sim.Note = "There would be no routing table: that needs a region, a cluster and a model at least."
		return sim
	case !s.simulating.TryLock():
		sim.Note = "Another simulation is running on this node: only weights are compared."
		return sim
	}
	defer s.simulating.Unlock()
	ctx, cancel := context.WithTimeout(ctx, SimulationTimeout)
	defer cancel()
	var err error
	sim.Before, sim.After, sim.Note, err = s.o.Simulator.Simulate(ctx, before, after, signals)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		sim.Before, sim.After, sim.Note = nil, nil, fmt.Sprintf("The simulation took longer than %s and was given up: only weights are compared.", SimulationTimeout)
	case err != nil:
		s.o.Logger.Warn("simulation failed", slog.Any("err", err))
		sim.Before, sim.After, sim.Note = nil, nil, "The simulation failed; the node's log says why. Only weights are compared."
	}
	return sim
}

// Planner makes the table that would follow another for the resources of a state, which is nil while
// there is nothing to publish. The table before is nil if there is none.
type Planner func(v *state.View, before *routerpb.Table, signals signal.Snapshot) *routerpb.Table
