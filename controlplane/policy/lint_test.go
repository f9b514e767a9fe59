package policy

import (
	"slices"
	"strings"
	"testing"

	"anabranch/costmodel"
)

// soundFleet has nothing to warn of.
var soundFleet = []string{
	"Region us {zone: americas, peerURLs: ['https://us'], rttMs: {eu: 70}}",
	"Region eu {peerURLs: ['https://eu']}",
	"Model m {}",
	"Model n {}",
	"Cluster us-1 {region: us, models: [m, n], endpoints: [{id: p, url: 'http://10.0.0.1', class: h100}]}",
	"Cluster eu-1 {region: eu, models: [m, n], endpoints: [{id: p, url: 'http://10.0.0.2', class: h100}], gpus: [{class: h100, count: 1, purchase: owned}]}",
	"Tenant acme {residency: [eu]}",
	"TrafficPolicy main {regions: [{region: us, weight: 2}, {region: eu}]}",
}

// fleetWith is the sound fleet, with some resources added, replaced by others of the same name, or taken
// away ("-Kind name").
func fleetWith(t testing.TB, changes ...string) shelf {
	t.Helper()
	var s shelf
	drop := func(kind, name string) {
		s = slices.DeleteFunc(s, func(r *Resource) bool { return string(r.Kind) == kind && r.Metadata.Name == name })
	}
	for _, text := range append(slices.Clone(soundFleet), changes...) {
		p := strings.SplitN(text, " ", 3)
		if kind, gone := strings.CutPrefix(p[0], "-"); gone {
			drop(kind, p[1])
			continue
		}
		drop(p[0], p[1])
		s = append(s, resource(t, text))
	}
	return s
}

