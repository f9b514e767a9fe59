package policy

import (
	"fmt"

	"anabranch/api/fleet"
	"anabranch/failover/drill"
)

// Bounds of drills.
const (
	maxDrillSteps   = 20
	maxDrillSeconds = 14_400
	maxDrillList    = 100
	maxAbortSeconds = 300
	maxReason       = 200
)

// drillKinds in the order in which they are told.
var drillKinds = []string{
	string(drill.PlanOnly), string(drill.Shadow), string(drill.Soft), string(drill.Hard),
	string(drill.ControlPlane), string(drill.QuotaStore), string(drill.Tier1), string(drill.FailbackOnly),
}

func (f *finding) drillPlan(s *DrillPlanSpec) {
	f.oneOf("spec.kind", s.Kind, drillKinds)
	f.drillTarget(s)
	f.names("spec.models", s.Models, fleet.CheckModel)
	f.names("spec.tenants", s.Tenants, fleet.CheckName)
	f.percent("spec.percent", s.Percent)
	f.drillSteps(s)
	f.between("spec.baselineSeconds", float64(s.BaselineSeconds), 1, maxDrillSeconds)
	f.between("spec.holdSeconds", float64(s.HoldSeconds), 1, maxDrillSeconds)
	f.between("spec.verifySeconds", float64(s.VerifySeconds), 1, maxDrillSeconds)
	f.between("spec.failback.dwellSeconds", float64(s.Failback.DwellSeconds), 1, maxDrillSeconds)
	f.between("spec.maxDurationSeconds", float64(s.MaxDurationSeconds), 60, drill.MaxTime.Seconds())
	f.share("spec.timeScale", s.TimeScale)
	if s.TimeScale != DefaultTimeScale && !s.Test {
		f.add("spec.timeScale", "is for tests alone", "leave it out, or write test: true")
	}
	var resolved drill.Thresholds
	for _, l := range s.Abort.limits(&resolved) {
		at := "spec.abort." + l.field
		f.between(at+".over", l.own.Over, 0, l.most)
		f.between(at+".seconds", float64(l.own.Seconds), 1, maxAbortSeconds)
	}
	if soft, hard := s.Abort.SaturationSoft.Over, s.Abort.SaturationHard.Over; soft > hard {
		f.add("spec.abort.saturationHard.over", fmt.Sprintf("%g is less than saturationSoft's %g", hard, soft), "give the soft limit the lower value and the longer time")
	}
	if len(f.problems) == 0 {
		if p := s.Plan(); p.LeasedLength() > p.MostTime {
			f.add("spec.maxDurationSeconds", fmt.Sprintf("%d s do not cover steps, hold and failback, which take %d s", s.MaxDurationSeconds, seconds(p.LeasedLength())), "make it longer, or the steps shorter")
		}
	}
	f.drillSchedule(s.Schedule)
}

func (f *finding) percent(field string, x float64) {
	if x > 0 {
		f.between(field, x, 0, 100)
		return
	}
	f.add(field, fmt.Sprintf("is %g", x), "give a number above 0 and at most 100")
}

func (f *finding) drillTarget(s *DrillPlanSpec) {
	const at = "spec.target"
	given := 0
	for _, is := range []bool{s.Target.Region != "", s.Target.Cluster != "", len(s.Target.Clusters) > 0} {
		if is {
			given++
		}
	}
	switch {
	case !s.targeted() && given > 0:
		f.add(at, fmt.Sprintf("is given, and a drill of kind %s has none", s.Kind), "remove it")
	case s.targeted() && given != 1:
		f.add(at, fmt.Sprintf("names %d of region, cluster and clusters", given), "give one of them")
	}
	if s.Target.Region != "" {
		f.named(at+".region", s.Target.Region, fleet.CheckName)
	}
	if s.Target.Cluster != "" {
		f.named(at+".cluster", s.Target.Cluster, fleet.CheckName)
	}
	f.names(at+".clusters", s.Target.Clusters, fleet.CheckName)
}

func (f *finding) drillSteps(s *DrillPlanSpec) {
	if len(s.Steps) > 0 && !s.staged() {
		f.add("spec.steps", fmt.Sprintf("is given, and a drill of kind %s goes in one", s.Kind), "remove it")
	}
	f.atMost("spec.steps", len(s.Steps), maxDrillSteps)
	f.atMost("spec.failback.steps", len(s.Failback.Steps), maxDrillSteps)
	for i, step := range s.Steps[:min(len(s.Steps), maxDrillSteps)] {
		at := fmt.Sprintf("spec.steps[%d]", i)
		f.percent(at+".percent", step.Percent)
		f.between(at+".dwellSeconds", float64(step.DwellSeconds), 1, maxDrillSeconds)
	}
	before := 0.0
	for i, p := range s.Failback.Steps[:min(len(s.Failback.Steps), maxDrillSteps)] {
		at := fmt.Sprintf("spec.failback.steps[%d]", i)
		switch {
		case !(p > 0 && p <= 100):
			f.percent(at, p)
		case p <= before:
			f.add(at, fmt.Sprintf("%g comes after %g", p, before), "let them rise")
		case i == len(s.Failback.Steps)-1 && p != 100:
			f.add(at, fmt.Sprintf("is the last, and %g %% are not all", p), "let it end with 100")
		}
		before = p
	}
}

