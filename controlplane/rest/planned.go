package rest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/api/fleet"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
)

// maxExplaining is how many questions about the plan one node answers at a time: each takes a processor for
// up to a second or so.
const maxExplaining = 2

// Planned makes what the leader plans from, out of a state and the signals that this node has.
type Planned func(v *state.View, signals signal.Snapshot) plan.Input

// PlanAnswer says why the traffic for a model goes where it does.
type PlanAnswer struct {
	At time.Time `json:"at"`
	// TableRevision is of the table in force; 0: there is none yet.
	TableRevision uint64 `json:"tableRevision"`
	plan.Explanation
}

// WhatIfAnswer says what a change would do.
type WhatIfAnswer struct {
	At time.Time `json:"at"`
	plan.Effect
	// Simulation is what a simulated fleet makes of it; absent unless it was asked for.
	Simulation *SupposedSimulation `json:"simulation,omitempty"`
}

// SupposedSimulation is what a simulated fleet makes of a change. Before and After are absent if there was
// nothing to simulate.
type SupposedSimulation struct {
	Note   string    `json:"note"`
	Before *Forecast `json:"before,omitempty"`
	After  *Forecast `json:"after,omitempty"`
}

func (s *Server) planRoutes(e *echo.Echo) {
	e.GET("/v1/models/:name/plan", s.explainPlan, s.may(read, anyScope), timed)
	e.POST("/v1/plan/what-if", s.whatIf, s.may(read, anyScope), timed)
}

// explainPlan explains the plan for a model, by the signals of this node.
func (s *Server) explainPlan(c echo.Context) error {
	ask := plan.Ask{
		Model: fleet.ModelID(nameOf(c)), Class: fleet.ClassID(c.QueryParam("class")), Source: fleet.RegionID(c.QueryParam("source")),
		Cluster: fleet.ClusterID(c.QueryParam("cluster")),
	}
	changes, err := flagOr(c, "changes", true)
	if err != nil {
		return err
	}
	if changes {
		ask.Effort = plan.DefaultEffort
	}
	view := s.localView(c)
	if _, known := view.Get(policy.KindModel, string(ask.Model)); !known {
		return notFound(policy.KindModel, string(ask.Model))
	}
	in, done, err := s.planning(c.Request().Context(), view)
	if err != nil {
		return err
	}
	defer done()
	answer := PlanAnswer{At: in.Now.UTC(), TableRevision: in.Previous.GetRef().GetRevision()}
	if answer.Explanation, err = plan.Explain(in, ask); errors.Is(err, plan.ErrNoDemand) {
		return unknownTraffic(in.Resources, ask)
	} else if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, answer)
}

// planning takes a place among those who plan, which done gives back.
func (s *Server) planning(ctx context.Context, view *state.View) (in plan.Input, done func(), err error) {
	if s.o.Planned == nil {
		return in, nil, newProblem(codeBusy, "This node does not plan; ask another.")
	}
	if done, err = s.explaining.take(ctx); err != nil {
		return in, nil, err
	}
	return s.o.Planned(view, s.o.Signals.Snapshot(s.o.Now())), done, nil
}

// unknownTraffic names the parameters that stand for nothing, and what could stand there.
func unknownTraffic(resources plan.Lookup, ask plan.Ask) *Problem {
	p := newProblem(codeInvalidRequest, "There is no such traffic.")
	check := func(field, value string, known []string) {
		if value != "" && !slices.Contains(known, value) {
			p.Errors = append(p.Errors, policy.Problem{
				Field: field, Reason: fmt.Sprintf("%.64q is not known", value), Fix: "use one of " + strings.Join(known, ", ") + ", or leave it out",
			})
		}
	}
	var classes []string
	for _, id := range plan.Classes(resources) {
		classes = append(classes, string(id))
	}
	check("class", string(ask.Class), classes)
	check("source", string(ask.Source), namesIn(resources.List(policy.KindRegion)))
	check("cluster", string(ask.Cluster), namesIn(resources.List(policy.KindCluster)))
	switch {
	case len(p.Errors) > 0:
	case ask.Cluster != "":
		p.Detail = fmt.Sprintf("Cluster %.64s does not serve model %.64s, or can't be reached from there.", ask.Cluster, ask.Model)
	case ask.Class != "":
		p.Detail = fmt.Sprintf("No policy of class %.64s speaks of model %.64s.", ask.Class, ask.Model)
	default:
		p.Detail = "There is no region yet from which model " + string(ask.Model) + " could be asked for."
	}
	return p
}

func namesIn(list []*policy.Resource) []string {
	var out []string
	for _, r := range list {
		out = append(out, r.Metadata.Name)
	}
	return out
}

// whatIf says what a change would do, and changes nothing.
func (s *Server) whatIf(c echo.Context) error {
	simulate, err := flagOr(c, "simulate", false)
	if err != nil {
		return err
	}
	var change plan.Change
	if err := strictJSON(c, &change); err != nil {
		return err
	}
	view := s.localView(c)
	in, done, err := s.planning(c.Request().Context(), view)
	if err != nil {
		return err
	}
	defer done()
	problems := change.Check(in.Resources)
	if change.Empty() {
		problems = append(problems, policy.Problem{Reason: "nothing is supposed", Fix: "give withoutRegions, withoutClusters, prices, demand or capacity"})
	}
	if len(problems) > 0 {
		p := newProblem(codeInvalid, "This can't be supposed of the fleet.")
		p.Errors = problems
		return p
	}
	answer := WhatIfAnswer{At: in.Now.UTC(), Effect: plan.WhatIf(in, change)}
	if simulate {
		answer.Simulation = s.supposed(c.Request().Context(), view, change, in.Signals)
	}
	return c.JSON(http.StatusOK, answer)
}

// supposed simulates a change. What fails of it is told in the note.
func (s *Server) supposed(ctx context.Context, view *state.View, change plan.Change, signals signal.Snapshot) *SupposedSimulation {
	out := &SupposedSimulation{}
	switch {
	case s.o.Simulator == nil:
		out.Note = "This node has no simulator."
		return out
	case !s.simulating.TryLock():
		out.Note = "Another simulation is running on this node."
		return out
	}
	defer s.simulating.Unlock()
	ctx, cancel := context.WithTimeout(ctx, SimulationTimeout)
	defer cancel()
	var err error
	out.Before, out.After, out.Note, err = s.o.Simulator.Suppose(ctx, view, change, signals)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		*out = SupposedSimulation{Note: fmt.Sprintf("The simulation took longer than %s and was given up.", SimulationTimeout)}
	case err != nil:
		s.o.Logger.Warn("simulation failed", slog.Any("err", err))
		*out = SupposedSimulation{Note: "The simulation failed; the node's log says why."}
	}
	return out
}
