package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"anabranch/api/fleet"
	"anabranch/failover/drill"
)

// DrillRulesSpec bounds drills. Of several rules the strictest holds, field by field. Where no rule has one the defaults
// hold.
type DrillRulesSpec struct {
	// MinRegions is how many regions must stay on, from 1 to 1,000, default 1.
	MinRegions int `json:"minRegions,omitempty"`
	// MaxCapacityRemoved is the share of all capacity that a drill may take out, above 0 and at most 1, default 0.5.
	MaxCapacityRemoved float64 `json:"maxCapacityRemoved,omitempty"`
	// Forbidden are pairs of regions that may not be out at once.
	Forbidden [][]string `json:"forbidden,omitempty"`
	// ProtectedTenants are in no drill; what quotas refuse them ends one.
	ProtectedTenants []string `json:"protectedTenants,omitempty"`
	// Windows are when drills may run, from start to end; of each rule that has any, one must hold. Empty: always.
	Windows []DrillWindow `json:"windows,omitempty"`
	// Blackouts are when none may run.
	Blackouts []DrillBlackout `json:"blackouts,omitempty"`
	// MinErrorBudget is the share of the error budget that must be left, above 0 and at most 1, default 0.25. The budget is a
	// hundredth of all answers of the last seven days: with 0.25 at most 0.75 % of them may have failed.
	MinErrorBudget float64 `json:"minErrorBudget,omitempty"`
	// IntervalHours is how long after a drill that moved traffic the next may begin, above 0 and at most 8,760, default 24.
	IntervalHours float64 `json:"intervalHours,omitempty"`
	// Approvals is how many people other than its creator have to approve a drill, 1 to 5, default 1.
	Approvals int `json:"approvals,omitempty"`
	// ApprovalHours is how long that holds, and a drill waits for it, from 1 to 168, default 8.
	ApprovalHours int `json:"approvalHours,omitempty"`
}

// DrillWindow is a time of the week.
type DrillWindow struct {
	// Days on which it begins, as in [Mon, Tue]. Empty: every day.
	Days []string `json:"days,omitempty"`
	// From and Until are times of the day, as in 22:00; Until is not included, and is on the next day if it is not later.
	From  string `json:"from"`
	Until string `json:"until"`
	// TimeZone of the clock that is meant, as in "Europe/Berlin", default UTC.
	TimeZone string `json:"timeZone,omitempty"`
}

func (d *DrillRulesSpec) defaults() {
	fill(&d.MinRegions, drill.DefaultMinRegions)
	fill(&d.MaxCapacityRemoved, drill.DefaultMaxCapacityRemoved)
	fill(&d.MinErrorBudget, drill.DefaultMinErrorBudget)
	fill(&d.IntervalHours, drill.DefaultInterval.Hours())
	fill(&d.Approvals, drill.DefaultApprovals)
	fill(&d.ApprovalHours, int(drill.DefaultApprovalTime.Hours()))
	for i := range d.Windows {
		fill(&d.Windows[i].TimeZone, DefaultTimeZone)
	}
	for i := range d.Blackouts {
		fill(&d.Blackouts[i].TimeZone, DefaultTimeZone)
	}
}

// DrillRulesOf puts together what all safety rules say of drills: of each field the strictest. Without a rule that
// speaks of drills it is [drill.DefaultRules]. What can't be read, which [Validate] refuses, is left out.
func DrillRulesOf(all interface{ List(k Kind) []*Resource }) drill.Rules {
	var out drill.Rules
	found := false
	for _, res := range all.List(KindSafetyRule) {
		s, ok := res.Spec.(*SafetyRuleSpec)
		if !ok || s.Drills == nil {
			continue
		}
		one := s.Drills.rules()
		if !found {
			out, found = one, true
			continue
		}
		out.MinRegions = max(out.MinRegions, one.MinRegions)
		out.MaxCapacityRemoved = min(out.MaxCapacityRemoved, one.MaxCapacityRemoved)
		out.MinErrorBudget = max(out.MinErrorBudget, one.MinErrorBudget)
		out.Interval = max(out.Interval, one.Interval)
		out.Approvals = max(out.Approvals, one.Approvals)
		out.ApprovalTime = min(out.ApprovalTime, one.ApprovalTime)
		out.Forbidden = append(out.Forbidden, one.Forbidden...)
		out.Windows = append(out.Windows, one.Windows...)
		out.Blackouts = append(out.Blackouts, one.Blackouts...)
		for _, t := range one.Protected {
			if !slices.Contains(out.Protected, t) {
				out.Protected = append(out.Protected, t)
			}
		}
	}
	if !found {
		return drill.DefaultRules()
	}
	return out
}

