package seed

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"anabranch/controlplane/policy"
)

func hashes() map[string]string {
	keys := map[string]string{}
	for i, t := range Tenants() {
		keys[t] = strings.Repeat(fmt.Sprint(i+1), 64)
	}
	return keys
}

func resources(t *testing.T) []*policy.Resource {
	t.Helper()
	rs, err := Resources(Loopback(), hashes())
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

// kept is a store of resources that grows one by one.
type kept map[policy.Kind]map[string]*policy.Resource

func (k kept) Get(kind policy.Kind, name string) (*policy.Resource, bool) {
	r, ok := k[kind][name]
	return r, ok
}

func (k kept) List(kind policy.Kind) []*policy.Resource {
	var all []*policy.Resource
	for _, r := range k[kind] {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *policy.Resource) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) })
	return all
}

func TestEveryReferencePointsBackwards(t *testing.T) {
	store := kept{}
	for _, r := range resources(t) {
		for _, p := range policy.Vet(r, nil, store) {
			t.Errorf("%s %s: %s: %s", r.Kind, r.Metadata.Name, p.Field, p.Reason)
		}
		if store[r.Kind] == nil {
			store[r.Kind] = map[string]*policy.Resource{}
		}
		store[r.Kind][r.Metadata.Name] = r
	}
}

func TestSeedHoldsWhatItPromises(t *testing.T) {
	names := map[policy.Kind][]string{}
	for _, r := range resources(t) {
		names[r.Kind] = append(names[r.Kind], r.Metadata.Name)
	}
	want := map[policy.Kind][]string{
		policy.KindRegion: {"us-east-1", "eu-west-1", "ap-northeast-1"},
		policy.KindModel:  {SmallModel, LargeModel},
		policy.KindCluster: {
			"us-east-1-a", "us-east-1-b", "eu-west-1-a", "eu-west-1-b", "ap-northeast-1-a", "ap-northeast-1-b",
		},
		policy.KindTenant:        {"acme", "globex", "initech"},
		policy.KindQuota:         {"acme", "globex", "initech", "initech-group"},
		policy.KindTrafficPolicy: {"default"},
		policy.KindRateCard:      {"aws-2026"},
	}
	for _, kind := range policy.Kinds() {
		if !slices.Equal(names[kind], want[kind]) {
			t.Errorf("%s: %v, want %v", kind, names[kind], want[kind])
		}
	}
}

func TestTenantsHaveTheirTierQuotaAndResidency(t *testing.T) {
	for _, r := range resources(t) {
		switch spec := r.Spec.(type) {
		case *policy.TenantSpec:
			if spec.Tier != Tiers[r.Metadata.Name] {
				t.Errorf("%s: tier %q, want %q", r.Metadata.Name, spec.Tier, Tiers[r.Metadata.Name])
			}
			if len(spec.APIKeys) != 1 || spec.APIKeys[0].SHA256 != hashes()[r.Metadata.Name] {
				t.Errorf("%s: keys %+v", r.Metadata.Name, spec.APIKeys)
			}
			var want []string
			if r.Metadata.Name == "initech" {
				want = []string{"eu"}
			}
			if !slices.Equal(spec.Residency, want) {
				t.Errorf("%s: residency %v, want %v", r.Metadata.Name, spec.Residency, want)
			}
		case *policy.ClusterSpec:
			if spec.PriorWork < 10_000 {
				t.Errorf("%s: prior capacity of %v work/s is far from what its GPUs do", r.Metadata.Name, spec.PriorWork)
			}
		case *policy.QuotaSpec:
			if spec.Tenant == "globex" && !reflect.DeepEqual(spec.Limits, []policy.LimitSpec{{Kind: "requests", PerMinute: 60, Burst: 60}}) {
				t.Errorf("globex: limits %+v", spec.Limits)
			}
			if spec.Organization == "initech" && (len(spec.Limits) != 2 || spec.Limits[1].Micros() != 5_000_000 || spec.Limits[0].Max < 100) {
				t.Errorf("initech's organisation: limits %+v", spec.Limits)
			}
		case *policy.TrafficPolicySpec:
			if spec.Class != "interactive" || spec.Failover == nil || spec.Failover.TimeScale != 0.05 {
				t.Errorf("policy %+v", spec)
			}
		}
	}
}

