package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func lines(changes []Change) []string {
	var out []string
	for _, c := range changes {
		out = append(out, fmt.Sprintf("%s: %s → %s", c.Field, c.From, c.To))
	}
	return out
}

func TestDifferences(t *testing.T) {
	base := "TrafficPolicy p {regions: [{region: a, weight: 1}, {region: b}], costPreference: 0.5}"
	tests := []struct {
		name, from, to string
		want           []string
	}{
		{"none", base, base, nil},
		{"one value", base, "TrafficPolicy p {regions: [{region: a, weight: 2}, {region: b}], costPreference: 0.5}", []string{"spec.regions[0].weight: 1 → 2"}},
		{"an entry more", base, "TrafficPolicy p {regions: [{region: a, weight: 1}, {region: b}, {region: c}], costPreference: 0.5}", []string{`spec.regions[2]:  → {"region":"c"}`}},
		{"a field less", base, "TrafficPolicy p {regions: [{region: a, weight: 1}, {region: b}]}", []string{"spec.costPreference: 0.5 → "}},
		{"another shape", base, "TrafficPolicy p {costPreference: 0.5}", []string{`spec.regions: [{"region":"a","weight":1},{"region":"b"}] → `}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := lines(Diff(resource(t, tt.from), resource(t, tt.to))); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestDifferenceFromNothingIsEverything(t *testing.T) {
	r := resource(t, "Tenant x {tier: top}")
	r.Metadata.Labels = map[string]string{"a": "b"}
	want := []string{`metadata:  → {"labels":{"a":"b"}}`, `spec:  → {"tier":"top"}`}
	if got := lines(Diff(nil, r)); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Diff(r, nil); len(got) != 2 || got[1].To != nil {
		t.Errorf("gone: %q", lines(got))
	}
}

func TestMergePatch(t *testing.T) {
	tests := []struct{ name, patch, want string }{
		{"sets a field", `{"spec":{"tier":"batch"}}`, `{"labels":{"a":"b"},"spec":{"residency":["eu"],"tier":"batch"}}`},
		{"in YAML", "spec:\n  tier: batch\n", `{"labels":{"a":"b"},"spec":{"residency":["eu"],"tier":"batch"}}`},
		{"null gives the default back", `{"spec":{"tier":null},"metadata":{"labels":null}}`, `{"spec":{"residency":["eu"]}}`},
		{"lists are replaced", `{"spec":{"residency":["us","eu"]}}`, `{"labels":{"a":"b"},"spec":{"residency":["us","eu"],"tier":"top"}}`},
		{"labels merge", `{"metadata":{"labels":{"c":"d"}}}`, `{"labels":{"a":"b","c":"d"},"spec":{"residency":["eu"],"tier":"top"}}`},
		{"unknown field", `{"spec":{"teir":"batch"}}`, `spec.teir is not a field of spec`},
		{"wrong type", `{"spec":{"tier":["batch"]}}`, `spec.tier is a list, must be text`},
		{"another name", `{"metadata":{"name":"y"}}`, `metadata.name the patch changes the kind or name`},
		{"another kind", `{"kind":"Region","spec":null}`, `metadata.name the patch changes the kind or name`},
		{"repeated key", `{"spec":{"tier":"top","tier":"batch"}}`, `spec.tier appears twice`},
		{"not an object", `[1]`, ` the patch is a list`},
		{"not readable", `{"spec":`, ` is not readable as JSON`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := resource(t, "Tenant x {tier: top, residency: [eu]}")
			r.Metadata.Labels = map[string]string{"a": "b"}
			out, problems := Merge(r, []byte(tt.patch))
			if len(problems) > 0 {
				if got := problems[0].Field + " " + problems[0].Reason; !strings.HasPrefix(got, tt.want) {
					t.Errorf("got %q, want %q", got, tt.want)
				}
				return
			}
			if got := string(Canonical(out)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if string(Canonical(r)) != `{"labels":{"a":"b"},"spec":{"residency":["eu"],"tier":"top"}}` {
				t.Errorf("the original became %s", Canonical(r))
			}
		})
	}
}

func TestJSONOfAResourceIsAsWrittenAndReadsBackTyped(t *testing.T) {
	r := resource(t, "Quota q {tenant: t, limits: [{kind: requests, perMinute: 60}]}")
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"apiVersion":"anabranch/v1","kind":"Quota","metadata":{"name":"q"},"spec":{"limits":[{"kind":"requests","perMinute":60}],"tenant":"t"}}`
	if string(b) != want {
		t.Errorf("got %s, want %s", b, want)
	}
	var back Resource
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if spec, ok := back.Spec.(*QuotaSpec); !ok || spec.Limits[0].Burst != 60 {
		t.Errorf("got %+v", back.Spec)
	}
	if err := json.Unmarshal([]byte(`{"kind":"Widget"}`), &back); err == nil {
		t.Error("an unknown kind is read")
	}
}

func TestUnknownFieldsOfANewerVersionAreKept(t *testing.T) {
	doc := []byte(`{"spec":{"later":{"x":1},"tier":"top"}}`)
	r, err := FromCanonical(KindTenant, "x", doc)
	if err != nil {
		t.Fatal(err)
	}
	if got := Canonical(r); string(got) != string(doc) {
		t.Errorf("got %s", got)
	}
	for _, bad := range []string{`{`, `{"spec":{"tier":1}}`} {
		if _, err := FromCanonical(KindTenant, "x", []byte(bad)); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
}
