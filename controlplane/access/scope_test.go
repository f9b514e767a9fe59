package access

import (
	"fmt"
	"strings"
	"testing"
)

func TestScopesAreValidated(t *testing.T) {
	var long []string
	for i := range MaxNames + 1 {
		long = append(long, fmt.Sprint("t", i))
	}
	for _, tt := range []struct {
		scope Scope
		want  string // fields
	}{
		{Scope{}, ""},
		{scope("regions eu us; tenants acme; models meta-llama/Llama-3.1-8B"), ""},
		{scope("regions EU"), "scope.regions[0]"},
		{scope("tenants meta-llama/Llama"), "scope.tenants[0]"},
		{scope("models a b a"), "scope.models[2]"},
		{Scope{Tenants: []string{""}}, "scope.tenants[0]"},
		{Scope{Tenants: long}, "scope.tenants"},
		{Scope{Tenants: long[1:]}, ""},
	} {
		var fields []string
		for _, p := range tt.scope.Validate("scope") {
			fields = append(fields, p.Field)
			if p.Reason == "" || p.Fix == "" {
				t.Errorf("no reason or fix: %+v", p)
			}
		}
		if got := strings.Join(fields, " "); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.scope, got, tt.want)
		}
	}
}

func TestWhatATenantsTokenSees(t *testing.T) {
	s := scope("tenants acme")
	for doc, want := range map[string]bool{
		`Tenant acme {}`:  true,
		`Tenant other {}`: false,
		`Quota q {tenant: acme, limits: [{kind: requests, perMinute: 1}]}`:  true,
		`Quota q {tenant: other, limits: [{kind: requests, perMinute: 1}]}`: false,
		`Region eu {}`: true,
		`Model m {}`:   true,
		`TrafficPolicy p {models: [a], match: [{tenants: [other]}]}`: true,
		`SafetyRule s {changeLimit: {maxMovedShare: 0.3}}`:           true,
	} {
		if r := document(t, doc); s.Sees(r) != want || !scope("regions us").Sees(r) || !(Scope{}).Sees(r) {
			t.Errorf("%s: %v", doc, s.Sees(r))
		}
	}
}

func TestScopesInWords(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "everything",
		"tenants acme":                        "tenants acme",
		"models a b; regions eu":              "regions eu; models a, b",
		"regions a b c d e f g":               "regions a, b, c, d, e and 2 more",
		"regions eu; tenants acme; models a ": "regions eu; tenants acme; models a",
	} {
		if got := scope(text).String(); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
