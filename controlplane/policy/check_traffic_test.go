package policy

import (
	"slices"
	"strings"
	"testing"
)

// fleetOfRules has models big and small in two regions, and policies that name much of it.
func fleetOfRules(t testing.TB) shelf {
	var s shelf
	for _, d := range []string{
		"Region us {zone: americas}",
		"Region eu {zone: europe, peerURLs: ['https://eu']}",
		"Region sa {zone: americas, peerURLs: ['https://sa']}",
		"Model small {aliases: [default], adapters: [legal]}",
		"Model big {}",
		"Cluster us-a {region: us, models: [small], endpoints: [{id: p, url: 'http://10.0.0.1', class: h100}]}",
		"Cluster us-b {region: us, models: [small, big], endpoints: [{id: p, url: 'http://10.0.0.2', class: h100}]}",
		"Cluster eu-a {region: eu, models: [small], endpoints: [{id: p, url: 'http://10.0.0.3', class: h100}]}",
		"Cluster out {region: eu, type: provider, models: [big], url: 'https://api'}",
		"Cluster sa {region: sa, type: router, models: [small]}",
		"Tenant acme {}",
		"Tenant berlin {residency: [europe]}",
		"TrafficPolicy all {}",
		"TrafficPolicy canary {priority: 5, models: [small], match: [{tenants: [acme], paths: ['/v1/chat*']}], clusters: [us-a, us-b], residency: [americas], rewrite: {model: legal}, split: [{name: s, weight: 1, clusters: [us-a]}, {name: b, weight: 1, model: big, clusters: [us-b]}], shadow: {percent: 1, model: big, clusters: [us-b]}}",
	} {
		s = append(s, resource(t, d))
	}
	return s
}

