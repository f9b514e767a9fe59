package policy

import (
	"fmt"
	"strings"
	"testing"
)

func objectiveOf(t *testing.T, spec string) (*TrafficPolicySpec, []Problem) {
	t.Helper()
	doc := fmt.Sprintf("apiVersion: anabranch/v1\nkind: TrafficPolicy\nmetadata: {name: p}\nspec: {%s}\n", spec)
	r, problems := Parse([]byte(doc))
	if len(problems) == 0 {
		problems = Validate(r)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return r.Spec.(*TrafficPolicySpec), nil
}

func TestAnObjectiveStandsForACostPreference(t *testing.T) {
	for spec, want := range map[string]float64{
		"":                           0,
		"objective: latency-first":   0,
		"objective: latency-leaning": 0.25,
		"objective: balanced":        0.5,
		"objective: cost-leaning":    0.75,
		"objective: cost-first":      1,
		"objective: balanced, costPreference: 0.5":    0.5,
		"costPreference: 0.3":                         0.3,
		"objective: cost-first, costPreference: 1":    1,
		"objective: latency-first, spill: allowed":    0,
		"objective: cost-leaning, ttftObjectiveMs: 9": 0.75,
	} {
		s, problems := objectiveOf(t, spec)
		if problems != nil || s.CostPreference != want {
			t.Errorf("%q: %+v, %+v", spec, s, problems)
		}
	}
}

func TestAnObjectiveThatContradictsItsNumberIsRefused(t *testing.T) {
	for spec, field := range map[string]string{
		"objective: balanced, costPreference: 0.4":    "spec.costPreference",
		"objective: latency-first, costPreference: 1": "spec.costPreference",
		"objective: cheap":                            "spec.objective",
		"objective: Balanced, costPreference: 0.5":    "spec.objective",
	} {
		_, problems := objectiveOf(t, spec)
		if len(problems) != 1 || problems[0].Field != field || problems[0].Fix == "" {
			t.Errorf("%q: %+v", spec, problems)
		}
	}
}

func TestTheTitleOfAPreference(t *testing.T) {
	for _, tt := range []struct {
		preference float64
		want       string
	}{
		{-1, "latency first"},
		{0, "latency first"},
		{0.01, "latency, then cost"},
		{0.25, "latency, then cost"},
		{0.4, "balanced"},
		{0.5, "balanced"},
		{0.6, "balanced"},
		{0.7, "cost, then latency"},
		{0.99, "cost, then latency"},
		{1, "cost first"},
		{2, "cost first"},
	} {
		if got := ObjectiveTitle(tt.preference); got != tt.want {
			t.Errorf("%g is %q, want %q", tt.preference, got, tt.want)
		}
	}
	for _, o := range objectives {
		if got := ObjectiveTitle(o.preference); got != o.title || !strings.Contains(o.title, strings.Split(o.word, "-")[0]) {
			t.Errorf("%s is called %q", o.word, got)
		}
	}
}
