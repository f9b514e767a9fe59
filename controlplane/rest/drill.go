package rest

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/failover/drill"
)

// Drill is one run of a DrillPlan, or of a plan that was given with it.
type Drill struct {
	ID string `json:"id"`
	// Plan is the name of the DrillPlan and PlanRevision its revision then; absent: the plan came with the drill.
	Plan         string `json:"plan,omitempty"`
	PlanRevision uint64 `json:"planRevision,omitempty"`
	Kind         string `json:"kind"`
	// State is where it stands, Step the stage of it, Reason why for people. Resume is what PAUSED goes on with.
	State      string    `json:"state"`
	Step       int       `json:"step"`
	StateSince time.Time `json:"stateSince"`
	Reason     string    `json:"reason"`
	Resume     string    `json:"resume,omitempty"`
	// Outcome and Cause are absent as long as they are open.
	Outcome string `json:"outcome,omitempty"`
	Cause   string `json:"cause,omitempty"`
	// PlanSHA256 is of what is to be approved; absent: it is not validated.
	PlanSHA256 string    `json:"planSha256,omitempty"`
	Creator    Person    `json:"creator"`
	CreatedAt  time.Time `json:"createdAt"`
	// StartAt is when it is to begin by itself, StartedAt when it did, EndedAt when it was over, NotAfter when
	// routers take all back whatever happens; absent: not known, or not yet.
	StartAt   time.Time `json:"startAt,omitzero"`
	StartedAt time.Time `json:"startedAt,omitzero"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
	NotAfter  time.Time `json:"notAfter,omitzero"`
	// ApprovalsNeeded is how many others have to approve it, Approvals who has, ApprovedUntil how long that holds.
	ApprovalsNeeded int        `json:"approvalsNeeded"`
	Approvals       []Approval `json:"approvals"`
	ApprovedUntil   time.Time  `json:"approvedUntil,omitzero"`
	// BrokenGlass is set of one that did not wait for approval.
	BrokenGlass *BrokenGlass `json:"brokenGlass,omitempty"`
	// Series names the schedule that made it.
	Series string `json:"series,omitempty"`
	// ReportSHA256 is of its report, PreviousSHA256 of that of the drill that ended before.
	ReportSHA256   string `json:"reportSha256,omitempty"`
	PreviousSHA256 string `json:"previousSha256,omitempty"`
	// Revision is of its last change.
	Revision uint64 `json:"revision"`
	// Spec, Resolved, Forecast, Baseline and Events are told of one drill only, not in lists.
	Spec     json.RawMessage `json:"spec,omitempty"`
	Resolved json.RawMessage `json:"resolved,omitempty"`
	Forecast json.RawMessage `json:"forecast,omitempty"`
	Baseline json.RawMessage `json:"baseline,omitempty"`
	Events   []DrillEvent    `json:"events,omitempty"`
}

// DrillEvent is a change of a drill's state, or something that happened meanwhile.
type DrillEvent struct {
	At    time.Time `json:"at"`
	State string    `json:"state"`
	Step  int       `json:"step"`
	// Kind is transition, decision, router, signal or operator.
	Kind  string `json:"kind"`
	Text  string `json:"text"`
	Actor string `json:"actor,omitempty"`
}

// DrillDryRun is what a dry run of a drill found: what the names of its plan stand for, what is expected, and
// why it is not to go on, if it is not.
type DrillDryRun struct {
	Spec     json.RawMessage `json:"spec"`
	Resolved drill.Resolved  `json:"resolved"`
	Forecast drill.Forecast  `json:"forecast"`
	// Refused is CAPACITY_CHECK_FAILED or BLOCKED; absent: it may go on.
	Refused string `json:"refused,omitempty"`
	Cause   string `json:"cause,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// DrillForecaster resolves a plan, which is a DrillPlan's spec as canonical JSON with its defaults, against a state
// and what is seen of the fleet, judges it by the safety rules as of a time, and simulates it. Spec of the answer
// need not be set. An error says that it can't be told, not that the drill is refused.
type DrillForecaster func(ctx context.Context, of *state.View, spec []byte, signals signal.Snapshot, at time.Time) (DrillDryRun, error)

// DrillPage writes the report of a drill, as it is kept, as an HTML page, and says by what policy browsers are to
// open it.
type DrillPage func(report []byte) (page []byte, policy string, err error)

// drillRoutes are the paths of drills.
func (s *Server) drillRoutes(e *echo.Echo) {
	e.Pre(verbs)
	e.GET("/v1/drills", s.listDrills, s.may(read), timed)
	e.POST("/v1/drills", s.createDrill, s.may(write), timed, s.keyed)
	e.GET("/v1/drills/readiness", s.drillReadiness, s.may(read), timed)
	e.GET("/v1/drills/calendar", s.drillCalendar, s.may(read), timed)
	e.GET("/v1/drills/:id", s.getDrill, s.may(read), timed)
	e.GET("/v1/drills/:id/events", s.watchDrill, s.may(read))
	e.GET("/v1/drills/:id/report", s.drillReport, s.may(read), timed)
	e.POST(`/v1/drills/:id/\:validate`, s.validateDrill, s.may(write), timed, s.keyed)
	e.POST(`/v1/drills/:id/\:approve`, s.approveDrill, s.may(approve), timed, s.keyed)
	for _, act := range []string{state.DrillStart, state.DrillPause, state.DrillResume, state.DrillAbort} {
		e.POST(`/v1/drills/:id/\:`+act, s.steerDrill(act), s.may(write), timed, s.keyed)
	}
}

// verb is a path that ends in what is to be done, as /v1/drills/12:start.
var verb = regexp.MustCompile(`^(/v1/drills/[^/:]+)(:[a-z]+)$`)

// verbs turns such paths to ones that the router can tell apart, as it ends parameters at slashes only. Nobody else
// writes those.
func verbs(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		u := c.Request().URL
		if strings.HasPrefix(u.Path, "/v1/drills/") && strings.Contains(u.Path, "/:") {
			return echo.ErrNotFound
		}
		if parts := verb.FindStringSubmatch(u.Path); parts != nil {
			u.Path, u.RawPath = parts[1]+"/"+parts[2], ""
		}
		return next(c)
	}
}