func TestRulesAreCheckedAgainstTheFleet(t *testing.T) {
	tests := []struct {
		name, doc, want string
	}{
		{"a new version of itself", "TrafficPolicy canary {priority: 6, match: [{tenants: [acme]}]}", ""},
		{"a pin", "TrafficPolicy p {match: [{tenants: [berlin]}], clusters: [eu-a]}", ""},
		{"a missing tenant", "TrafficPolicy p {match: [{paths: [/v1/x]}, {tenants: [acme, acne]}]}", `spec.match[1].tenants[1]: there is no Tenant "acne"`},
		{"a missing cluster", "TrafficPolicy p {match: [{paths: [/v1/x]}], clusters: [us-a, us-z]}", `spec.clusters[1]: there is no Cluster "us-z"`},
		{"an arm's missing cluster", "TrafficPolicy p {match: [{paths: [/v1/x]}], split: [{name: a, weight: 1}, {name: b, weight: 1, clusters: [x]}]}", `spec.split[1].clusters[0]: there is no Cluster "x"`},
		{"a shadow's missing cluster", "TrafficPolicy p {match: [{paths: [/v1/x]}], shadow: {percent: 1, clusters: [x]}}", `spec.shadow.clusters[0]: there is no Cluster "x"`},
		{"a rewrite to nothing", "TrafficPolicy p {match: [{paths: [/v1/x]}], rewrite: {model: bigg}}", `spec.rewrite.model: there is no model or adapter "bigg"`},
		{"a rewrite to an alias", "TrafficPolicy p {match: [{paths: [/v1/x]}], rewrite: {model: default}}", `spec.rewrite.model: there is no model or adapter "default"`},
		{"a rewrite to an adapter", "TrafficPolicy p {match: [{paths: [/v1/x]}], rewrite: {model: legal}}", ""},
		{"an arm of nothing", "TrafficPolicy p {match: [{paths: [/v1/x]}], split: [{name: a, weight: 1}, {name: b, weight: 1, model: x}]}", `spec.split[1].model: there is no model or adapter "x"`},
		{"a shadow of nothing", "TrafficPolicy p {match: [{paths: [/v1/x]}], shadow: {percent: 1, model: x}}", `spec.shadow.model: there is no model or adapter "x"`},
		{"residency nowhere", "TrafficPolicy p {match: [{paths: [/v1/x]}], residency: [europe, mars]}", `spec.residency[1]: there is no zone or region "mars"`},

		{"a pin without the model", "TrafficPolicy p {match: [{paths: [/v1/x]}], models: [big], clusters: [us-a]}", `spec.clusters: no cluster that is left serves "big"`},
		{"a pin without what is asked for instead", "TrafficPolicy p {match: [{paths: [/v1/x]}], models: [small], rewrite: {model: big}, clusters: [us-a, eu-a]}", `spec.clusters: no cluster that is left serves "big"`},
		{"a pin of which one has the model", "TrafficPolicy p {match: [{paths: [/v1/x]}], models: [big], clusters: [us-b, us-a]}", `spec.clusters[1]: cluster "us-a" serves nothing`},
		{"an arm without its model", "TrafficPolicy p {match: [{paths: [/v1/x]}], models: [small], split: [{name: a, weight: 1}, {name: b, weight: 1, model: big, clusters: [eu-a]}]}", `spec.split[1]: no cluster that is left serves "big"`},
		{"a shadow without its model", "TrafficPolicy p {match: [{paths: [/v1/x]}], shadow: {percent: 1, model: big, clusters: [us-a]}}", `spec.shadow: no cluster that is left serves "big"`},
		{"residency without the model", "TrafficPolicy p {match: [{paths: [/v1/x]}], models: [big], residency: [sa]}", `spec.residency: no cluster that is left serves "big"`},
		{"a provider within the residency", "TrafficPolicy p {match: [{paths: [/v1/x]}], models: [big], residency: [europe]}", ""},
		{"a pin outside the residency", "TrafficPolicy p {match: [{paths: [/v1/x]}], models: [small], clusters: [us-a], residency: [europe]}", `spec.clusters: no cluster that is left serves "small"`},
		{"a pin outside a tenant's residency", "TrafficPolicy p {match: [{tenants: [acme]}, {tenants: [berlin]}], models: [small], clusters: [us-a]}", `spec.clusters: no cluster that is left serves "small"`},
		{"residency outside a tenant's", "TrafficPolicy p {match: [{tenants: [berlin]}], residency: [americas]}", "spec.residency: no cluster that is left serves any model"},

		{"hidden by one of higher priority", "TrafficPolicy p {models: [small], match: [{tenants: [acme], paths: [/v1/chat/completions]}]}", `spec.priority: policy "canary" comes first`},
		{"above one of higher priority", "TrafficPolicy p {priority: 9, models: [small], match: [{tenants: [acme], paths: [/v1/chat/completions]}]}", ""},
		{"hiding another", "TrafficPolicy p {priority: 9, class: p, match: [{tenants: [acme]}]}", `spec.priority: comes before policy "canary"`},
		{"two with matches in one class", "TrafficPolicy p {class: canary, models: [small], match: [{paths: [/v1/x]}]}", `spec.models[0]: policy "canary" already speaks of "small" in class "canary"`},

		{"a name for a model that is not there", "Cluster c {region: us, models: [small], type: provider, url: 'https://x', modelNames: {small: a, legal: b, big: c}}", "spec.modelNames[big]: is no model of the cluster"},
		{"a region without routers as a member", "Cluster c {region: us, type: router, models: [big]}", "spec.region: region \"us\" has no peerURLs"},
		{"a region as a member beside its clusters", "Cluster c {region: eu, type: router, models: [small]}", `spec.models[0]: cluster "eu-a" of type endpoints serves "small"`},
		{"a region as a member beside a provider", "Cluster c {region: eu, type: router, models: [big]}", ""},
		{"a cluster of a region that is a member", "Cluster c {region: sa, models: [big, small], endpoints: [{id: p, url: 'http://10.0.0.9', class: x}]}", `spec.models[1]: cluster "sa" of type router serves "small"`},
		{"a region that is a member is closed", "Region sa {zone: americas}", `spec.peerURLs: is empty, and cluster "sa" of type router`},
		{"a zone that a policy needs goes", "Region us {zone: us}", ""},
		{"both zones that a policy needs go", "Region sa {zone: south, peerURLs: ['https://sa']}", ""},
		{"an adapter that a policy asks for goes", "Model small {aliases: [default]}", `spec.adapters: policy "canary" asks in spec.rewrite.model for "legal"`},
		{"a model that a pin needs goes", "Cluster us-a {region: us, models: [big], endpoints: [{id: p, url: 'http://10.0.0.1', class: h100}]}", `spec.models: in policy "canary" spec.split[0]: no cluster that is left serves "legal"`},
		{"a cluster moves out of a policy's residency", "Cluster us-a {region: eu, models: [small], endpoints: [{id: p, url: 'http://10.0.0.1', class: h100}]}", `spec.models: in policy "canary" spec.split[0]`},
		{"a tenant moves out of a policy's residency", "Tenant acme {residency: [europe]}", `spec.residency: in policy "canary" spec.split[0]`},
	}
	all := fleetOfRules(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantProblem(t, Check(resource(t, tt.doc), all), tt.want)
		})
	}
}

