package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/failover/drill"
)

// DrillReadier says of each region, or of those asked for, whether a drill of a kind may begin there at a time, by the dry run and the rules
// that drills are held to. The error says that it can't be told.
type DrillReadier func(ctx context.Context, of *state.View, kind drill.Kind, regions []fleet.RegionID, signals signal.Snapshot, at time.Time) ([]drill.Readiness, error)

// DrillReadiness says which regions may be drilled now.
type DrillReadiness struct {
	At time.Time `json:"at"`
	// Kind of the drill that is asked about.
	Kind string `json:"kind"`
	// Items are the regions, by name.
	Items []drill.Readiness `json:"items"`
}

// DrillCalendar is what schedules begin in a time.
type DrillCalendar struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	// Items by time. More: there are others before the end.
	Items []ComingDrill `json:"items"`
	More  bool          `json:"more"`
}

// ComingDrill is a time at which a schedule begins a drill.
type ComingDrill struct {
	Plan string    `json:"plan"`
	Kind string    `json:"kind"`
	At   time.Time `json:"at"`
	// Ends is when its last lease would end if all goes well.
	Ends time.Time `json:"ends"`
	// Cron and TimeZone are the schedule.
	Cron     string `json:"cron"`
	TimeZone string `json:"timeZone"`
	// Refused are the windows and blackouts that would not let it begin, as rules are now.
	Refused []drill.Block `json:"refused"`
	// ID and State are of the drill that was made of it; absent: none was yet.
	ID    string `json:"id,omitempty"`
	State string `json:"state,omitempty"`
	// Approved: the series is, until then at least.
	Approved bool `json:"approved"`
}

// Bounds of a calendar.
const (
	defaultCalendar = 31 * 24 * time.Hour
	maxCalendar     = 400 * 24 * time.Hour
)

// drillReadiness says which regions may be drilled now.
func (s *Server) drillReadiness(c echo.Context) error {
	kind, err := choice(c, "kind", string(drill.Soft), string(drill.Hard), string(drill.Shadow), string(drill.FailbackOnly))
	if err != nil {
		return err
	}
	if kind == "" {
		kind = string(drill.Soft)
	}
	view, err := s.view(c)
	if err != nil {
		return err
	}
	var regions []fleet.RegionID
	for _, name := range c.QueryParams()["region"] {
		if _, ok := view.Get(policy.KindRegion, name); !ok {
			return notFound(policy.KindRegion, name)
		}
		regions = append(regions, fleet.RegionID(name))
	}
	if s.o.Readiness == nil {
		return newProblem(codeBusy, "This node makes no dry runs of drills; ask another one.")
	}
	leave, err := s.explaining.take(c.Request().Context())
	if err != nil {
		return err
	}
	defer leave()
	now := s.o.Now()
	items, err := s.o.Readiness(c.Request().Context(), view, drill.Kind(kind), regions, s.o.Signals.Snapshot(now), now)
	if err != nil {
		return fmt.Errorf("readiness for drills: %w", err)
	}
	return c.JSON(http.StatusOK, DrillReadiness{At: now.UTC(), Kind: kind, Items: items})
}

// drillCalendar tells what schedules begin.
func (s *Server) drillCalendar(c echo.Context) error {
	from, until, err := s.calendarTime(c)
	if err != nil {
		return err
	}
	limit, err := limitOf(c)
	if err != nil {
		return err
	}
	view, err := s.view(c)
	if err != nil {
		return err
	}
	plan := c.QueryParam("plan")
	if _, ok := view.Get(policy.KindDrillPlan, plan); plan != "" && !ok {
		return notFound(policy.KindDrillPlan, plan)
	}
	specs := map[string]*policy.DrillPlanSpec{}
	var plans []drill.Recurring
	for _, r := range view.List(policy.KindDrillPlan) {
		spec, ok := r.Spec.(*policy.DrillPlanSpec)
		if !ok || plan != "" && r.Metadata.Name != plan {
			continue
		}
		calendar, err := spec.Calendar()
		if err != nil || calendar == nil { // what can't be read was refused when it was written
			continue
		}
		specs[r.Metadata.Name] = spec
		plans = append(plans, drill.Recurring{Name: r.Metadata.Name, Plan: spec.Plan(), Schedule: *calendar})
	}
	list, more := drill.Calendar(plans, policy.DrillRulesOf(view), from.Add(-time.Nanosecond), until, limit)
	out := DrillCalendar{From: from.UTC(), Until: until.UTC(), Items: []ComingDrill{}, More: more}
	made := madeOf(view)
	for _, one := range list {
		out.Items = append(out.Items, coming(view, specs[one.Name], made, one))
	}
	return c.JSON(http.StatusOK, out)
}

// calendarTime reads the time that a calendar is of: a month from now, unless it is to be another.
func (s *Server) calendarTime(c echo.Context) (from, until time.Time, err error) {
	from = s.o.Now()
	if text := c.QueryParam("from"); text != "" {
		if from, err = momentOf(text); err != nil {
			return from, until, newProblem(codeInvalidRequest, fmt.Sprintf("from %s.", err))
		}
	}
	until = from.Add(defaultCalendar)
	if text := c.QueryParam("until"); text != "" {
		if until, err = momentOf(text); err != nil {
			return from, until, newProblem(codeInvalidRequest, fmt.Sprintf("until %s.", err))
		}
	}
	if d := until.Sub(from); d <= 0 || d > maxCalendar {
		return from, until, newProblem(codeInvalidRequest, fmt.Sprintf("until is not after from, or by more than %d days.", int(maxCalendar.Hours()/24)))
	}
	return from, until, nil
}

// moment of a series.
type seriesAt struct {
	series string
	unixMs int64
}

// madeOf are the ids of drills that schedules have made.
func madeOf(v *state.View) map[seriesAt]uint64 {
	out := map[seriesAt]uint64{}
	for _, d := range v.Drills() {
		if d.GetSeries() != "" {
			out[seriesAt{d.GetSeries(), d.GetStartUnixMs()}] = d.GetId()
		}
	}
	return out
}

func coming(v *state.View, spec *policy.DrillPlanSpec, made map[seriesAt]uint64, one drill.Coming) ComingDrill {
	out := ComingDrill{
		Plan: one.Name, Kind: spec.Kind, At: one.At.UTC(), Ends: one.Ends.UTC(), Cron: spec.Schedule.Cron, TimeZone: spec.Schedule.TimeZone, Refused: []drill.Block{},
	}
	if out.TimeZone == "" {
		out.TimeZone = "UTC"
	}
	out.Refused = append(out.Refused, one.Refused...)
	if id := made[seriesAt{one.Name, one.At.UnixMilli()}]; id != 0 {
		out.ID, out.State = strconv.FormatUint(id, 10), v.Drill(id).GetState()
	}
	if doc, err := json.Marshal(spec); err == nil {
		out.Approved = v.SeriesApproval(one.Name, doc, one.At) != nil
	}
	return out
}
