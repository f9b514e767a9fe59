package policy

import (
	"fmt"
	"testing"
	"time"
)

func TestStrandedTenants(t *testing.T) {
	const endpoint = "endpoints: [{id: p, url: 'http://10.0.0.9', class: h100}]"
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		before, change []string
		want           string
	}{
		"nothing changes":           {nil, nil, "map[]"},
		"its only place is drained": {nil, []string{"Cluster eu-1 {region: eu, models: [m, n], drained: true, " + endpoint + "}"}, "map[acme:[m n]]"},
		"its only place is pinned to nothing": {
			nil, []string{"Cluster eu-1 {region: eu, models: [m, n], pin: {percent: 0, until: '2027-01-01T00:00:00Z'}, " + endpoint + "}"}, "map[acme:[m n]]",
		},
		"a model leaves":                   {nil, []string{"Cluster eu-1 {region: eu, models: [n], " + endpoint + "}"}, "map[acme:[m]]"},
		"its residency becomes tighter":    {[]string{"Tenant acme {residency: [eu, us]}"}, []string{"Tenant acme {residency: [ap]}"}, "map[acme:[m n]]"},
		"a policy's residency excludes it": {nil, []string{"TrafficPolicy main {residency: [us]}"}, "map[acme:[m n]]"},
		"a policy of one model does":       {nil, []string{"TrafficPolicy one {class: one, models: [m], residency: [us]}"}, "map[acme:[m]]"},
		"a policy's clusters do":           {nil, []string{"TrafficPolicy main {clusters: [us-1]}"}, "map[acme:[m n]]"},
		"a policy with a match may":        {nil, []string{"TrafficPolicy steer {match: [{paths: ['/x']}], residency: [us]}"}, "map[]"},
		"it had none before":               {[]string{"Tenant acme {residency: [ap]}"}, []string{"TrafficPolicy main {residency: [us]}"}, "map[]"},
		"it is deleted":                    {nil, []string{"-Tenant acme", "-Cluster eu-1"}, "map[]"},
		"who may go anywhere is stranded by the last": {
			[]string{"Tenant acme {}", "Tenant beta {residency: [us]}"},
			[]string{"-Cluster eu-1", "Cluster us-1 {region: us, models: [n], " + endpoint + "}"},
			"map[acme:[m] beta:[m]]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Stranded(fleetWith(t, tt.before...), fleetWith(t, append(append([]string{}, tt.before...), tt.change...)...), now)
			if fmt.Sprint(got) != tt.want {
				t.Errorf("%v, want %s", got, tt.want)
			}
		})
	}
}
