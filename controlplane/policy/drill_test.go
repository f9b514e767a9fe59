package policy

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // places must be known wherever the test runs

	"anabranch/api/fleet"
	"anabranch/failover/drill"
)

func planOf(t *testing.T, doc string) *DrillPlanSpec {
	t.Helper()
	return resource(t, doc).Spec.(*DrillPlanSpec)
}

func TestADrillPlanHasTheDefaultsOfDrills(t *testing.T) {
	r := resource(t, "DrillPlan d {kind: soft, target: {region: us}}")
	p := r.Spec.(*DrillPlanSpec).Plan()
	if !slices.Equal(p.Stages, drill.DefaultStages()) || !slices.Equal(p.Back, drill.DefaultBack()) || p.Abort != drill.DefaultThresholds() ||
		p.Baseline != 5*time.Minute || p.Hold != 10*time.Minute || p.Verify != 5*time.Minute || p.BackDwell != time.Minute || p.MostTime != time.Hour || p.Percent != 100 || p.Scale != 1 {
		t.Errorf("%+v", p)
	}
	once, err := json.Marshal(r.Spec)
	if err != nil {
		t.Fatal(err)
	}
	Defaults(r)
	if twice, err := json.Marshal(r.Spec); err != nil || string(twice) != string(once) {
		t.Errorf("%v, got %s, then %s", err, once, twice)
	}
	if hard := planOf(t, "DrillPlan d {kind: hard, target: {cluster: us-1}}"); len(hard.Steps) != 0 || len(hard.Plan().Stages) != 1 {
		t.Errorf("%+v", hard)
	}
}

func TestWhatAPlanSaysIsCarriedOut(t *testing.T) {
	p := planOf(t, `DrillPlan d {kind: soft, target: {clusters: [a, b]}, models: [m], tenants: [x], percent: 20, test: true, timeScale: 0.1, steps: [{percent: 5, dwellSeconds: 50}],
  holdSeconds: 100, failback: {steps: [100], dwellSeconds: 20}, abort: {errorMost: {over: 0.2}, saturationSoft: {seconds: 7}}}`).Plan()
	if p.Kind != drill.Soft || p.Percent != 20 || len(p.Stages) != 1 || p.Stages[0] != (drill.Stage{Percent: 5, Dwell: 5 * time.Second}) || p.Hold != 10*time.Second || p.BackDwell != 2*time.Second {
		t.Errorf("%+v", p)
	}
	if !slices.Equal(p.Models, []fleet.ModelID{"m"}) || !slices.Equal(p.Tenants, []fleet.TenantID{"x"}) {
		t.Errorf("%+v", p)
	}
	if p.Abort.ErrorMost != (drill.Limit{Over: 0.2, For: 3 * time.Second}) || p.Abort.SaturationSoft != (drill.Limit{Over: 0.9, For: 7 * time.Second}) {
		t.Errorf("%+v", p.Abort)
	}
}

func TestACalendarKeepsItsBlackouts(t *testing.T) {
	s := planOf(t, `DrillPlan d {kind: soft, target: {region: us}, schedule: {cron: 30 2 * * *, timeZone: Europe/Berlin, blackouts: [{from: 2026-12-20, until: 2026-12-31}, {from: "2027-01-01T00:00", until: "2027-01-01T02:30"}]}}`)
	c, err := s.Calendar()
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 12, 19, 12, 0, 0, 0, time.UTC)
	next, ok := c.Next(at)
	if want := time.Date(2027, 1, 1, 1, 30, 0, 0, time.UTC); !ok || !next.Equal(want) {
		t.Errorf("got %s, want %s: the last day is out, and the last minute is not", next, want)
	}
	if c, err := planOf(t, "DrillPlan d {kind: soft, target: {region: us}}").Calendar(); c != nil || err != nil {
		t.Errorf("%v, %v", c, err)
	}
}