// drill tells of one without its documents.
func (s *Server) drill(d *statepb.Drill) Drill {
	out := Drill{
		ID: strconv.FormatUint(d.GetId(), 10), Plan: d.GetPlan(), PlanRevision: d.GetPlanRevision(), Kind: drillKind(d), State: d.GetState(), Step: int(d.GetStep()),
		StateSince: moment(d.GetStateUnixMs()), Reason: d.GetReason(), Resume: d.GetResume(), Outcome: d.GetOutcome(), Cause: d.GetCause(),
		PlanSHA256: hex.EncodeToString(d.GetPlanSha256()), Creator: person(d.GetCreator()), CreatedAt: moment(d.GetCreatedUnixMs()),
		StartAt: moment(d.GetStartUnixMs()), StartedAt: moment(d.GetStartedUnixMs()), EndedAt: moment(d.GetEndedUnixMs()), NotAfter: moment(d.GetNotAfterUnixMs()),
		ApprovalsNeeded: int(d.GetNeeded()), Approvals: []Approval{}, ApprovedUntil: moment(d.GetApprovedUntilUnixMs()), Series: d.GetSeries(),
		ReportSHA256: hex.EncodeToString(d.GetReportSha256()), PreviousSHA256: hex.EncodeToString(d.GetPreviousSha256()), Revision: d.GetRevision(),
	}
	for _, w := range d.GetApprovals() {
		out.Approvals = append(out.Approvals, Approval{person(w.GetActor()), moment(w.GetAtUnixMs()), w.GetActor().GetReason()})
	}
	if g := d.GetBroken(); g != nil {
		out.BrokenGlass = &BrokenGlass{
			At: moment(g.GetAtUnixMs()), Actor: g.GetActor().GetName(), Role: g.GetActor().GetRole(), Kind: state.KindDrill, Name: out.ID, Reason: g.GetWhy(), Revision: g.GetRevision(),
		}
	}
	return out
}

// wholeDrill tells of one with its documents.
func (s *Server) wholeDrill(d *statepb.Drill) Drill {
	out := s.drill(d)
	out.Spec, out.Resolved, out.Forecast, out.Baseline = raw(d.GetSpec()), raw(d.GetResolved()), raw(d.GetForecast()), raw(d.GetBaseline())
	for _, e := range d.GetEvents() {
		out.Events = append(out.Events, drillEvent(e))
	}
	return out
}

// raw is a document of the state; nil: there is none.
func raw(doc []byte) json.RawMessage {
	if !json.Valid(doc) {
		return nil
	}
	return doc
}

func drillEvent(e *statepb.DrillEvent) DrillEvent {
	return DrillEvent{At: moment(e.GetAtUnixMs()), State: e.GetState(), Step: int(e.GetStep()), Kind: e.GetKind(), Text: e.GetText(), Actor: e.GetActor()}
}

// moment keeps 0 the zero time.
func moment(unixMs int64) time.Time {
	if unixMs == 0 {
		return time.Time{}
	}
	return time.UnixMilli(unixMs).UTC()
}

// drillKind is the kind that a drill's spec names.
func drillKind(d *statepb.Drill) string {
	var spec struct {
		Kind string `json:"kind"`
	}
	_ = json.Unmarshal(d.GetSpec(), &spec) // it was read when the drill was made
	return spec.Kind
}

// drillTexts are the parameters that are compared as they are.
var drillTexts = map[string]func(*statepb.Drill) string{
	"state":   func(d *statepb.Drill) string { return d.GetState() },
	"outcome": func(d *statepb.Drill) string { return d.GetOutcome() },
	"plan":    func(d *statepb.Drill) string { return d.GetPlan() },
	"kind":    drillKind,
}