func TestLint(t *testing.T) {
	const drainedEU = "Cluster eu-1 {region: eu, models: [m, n], drained: true, endpoints: [{id: p, url: 'http://10.0.0.2', class: h100}]}"
	for name, tt := range map[string]struct {
		changes []string
		want    []string // "resource field: part of the reason"
	}{
		"a sound fleet": {},
		"an empty one":  {changes: []string{"-TrafficPolicy main", "-Tenant acme", "-Cluster us-1", "-Cluster eu-1", "-Model m", "-Model n", "-Region us", "-Region eu"}},
		"a model that nothing serves": {
			[]string{"Model x {}"}, []string{"models/x spec: no cluster serves"},
		},
		"a price that another card has": {
			[]string{
				"RateCard a {gpus: [{class: h100, region: us, purchase: spot, usdPerHour: 2}, {class: h100, region: eu, usdPerHour: 3, estimate: true}]}",
				"RateCard b {gpus: [{class: h100, region: eu, usdPerHour: 4}, {class: h100, region: us, usdPerHour: 5}, {class: h100, region: us, purchase: spot, usdPerHour: 6}]}",
				"RateCard c {gpus: [{class: h100, region: us, purchase: spot, usdPerHour: 7, from: 2026-11-30T00:00:00Z}, {class: h100, region: us, instance: p5.48xlarge, usdPerHour: 8}]}",
			},
			[]string{
				`ratecards/a spec.gpus[1]: rate card "b" has a price for on-demand h100 in eu too, and that is taken`,
				`ratecards/b spec.gpus[2]: rate card "a" has a price for spot h100 in us too, and that is taken`,
			},
		},
		"a model of drained clusters": {
			[]string{"Model x {}", "Cluster x {region: us, models: [x], drained: true, endpoints: [{id: p, url: 'http://10.0.0.3', class: a}]}"},
			[]string{"models/x spec: all clusters that serve the model are drained", "tenants/acme spec.residency: no cluster in eu serves x"},
		},
		"a region that can't be entered": {
			[]string{"Region eu {}"}, []string{"regions/eu spec.peerURLs: is empty"},
		},
		"a region without clusters needs no entry": {
			[]string{"Region ap {rttMs: {us: 1, eu: 2}}"}, nil,
		},
		"a single region needs no entry": {
			[]string{"-Tenant acme", "-Cluster eu-1", "-Region eu", "Region us {}", "TrafficPolicy main {}"}, nil,
		},
		"distances that nobody knows": {
			[]string{"Region ap {peerURLs: ['https://ap'], rttMs: {us: 150}}"}, []string{"regions/ap spec.rttMs: says nothing of eu"},
		},
		"a tenant whose place is drained": {
			[]string{drainedEU},
			[]string{"tenants/acme spec.residency: no cluster in eu takes", "policies/main spec.regions[1]: all clusters in eu are drained"},
		},
		"a tenant that gets some models nowhere": {
			[]string{"Cluster eu-1 {region: eu, models: [m], endpoints: [{id: p, url: 'http://10.0.0.2', class: h100}]}"},
			[]string{"tenants/acme spec.residency: no cluster in eu serves n"},
		},
		"a pin to what is drained": {
			[]string{drainedEU, "-Tenant acme", "TrafficPolicy main {clusters: [eu-1]}"},
			[]string{"policies/main spec.clusters: all that it names is drained: eu-1"},
		},
		"a pin of which one is left": {
			[]string{drainedEU, "-Tenant acme", "TrafficPolicy main {clusters: [eu-1, us-1]}"}, nil,
		},
		"an arm to what is drained": {
			[]string{drainedEU, "-Tenant acme", "TrafficPolicy main {split: [{name: a, weight: 1}, {name: b, weight: 1, clusters: [eu-1]}]}"},
			[]string{"policies/main spec.split[1].clusters: all that it names is drained"},
		},
		"weights for a region without clusters": {
			[]string{"Region ap {peerURLs: ['https://ap'], rttMs: {us: 1, eu: 2}}", "TrafficPolicy main {regions: [{region: ap}]}"},
			[]string{"policies/main spec.regions[0]: no cluster in ap"},
		},
		"a weight of 0 says that nothing is meant": {
			[]string{"Region ap {rttMs: {us: 1, eu: 2}}", "TrafficPolicy main {regions: [{region: ap, weight: 0}]}"}, nil,
		},
		"a match that never decides": {
			[]string{"TrafficPolicy steer {class: c, match: [{headers: [{name: a, value: x}]}, {headers: [{name: a, value: xy, type: exact}]}, {headers: [{name: a, type: prefix, value: x}]}]}"},
			[]string{"policies/steer spec.match[0]: all that it fits, spec.match[2]", "policies/steer spec.match[1]: all that it fits, spec.match[2]"},
		},
		"of two equal matches the second": {
			[]string{"TrafficPolicy steer {class: c, match: [{tenants: [acme]}, {tenants: [acme]}]}"},
			[]string{"policies/steer spec.match[1]: all that it fits, spec.match[0]"},
		},
		"prices that nobody wrote down": {
			[]string{
				"TrafficPolicy main {costPreference: 0.5}",
				"Cluster us-1 {region: us, models: [m, n], endpoints: [{id: p, url: 'http://10.0.0.1', class: h100}], gpus: [{class: h100, count: 8, purchase: spot}, {class: a100, count: 1}]}",
				"Cluster api {region: us, type: provider, url: 'https://api.example', models: [m, n]}",
				"RateCard r {gpus: [{class: a100, region: us, usdPerHour: 2}, {class: h100, region: us, usdPerHour: 3}], models: [{model: m, inputPerMTok: 1, outputPerMTok: 2}]}",
			},
			[]string{"clusters/api spec: nobody knows a price for tokens of n", "clusters/us-1 spec: nobody knows a price for spot h100 in us, and policy \"main\""},
		},
		"prices that fit what a cluster is made of, now or at some time": {
			[]string{
				"TrafficPolicy main {costPreference: 0.5}",
				"Cluster us-1 {region: us, models: [m], endpoints: [{id: p, url: 'http://10.0.0.1', class: h100}], gpus: [{class: h100, count: 8, availabilityZone: us-a}, {class: a100, count: 8, instance: big}, {class: l4, count: 1}, {class: x, count: 1, purchase: capacity-block}]}",
				"RateCard r {gpus: [{class: h100, region: us, availabilityZone: us-b, usdPerHour: 2}, {class: a100, region: us, usdPerHour: 3}, {class: l4, region: us, usdPerHour: 1, from: '2999-01-01T00:00:00Z'}]}",
			},
			[]string{"clusters/us-1 spec: nobody knows a price for on-demand h100 in us, and policy \"main\""},
		},
		"prices that nobody asks for": {
			[]string{"Cluster api {region: us, type: provider, url: 'https://api.example', models: [m, n]}"}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Lint(fleetWith(t, tt.changes...))
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

func TestPricesThatAreKnownBesideRateCardsAreNotMissed(t *testing.T) {
	all := fleetWith(t, "TrafficPolicy main {costPreference: 0.5}", "Region us-east-1 {peerURLs: ['https://r']}",
		"Cluster us-1 {region: us, models: [m], endpoints: [{id: p, url: 'http://10.0.0.1', class: h100}], gpus: [{class: h100, count: 8, purchase: spot}]}",
		"Cluster us-2 {region: us-east-1, models: [m], endpoints: [{id: p, url: 'http://10.0.0.2', class: h100}], gpus: [{class: h100, count: 8}]}")
	told := func(offers ...costmodel.Offer) (clusters []string) {
		for _, w := range Lint(all, offers...) {
			if strings.Contains(w.Reason, "nobody knows a price") {
				clusters = append(clusters, w.Resource)
			}
		}
		return clusters
	}
	if got := told(); !slices.Equal(got, []string{"clusters/us-1"}) { // the other has one that comes with the program
		t.Errorf("without sources: %q", got)
	}
	if got := told(costmodel.Offer{Class: "h100", Region: "us", Purchase: costmodel.Spot, PerHour: 1, Origin: costmodel.Live}); len(got) != 0 {
		t.Errorf("a source has found it: %q", got)
	}
}

func TestAChangeBringsWarningsOfItsOwnAndNewOnes(t *testing.T) {
	before := Lint(fleetWith(t, "Model old {}"))
	after := Lint(fleetWith(t, "Model old {}", "Model new {}", "Region eu {}"))
	names := func(ws []Warning) (out []string) {
		for _, w := range ws {
			out = append(out, w.Resource)
		}
		return out
	}
	if got := names(Brought(KindModel, "new", before, after)); !slices.Equal(got, []string{"regions/eu", "models/new"}) {
		t.Errorf("new: %q", got)
	}
	if got := names(Brought(KindModel, "old", after, after)); !slices.Equal(got, []string{"models/old"}) {
		t.Errorf("old: %q", got)
	}
	if got := Brought(KindModel, "m", after, after); got == nil || len(got) > 0 {
		t.Errorf("nothing: %v", got)
	}
}

func TestWarningsAreBounded(t *testing.T) {
	s := fleetWith(t)
	for i := range 300 {
		s = append(s, &Resource{Kind: KindModel, Metadata: Metadata{Name: "m" + strings.Repeat("x", i+1)}, Spec: &ModelSpec{}})
	}
	if got := len(Lint(s)); got != MaxWarnings {
		t.Errorf("%d warnings", got)
	}
	if got := some([]string{"a", "b", "c", "d", "e", "f"}); got != "a, b, c, d and 2 more" {
		t.Errorf("some: %q", got)
	}
}
