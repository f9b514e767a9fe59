package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// tenantOf makes a tenant from its spec in JSON; "": none.
func tenantOf(t rapid.TB, spec string, managers ...Manager) *Resource {
	t.Helper()
	if spec == "" {
		return nil
	}
	r, err := FromCanonical(KindTenant, "acme", []byte(spec))
	if err != nil {
		t.Fatal(err)
	}
	r.Metadata.Managers = managers
	return r
}

func owns(name string, fields ...string) Manager { return Manager{Name: name, Fields: fields} }

func TestOwn(t *testing.T) {
	const top, batch = `{"spec":{"tier":"top"}}`, `{"spec":{"tier":"batch"}}`
	const both = `{"labels":{"a":"1"},"spec":{"tier":"top"}}`
	tests := []struct {
		name     string
		from, to string
		held     []Manager
		by       string
		force    bool
		managers []Manager
		claims   []Claim
	}{
		{name: "a person creates", to: top, by: Human},
		{name: "nobody named is a person", to: top},
		{name: "automation creates", to: top, by: "sizer", managers: []Manager{owns("sizer", "spec.tier")}},
		{name: "a person changes a person's", from: top, to: batch, by: Human},
		{
			name: "a person changes an automation's, which is theirs from then on", from: top, to: batch, by: Human,
			held: []Manager{owns("sizer", "spec.tier")},
		},
		{
			name: "and leaves others'", from: both, to: `{"labels":{"a":"1"},"spec":{"tier":"batch"}}`, by: Human,
			held:     []Manager{owns("sizer", "metadata.labels.a", "spec.tier")},
			managers: []Manager{owns(Human, "spec.tier"), owns("sizer", "metadata.labels.a")},
		},
		{name: "automation changes a person's", from: top, to: batch, by: "sizer", claims: []Claim{{"spec.tier", Human}}},
		{name: "automation removes a person's", from: top, to: `{"spec":{}}`, by: "sizer", claims: []Claim{{"spec.tier", Human}}},
		{name: "automation deletes a person's", from: both, by: "sizer", claims: []Claim{{"metadata.labels.a", Human}, {"spec.tier", Human}}},
		{
			name: "automation changes another's", from: top, to: batch, by: "sizer", held: []Manager{owns("mover", "spec.tier")},
			claims: []Claim{{"spec.tier", "mover"}},
		},
		{
			name: "automation changes its own", from: top, to: batch, by: "sizer", held: []Manager{owns("sizer", "spec.tier")},
			managers: []Manager{owns("sizer", "spec.tier")},
		},
		{
			name: "automation adds what is not there", from: top, to: both, by: "sizer",
			managers: []Manager{owns(Human, "spec.tier"), owns("sizer", "metadata.labels.a")},
		},
		{name: "automation writes what is there already", from: top, to: top, by: "sizer"},
		{name: "force takes over", from: top, to: batch, by: "sizer", force: true, managers: []Manager{owns("sizer", "spec.tier")}},
		{name: "force deletes", from: top, by: "sizer", force: true},
		{
			name: "what goes is nobody's", from: both, to: top, by: Human, held: []Manager{owns(Human, "spec.tier"), owns("sizer", "metadata.labels.a")},
		},
		{
			name: "a list is one field", from: `{"spec":{"residency":["eu","us"]}}`, to: `{"spec":{"residency":["us"]}}`, by: "sizer",
			claims: []Claim{{"spec.residency", Human}},
		},
		{
			name: "an empty object is nothing", from: `{"labels":{},"spec":{}}`, to: both, by: "sizer",
			managers: []Manager{owns("sizer", "metadata.labels.a", "spec.tier")},
		},
		{
			name: "a value in place of an object", from: `{"spec":{"later":{"deep":1}}}`, to: `{"spec":{"later":2}}`, by: "sizer",
			claims: []Claim{{"spec.later.deep", Human}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			managers, claims := Own(tenantOf(t, tt.from, tt.held...), tenantOf(t, tt.to), tt.by, tt.force)
			if fmt.Sprint(managers) != fmt.Sprint(tt.managers) || !slices.Equal(claims, tt.claims) {
				t.Errorf("managers %v, claims %v; want %v, %v", managers, claims, tt.managers, tt.claims)
			}
		})
	}
}