// rules are those of one rule, whose defaults are filled in.
func (d *DrillRulesSpec) rules() drill.Rules {
	out := drill.Rules{
		MinRegions: d.MinRegions, MaxCapacityRemoved: d.MaxCapacityRemoved, MinErrorBudget: d.MinErrorBudget,
		Interval: time.Duration(d.IntervalHours * float64(time.Hour)), Approvals: d.Approvals,
		ApprovalTime: time.Duration(d.ApprovalHours) * time.Hour,
	}
	for _, pair := range d.Forbidden {
		if len(pair) == 2 {
			out.Forbidden = append(out.Forbidden, [2]fleet.RegionID{fleet.RegionID(pair[0]), fleet.RegionID(pair[1])})
		}
	}
	for _, t := range d.ProtectedTenants {
		out.Protected = append(out.Protected, fleet.TenantID(t))
	}
	var windows []drill.Window
	for _, w := range d.Windows {
		if one, err := w.window(); err == nil {
			windows = append(windows, one)
		}
	}
	if len(windows) > 0 {
		out.Windows = [][]drill.Window{windows}
	}
	for _, b := range d.Blackouts {
		if one, err := b.times(); err == nil {
			out.Blackouts = append(out.Blackouts, one)
		}
	}
	return out
}

// weekdays in the order of [time.Weekday].
var weekdays = []string{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"}

// window reads a window; an error says what is wrong.
func (w DrillWindow) window() (out drill.Window, err error) {
	for _, d := range w.Days {
		i := slices.Index(weekdays, d)
		if i < 0 {
			return out, fmt.Errorf("%.20q is no day", d)
		}
		out.Days |= 1 << i
	}
	if out.From, err = minuteOf(w.From); err != nil {
		return out, err
	}
	if out.Until, err = minuteOf(w.Until); err != nil {
		return out, err
	}
	out.Zone, err = time.LoadLocation(w.TimeZone)
	return out, err
}

// minuteOf reads a time of the day as minutes since midnight; 24:00 is the midnight at its end.
func minuteOf(clock string) (int, error) {
	if clock == "24:00" {
		return 24 * 60, nil
	}
	t, err := time.Parse("15:04", clock)
	if err != nil {
		return 0, fmt.Errorf("%.20q is no time of the day", clock)
	}
	return t.Hour()*60 + t.Minute(), nil
}

// errOrder is of a stretch of time that does not end after it begins.
var errOrder = errors.New("does not end after it begins")

// times reads a blackout; an error says what is wrong.
func (b DrillBlackout) times() (drill.Blackout, error) {
	place, err := time.LoadLocation(b.TimeZone)
	if err != nil {
		return drill.Blackout{}, fmt.Errorf("%.40q is no time zone", b.TimeZone)
	}
	from, _, err := wallTime(b.From)
	if err != nil {
		return drill.Blackout{}, err
	}
	until, whole, err := wallTime(b.Until)
	if err != nil {
		return drill.Blackout{}, err
	}
	if whole {
		until = until.AddDate(0, 0, 1)
	}
	if !from.Before(until) {
		return drill.Blackout{}, errOrder
	}
	return drill.Blackout{From: drill.Moment(from, place), Until: drill.Moment(until, place), Reason: b.Reason}, nil
}

// wallTime reads what a clock shows; whole: it is a day.
func wallTime(text string) (t time.Time, whole bool, err error) {
	layout := "2006-01-02"
	if strings.Contains(text, "T") {
		layout += "T15:04"
	}
	t, err = time.Parse(layout, text)
	if err != nil {
		return t, false, fmt.Errorf("%.40q is neither a day nor a time", text)
	}
	return t, layout == "2006-01-02", nil
}
