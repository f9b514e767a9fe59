package rest

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/failover/drill"
)

// NewDrill says what is to be drilled: a DrillPlan by its name, or a spec as such a resource has it.
type NewDrill struct {
	Plan string          `json:"plan,omitempty"`
	Spec json.RawMessage `json:"spec,omitempty"`
	// StartAt is when it is to begin by itself once it is approved; absent: when somebody starts it.
	StartAt time.Time `json:"startAt,omitzero"`
}

// DrillApproval says what was seen of a drill that is approved.
type DrillApproval struct {
	PlanSHA256 string `json:"planSha256"`
	// Series approves all drills of its schedule that do the same, for 90 days.
	Series bool `json:"series,omitempty"`
}

// createDrill makes a draft, or with dry_run tells what it would do.
func (s *Server) createDrill(c echo.Context) error {
	dry, err := flag(c, "dry_run")
	if err != nil {
		return err
	}
	var in NewDrill
	if err := strictJSON(c, &in); err != nil {
		return err
	}
	view, err := s.decidedDrills(c)
	if err != nil {
		return err
	}
	op, err := s.drillFrom(view, in)
	if err != nil {
		return err
	}
	if dry {
		found, err := s.forecastDrill(c.Request().Context(), view, op.GetSpec())
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, found)
	}
	out, err := s.proposeDrill(c, &statepb.Command{Op: &statepb.Command_CreateDrill{CreateDrill: op}})
	if err != nil || out == nil {
		return err
	}
	return s.answerDrill(c, out.GetRevision(), http.StatusCreated)
}

// drillFrom is the draft that somebody asks for.
func (s *Server) drillFrom(view *state.View, in NewDrill) (*statepb.CreateDrill, error) {
	op := &statepb.CreateDrill{Plan: in.Plan}
	if !in.StartAt.IsZero() {
		if !in.StartAt.After(s.o.Now()) {
			return nil, problemDocument([]policy.Problem{{Field: "startAt", Reason: "is in the past", Fix: "leave it out, and start the drill when it is approved"}})
		}
		op.StartUnixMs = in.StartAt.UnixMilli()
	}
	if (in.Plan == "") == (len(in.Spec) == 0) {
		return nil, problemDocument([]policy.Problem{{Field: "plan", Reason: "and spec are both there, or both missing", Fix: "name a DrillPlan in plan, or write its spec in spec"}})
	}
	if in.Plan != "" {
		r, ok := view.Get(policy.KindDrillPlan, in.Plan)
		if !ok {
			return nil, notFound(policy.KindDrillPlan, in.Plan)
		}
		op.PlanRevision = r.Metadata.Revision
		var err error
		if op.Spec, err = json.Marshal(r.Spec); err != nil {
			return nil, fmt.Errorf("write DrillPlan %q: %w", in.Plan, err)
		}
		return op, nil
	}
	document, err := json.Marshal(map[string]any{"apiVersion": policy.APIVersion, "kind": policy.KindDrillPlan, "metadata": map[string]string{"name": "given-with-the-drill"}, "spec": in.Spec})
	if err != nil {
		return nil, newProblem(codeMalformed, "spec is not JSON.")
	}
	r, problems := policy.Parse(document)
	if problems = (resources{s, policy.KindDrillPlan}).vet(r, problems, view, ""); len(problems) > 0 {
		return nil, problemDocument(problems)
	}
	if op.Spec, err = json.Marshal(r.Spec); err != nil {
		return nil, fmt.Errorf("write the spec of a drill: %w", err)
	}
	return op, nil
}

// decidedDrills is the state to decide by: as new as what was committed before.
func (s *Server) decidedDrills(c echo.Context) (*state.View, error) {
	if reason := c.Request().Header.Get(headerReason); len(reason) > maxReason {
		return nil, newProblem(codeInvalidRequest, fmt.Sprintf("%s is %d bytes long, the limit is %d.", headerReason, len(reason), maxReason))
	}
	if err := s.barrier(c.Request().Context()); err != nil {
		return nil, err
	}
	return s.o.View(), nil
}