// Whatever is written: a person is never refused; after a write that was allowed every field has one
// manager; a field that kept its value kept its manager; what is refused names only others' fields that
// change.
func TestOwnershipHoldsWhateverIsWritten(t *testing.T) {
	names := []string{Human, "mover", "sizer"}
	value := rapid.SampledFrom([]string{"", "1", "2"})
	draw := func(rt *rapid.T) *Resource {
		labels := map[string]string{}
		for _, key := range []string{"a", "b", "c"} {
			if v := value.Draw(rt, key); v != "" {
				labels[key] = v
			}
		}
		doc, err := json.Marshal(map[string]any{"labels": labels, "spec": map[string]any{}})
		if err != nil {
			rt.Fatal(err)
		}
		return tenantOf(rt, string(doc))
	}
	rapid.Check(t, func(rt *rapid.T) {
		now := draw(rt)
		for range rapid.IntRange(1, 12).Draw(rt, "writes") {
			next, by, force := draw(rt), rapid.SampledFrom(names).Draw(rt, "by"), rapid.Bool().Draw(rt, "force")
			managers, claims := Own(now, next, by, force)
			before := ownersOf(now)
			if len(claims) > 0 {
				if by == Human || force {
					rt.Fatalf("%s was refused: %v", by, claims)
				}
				for _, c := range claims {
					key := strings.TrimPrefix(c.Field, "metadata.labels.")
					if before.of(c.Field) == by || c.Manager != before.of(c.Field) || now.Metadata.Labels[key] == next.Metadata.Labels[key] {
						rt.Fatalf("%v is no claim against %s", c, by)
					}
				}
				continue
			}
			next.Metadata.Managers = managers
			after, seen := ownersOf(next), 0
			for key, v := range next.Metadata.Labels {
				path := "metadata.labels." + key
				want := by
				if now.Metadata.Labels[key] == v {
					want = before.of(path)
				}
				if got := after.of(path); got != want {
					rt.Fatalf("%s is %s's, want %s's", path, got, want)
				}
				seen++
			}
			if len(after) != seen && len(after) != 0 {
				rt.Fatalf("%d fields of %d have a manager: %v", len(after), seen, managers)
			}
			now = next
		}
	})
}

func TestNamesOfManagers(t *testing.T) {
	for name, ok := range map[string]bool{Human: true, "sizer": true, "ci.deploy-1": true, "": false, "Sizer": false, "two words": false, strings.Repeat("x", 200): false} {
		if err := CheckManager(name); (err == nil) != ok {
			t.Errorf("%.20q: %v", name, err)
		}
	}
}

func TestWhatTheStoreWritesIsReadAndIgnored(t *testing.T) {
	r, problems := Parse([]byte(`{"apiVersion":"anabranch/v1","kind":"Tenant","metadata":{"name":"acme","revision":7,"createdAt":"2026-11-30T08:00:00Z",
		"updatedBy":"ann","managers":[{"name":"sizer","fields":["spec.tier"]}]},"spec":{}}`))
	if len(problems) > 0 || r.Metadata.UpdatedBy != "" || r.Metadata.Managers != nil || r.Metadata.Revision != 7 {
		t.Errorf("%+v, %v", r, problems)
	}
	if _, problems = Parse([]byte(`{"apiVersion":"anabranch/v1","kind":"Tenant","metadata":{"name":"acme","managers":[{"title":"x"}]},"spec":{}}`)); len(problems) != 1 {
		t.Errorf("a mistake in what is ignored: %v", problems)
	}
}