func TestOfSeveralRulesForDrillsTheStrictestHolds(t *testing.T) {
	if got := DrillRulesOf(shelf{resource(t, "SafetyRule s {rollout: {}}")}); got.Approvals != 1 || got.MaxCapacityRemoved != 0.5 || got.Interval != 24*time.Hour || got.MinErrorBudget != 0.25 || got.MinRegions != 1 {
		t.Errorf("no rule speaks of drills: %+v", got)
	}
	a := resource(t, "SafetyRule a {drills: {minRegions: 3, maxCapacityRemoved: 0.6, approvals: 2, approvalHours: 10, protectedTenants: [x, y], windows: [{from: '22:00', until: '04:00'}, {from: '12:00', until: '13:00'}]}}")
	b := resource(t, "SafetyRule b {drills: {maxCapacityRemoved: 0.4, minErrorBudget: 0.5, intervalHours: 0.5, protectedTenants: [y], forbidden: [[r1, r2]], windows: [{days: [Sat, Sun], from: '00:00', until: '24:00', timeZone: Asia/Tokyo}], blackouts: [{from: 2026-12-24, until: 2026-12-26, reason: holidays}]}}")
	got := DrillRulesOf(shelf{a, b})
	if got.MinRegions != 3 || got.MaxCapacityRemoved != 0.4 || got.Approvals != 2 || got.ApprovalTime != 8*time.Hour || got.Interval != 24*time.Hour || got.MinErrorBudget != 0.5 {
		t.Errorf("%+v", got)
	}
	if !slices.Equal(got.Protected, []fleet.TenantID{"x", "y"}) || len(got.Forbidden) != 1 || got.Forbidden[0] != [2]fleet.RegionID{"r1", "r2"} {
		t.Errorf("%+v", got)
	}
	if len(got.Windows) != 2 || len(got.Windows[0]) != 2 || got.Windows[1][0].String() != "Sun,Sat 00:00-24:00 Asia/Tokyo" {
		t.Errorf("%+v", got.Windows)
	}
	if len(got.Blackouts) != 1 || got.Blackouts[0].Until.Sub(got.Blackouts[0].From) != 72*time.Hour || got.Blackouts[0].Reason != "holidays" {
		t.Errorf("%+v", got.Blackouts)
	}
	if alone := DrillRulesOf(shelf{b}); alone.Interval != 30*time.Minute {
		t.Errorf("a rule may ask for less than the default: %+v", alone)
	}
}

func TestNamesOfDrillsAreChecked(t *testing.T) {
	all := fleetWith(t, "Region sa {}", "Tenant globex {}")
	tests := map[string]string{
		"DrillPlan d {kind: soft, target: {region: us}, models: [m], tenants: [acme]}":            "",
		"DrillPlan d {kind: soft, target: {clusters: [us-1]}}":                                    "",
		"DrillPlan d {kind: quota-store}":                                                         "",
		"DrillPlan d {kind: soft, target: {region: mars}}":                                        "spec.target.region spec.target.region",
		"DrillPlan d {kind: soft, target: {region: sa}}":                                          "spec.target.region",
		"DrillPlan d {kind: soft, target: {cluster: us-9}}":                                       "spec.target.cluster",
		"DrillPlan d {kind: soft, target: {clusters: [us-1, eu-1]}}":                              "spec.target.clusters[1]",
		"DrillPlan d {kind: soft, target: {region: us}, models: [z], tenants: [z]}":               "spec.models[0] spec.tenants[0]",
		"SafetyRule s {drills: {forbidden: [[us, eu], [us, mars]], protectedTenants: [acme, z]}}": "spec.drills.forbidden[1][1] spec.drills.protectedTenants[1]",
	}
	for doc, want := range tests {
		var got []string
		for _, p := range Check(resource(t, doc), all) {
			got = append(got, p.Field)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q", doc, got)
		}
	}
}