// theDrill finds the drill of a path to decide on, and holds it to If-Match if that was sent: what was looked at is
// what is decided on. It is not required, as what stops a drill is to be easy.
func (s *Server) theDrill(c echo.Context) (*state.View, *statepb.Drill, error) {
	view, err := s.decidedDrills(c)
	if err != nil {
		return nil, nil, err
	}
	d, err := drillOf(c, view)
	if err != nil || c.Request().Header.Get("If-Match") == "" {
		return view, d, err
	}
	when, err := conditionOf(c.Request().Header, d.GetRevision(), false)
	if err != nil {
		return nil, nil, err
	}
	if !when.any && when.revision != d.GetRevision() {
		return nil, nil, newProblem(codePrecondition, fmt.Sprintf("Drill %d is at revision %d, not %d. Read it again, and send its ETag as If-Match.", d.GetId(), d.GetRevision(), when.revision))
	}
	return view, d, nil
}

// forecastDrill makes a dry run.
func (s *Server) forecastDrill(ctx context.Context, view *state.View, spec []byte) (DrillDryRun, error) {
	if s.o.Drills == nil {
		return DrillDryRun{}, newProblem(codeBusy, "This node makes no dry runs of drills; ask another one.")
	}
	if !s.simulating.TryLock() {
		return DrillDryRun{}, newProblem(codeBusy, "Another simulation is running on this node.").after(time.Second)
	}
	defer s.simulating.Unlock()
	now := s.o.Now()
	found, err := s.o.Drills(ctx, view, spec, s.o.Signals.Snapshot(now), now)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return DrillDryRun{}, err
	case err != nil:
		return DrillDryRun{}, fmt.Errorf("dry run of a drill: %w", err)
	}
	found.Spec = spec
	return found, nil
}

// validateDrill makes the dry run of a drill, which is what others approve, or the end of it.
func (s *Server) validateDrill(c echo.Context) error {
	dry, err := flag(c, "dry_run")
	if err != nil {
		return err
	}
	view, d, err := s.theDrill(c)
	if err != nil {
		return err
	}
	found, err := s.forecastDrill(c.Request().Context(), view, d.GetSpec())
	if err != nil {
		return err
	}
	if dry {
		return c.JSON(http.StatusOK, found)
	}
	resolved, err := json.Marshal(found.Resolved)
	if err != nil {
		return fmt.Errorf("validate drill %d: %w", d.GetId(), err)
	}
	forecast, err := json.Marshal(found.Forecast)
	if err != nil {
		return fmt.Errorf("validate drill %d: %w", d.GetId(), err)
	}
	return s.decideDrill(c, &statepb.DecideDrill{
		Id: d.GetId(), Act: state.DrillValidate, Resolved: resolved, Forecast: forecast, Refused: found.Refused, Cause: found.Cause, Why: printable(found.Reason, maxReason),
	})
}

// approveDrill is another person's word for a drill as they have seen it.
func (s *Server) approveDrill(c echo.Context) error {
	var in DrillApproval
	if err := strictJSON(c, &in); err != nil {
		return err
	}
	_, d, err := s.theDrill(c)
	if err != nil {
		return err
	}
	sum, err := hex.DecodeString(in.PlanSHA256)
	if err != nil || len(sum) == 0 {
		return problemDocument([]policy.Problem{{Field: "planSha256", Reason: fmt.Sprintf("%.80q is not the hash of a drill's plan", in.PlanSHA256), Fix: "send the planSha256 of the drill that you have looked at"}})
	}
	return s.decideDrill(c, &statepb.DecideDrill{Id: d.GetId(), Act: state.DrillApprove, PlanSha256: sum, Series: in.Series})
}

// steerDrill gives a handler that starts, pauses, resumes or aborts.
func (s *Server) steerDrill(act string) echo.HandlerFunc {
	return func(c echo.Context) error {
		glass := ""
		if act == state.DrillStart {
			var err error
			if glass, err = glassOf(c); err != nil {
				return err
			}
		}
		_, d, err := s.theDrill(c)
		if err != nil {
			return err
		}
		return s.decideDrill(c, &statepb.DecideDrill{Id: d.GetId(), Act: act, BreakGlass: glass, Why: printable(c.Request().Header.Get(headerReason), maxReason)})
	}
}

