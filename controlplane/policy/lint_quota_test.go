package policy

import (
	"fmt"
	"strings"
	"testing"
)

func TestLintOfQuotas(t *testing.T) {
	const prices = "RateCard r {models: [{model: m, inputPerMTok: 1, outputPerMTok: 2}]}"
	for name, tt := range map[string]struct {
		changes []string
		want    []string // "resource field: part of the reason"
	}{
		"what counts": {
			[]string{prices, "Quota q {tenant: acme, model: m, limits: [{kind: requests, perMinute: 1}, {kind: money-per-day, usd: 1, timeZone: Europe/Berlin}]}"}, nil,
		},
		"an adapter": {
			[]string{"Model m {adapters: [lora]}", "Quota q {tenant: acme, model: lora, limits: [{kind: money-per-day, usd: 1}]}"},
			[]string{`quotas/q spec.model: "lora" is no base model`},
		},
		"a key that is gone": {
			[]string{"Quota q {tenant: acme, key: k, limits: [{kind: requests, perMinute: 1}]}"}, []string{`quotas/q spec.key: the tenant has no API key "k"`},
		},
		"a budget of a model without a price": {
			[]string{prices, "Quota q {tenant: acme, model: n, limits: [{kind: requests, perMinute: 1}, {kind: money-per-day, usd: 1}]}"},
			[]string{"quotas/q spec.limits[1].kind: no rate card has a price for tokens of n"},
		},
		"a budget of all models": {
			[]string{"Quota q {tenant: acme, limits: [{kind: money-per-month, usd: 1}]}"},
			[]string{"quotas/q spec.limits[0].kind: no rate card has a price for tokens of m, n"},
		},
		"a zone that knows no summer": {
			[]string{prices, "Quota q {tenant: acme, model: m, limits: [{kind: money-per-day, usd: 1, timeZone: EST}, {kind: money-per-month, usd: 1, timeZone: Etc/GMT+5}]}"},
			[]string{`quotas/q spec.limits[0].timeZone: "EST" has no daylight`, `quotas/q spec.limits[1].timeZone: "Etc/GMT+5" has`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Lint(fleetWith(t, tt.changes...))
			if len(got) != len(tt.want) {
				t.Fatalf("warnings %+v, want %q", got, tt.want)
			}
			for i, w := range got {
				if line := w.Resource + " " + w.Field + ": " + w.Reason; !strings.HasPrefix(line, tt.want[i]) || w.Fix == "" {
					t.Errorf("%q, want %q", line, tt.want[i])
				}
			}
		})
	}
}

func TestLintOfTooManyLimits(t *testing.T) {
	var changes []string
	for i := range 9 {
		changes = append(changes, fmt.Sprintf("Quota q%d {tenant: acme, limits: [{kind: requests, perMinute: 1}, {kind: input-tokens, perMinute: 1}, {kind: output-tokens, perMinute: 1}, {kind: total-tokens, perMinute: 1}]}", i))
	}
	got := Lint(fleetWith(t, changes...))
	if len(got) != 1 || got[0].Resource != "tenants/acme" || !strings.Contains(got[0].Reason, "36 limits") {
		t.Errorf("warnings %+v", got)
	}
	if got := Lint(fleetWith(t, changes[:8]...)); len(got) != 0 {
		t.Errorf("as many as are counted: %+v", got)
	}
}
