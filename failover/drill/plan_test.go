package drill

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"time"

	"anabranch/api/fleet"
)

func usual(kind Kind) Plan {
	return Plan{
		Kind: kind, Percent: 100, Stages: DefaultStages(), Back: DefaultBack(), BackDwell: DefaultBackDwell, Baseline: DefaultBaseline,
		Hold: DefaultHold, Verify: DefaultVerify, MostTime: DefaultMostTime, Scale: 1, Abort: DefaultThresholds(),
	}
}

func TestOnlyTestsAreScaledAndNotAllOfThem(t *testing.T) {
	p := usual(Soft)
	p.Scale = 0.1
	if got := p.Resolve(); got.Hold != DefaultHold || got.Scale != 1 {
		t.Errorf("no test: %+v", got)
	}
	p.Test = true
	got := p.Resolve()
	want := []time.Duration{30 * time.Second, 60 * time.Second, 30 * time.Second, 6 * time.Second, 18 * time.Second}
	if have := []time.Duration{got.Baseline, got.Hold, got.Verify, got.BackDwell, got.Stages[3].Dwell}; !reflect.DeepEqual(have, want) {
		t.Errorf("got %v", have)
	}
	if got.MostTime != DefaultMostTime || !reflect.DeepEqual(got.Abort, DefaultThresholds()) {
		t.Error("leases or aborts are scaled")
	}
	if p.Stages[3].Dwell != 180*time.Second || p.Hold != DefaultHold {
		t.Error("the plan given was changed")
	}
	for _, scale := range []float64{0, -1, 2} {
		if p.Scale = scale; p.Resolve().Scale != 1 {
			t.Errorf("scale %g", scale)
		}
	}
}

func TestKindsHaveTheirStages(t *testing.T) {
	for kind, want := range map[Kind][2]int{Soft: {4, 4}, Shadow: {4, 1}, Hard: {1, 4}, Tier1: {1, 4}, QuotaStore: {1, 1}, ControlPlane: {1, 1}, FailbackOnly: {1, 4}} {
		if p := usual(kind).Resolve(); len(p.Stages) != want[0] || len(p.Back) != want[1] || p.Back[len(p.Back)-1] != 100 {
			t.Errorf("%s: %v, %v", kind, p.Stages, p.Back)
		}
	}
	// 5 min, 7 min of steps, the rehearsal, 10 min, 4 min, and five seconds a stage.
	if got := usual(Soft).Resolve().Length(); got != 26*time.Minute+50*time.Second {
		t.Error(got)
	}
}

func TestEffects(t *testing.T) {
	at := func(kind Kind, percent float64, state State, step int, rehearsed bool) Effect {
		p := usual(kind)
		p.Percent = percent
		return EffectOf(p.Resolve(), Run{State: state, Step: step, Rehearsed: rehearsed})
	}
	tests := map[string]struct{ got, want Effect }{
		"first step":           {at(Soft, 100, Shifting, 0, false), Effect{Leased: true, Shifted: 10_000}},
		"rehearsed rollback":   {at(Soft, 100, Dwell, 0, false), Effect{}},
		"first step again":     {at(Soft, 100, Dwell, 0, true), Effect{Leased: true, Shifted: 10_000}},
		"half of half":         {at(Soft, 50, Dwell, 2, true), Effect{Leased: true, Shifted: 250_000}},
		"held":                 {at(Soft, 100, Hold, 0, true), Effect{Leased: true, Shifted: Whole}},
		"a quarter back":       {at(Soft, 100, Failback, 1, true), Effect{Leased: true, Shifted: 750_000}},
		"all back":             {at(Soft, 100, Failback, 3, true), Effect{Leased: true}},
		"watched":              {at(Shadow, 100, Hold, 0, true), Effect{Leased: true, Shifted: Whole, WatchOnly: true}},
		"dead":                 {at(Hard, 100, Shifting, 0, false), Effect{Leased: true, Shifted: Whole, Dead: true}},
		"dead to the end":      {at(Hard, 20, Hold, 0, false), Effect{Leased: true, Shifted: 200_000, Dead: true}},
		"alive again":          {at(Hard, 100, Failback, 0, false), Effect{Leased: true, Shifted: 900_000}},
		"gateway lost":         {at(Tier1, 100, Hold, 0, false), Effect{Leased: true, Shifted: Whole, Dead: true}},
		"quota store lost":     {at(QuotaStore, 100, Hold, 0, false), Effect{Leased: true, QuotaStoreLost: true}},
		"quota store back":     {at(QuotaStore, 100, Failback, 0, false), Effect{Leased: true}},
		"leader isolated":      {at(ControlPlane, 100, Shifting, 0, false), Effect{Leased: true}},
		"brought":              {at(FailbackOnly, 100, Failback, 1, false), Effect{Leased: true, Shifted: 250_000}},
		"no such stage":        {at(Soft, 100, Shifting, 9, true), Effect{Leased: true}},
		"before":               {at(Soft, 100, Measuring, 0, false), Effect{}},
		"rolling back":         {at(Hard, 100, RollingBack, 0, true), Effect{}},
		"paused as it was":     {EffectOf(usual(Soft), Run{State: Paused, Resume: Dwell, Step: 1, Rehearsed: true}), Effect{Leased: true, Shifted: 100_000}},
		"paused in a rollback": {EffectOf(usual(Soft), Run{State: Paused, Resume: Dwell}), Effect{}},
	}
	for name, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s: %+v", name, tt.got)
		}
	}
}

