package policy

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"anabranch/failover"
)

func TestNumbersOfHealthAreCheckedAgainstEachOther(t *testing.T) {
	tests := map[string]struct{ spec, field string }{
		"defaults":                       {"{}", ""},
		"ease as high as full":           {"{ease: 0.85}", "spec.failover.ease"},
		"full as low as the usual ease":  {"{full: 0.7}", "spec.failover.ease"},
		"ease below a lower full":        {"{full: 0.6, ease: 0.5}", ""},
		"grey sooner than dead":          {"{greyConfirmMs: 2000}", "spec.failover.greyConfirmMs"},
		"as older builds took it":        {"{confirmMs: 16000, recoveryMs: 7200000}", ""},
		"recovery above its bound":       {"{recoveryMs: 20000, recoveryMaxMs: 10000}", "spec.failover.recoveryMaxMs"},
		"relapses forgotten at once":     {"{relapseMemoryMs: 400000}", "spec.failover.relapseMemoryMs"},
		"good fails more than grey":      {"{failureShare: 0.3}", "spec.failover.failureShare"},
		"correlated as short as confirm": {"{correlatedMs: 3000}", "spec.failover.correlatedMs"},
		"steps that fall":                {"{rampSteps: [0.5, 0.2, 1]}", "spec.failover.rampSteps[1]"},
		"steps that do not end":          {"{rampSteps: [0.1, 0.5]}", "spec.failover.rampSteps"},
		"steps of nothing":               {"{rampSteps: [0, 1]}", "spec.failover.rampSteps[0]"},
		"other steps":                    {"{rampSteps: [0.2, 1]}", ""},
		"a share above all":              {"{readyShare: 1.5}", "spec.failover.readyShare"},
		"a clock of a day":               {"{skewMs: 86400001}", "spec.failover.skewMs"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r, problems := Parse([]byte("apiVersion: anabranch/v1\nkind: TrafficPolicy\nmetadata: {name: p}\nspec: {failover: " + tt.spec + "}"))
			if len(problems) == 0 {
				problems = Validate(r)
			}
			if tt.field == "" {
				if len(problems) > 0 {
					t.Errorf("refused: %v", problems)
				}
				return
			}
			if len(problems) != 1 || problems[0].Field != tt.field {
				t.Errorf("problems %v, want one of %s", problems, tt.field)
			}
		})
	}
}

// Each field of the spec reaches the state machine, as what it says.
func TestEachNumberOfHealthIsPolicy(t *testing.T) {
	usual := (&FailoverSpec{}).Config().WithDefaults()
	if want := failover.DefaultConfig(); !reflect.DeepEqual(usual, want) {
		t.Errorf("the defaults are %+v, want %+v", usual, want)
	}
	of := reflect.TypeOf(FailoverSpec{})
	ejection := []string{"ConnectFailures", "FailureRatio", "MinRequests", "WindowMs", "ReprobeMs", "ReprobeMaxMs"}
	for i := range of.NumField() {
		name := of.Field(i).Name
		if strings.Contains(strings.Join(ejection, " "), name) {
			continue
		}
		var s FailoverSpec
		switch v := reflect.ValueOf(&s).Elem().Field(i); v.Kind() {
		case reflect.Float64:
			v.SetFloat(0.123)
		case reflect.Slice:
			s.RampSteps = []float64{0.3, 1}
		default:
			v.SetInt(1234)
		}
		if reflect.DeepEqual(s.Config().WithDefaults(), usual) {
			t.Errorf("%s changes nothing", name)
		}
	}
	if got := (&FailoverSpec{SkewMs: 250, PaceMs: 2000}).Config(); got.Skew != 250*time.Millisecond || got.Pace != 2*time.Second {
		t.Errorf("got %+v", got)
	}
}

func TestOlderBuildsGetNoNumbersThatTheyDoNotKnow(t *testing.T) {
	for doc, want := range map[string]uint32{
		`{"spec":{"failover":{"confirmMs":3000}}}`: firstFormat,
		`{"spec":{"failover":{"ease":0.5}}}`:       drillFormat,
		`{"spec":{"failover":{"skewMs":100}}}`:     drillFormat,
	} {
		if got := NeedsFormat(KindTrafficPolicy, []byte(doc)); got != want {
			t.Errorf("%s needs format %d, want %d", doc, got, want)
		}
	}
}