func TestTheFleetOfRulesIsGood(t *testing.T) {
	all := fleetOfRules(t)
	for _, r := range all {
		if problems := Check(r, all); len(problems) > 0 {
			t.Errorf("%s %s:\n%s", r.Kind, r.Metadata.Name, text(problems))
		}
	}
}

func TestAZoneThatAPolicyNeedsStays(t *testing.T) {
	all := append(fleetOfRules(t), resource(t, "TrafficPolicy south {match: [{paths: [/v1/s]}], residency: [sa]}"))
	wantProblem(t, CheckDelete(KindRegion, "sa", all), `spec.zone: deleting region sa leaves spec.residency[0] "sa" of policy "south" without a place`)
}

// A problem that was there before is not the fault of another change.
func TestOldHolesDoNotBlockOtherChanges(t *testing.T) {
	all := append(fleetOfRules(t), &Resource{Kind: KindTrafficPolicy, Metadata: Metadata{Name: "broken"}, Spec: &TrafficPolicySpec{
		Class: "broken", Models: []string{"big"}, Match: []MatchSpec{{Paths: []string{"/v1/x"}}}, Clusters: []string{"us-a"},
	}})
	if problems := Check(resource(t, "Cluster us-a {region: us, models: [small], drained: true, endpoints: [{id: p, url: 'http://10.0.0.1', class: h100}]}"), all); len(problems) > 0 {
		t.Errorf("a drain is refused:\n%s", text(problems))
	}
}

func TestWhatRulesNameStays(t *testing.T) {
	tests := []struct {
		kind Kind
		name string
		want string // fields, in which policy canary names it
	}{
		{KindCluster, "us-a", "spec.clusters[0] spec.split[0].clusters[0]"},
		{KindCluster, "us-b", "spec.clusters[1] spec.split[1].clusters[0] spec.shadow.clusters[0]"},
		{KindCluster, "eu-a", ""},
		{KindTenant, "acme", "spec.match[0].tenants[0]"},
		{KindTenant, "berlin", ""},
		{KindModel, "big", "spec.split[1].model spec.shadow.model"},
		{KindModel, "small", "spec.models[0] spec.rewrite.model"},
		{KindTrafficPolicy, "canary", ""},
	}
	all := fleetOfRules(t)
	for _, tt := range tests {
		t.Run(string(tt.kind)+" "+tt.name, func(t *testing.T) {
			var got []string
			for _, p := range CheckDelete(tt.kind, tt.name, all) {
				if field, ok := strings.CutPrefix(p.Reason, `TrafficPolicy "canary" still names it in `); ok {
					got = append(got, field)
				}
			}
			if want := strings.Fields(tt.want); !slices.Equal(got, want) {
				t.Errorf("named in %q, want %q", got, want)
			}
		})
	}
}
