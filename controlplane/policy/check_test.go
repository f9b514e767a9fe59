package policy

import (
	"cmp"
	"slices"
	"strings"
	"testing"
)

// shelf is a Lookup over a few resources.
type shelf []*Resource

func (s shelf) Get(k Kind, name string) (*Resource, bool) {
	for _, r := range s {
		if r.Kind == k && r.Metadata.Name == name {
			return r, true
		}
	}
	return nil, false
}

func (s shelf) List(k Kind) []*Resource {
	var out []*Resource
	for _, r := range s {
		if r.Kind == k {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *Resource) int { return cmp.Compare(a.Metadata.Name, b.Metadata.Name) })
	return out
}

// resource reads "Kind name {spec in YAML}".
func resource(t testing.TB, s string) *Resource {
	t.Helper()
	parts := strings.SplitN(s, " ", 3)
	r, problems := Parse([]byte("apiVersion: anabranch/v1\nkind: " + parts[0] + "\nmetadata: {name: " + parts[1] + "}\nspec: " + parts[2]))
	if len(problems) == 0 {
		problems = Validate(r)
	}
	if len(problems) > 0 {
		t.Fatalf("%s:\n%s", s, text(problems))
	}
	return r
}

const (
	sumA = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	sumB = "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"
)

func fleetOfTwo(t testing.TB) shelf {
	var s shelf
	for _, d := range []string{
		"Region us {zone: americas}",
		"Region eu-1 {zone: eu}",
		"Model llama {aliases: [default], adapters: [legal]}",
		"Cluster c1 {region: us, models: [llama], endpoints: [{id: p, url: 'http://10.0.0.1', class: h100}]}",
		"Tenant acme {residency: [eu], apiKeys: [{id: k, sha256: " + sumA + "}]}",
		"TrafficPolicy main {regions: [{region: us}]}",
		"TrafficPolicy named {models: [llama]}",
		"Quota q {tenant: acme, model: legal, limits: [{kind: requests, perMinute: 1}]}",
		"RateCard prices {gpus: [{class: h100, region: nowhere-1, usdPerHour: 1}]}",
	} {
		r := resource(t, d)
		s = append(s, r)
	}
	return s
}

func TestReferencesAreChecked(t *testing.T) {
	tests := []struct {
		name, doc string
		want      string // "field: part of the reason", empty: fine
	}{
		{"region, alone", "Region ap {rttMs: {not-yet: 10}}", ""},
		{"policy for a missing region", "TrafficPolicy p {class: batch, regions: [{region: us}, {region: mars}]}", `spec.regions[1].region: there is no Region "mars"`},
		{"policy for a missing model", "TrafficPolicy p {class: batch, models: [lama]}", `spec.models[0]: there is no Model "lama"`},
		{"second policy for all models of a class", "TrafficPolicy p {}", `spec.models: is empty, and policy "main" already`},
		{"second policy for a model", "TrafficPolicy p {models: [llama]}", `spec.models[0]: policy "named" already speaks of "llama"`},
		{"same model in another class", "TrafficPolicy p {class: batch, models: [llama]}", `spec.priority: policy "named" comes first`},
		{"a policy's own new version", "TrafficPolicy main {costPreference: 1}", ""},
		{"cluster in a missing region", "Cluster c2 {region: mars, models: [llama], endpoints: [{id: p, url: 'http://10.0.0.2', class: h100}]}", `spec.region: there is no Region "mars"`},
		{"cluster with a missing model", "Cluster c2 {region: us, models: [legal], endpoints: [{id: p, url: 'http://10.0.0.2', class: h100}]}", `spec.models[0]: there is no Model "legal"`},
		{"endpoint of another cluster", "Cluster c2 {region: us, models: [llama], endpoints: [{id: p, url: 'http://10.0.0.1', class: h100}]}", `spec.endpoints[0].url: is already an endpoint of cluster "c1"`},
		{"quota for a missing tenant", "Quota r {tenant: acne, limits: [{kind: requests, perMinute: 1}]}", `spec.tenant: there is no Tenant "acne"`},
		{"quota for a missing model", "Quota r {tenant: acme, model: gpt, limits: [{kind: requests, perMinute: 1}]}", `spec.model: there is no model or adapter "gpt"`},
		{"quota for an adapter", "Quota r {tenant: acme, model: legal, limits: [{kind: requests, perMinute: 1}]}", ""},
		{"key of another tenant", "Tenant b {apiKeys: [{id: x, sha256: " + sumB + "}, {id: k, sha256: " + sumA + "}]}", `spec.apiKeys[1].sha256: is already a key of tenant "acme"`},
		{"own key", "Tenant acme {apiKeys: [{id: k, sha256: " + sumA + "}]}", ""},
		{"residency nowhere", "Tenant b {residency: [us, mars]}", `spec.residency[1]: there is no zone or region "mars"`},
		{"alias is a model", "Model other {aliases: [llama]}", `spec.aliases[0]: "llama" is already the model llama`},
		{"adapter is an alias", "Model other {adapters: [default]}", `spec.adapters[0]: "default" is already an alias of llama`},
		{"model is an adapter", "Model legal {}", `metadata.name: "legal" is already an adapter of llama`},
		{"an adapter that a quota needs goes", "Model llama {adapters: []}", `spec.adapters: quota "q" is for "legal"`},
		{"a zone that a tenant needs goes", "Region eu-1 {zone: europe}", `spec.zone: changing the zone of region eu-1 leaves spec.residency[0] "eu" of tenant "acme"`},
		{"prices for places that are not there", "RateCard more {gpus: [{class: b200, region: mars, usdPerHour: 1}]}", ""},
	}
	all := fleetOfTwo(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantProblem(t, Check(resource(t, tt.doc), all), tt.want)
		})
	}
}

