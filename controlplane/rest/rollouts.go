package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/rollout"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// Rollout is the way of a change of configuration to the routers.
type Rollout struct {
	ID string `json:"id"`
	// Stage is canary, region, settled, returned or interrupted; the last three are ends.
	Stage  string `json:"stage"`
	Paused bool   `json:"paused"`
	// Canary is the router that got the table first, Region where it stands.
	Canary string `json:"canary"`
	Region string `json:"region"`
	// ConfigRevision is of the resources that it brings, BaseRevision of those before, and Changes names
	// what differs, the first of it, as Kind/name.
	ConfigRevision uint64   `json:"configRevision"`
	BaseRevision   uint64   `json:"baseRevision"`
	Changes        []string `json:"changes"`
	// TableRevision is of its table; 0 when it is no longer under way.
	TableRevision uint64    `json:"tableRevision"`
	StartedAt     time.Time `json:"startedAt"`
	StageSince    time.Time `json:"stageSince"`
	// Reason says why it ended; empty while it is under way.
	Reason string `json:"reason"`
	// Actor moved it last.
	Actor string `json:"actor"`
	// Retried: it was returned, and what it brought may be tried again as it is.
	Retried bool `json:"retried"`
	// Cohort is how far its table is in the present stage, as this node sees it; nil when it has ended.
	Cohort *Cohort `json:"cohort"`
	// Bake is what the present stage waits for; absent when it has ended, and in streams, where it would
	// change all the time.
	Bake *Bake `json:"bake,omitempty"`
}

// Cohort counts the routers that a rollout has reached.
type Cohort struct {
	// Expected were connected when the stage began, Known are now, Holding have the table and are heard
	// of, and Refused did not take it.
	Expected int `json:"expected"`
	Known    int `json:"known"`
	Holding  int `json:"holding"`
	Refused  int `json:"refused"`
}

// changeRoutes are the paths of how changes come to routers.
func (s *Server) changeRoutes(e *echo.Echo) {
	e.GET("/v1/rollouts", s.rollouts, s.may(read))
	e.GET("/v1/rollouts/:id", s.getRollout, s.may(read), timed)
	e.GET("/v1/rollouts/:id/routers", s.rolloutRouters, s.may(read), timed)
	for path, act := range map[string]string{
		"promote": state.ActSettle, "return": state.ActReturn, "pause": state.ActPause, "resume": state.ActResume, "retry": state.ActRetry,
	} {
		e.POST("/v1/rollouts/:id/"+path, s.steer(act), s.may(write), timed, s.keyed)
	}
	e.GET("/v1/freeze", s.getFreeze, s.may(read, anyScope), timed)
	e.PUT("/v1/freeze", s.freezeOrNot(state.ActFreeze), s.may(write), timed, s.keyed)
	e.DELETE("/v1/freeze", s.freezeOrNot(state.ActUnfreeze), s.may(write), timed, s.keyed)
}

// CohortOf tells of the routers that a rollout has reached.
type CohortOf func(*state.View, *statepb.Rollout, signal.Snapshot) []rollout.Member

func (s *Server) rollout(view *state.View, r *statepb.Rollout) Rollout {
	out := Rollout{
		ID: strconv.FormatUint(r.GetId(), 10), Stage: r.GetStage(), Paused: r.GetPaused(), Canary: r.GetCanary(), Region: r.GetRegion(),
		ConfigRevision: r.GetConfigRevision(), BaseRevision: r.GetBaseRevision(), Changes: slices.Clone(r.GetChanges()),
		StartedAt: time.UnixMilli(r.GetStartedUnixMs()).UTC(), StageSince: time.UnixMilli(r.GetStageUnixMs()).UTC(),
		Reason: r.GetReason(), Actor: r.GetActor(), Retried: r.GetRetried(),
	}
	if out.Changes == nil {
		out.Changes = []string{}
	}
	if view.Rollout().GetId() != r.GetId() {
		return out
	}
	out.TableRevision = view.FreshTable().GetRef().GetRevision()
	out.Cohort = &Cohort{Expected: int(r.GetExpected())}
	if s.o.CohortOf == nil {
		return out
	}
	for _, m := range s.o.CohortOf(view, r, s.o.Signals.Snapshot(s.o.Now())) {
		out.Cohort.Known++
		if m.Heard && m.Holds {
			out.Cohort.Holding++
		}
		if m.Refused != "" {
			out.Cohort.Refused++
		}
	}
	return out
}

// rollouts lists those that are remembered, newest first, or streams the newest whenever it differs.
func (s *Server) rollouts(c echo.Context) error {
	if yes, err := flag(c, "watch"); err != nil {
		return err
	} else if yes {
		return s.watchRollouts(c)
	}
	return timed(s.listRollouts)(c)
}