func TestHashNamesWhatIsApprovedAndNothingElse(t *testing.T) {
	spec := []byte(`{"kind":"soft"}`)
	r := Resolved{Clusters: []fleet.ClusterID{"a", "b"}, Regions: []fleet.RegionID{"r"}, Models: []fleet.ModelID{"m"}, Routers: []fleet.RouterID{"x"}, Tenants: []fleet.TenantID{"t"}}
	f := Forecast{Verdict: VerdictPass, ColdFactor: 1.7, Survivors: []Survivor{{Cluster: "c", With: 0.7}}}
	base := Hash(spec, r, f)
	if len(base) != 32 {
		t.Fatal(len(base))
	}
	same := r
	same.Routers, same.Tenants, same.Clusters = nil, nil, []fleet.ClusterID{"b", "a"}
	if !bytes.Equal(base, Hash(spec, same, Forecast{Verdict: VerdictPass, ColdFactor: 2})) {
		t.Error("routers, tenants, order or figures count")
	}
	more := r
	more.Clusters = []fleet.ClusterID{"a", "b", "c"}
	for name, other := range map[string][]byte{
		"spec": Hash([]byte(`{"kind":"hard"}`), r, f), "clusters": Hash(spec, more, f), "verdict": Hash(spec, r, Forecast{Verdict: VerdictWarn}),
		"stranded": Hash(spec, r, Forecast{Verdict: VerdictPass, Stranded: []Stranded{{Tenant: "t", Model: "m"}}}), "no JSON": Hash([]byte("{"), r, f), "no JSON either": Hash([]byte("["), r, f),
	} {
		if bytes.Equal(base, other) {
			t.Errorf("%s does not count", name)
		}
	}
	if bytes.Equal(Hash([]byte("{"), r, f), Hash([]byte("["), r, f)) {
		t.Error("what is no JSON is all the same")
	}
}

func TestVerdicts(t *testing.T) {
	for saturation, want := range map[float64]string{0.8: VerdictPass, 0.81: VerdictWarn, 0.9: VerdictWarn, 0.91: VerdictBlock} {
		if got := VerdictOf(saturation); got != want {
			t.Errorf("%g: %s", saturation, got)
		}
	}
}

func TestProtectedTenantsAreLeftOut(t *testing.T) {
	all := []fleet.TenantID{"a", "b", "c"}
	r := Rules{Protected: []fleet.TenantID{"b"}}
	if got := r.Scope(nil, all); !reflect.DeepEqual(got, []fleet.TenantID{"a", "c"}) {
		t.Error(got)
	}
	if got := r.Scope([]fleet.TenantID{"c"}, all); !reflect.DeepEqual(got, []fleet.TenantID{"c"}) {
		t.Error(got)
	}
	if got := (Rules{}).Scope(nil, all); got != nil {
		t.Error(got)
	}
	if got := (Rules{Protected: all}).Scope(nil, all); got == nil || len(got) != 0 {
		t.Errorf("none is left, which is not all: %v", got)
	}
}

func TestDecideRefuses(t *testing.T) {
	tests := map[string]struct {
		state State
		d     Decision
		want  error
	}{
		"no act":                  {Draft, Decision{Act: "dance"}, ErrAct},
		"validate without a hash": {Draft, Decision{Act: ActValidate}, ErrAct},
		"validate to nonsense":    {Draft, Decision{Act: ActValidate, Refused: Succeeded}, ErrAct},
		"validate twice":          {Validated, Decision{Act: ActValidate, PlanSHA256: []byte("x")}, ErrState},
		"another plan":            {Pending, Decision{Act: ActApprove, Who: "bob", PlanSHA256: []byte("old")}, ErrPlan},
		"nobody":                  {Pending, Decision{Act: ActApprove, PlanSHA256: []byte("plan")}, ErrPerson},
		"the creator":             {Pending, Decision{Act: ActApprove, Who: "ann", PlanSHA256: []byte("plan")}, ErrPerson},
		"start a draft":           {Draft, Decision{Act: ActStart, BreakGlass: "x"}, ErrState},
		"start unapproved":        {Pending, Decision{Act: ActStart}, ErrState},
		"pause a pause":           {Paused, Decision{Act: ActPause}, ErrState},
		"resume what runs":        {Hold, Decision{Act: ActResume}, ErrState},
		"abort a rollback":        {RollingBack, Decision{Act: ActAbort}, ErrState},
		"abort what is over":      {Done, Decision{Act: ActAbort}, ErrState},
	}
	for name, tt := range tests {
		r := abstract{state: tt.state}.concrete()
		got, what, err := Decide(r, Soft, DefaultRules(), tt.d, exploredAt)
		if !errors.Is(err, tt.want) || what != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%s: %v, %v", name, err, what)
		}
	}
}

func TestDecideTellsWhoAndWhy(t *testing.T) {
	r := abstract{state: Hold, moved: true}.concrete()
	got, what, err := Decide(r, Soft, DefaultRules(), Decision{Act: ActAbort, Who: "bob", Why: "too slow"}, exploredAt)
	if err != nil || got.Reason != "aborted by an operator: too slow" || len(what) != 1 || what[0].Actor != "bob" || what[0].State != RollingBack || what[0].Kind != OfTransition {
		t.Errorf("%v, %+v, %+v", err, got, what)
	}
	r = abstract{state: Validated}.concrete()
	got, _, err = Decide(r, Soft, DefaultRules(), Decision{Act: ActStart, Who: "ann", BreakGlass: "region burns"}, exploredAt)
	if err != nil || got.Broken != "region burns" || got.State != Scheduled || !got.Start.Equal(exploredAt) {
		t.Errorf("%v, %+v", err, got)
	}
}