func TestWhatIsReferredToStays(t *testing.T) {
	tests := []struct {
		kind Kind
		name string
		want string
	}{
		{KindRegion, "us", `metadata.name: Cluster "c1" still names it in spec.region`},
		{KindRegion, "eu-1", `spec.zone: deleting region eu-1 leaves spec.residency[0] "eu" of tenant "acme"`},
		{KindModel, "llama", `metadata.name: Cluster "c1" still names it in spec.models[0]`},
		{KindTenant, "acme", `metadata.name: Quota "q" still names it in spec.tenant`},
		{KindCluster, "c1", ""},
		{KindTrafficPolicy, "main", ""},
		{KindQuota, "q", ""},
		{KindRateCard, "prices", ""},
	}
	all := fleetOfTwo(t)
	for _, tt := range tests {
		t.Run(string(tt.kind)+" "+tt.name, func(t *testing.T) {
			wantProblem(t, CheckDelete(tt.kind, tt.name, all), tt.want)
		})
	}
}

func wantProblem(t *testing.T, problems []Problem, want string) {
	t.Helper()
	if want == "" {
		if len(problems) > 0 {
			t.Errorf("unexpected:\n%s", text(problems))
		}
		return
	}
	field, reason, _ := strings.Cut(want, ": ")
	for _, p := range problems {
		if p.Field == field && strings.Contains(p.Reason, reason) {
			if p.Fix == "" {
				t.Errorf("%+v has no fix", p)
			}
			return
		}
	}
	t.Errorf("want %q among:\n%s", want, text(problems))
}

func TestANearNameIsOffered(t *testing.T) {
	problems := Check(resource(t, "Cluster c2 {region: us, models: [lama], endpoints: [{id: p, url: 'http://10.0.0.2', class: h100}]}"), fleetOfTwo(t))
	if len(problems) != 1 || !strings.HasPrefix(problems[0].Fix, `did you mean "llama"?`) {
		t.Errorf("got %s", text(problems))
	}
}

func TestVetTellsAllAtOnceAndEachFieldOnce(t *testing.T) {
	r, found := Parse([]byte(`{apiVersion: anabranch/v1, kind: Cluster, metadata: {name: c2}, spec: {
		region: mars, models: [llama, 7, gpt], endpoints: [{id: p, url: "http://10.0.0.2", class: h100}], gpus: [{class: h100, count: -1}], colour: red}}`))
	var fields []string
	for _, p := range Vet(r, found, fleetOfTwo(t)) {
		fields = append(fields, p.Field)
	}
	// models[1] is a number, and the rest of models is judged all the same.
	want := []string{"spec.models[1]", "spec.colour", "spec.gpus[0].count", "spec.region", "spec.models[2]"}
	if !slices.Equal(fields, want) {
		t.Errorf("got %q, want %q", fields, want)
	}
	if got := Vet(nil, found, nil); len(got) != len(found) {
		t.Errorf("nothing to judge: %v", got)
	}
}
