package policy

import (
	"slices"
	"strings"
	"testing"
)

func TestValuesOfAField(t *testing.T) {
	r, problems := Parse([]byte(`
apiVersion: anabranch/v1
kind: TrafficPolicy
metadata: {name: p}
spec:
  models: [m, n]
  match: [{headers: [{name: a, value: x}, {name: b}]}, {tenants: [acme]}]
  regions: [{region: us, weight: 0.5}, {region: eu}]
  hedge: {enabled: true}
`))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for path, want := range map[string][]string{
		"spec.models":             {"m", "n"},
		"spec.match.headers.name": {"a", "b"},
		"spec.match.tenants":      {"acme"},
		"spec.regions.weight":     {"0.5", "1"},
		"spec.hedge.enabled":      {"true"},
		"spec.shadow.percent":     nil,
		"spec.priority":           {"0"},
	} {
		f, err := FieldOf(KindTrafficPolicy, path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if got := f.Values(r); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if got := (Field{}).Values(r); got != nil {
		t.Errorf("no field has the values %q", got)
	}
}

func TestAnEntryOfAMapIsAField(t *testing.T) {
	f, err := FieldOf(KindRegion, "spec.rttMs.eu")
	if err != nil {
		t.Fatal(err)
	}
	for want, spec := range map[string]*RegionSpec{"": {}, "70.5": {RTTMs: map[string]float64{"eu": 70.5, "ap": 1}}} {
		if got := strings.Join(f.Values(&Resource{Kind: KindRegion, Spec: spec}), " "); got != want {
			t.Errorf("%v: %q", spec, got)
		}
	}
}

func TestFieldsThatThereAreNot(t *testing.T) {
	for path, want := range map[string]string{
		"":                 "does not begin with spec.",
		"spec":             "as in spec.tenant",
		"metadata.name":    "does not begin with spec.",
		"spec.":            "spec has tenant, organization, model, key, limits, degraded",
		"spec.limits":      "holds fields itself: kind, perMinute, burst",
		"spec.limits.no":   "spec.limits has kind",
		"spec.tenant.name": "nothing below spec.tenant",
	} {
		if _, err := FieldOf(KindQuota, path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if _, err := FieldOf(KindRegion, "spec.rttMs"); err == nil || !strings.Contains(err.Error(), "name of an entry") {
		t.Errorf("a map: %v", err)
	}
	if _, err := FieldOf("Planet", "spec.x"); err == nil {
		t.Error("a kind that there is not has fields")
	}
}