// drillStates and drillOutcomes are all that a drill can be in, and end with.
var (
	drillStates = []drill.State{
		drill.Draft, drill.Validated, drill.Pending, drill.Scheduled, drill.Precheck, drill.Measuring, drill.Shifting, drill.Dwell, drill.Hold,
		drill.Failback, drill.Paused, drill.RollingBack, drill.Verify, drill.Done,
	}
	drillOutcomes = []drill.Outcome{drill.Succeeded, drill.Failed, drill.Interrupted, drill.CapacityFailed, drill.Blocked, drill.Expired}
)

// listDrills tells of those that are remembered, newest first.
func (s *Server) listDrills(c echo.Context) error {
	if err := wordOf(c, "state", drillStates); err != nil {
		return err
	}
	if err := wordOf(c, "outcome", drillOutcomes); err != nil {
		return err
	}
	active, err := flag(c, "active")
	if err != nil {
		return err
	}
	limit, err := limitOf(c)
	if err != nil {
		return err
	}
	from, err := sameList(c, "state", "outcome", "plan", "kind", "active")
	if err != nil {
		return err
	}
	view, err := s.view(c)
	if err != nil {
		return err
	}
	page := List[Drill]{Items: []Drill{}}
	for _, d := range slices.Backward(view.Drills()) {
		fits := (from.Before == 0 || d.GetId() < from.Before) && (!active || drill.State(d.GetState()).Active())
		for parameter, of := range drillTexts {
			want := c.QueryParam(parameter)
			fits = fits && (want == "" || of(d) == want)
		}
		if !fits {
			continue
		}
		if n := len(page.Items); n == limit {
			last, _ := strconv.ParseUint(page.Items[n-1].ID, 10, 64) // it is one of ours
			page.NextCursor = cursor{Of: from.Of, Before: last}.String()
			break
		}
		page.Items = append(page.Items, s.drill(d))
	}
	return c.JSON(http.StatusOK, page)
}

// wordOf refuses a parameter that is none of some words.
func wordOf[T ~string](c echo.Context, name string, words []T) error {
	text := c.QueryParam(name)
	if text == "" || slices.Contains(words, T(text)) {
		return nil
	}
	var all []string
	for _, w := range words {
		all = append(all, string(w))
	}
	return newProblem(codeInvalidRequest, fmt.Sprintf("%s is %.40q; use one of %s.", name, text, strings.Join(all, ", ")))
}

func (s *Server) getDrill(c echo.Context) error {
	view, err := s.view(c)
	if err != nil {
		return err
	}
	d, err := drillOf(c, view)
	if err != nil {
		return err
	}
	c.Response().Header().Set("ETag", etag(d.GetRevision()))
	return c.JSON(http.StatusOK, s.wholeDrill(d))
}

// drillOf finds the drill of a path.
func drillOf(c echo.Context, view *state.View) (*statepb.Drill, error) {
	id, err := strconv.ParseUint(c.Param("id"), 10, 64)
	if d := view.Drill(id); err == nil && d != nil {
		return d, nil
	}
	return nil, newProblem(codeNotFound, fmt.Sprintf("No drill %.40q is remembered; GET /v1/drills lists them.", c.Param("id")))
}

// drillReport answers the report of a drill that is over, as it is kept, or as a page for people.
func (s *Server) drillReport(c echo.Context) error {
	view, err := s.view(c)
	if err != nil {
		return err
	}
	d, err := drillOf(c, view)
	if err != nil {
		return err
	}
	switch {
	case d.GetState() != string(drill.Done):
		return newProblem(codeNotFound, fmt.Sprintf("Drill %d is %s: its report is written when it is over.", d.GetId(), d.GetState()))
	case len(d.GetReport()) == 0:
		return newProblem(codeNotFound, fmt.Sprintf("The report of drill %d is not kept any more, or it has none; its SHA-256 is %.64x.", d.GetId(), d.GetReportSha256()))
	}
	report, err := drill.Unpack(d.GetReport())
	if err != nil {
		return fmt.Errorf("drill %d: %w", d.GetId(), err)
	}
	h := c.Response().Header()
	h.Set("ETag", `"`+hex.EncodeToString(d.GetReportSha256())+`"`)
	h.Set(echo.HeaderVary, echo.HeaderAccept)
	if !wantsPage(c.Request().Header.Get(echo.HeaderAccept)) || s.o.DrillPage == nil {
		return c.JSONBlob(http.StatusOK, report)
	}
	page, policy, err := s.o.DrillPage(report)
	if err != nil {
		return fmt.Errorf("drill %d: %w", d.GetId(), err)
	}
	h.Set(echo.HeaderContentSecurityPolicy, policy)
	return c.HTMLBlob(http.StatusOK, page)
}

// wantsPage says whether a header Accept names text/html before JSON, as browsers do.
func wantsPage(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		media, _, _ := strings.Cut(strings.TrimSpace(part), ";")
		switch strings.TrimSpace(media) {
		case echo.MIMETextHTML, "application/xhtml+xml":
			return true
		case echo.MIMEApplicationJSON, "*/*":
			return false
		}
	}
	return false
}