func (f *finding) atMost(field string, n, most int) {
	if n > most {
		f.add(field, fmt.Sprintf("holds %d entries, the limit is %d", n, most), "remove some")
	}
}

func (f *finding) drillSchedule(c *DrillSchedule) {
	if c == nil {
		return
	}
	const at = "spec.schedule"
	if _, err := drill.NewSchedule(c.Cron, nil, nil); err != nil {
		f.add(at+".cron", err.Error(), `write minute, hour, day of month, month and day of week, as in "0 4 * * Tue"`)
	}
	f.zone(at+".timeZone", c.TimeZone)
	f.blackouts(at+".blackouts", c.Blackouts)
}

func (f *finding) zone(field, name string) {
	if err := checkZone(name); err != nil {
		f.add(field, fmt.Sprintf("%q %v", clip(name), err), `write it as "Europe/Berlin", as in the IANA time zone database, or leave it out for UTC`)
	}
}

func (f *finding) blackouts(field string, list []DrillBlackout) {
	f.atMost(field, len(list), maxDrillList)
	for i, b := range list[:min(len(list), maxDrillList)] {
		at := fmt.Sprintf("%s[%d]", field, i)
		const fix = "write a day as 2026-12-24, or a time as 2026-12-24T18:00"
		_, _, from := wallTime(b.From)
		_, _, until := wallTime(b.Until)
		if from != nil {
			f.add(at+".from", from.Error(), fix)
		}
		if until != nil {
			f.add(at+".until", until.Error(), fix)
		}
		f.zone(at+".timeZone", b.TimeZone)
		if _, err := b.times(); from == nil && until == nil && checkZone(b.TimeZone) == nil && err != nil {
			f.add(at+".until", err.Error(), "let it be later than from")
		}
		if len(b.Reason) > maxReason {
			f.add(at+".reason", fmt.Sprintf("is %d bytes long, the limit is %d", len(b.Reason), maxReason), "say it shorter")
		}
	}
}

func (f *finding) drillRules(d *DrillRulesSpec) {
	const at = "spec.drills."
	f.between(at+"minRegions", float64(d.MinRegions), 1, 1000)
	f.share(at+"maxCapacityRemoved", d.MaxCapacityRemoved)
	f.share(at+"minErrorBudget", d.MinErrorBudget)
	if !(d.IntervalHours > 0 && d.IntervalHours <= 8760) {
		f.add(at+"intervalHours", fmt.Sprintf("is %g", d.IntervalHours), "give a number above 0 and at most 8760")
	}
	f.between(at+"approvals", float64(d.Approvals), 1, MaxApprovals)
	f.between(at+"approvalHours", float64(d.ApprovalHours), 1, 168)
	f.names(at+"protectedTenants", d.ProtectedTenants, fleet.CheckName)
	f.atMost(at+"forbidden", len(d.Forbidden), maxDrillList)
	for i, pair := range d.Forbidden[:min(len(d.Forbidden), maxDrillList)] {
		field := fmt.Sprintf("%sforbidden[%d]", at, i)
		if len(pair) != 2 {
			f.add(field, fmt.Sprintf("holds %d regions", len(pair)), "give two, as in [us-east-1, eu-west-1]")
			continue
		}
		f.names(field, pair, fleet.CheckName)
	}
	f.atMost(at+"windows", len(d.Windows), maxDrillList)
	for i, w := range d.Windows[:min(len(d.Windows), maxDrillList)] {
		f.window(fmt.Sprintf("%swindows[%d]", at, i), w)
	}
	f.blackouts(at+"blackouts", d.Blackouts)
}

func (f *finding) window(at string, w DrillWindow) {
	for i, d := range w.Days {
		f.oneOf(fmt.Sprintf("%s.days[%d]", at, i), d, weekdays)
	}
	for _, c := range []struct{ field, clock string }{{"from", w.From}, {"until", w.Until}} {
		if _, err := minuteOf(c.clock); err != nil {
			f.add(at+"."+c.field, err.Error(), "write it as 22:00")
		}
	}
	f.zone(at+".timeZone", w.TimeZone)
}
