package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestLintOfFailover(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	const (
		anywhere = "Tenant acme {}"
		endpoint = "endpoints: [{id: p, url: 'http://10.0.0.9', class: h100}]"
	)
	drained := func(name, region string) string {
		return fmt.Sprintf("Cluster %s {region: %s, models: [m, n], drained: true, %s}", name, region, endpoint)
	}
	pinned := func(percent int, until string) string {
		return fmt.Sprintf("Cluster eu-1 {region: eu, models: [m, n], pin: {percent: %d, until: '%s'}, %s}", percent, until, endpoint)
	}
	for name, tt := range map[string]struct {
		changes []string
		want    []string // "resource field: part of the reason"
	}{
		"two regions for all": {changes: []string{anywhere}},
		"one region alone":    {changes: []string{anywhere, "-Cluster us-1"}},
		"nothing at all":      {changes: []string{"-TrafficPolicy main", "-Tenant acme", "-Cluster us-1", "-Cluster eu-1", "-Model m", "-Model n", "-Region us", "-Region eu"}},
		"a tenant of one region": {
			nil, []string{"tenants/acme spec.residency: without eu no cluster that it allows serves m, n"},
		},
		"a tenant of two, of which one lacks a model": {
			[]string{"Tenant acme {residency: [eu, us]}", "Cluster us-1 {region: us, models: [m], " + endpoint + "}"},
			[]string{"tenants/acme spec.residency: without eu no cluster that it allows serves n", "policies/main spec: without eu nothing takes n over: no other region serves it"},
		},
		"tenants alike are told alike": {
			[]string{"Tenant beta {residency: [eu]}"},
			[]string{"tenants/acme spec.residency: without eu", "tenants/beta spec.residency: without eu"},
		},
		"a zone holds its regions": {
			[]string{"Tenant acme {residency: [americas, eu]}"}, nil,
		},
		"a place without clusters": {
			[]string{"Tenant acme {residency: [eu, us, ap]}", "Region ap {}", "TrafficPolicy main {residency: [us, asia, eu]}"},
			[]string{"tenants/acme spec.residency[2]: no cluster stands in ap", "policies/main spec.residency[1]: no cluster stands in asia"},
		},
		"a wish that residency excludes": {
			[]string{anywhere, "TrafficPolicy main {residency: [eu], regions: [{region: us, weight: 2}, {region: eu}]}"},
			[]string{"policies/main spec.regions[0]: us is outside of spec.residency", "policies/main spec.residency: without eu nothing takes m, n over: us-1 is outside of spec.residency"},
		},
		"a wish that clusters exclude": {
			[]string{anywhere, "TrafficPolicy main {clusters: [eu-1], regions: [{region: us}, {region: eu, weight: 0}]}"},
			[]string{"policies/main spec.regions[0]: no cluster of us is among spec.clusters", "policies/main spec.clusters: without eu nothing takes m, n over: us-1 is not among spec.clusters"},
		},
		"what is not wished for is no wish": {
			[]string{anywhere, "TrafficPolicy main {residency: [eu, us], regions: [{region: us, weight: 0}]}"}, nil,
		},
		"a target that is drained": {
			[]string{anywhere, drained("eu-1", "eu")},
			[]string{"policies/main spec: without us nothing takes m, n over: eu-1 is drained"},
		},
		"a target that is pinned to nothing": {
			[]string{anywhere, pinned(0, "2026-12-01T13:00:00Z")},
			[]string{"policies/main spec: without us nothing takes m, n over: eu-1 is pinned to 0 %"},
		},
		"a pin that has ended":    {[]string{anywhere, pinned(0, "2026-12-01T11:00:00Z")}, nil},
		"a pin that lets some in": {[]string{anywhere, pinned(5, "2026-12-01T13:00:00Z")}, nil},
		"a target that can't be entered": {
			[]string{anywhere, "Region eu {}"},
			[]string{"policies/main spec: without us nothing takes m, n over: eu-1 can't be entered, as eu has no peerURLs"},
		},
		"a provider is entered by every router": {
			[]string{anywhere, "Region eu {}", "Cluster eu-1 {region: eu, type: provider, url: 'https://api', models: [m, n]}"}, nil,
		},
		"all that residency leaves is drained": {
			[]string{anywhere, drained("eu-1", "eu"), "TrafficPolicy main {residency: [eu]}"},
			[]string{"policies/main spec.residency: m, n is served by nothing now: eu-1 is drained"},
		},
		"an arm that can't fail over": {
			[]string{anywhere, "TrafficPolicy steer {match: [{paths: ['/v1/x']}], split: [{name: a, weight: 1, clusters: [us-1]}, {name: b, weight: 1}]}"},
			[]string{"policies/steer spec.split[0]: without us nothing takes m, n over: eu-1 is not among spec.split[0].clusters"},
		},
		"copies need no failover": {
			[]string{anywhere, "TrafficPolicy steer {match: [{paths: ['/v1/x']}], shadow: {percent: 5, clusters: [us-1]}}"}, nil,
		},
		"a tenant that a policy is for": {
			[]string{"TrafficPolicy steer {match: [{tenants: [acme]}], models: [m]}"},
			[]string{"tenants/acme spec.residency: without eu", "policies/steer spec: without eu nothing takes m over: us-1 is outside of its tenants' residency"},
		},
		"a policy and tenants that share no place": {
			[]string{"TrafficPolicy main {residency: [us]}", "Tenant beta {residency: [eu]}", "Tenant gamma {residency: [us, eu]}"},
			[]string{
				"tenants/acme spec.residency: shares no place with the residency of policy main", "tenants/acme spec.residency: without eu",
				"tenants/beta spec.residency: shares no place with the residency of policy main", "tenants/beta spec.residency: without eu",
				"policies/main spec.residency: without us nothing takes m, n over: eu-1 is outside of spec.residency",
			},
		},
		"an adapter goes where its model is": {
			[]string{anywhere, "Model m {adapters: [tuned]}", "Cluster us-1 {region: us, models: [n], " + endpoint + "}", "TrafficPolicy steer {models: [tuned]}"},
			[]string{"policies/main spec: without eu nothing takes m over: no other region serves it", "policies/steer spec: without eu nothing takes m over"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := LintFailover(fleetWith(t, tt.changes...), now)
			for i := range max(len(got), len(tt.want)) {
				switch {
				case i >= len(got):
					t.Errorf("lacks %q", tt.want[i])
				case got[i].Fix == "":
					t.Errorf("%+v has no fix", got[i])
				case i >= len(tt.want) || !strings.HasPrefix(got[i].Resource+" "+got[i].Field+": "+got[i].Reason, tt.want[i]):
					t.Errorf("warning %d is %+v; want %q", i, got[i], tt.want)
				}
			}
		})
	}
}

func TestWarningsOfFailoverAreBounded(t *testing.T) {
	s := fleetWith(t)
	for i := range 300 {
		s = append(s, &Resource{Kind: KindTenant, Metadata: Metadata{Name: fmt.Sprintf("t-%03d", i)}, Spec: &TenantSpec{Residency: []string{"eu"}}})
	}
	if got := len(LintFailover(s, time.Time{})); got != MaxWarnings {
		t.Errorf("%d warnings", got)
	}
}