// decideDrill commits what somebody says, and answers the drill as it is then.
func (s *Server) decideDrill(c echo.Context, op *statepb.DecideDrill) error {
	out, err := s.proposeDrill(c, &statepb.Command{Op: &statepb.Command_DecideDrill{DecideDrill: op}})
	if err != nil || out == nil {
		return err
	}
	view := s.o.View()
	if d := view.Drill(op.GetId()); op.GetBreakGlass() != "" && d.GetBroken().GetRevision() == out.GetRevision() {
		s.metrics.brokeGlass()
		s.o.Logger.Error("the glass was broken: a drill did not wait for approval", slog.Uint64("drill", op.GetId()), slog.String("actor", actor(c).GetName()),
			slog.String("reason", op.GetBreakGlass()), slog.String("request_id", requestID(c)))
	}
	s.o.Logger.Info("drill decided", slog.Uint64("drill", op.GetId()), slog.String("act", op.GetAct()), slog.String("actor", actor(c).GetName()), slog.String("request_id", requestID(c)))
	return s.answerDrill(c, op.GetId(), http.StatusOK)
}

// proposeDrill commits a command. Nil and no error: it was done before, and has been answered again.
func (s *Server) proposeDrill(c echo.Context, cmd *statepb.Command) (*statepb.Outcome, error) {
	cmd.AtUnixMs, cmd.Actor, cmd.Once = s.o.Now().UnixMilli(), actor(c), once(c)
	cmd.Format = state.FormatOf(cmd)
	out, err := s.o.Propose(c.Request().Context(), cmd)
	if err != nil {
		return nil, fmt.Errorf("drill: %w", err)
	}
	if a := out.GetAnswer(); a != nil { // the first one came through while this one was on its way
		return nil, s.answerAgain(c, a)
	}
	p := problemOfDrill(out)
	if op := cmd.GetDecideDrill(); p != nil && p.Code == codeDrillState && op.GetAct() == state.DrillStart {
		if was := s.o.View().Drill(op.GetId()).GetState(); was == string(drill.Pending) || was == string(drill.Validated) {
			p = newProblem(codeNotApproved, p.Detail)
		}
	}
	if p != nil {
		return nil, p
	}
	return out, nil
}

// answerDrill answers with a drill as it is now.
func (s *Server) answerDrill(c echo.Context, id uint64, status int) error {
	d := s.o.View().Drill(id)
	if d == nil {
		return newProblem(codeNotFound, fmt.Sprintf("Drill %d is over, and not remembered any more.", id))
	}
	h := c.Response().Header()
	h.Set("ETag", etag(d.GetRevision()))
	if status == http.StatusCreated {
		h.Set("Location", "/v1/drills/"+strconv.FormatUint(id, 10))
	}
	return c.JSON(status, s.wholeDrill(d))
}

// drillAgain answers what was done before under the same key with the drill as it is now.
func (s *Server) drillAgain(c echo.Context, a *statepb.Answer) error {
	id, err := strconv.ParseUint(a.GetName(), 10, 64)
	if err != nil {
		return fmt.Errorf("answer again: %w", err)
	}
	status := http.StatusOK
	if a.GetCreated() {
		status = http.StatusCreated
	}
	return s.answerDrill(c, id, status)
}

// problemOfDrill is what a refused command about a drill means to the caller; nil: it was done.
func problemOfDrill(out *statepb.Outcome) *Problem {
	message := capital(out.GetMessage())
	switch out.GetCode() {
	case state.CodeExists:
		return newProblem(codeDrillUnderWay, message+" At most one is at a time: wait for it, or abort it.")
	case state.CodeOwnProposal:
		return newProblem(codeOwnProposal, message)
	case state.CodePrecondition:
		if out.GetField() == "plan_sha256" {
			return newProblem(codeProposalChanged, message+" Send its planSha256.")
		}
		return newProblem(codeDrillState, message)
	}
	return problemOfOutcome(out)
}

// capital begins with a capital and ends with a full stop.
func capital(text string) string {
	if text == "" {
		return ""
	}
	return string(bytes.ToUpper([]byte(text[:1]))) + text[1:] + "."
}

// ended says whether a drill is over.
func ended(d *statepb.Drill) bool { return d.GetState() == string(drill.Done) }