func TestWhatDrillsNameStays(t *testing.T) {
	all := fleetWith(t, "Tenant globex {}", "Model lone {}", "Region sa {}", "DrillPlan d {kind: soft, target: {region: us}, models: [m, lone], tenants: [globex]}", "DrillPlan e {kind: hard, target: {cluster: eu-1}}",
		"DrillPlan f {kind: hard, target: {clusters: [us-1]}}", "SafetyRule s {drills: {forbidden: [[us, sa]], protectedTenants: [acme]}}")
	for name, want := range map[string]string{
		"Tenant globex": `DrillPlan "d" still names it in spec.tenants[0]`, "Model lone": `DrillPlan "d" still names it in spec.models[1]`, "Cluster eu-1": `DrillPlan "e" still names it in spec.target.cluster`,
		"Cluster us-1": `DrillPlan "f" still names it in spec.target.clusters[0]`, "Region sa": `SafetyRule "s" still names it in spec.drills.forbidden[0][1]`,
		"Tenant acme": `SafetyRule "s" still names it in spec.drills.protectedTenants[0]`, "Region us": `DrillPlan "d" still names it in spec.target.region`,
	} {
		kind, n, _ := strings.Cut(name, " ")
		if got := text(CheckDelete(Kind(kind), n, all)); !strings.Contains(got, want) {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := CheckDelete(KindDrillPlan, "d", all); len(got) > 0 {
		t.Error(text(got))
	}
}

func TestLintOfDrills(t *testing.T) {
	tests := map[string]struct {
		docs []string
		want []string
	}{
		"nothing to say": {[]string{"DrillPlan d {kind: soft, target: {region: us}, schedule: {cron: 0 4 * * Tue}}", "Region eu {peerURLs: ['https://eu'], zone: americas}", "Tenant acme {}"}, nil},
		"the only region of a zone": {[]string{"DrillPlan d {kind: soft, target: {region: eu}}"}, []string{
			"spec.target is all that zone eu has: requests that may be served there alone stay where they are",
		}},
		"half of a zone": {[]string{"DrillPlan d {kind: soft, target: {cluster: eu-1}}", "Cluster eu-2 {region: eu, models: [m, n], endpoints: [{id: p, url: 'http://10.0.0.3', class: h100}], gpus: [{class: h100, count: 1, purchase: owned}]}"}, nil},
		"all that serves a model": {[]string{"DrillPlan d {kind: hard, target: {cluster: us-1}, models: [o]}", "Model o {}", "Cluster us-1 {region: us, models: [m, o], endpoints: [{id: p, url: 'http://10.0.0.1', class: h100}]}", "Region eu {peerURLs: ['https://eu'], zone: americas}", "Tenant acme {}"}, []string{
			"spec.target is all that serves o: requests for that stay where they are",
		}},
		"steps that fall, and do not end with all": {[]string{"DrillPlan d {kind: shadow, target: {region: us}, steps: [{percent: 10, dwellSeconds: 1}, {percent: 5, dwellSeconds: 1}]}"}, []string{
			"spec.steps[1].percent 5 % comes after 10 %: traffic goes back and forth",
			"spec.steps[1].percent is the last step, and leaves 95 % where they are",
		}},
		"always in a blackout": {[]string{"DrillPlan d {kind: shadow, target: {region: us}, schedule: {cron: 0 4 24 12 *, blackouts: [{from: 2020-01-01, until: 2080-01-01}]}}"}, []string{
			"spec.schedule every time that it names is within a blackout: no drill ever begins",
		}},
		"never in a window": {[]string{"DrillPlan d {kind: shadow, target: {region: us}, schedule: {cron: 0 4 * * Tue}}", "SafetyRule s {drills: {windows: [{from: '12:00', until: '18:00'}]}}"}, []string{
			"spec.schedule safety rules allow drills at none of its times",
		}},
		"a window that is too short": {[]string{"DrillPlan d {kind: shadow, target: {region: us}, schedule: {cron: 0 4 * * Tue}}", "SafetyRule s {drills: {windows: [{from: '04:00', until: '04:20'}]}}"}, []string{
			"spec.schedule safety rules allow drills at none of its times",
		}},
		"in a window": {[]string{"DrillPlan d {kind: shadow, target: {region: us}, schedule: {cron: 0 4 * * Tue}}", "SafetyRule s {drills: {windows: [{from: '04:00', until: '05:00'}]}}"}, nil},
		"a protected tenant": {[]string{"DrillPlan d {kind: shadow, target: {region: us}, tenants: [acme]}", "SafetyRule s {drills: {protectedTenants: [acme]}}"}, []string{
			"spec.tenants[0] a safety rule protects the tenant from drills: none of this plan can begin",
		}},
		"failback of what is on": {[]string{"DrillPlan d {kind: failback-only, target: {region: us}}"}, []string{
			"spec.target not all of it is drained, and kind failback-only brings traffic back to what is",
		}},
		"a drain of what is off": {[]string{"DrillPlan d {kind: shadow, target: {region: us}}", "Cluster us-1 {region: us, models: [m, n], drained: true, endpoints: [{id: p, url: 'http://10.0.0.1', class: h100}]}"}, []string{
			"spec.target all of it is drained already: there is nothing to take out",
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, w := range Lint(fleetWith(t, tt.docs...)) {
				if w.Resource == "drillplans/d" {
					got = append(got, w.Field+" "+w.Reason)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestRulesForDrillsNeedBuildsThatKnowThem(t *testing.T) {
	for doc, want := range map[string]uint32{"SafetyRule s {drills: {}}": 6, "SafetyRule s {rollout: {}}": 1} {
		r := resource(t, doc)
		if got := NeedsFormat(r.Kind, Canonical(r)); got != want {
			t.Errorf("%s: %d", doc, got)
		}
	}
}

func TestEdgesOfDrills(t *testing.T) {
	const plan = "DrillPlan d {kind: soft, target: {region: us}, "
	tests := []struct {
		doc     string // %s is the value
		ok, bad []string
		at      string
	}{
		{plan + "percent: %s}", []string{"0", "0.001", "100"}, []string{"-1", "100.1"}, "spec.percent"},
		{plan + "baselineSeconds: %s}", []string{"1", "14400"}, []string{"-1", "14401"}, "spec.baselineSeconds"},
		{plan + "holdSeconds: %s}", []string{"1", "2000"}, []string{"-1", "14401"}, "spec.holdSeconds"},
		{plan + "verifySeconds: %s}", []string{"1", "14400"}, []string{"-1", "14401"}, "spec.verifySeconds"},
		{plan + "holdSeconds: 1, steps: [{percent: 100, dwellSeconds: 1}], failback: {steps: [100], dwellSeconds: 1}, maxDurationSeconds: %s}", []string{"60", "14400"}, []string{"59", "14401", "-1"}, "spec.maxDurationSeconds"},
		{plan + "test: true, timeScale: %s}", []string{"0.001", "1", "0"}, []string{"-1", "1.1"}, "spec.timeScale"},
		{plan + "steps: [{percent: %s, dwellSeconds: 1}]}", []string{"0.1", "100"}, []string{"0", "-1", "101"}, "spec.steps[0].percent"},
		{plan + "steps: [{percent: 1, dwellSeconds: %s}]}", []string{"1"}, []string{"0", "-1", "14401"}, "spec.steps[0].dwellSeconds"},
		{plan + "abort: {quotaDenied: {over: %s}}}", []string{"0", "0.5", "1"}, []string{"-1", "1.1"}, "spec.abort.quotaDenied.over"},
		{plan + "abort: {quotaDenied: {seconds: %s}}}", []string{"0", "1", "300"}, []string{"-1", "301"}, "spec.abort.quotaDenied.seconds"},
		{"SafetyRule s {drills: {minRegions: %s}}", []string{"0", "1", "1000"}, []string{"-1", "1001"}, "spec.drills.minRegions"},
		{"SafetyRule s {drills: {maxCapacityRemoved: %s}}", []string{"0", "0.01", "1"}, []string{"-1", "1.1"}, "spec.drills.maxCapacityRemoved"},
		{"SafetyRule s {drills: {intervalHours: %s}}", []string{"0", "0.01", "8760"}, []string{"-1", "8761"}, "spec.drills.intervalHours"},
		{"SafetyRule s {drills: {approvals: %s}}", []string{"0", "1", "5"}, []string{"-1", "6"}, "spec.drills.approvals"},
		{"SafetyRule s {drills: {approvalHours: %s}}", []string{"0", "1", "168"}, []string{"-1", "169"}, "spec.drills.approvalHours"},
	}
	for _, tt := range tests {
		for _, v := range tt.ok {
			if got := fieldsOf(t, strings.ReplaceAll(tt.doc, "%s", v)); len(got) > 0 {
				t.Errorf("%s: %s is refused for %q", tt.at, v, got)
			}
		}
		for _, v := range tt.bad {
			if got := fieldsOf(t, strings.ReplaceAll(tt.doc, "%s", v)); !slices.Contains(got, tt.at) {
				t.Errorf("%s: %s is taken; complaints of %q", tt.at, v, got)
			}
		}
	}
}