func (s *Server) listRollouts(c echo.Context) error {
	view, err := s.view(c)
	if err != nil {
		return err
	}
	list := List[Rollout]{Items: []Rollout{}}
	for _, r := range slices.Backward(view.Rollouts()) {
		list.Items = append(list.Items, s.baking(view, r))
	}
	return c.JSON(http.StatusOK, list)
}

func (s *Server) getRollout(c echo.Context) error {
	view, err := s.view(c)
	if err != nil {
		return err
	}
	r, err := rolloutOf(c, view)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, s.baking(view, r))
}

// rolloutOf finds the rollout of a path.
func rolloutOf(c echo.Context, view *state.View) (*statepb.Rollout, error) {
	for _, r := range view.Rollouts() {
		if strconv.FormatUint(r.GetId(), 10) == c.Param("id") {
			return r, nil
		}
	}
	return nil, newProblem(codeNotFound, fmt.Sprintf("No rollout %.40q is remembered; GET /v1/rollouts lists them.", c.Param("id")))
}

// steer gives a handler that moves a rollout.
func (s *Server) steer(act string) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := s.barrier(c.Request().Context()); err != nil {
			return err
		}
		r, err := rolloutOf(c, s.o.View())
		if err != nil {
			return err
		}
		return s.change(c, &statepb.SteerChange{Act: act, Rollout: r.GetId(), Why: "by " + actor(c).GetName()})
	}
}

// freezeOrNot gives a handler that freezes changes, or lets them through again. What is so already stays
// as it is.
func (s *Server) freezeOrNot(act string) echo.HandlerFunc {
	return func(c echo.Context) error { return s.change(c, &statepb.SteerChange{Act: act}) }
}

func (s *Server) change(c echo.Context, op *statepb.SteerChange) error {
	if reason := c.Request().Header.Get(headerReason); len(reason) > maxReason {
		return newProblem(codeInvalidRequest, fmt.Sprintf("%s is %d bytes long, the limit is %d.", headerReason, len(reason), maxReason))
	}
	cmd := &statepb.Command{AtUnixMs: s.o.Now().UnixMilli(), Actor: actor(c), Once: once(c), Op: &statepb.Command_SteerChange{SteerChange: op}}
	cmd.Format = state.FormatOf(cmd)
	out, err := s.o.Propose(c.Request().Context(), cmd)
	if err != nil {
		return fmt.Errorf("%s: %w", op.GetAct(), err)
	}
	switch out.GetCode() {
	case "":
	case state.CodeFrozen:
		return newProblem(codeFrozen, "Nothing goes on while changes are frozen: DELETE /v1/freeze first. Returning a rollout is still possible.")
	case state.CodeNotFound:
		return newProblem(codeNotUnderWay, out.GetMessage()+".")
	default:
		return problemOfOutcome(out)
	}
	s.o.Logger.Info("changes steered", slog.String("act", op.GetAct()), slog.Uint64("rollout", op.GetRollout()),
		slog.String("actor", actor(c).GetName()), slog.String("request_id", requestID(c)))
	return c.NoContent(http.StatusNoContent)
}

// Freeze says who keeps changes away from routers, and why.
type Freeze struct {
	At     time.Time `json:"at"`
	Actor  string    `json:"actor"`
	Reason string    `json:"reason"`
}

func (s *Server) freezeOf(view *state.View) *Freeze {
	f := view.FrozenAt(s.o.Now())
	if f == nil {
		return nil
	}
	return &Freeze{At: time.UnixMilli(f.GetAtUnixMs()).UTC(), Actor: f.GetActor(), Reason: f.GetReason()}
}

func (s *Server) getFreeze(c echo.Context) error {
	view, err := s.view(c)
	if err != nil {
		return err
	}
	if f := s.freezeOf(view); f != nil {
		return c.JSON(http.StatusOK, f)
	}
	return newProblem(codeNotFound, "Changes are not frozen.")
}

// watchRollouts sends the newest rollout, and again whenever it differs. Ids are revisions of the state;
// there is nothing to resume.
func (s *Server) watchRollouts(c echo.Context) error {
	var before []byte
	return s.follow(c, "rollout", func() (uint64, []byte, error) {
		view := s.o.View()
		now, err := s.newestRollout(view)
		if err != nil || bytes.Equal(before, now) {
			return view.Index(), nil, err
		}
		before = now
		return view.Index(), now, nil
	})
}

// newestRollout is the newest one as JSON; nil: there was none yet.
func (s *Server) newestRollout(view *state.View) ([]byte, error) {
	all := view.Rollouts()
	if len(all) == 0 {
		return nil, nil
	}
	return json.Marshal(s.rollout(view, all[len(all)-1]))
}
