package table

import (
	"crypto/sha256"
	"slices"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

func TestModelNames(t *testing.T) {
	tab := build(t, good())
	tests := []struct {
		name, wants, adapter string
		ok                   bool
	}{
		{"llama", "llama", "", true},
		{"gpt-small", "llama", "", true},
		{"support-lora", "llama", "support-lora", true},
		{"big", "big", "", true},
		{"LLAMA", "", "", false},
		{"", "", "", false},
	}
	for _, tt := range tests {
		m, adapter, ok := tab.Model(tt.name)
		if ok != tt.ok || adapter != tt.adapter || ok && string(m.ID) != tt.wants {
			t.Errorf("Model(%q) = %v, %q, %v", tt.name, m, adapter, ok)
		}
	}
	if m := tab.Models(); len(m) != 2 || m[0].ID != "llama" || m[1].ID != "big" {
		t.Errorf("Models = %v", m)
	}
}

func TestModelWork(t *testing.T) {
	tab := build(t, good())
	llama, _, _ := tab.Model("llama")
	if got := llama.Work(100, 10); got != 140 {
		t.Errorf("100 in, 10 out at weight 4 = %v work, want 140", got)
	}
	big, _, _ := tab.Model("big")
	if big.OutputWeight != 6 {
		t.Errorf("output weight without one = %v, want the default 6", big.OutputWeight)
	}
}

func TestServing(t *testing.T) {
	tab := build(t, good())
	names := func(model fleet.ModelID) (s []fleet.ClusterID) {
		for _, c := range tab.Serving(model) {
			s = append(s, c.ID)
		}
		return s
	}
	if got := names("llama"); !slices.Equal(got, []fleet.ClusterID{"us-a", "eu-g"}) {
		t.Errorf("llama on %v", got)
	}
	if got := names("big"); !slices.Equal(got, []fleet.ClusterID{"eu-g"}) {
		t.Errorf("big on %v", got)
	}
	if got := names("none"); got != nil {
		t.Errorf("none on %v", got)
	}
}

func TestTenantByKey(t *testing.T) {
	tab := build(t, good())
	tests := []struct{ key, want string }{
		{"k-acme", "acme"}, {"k-acme-2", "acme"}, {"k-initech", "initech"}, {"K-ACME", ""}, {"", ""}, {"k-acme ", ""},
	}
	for _, tt := range tests {
		got, _, expired := tab.TenantByKey(tt.key, time.Now())
		if (got != nil) != (tt.want != "") || got != nil && string(got.ID) != tt.want || expired {
			t.Errorf("TenantByKey(%q) = %v, %v, want %q", tt.key, got, expired, tt.want)
		}
		if bySum, _, _ := tab.TenantByKeySum(sha256.Sum256([]byte(tt.key)), time.Now()); bySum != got {
			t.Errorf("the SHA-256 of %q is of %v, the key of %v", tt.key, bySum, got)
		}
	}
	if x, ok := tab.Tenant("initech"); !ok || x.Tier != "batch" || x.Priority != -10 {
		t.Errorf("Tenant(initech) = %v, %v", x, ok)
	}
	if _, ok := tab.Tenant("nobody"); ok {
		t.Error("found nobody")
	}
}

func TestResidency(t *testing.T) {
	tests := []struct {
		name      string
		residency []string
		want      bool
	}{
		{"no limit", nil, true},
		{"by zone", []string{"us", "eu"}, true},
		{"by region", []string{"eu-west-1"}, true},
		{"elsewhere", []string{"us"}, false},
		{"part of a name", []string{"eu-west"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := Tenant{Residency: tt.residency}
			if got := x.Allows("eu-west-1", "eu"); got != tt.want {
				t.Errorf("allowed = %v", got)
			}
		})
	}
}

func TestClasses(t *testing.T) {
	tab := build(t, good())
	if c := tab.Class("llama"); c.Policy != "p-all" || c.TTFTObjective != 1500*time.Millisecond || !c.Spill {
		t.Errorf("llama: %+v", c)
	}
	c := tab.Class("big")
	if c.Policy != "p-big" || c.PickMode != "random" || c.Spill {
		t.Errorf("the policy that names the model wins: %+v", c)
	}
	want := Ejection{ConnectFailures: 5, FailureRatio: 0.2, MinRequests: 20, Window: 2 * time.Second, Reprobe: time.Second, ReprobeMax: time.Minute}
	if c.Ejection != want {
		t.Errorf("ejection = %+v, want defaults but for the connect failures: %+v", c.Ejection, want)
	}
	if _, ok := tab.ClassNamed("bulk", "big"); ok {
		t.Error("bulk isn't for big")
	}
	if c, ok := tab.ClassNamed("bulk", "llama"); !ok || c.Policy != "p-bulk" {
		t.Errorf("bulk for llama = %v, %v", c, ok)
	}
}

func TestClassWithoutPolicies(t *testing.T) {
	pb := good()
	pb.Classes = nil
	c := build(t, pb).Class("llama")
	if c.ID != fleet.DefaultClass || c.FirstByteFloor != 5*time.Second || c.RequestTimeout != 10*time.Minute || !c.Spill {
		t.Errorf("built-in class = %+v", c)
	}
}

func TestWeights(t *testing.T) {
	tab := build(t, good())
	w, ok := tab.Weights("llama", "interactive", "us-east-1")
	if !ok || len(w) != 2 || w[0].Cluster.ID != "us-a" || w[0].Share != 0.75 || w[0].Reason != "capacity" {
		t.Errorf("weights = %v, %v", w, ok)
	}
	if w, ok := tab.Weights("big", "interactive", "us-east-1"); !ok || len(w) != 0 {
		t.Errorf("no legal target: %v, %v, want empty and ok", w, ok)
	}
	if _, ok := tab.Weights("llama", "interactive", "eu-west-1"); ok {
		t.Error("found weights that the table doesn't have")
	}
}

func TestRTT(t *testing.T) {
	tab := build(t, good())
	tests := []struct {
		from, to fleet.RegionID
		want     time.Duration
	}{
		{"us-east-1", "us-east-1", 0},
		{"us-east-1", "eu-west-1", 70 * time.Millisecond},
		{"eu-west-1", "us-east-1", 70 * time.Millisecond}, // only the other side tells
		{"eu-west-1", "mars", UnknownRTT},
		{"mars", "venus", UnknownRTT},
	}
	for _, tt := range tests {
		if got := tab.RTT(tt.from, tt.to); got != tt.want {
			t.Errorf("RTT(%s, %s) = %v, want %v", tt.from, tt.to, got, tt.want)
		}
	}
}

func TestClusters(t *testing.T) {
	tab := build(t, good())
	a, g := tab.Clusters["us-a"], tab.Clusters["eu-g"]
	if a.Endpoints[0] != (Endpoint{ID: "a1", URL: "http://10.0.0.1:8000", Class: "h100"}) {
		t.Errorf("endpoint = %+v: want no trailing slash and a lower-case class", a.Endpoints[0])
	}
	if a.Zone != "us" || g.Zone != "eu-west-1" {
		t.Errorf("zones %q, %q; want the region's, or its name", a.Zone, g.Zone)
	}
	if g.Auth == nil || *g.Auth != (Credential{Type: "bearer", Env: "GW_TOKEN"}) || a.Auth != nil {
		t.Errorf("auth %v and %v", a.Auth, g.Auth)
	}
	if !g.Serves("big") || a.Serves("big") {
		t.Error("big is served by the gateway only")
	}
	if a.Hash == g.Hash {
		t.Error("two clusters hash alike")
	}
	r := tab.Regions["us-east-1"]
	if r.PeerURLs[0] != "https://us.example:8300" || len(r.Clusters) != 1 || r.Clusters[0] != a {
		t.Errorf("region = %+v", r)
	}
}

func TestHolder(t *testing.T) {
	var h Holder
	if h.Load() != nil {
		t.Fatal("a new holder holds something")
	}
	one, two := build(t, good()), build(t, good())
	h.Store(one)
	taken := h.Load()
	h.Store(two)
	if taken != one || h.Load() != two {
		t.Error("a table taken must stay, a new reader see the new one")
	}
}

// A request looks things up some ten times; none of it may cost an allocation.
func TestLookupsDoNotAllocate(t *testing.T) {
	tab := build(t, good())
	tenant, _ := tab.Tenant("initech")
	now := time.Now()
	if n := testing.AllocsPerRun(100, func() {
		tab.Model("support-lora")
		tab.TenantByKey("k-acme-2", now)
		tab.Path("acme", "llama", 0)
		tab.Class("llama")
		tab.Weights("llama", "interactive", "us-east-1")
		tab.RTT("us-east-1", "eu-west-1")
		tenant.Allows("us-east-1", "us")
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func TestAKeyEndsAtItsMoment(t *testing.T) {
	pb, end := good(), time.UnixMilli(1_800_000_000_000)
	pb.Tenants[1].ExpiringKeys = []*routerpb.ExpiringKey{{Sha256: keySum("k-old"), ExpiresUnixMs: end.UnixMilli()}}
	tab := build(t, pb)
	for _, tt := range []struct {
		at      time.Time
		expired bool
	}{{end.Add(-time.Millisecond), false}, {end, true}, {end.Add(time.Hour), true}} {
		got, _, expired := tab.TenantByKey("k-old", tt.at)
		if expired != tt.expired || (got == nil) != tt.expired || got != nil && got.ID != "initech" {
			t.Errorf("at %s: %v, %v", tt.at, got, expired)
		}
	}
	if got, _, expired := tab.TenantByKey("k-initech", end.Add(time.Hour)); got == nil || expired {
		t.Error("the other key ended with it")
	}
}

func BenchmarkTenantByKey(b *testing.B) {
	tab, err := Build(good())
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		tab.TenantByKey("k-acme-2", now)
	}
}

func BenchmarkBuild(b *testing.B) {
	pb := good()
	for range 1000 {
		pb.Clusters[0].Endpoints = append(pb.Clusters[0].Endpoints, &routerpb.Endpoint{
			Id: "e" + time.Duration(len(pb.Clusters[0].Endpoints)).String(), Url: "http://10.0.0.1:8000", Class: "h100",
		})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Build(pb); err != nil {
			b.Fatal(err)
		}
	}
}