func TestEveryGPUHasAPriceAndGuessesAreMarked(t *testing.T) {
	price := map[[2]string]policy.GPUPrice{}
	for _, r := range resources(t) {
		if card, ok := r.Spec.(*policy.RateCardSpec); ok {
			for _, p := range card.GPUs {
				price[[2]string{p.Region, p.Class}] = p
			}
			for _, m := range card.Models {
				if !m.Estimate {
					t.Errorf("token price of %s is not marked as an estimate", m.Model)
				}
			}
		}
	}
	for _, c := range Loopback().Clusters() {
		for _, g := range c.GPUs() {
			p, ok := price[[2]string{c.Region, g.Class}]
			if !ok || p.USDPerHour <= 0 {
				t.Errorf("no price of %s in %s", g.Class, c.Region)
			}
			if want := c.Region == "eu-west-1"; p.Estimate != want {
				t.Errorf("%s in %s: estimate %v, want %v", g.Class, c.Region, p.Estimate, want)
			}
		}
	}
}

func TestLayoutHasTwoGenerationsEverywhereAndOneGateway(t *testing.T) {
	l := Loopback()
	var gateways []string
	ports := map[string]string{}
	listen := func(what, raw string) {
		u, err := url.Parse(raw)
		if err != nil || u.Port() == "" {
			t.Errorf("%s: %q is no URL with a port: %v", what, raw, err)
			return
		}
		if other, ok := ports[u.Host]; ok {
			t.Errorf("%s and %s both listen at %s", what, other, u.Host)
		}
		ports[u.Host] = what
	}
	for i, r := range l.Regions {
		listen(r.Name, r.PeerURL)
		classes := map[string]bool{}
		for _, c := range r.Clusters {
			if c.Region != r.Name || len(c.Endpoints) < 2 {
				t.Errorf("cluster %s: region %q, %d endpoints", c.Name, c.Region, len(c.Endpoints))
			}
			if c.GatewayURL != "" {
				gateways = append(gateways, c.Name)
				listen(c.Name+" gateway", c.GatewayURL)
				listen(c.Name+" metrics", c.MetricsURL)
			}
			for _, e := range c.Endpoints {
				classes[e.Class] = true
				listen(c.Name+"/"+e.ID, e.URL)
				if want := fmt.Sprintf("http://127.0.0.1:9%d0", i+1); !strings.HasPrefix(e.URL, want) {
					t.Errorf("%s/%s at %s, want %sN", c.Name, e.ID, e.URL, want)
				}
			}
		}
		if !classes["h100"] || !classes["a100-80"] {
			t.Errorf("%s has GPU classes %v", r.Name, classes)
		}
		for _, other := range l.Regions {
			if other.Name != r.Name && other.RTTMs[r.Name] != r.RTTMs[other.Name] {
				t.Errorf("round trip %s to %s differs by direction", r.Name, other.Name)
			}
		}
	}
	if !slices.Equal(gateways, []string{GatewayCluster}) {
		t.Errorf("gateways %v, want %s", gateways, GatewayCluster)
	}
}

func TestGPUsAreCountedByClass(t *testing.T) {
	c := Cluster{
		Endpoints:       []Endpoint{{Class: "h100"}, {Class: "a100"}, {Class: "h100"}, {Class: "l40s"}},
		GPUsPerEndpoint: map[string]int{"h100": 4},
	}
	want := []GPUs{{"h100", 8}, {"a100", 1}, {"l40s", 1}}
	if got := c.GPUs(); !slices.Equal(got, want) {
		t.Errorf("GPUs = %v, want %v", got, want)
	}
}

func TestOtherAddressesAreTaken(t *testing.T) {
	l := New(func(suggested int) string { return fmt.Sprintf("127.0.0.1:%d", suggested+20000) })
	docs, err := Documents(l, hashes())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"http://127.0.0.1:29101", "https://127.0.0.1:28303", "http://127.0.0.1:29391/metrics", "tcp://127.0.0.1:39304"} {
		if !strings.Contains(string(docs), want) {
			t.Errorf("documents lack %s", want)
		}
	}
	if strings.Contains(string(docs), ":91") || strings.Contains(string(docs), ":83") {
		t.Error("documents name a suggested port")
	}
}

func TestWhatIsMissingOrWrongIsNamed(t *testing.T) {
	if _, err := Resources(Loopback(), map[string]string{"acme": strings.Repeat("0", 64)}); err == nil || !strings.Contains(err.Error(), `"globex"`) {
		t.Errorf("missing key: %v", err)
	}
	keys := hashes()
	keys["acme"] = "abc"
	if _, err := Resources(Loopback(), keys); err == nil || !strings.Contains(err.Error(), "Tenant/acme spec.apiKeys[0].sha256") {
		t.Errorf("bad hash: %v", err)
	}
}
