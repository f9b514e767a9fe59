package table

import (
	"crypto/sha256"
	"errors"
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// sum of a key as the control plane writes it.
func keySum(key string) []byte {
	s := sha256.Sum256([]byte(key))
	return s[:]
}

// good is a table that is right in every part; tests spoil copies of it.
func good() *routerpb.Table {
	return &routerpb.Table{
		Ref:           &routerpb.TableRef{ClusterId: "9b2c", Epoch: 1, Revision: 41},
		CreatedUnixMs: 1_764_400_000_000,
		Regions: []*routerpb.Region{
			{Id: "us-east-1", Zone: "us", PeerUrls: []string{"https://us.example:8300/"}, RttMs: map[string]float64{"eu-west-1": 70}},
			{Id: "eu-west-1", PeerUrls: []string{"https://eu.example:8300"}},
		},
		Clusters: []*routerpb.Cluster{
			{
				Id: "us-a", Region: "us-east-1", Kind: "endpoints", Models: []string{"llama"}, Health: "HEALTHY", HealthCap: 1,
				Endpoints: []*routerpb.Endpoint{{Id: "a1", Url: "http://10.0.0.1:8000/", Class: "H100"}, {Id: "a2", Url: "http://10.0.0.2:8000", Class: "a100"}},
			},
			{
				Id: "eu-g", Region: "eu-west-1", Kind: "gateway", Models: []string{"llama", "big"}, HealthCap: 0.5,
				GatewayUrl: "https://gw.example", MetricsUrl: "http://gw.example:9090/metrics",
				Auth: []*routerpb.Credential{{Type: "bearer", Env: "GW_TOKEN"}},
			},
		},
		Models: []*routerpb.Model{
			{Id: "llama", Aliases: []string{"gpt-small"}, Adapters: []string{"support-lora"}, OutputWeight: 4, InputMicrosPerMtok: 100, CreatedUnixMs: 1_760_000_000_500},
			{Id: "big"},
		},
		Tenants: []*routerpb.Tenant{
			{Id: "acme", Tier: "top", Priority: 100, KeySha256: [][]byte{keySum("k-acme"), keySum("k-acme-2")}},
			{Id: "initech", Tier: "batch", Priority: -10, Residency: []string{"eu-west-1"}, KeySha256: [][]byte{keySum("k-initech")}},
		},
		Quotas: []*routerpb.Quota{
			{Id: "q1", Tenant: "acme", Kind: "requests", Limit: 600, PeriodMs: 60_000, Burst: 600, Degraded: "open"},
			{Id: "q2", Tenant: "acme", Kind: "total-tokens", Limit: 1000, PeriodMs: 60_000, Burst: 1000, Model: "llama", Share: 0.5},
		},
		Classes: []*routerpb.Class{
			{Id: "interactive", Policy: "p-all", Spill: true, TtftObjectiveMs: 1500},
			{Id: "interactive", Policy: "p-big", Models: []string{"big"}, PickMode: "random", Ejection: &routerpb.Ejection{ConnectFailures: 5}},
			{Id: "bulk", Policy: "p-bulk", Models: []string{"llama"}},
		},
		Weights: []*routerpb.Weights{
			{Model: "llama", Class: "interactive", Source: "us-east-1", Clusters: []*routerpb.ClusterWeight{
				{Cluster: "us-a", Weight: 0.75, Reason: "capacity"}, {Cluster: "eu-g", Weight: 0.25},
			}},
			{Model: "big", Class: "interactive", Source: "us-east-1"},
		},
	}
}

func build(t *testing.T, pb *routerpb.Table) *Table {
	t.Helper()
	tab, err := Build(pb)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func TestBuildRefuses(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*routerpb.Table)
		code  string
		field string
	}{
		{"no regions", func(p *routerpb.Table) { p.Regions = nil }, CodeEmpty, "table"},
		{"no clusters", func(p *routerpb.Table) { p.Clusters = nil }, CodeEmpty, "table"},
		{"no models", func(p *routerpb.Table) { p.Models = nil }, CodeEmpty, "table"},
		{"no number", func(p *routerpb.Table) { p.Ref = nil }, CodeRef, "ref"},
		{"no control plane", func(p *routerpb.Table) { p.Ref.ClusterId = "" }, CodeRef, "ref"},
		{"too large", func(p *routerpb.Table) { p.Tenants[0].Residency = []string{string(make([]byte, MaxBytes))} }, CodeTooLarge, "table"},

		{"a region without a name", func(p *routerpb.Table) { p.Regions[1].Id = "" }, CodeValue, "regions[1].id"},
		{"a region twice", func(p *routerpb.Table) { p.Regions[1].Id = "us-east-1" }, CodeDuplicate, "regions[1].id"},
		{"a peer without TLS", func(p *routerpb.Table) { p.Regions[0].PeerUrls[0] = "http://us.example" }, CodeValue, "regions[0].peer_urls[0]"},
		{"an infinite round trip", func(p *routerpb.Table) { p.Regions[0].RttMs["x"] = math.Inf(1) }, CodeValue, "regions[0].rtt_ms"},
		{"a negative round trip", func(p *routerpb.Table) { p.Regions[0].RttMs["x"] = -1 }, CodeValue, "regions[0].rtt_ms"},

		{"a model without a name", func(p *routerpb.Table) { p.Models[1].Id = "" }, CodeValue, "models[1].id"},
		{"a model twice", func(p *routerpb.Table) { p.Models[1].Id = "llama" }, CodeDuplicate, "models[1].id"},
		{"an alias that is a model", func(p *routerpb.Table) { p.Models[1].Aliases = []string{"llama"} }, CodeDuplicate, "models[1].aliases[0]"},
		{"an adapter that is an alias", func(p *routerpb.Table) { p.Models[1].Adapters = []string{"gpt-small"} }, CodeDuplicate, "models[1].adapters[0]"},
		{"an output weight that is no number", func(p *routerpb.Table) { p.Models[0].OutputWeight = math.NaN() }, CodeValue, "models[0].output_weight"},

		{"a cluster without a name", func(p *routerpb.Table) { p.Clusters[0].Id = "" }, CodeValue, "clusters[0].id"},
		{"a cluster twice", func(p *routerpb.Table) { p.Clusters[1].Id = "us-a" }, CodeDuplicate, "clusters[1].id"},
		{"a cluster in no region", func(p *routerpb.Table) { p.Clusters[0].Region = "mars" }, CodeUnknown, "clusters[0].region"},
		{"a cluster of unknown kind", func(p *routerpb.Table) { p.Clusters[0].Kind = "heap" }, CodeValue, "clusters[0].kind"},
		{"a cluster without endpoints", func(p *routerpb.Table) { p.Clusters[0].Endpoints = nil }, CodeNoTarget, "clusters[0].endpoints"},
		{"a gateway without a URL", func(p *routerpb.Table) { p.Clusters[1].GatewayUrl = "" }, CodeNoTarget, "clusters[1].gateway_url"},
		{"a cap above 1", func(p *routerpb.Table) { p.Clusters[0].HealthCap = 1.5 }, CodeValue, "clusters[0].health_cap"},
		{"a cap that is no number", func(p *routerpb.Table) { p.Clusters[0].HealthCap = math.NaN() }, CodeValue, "clusters[0].health_cap"},
		{"a model twice in a cluster", func(p *routerpb.Table) { p.Clusters[1].Models = []string{"big", "big"} }, CodeDuplicate, "clusters[1].models"},
		{"an endpoint without a name", func(p *routerpb.Table) { p.Clusters[0].Endpoints[1].Id = "" }, CodeValue, "clusters[0].endpoints[1].id"},
		{"an endpoint twice", func(p *routerpb.Table) { p.Clusters[0].Endpoints[1].Id = "a1" }, CodeDuplicate, "clusters[0].endpoints[1].id"},
		{"an endpoint URL without a scheme", func(p *routerpb.Table) { p.Clusters[0].Endpoints[0].Url = "10.0.0.1:8000" }, CodeValue, "clusters[0].endpoints[0].url"},
		{"an endpoint URL without a host", func(p *routerpb.Table) { p.Clusters[0].Endpoints[0].Url = "http://" }, CodeValue, "clusters[0].endpoints[0].url"},
		{"an endpoint URL of another protocol", func(p *routerpb.Table) { p.Clusters[0].Endpoints[0].Url = "ftp://h" }, CodeValue, "clusters[0].endpoints[0].url"},
		{"a password in a URL", func(p *routerpb.Table) { p.Clusters[1].GatewayUrl = "http://u:p@h" }, CodeValue, "clusters[1].gateway_url"},
		{"a query in a URL", func(p *routerpb.Table) { p.Clusters[1].MetricsUrl = "http://h/?x=1" }, CodeValue, "clusters[1].metrics_url"},
		{"two credentials", func(p *routerpb.Table) {
			p.Clusters[1].Auth = append(p.Clusters[1].Auth, &routerpb.Credential{Type: "bearer", File: "/x"})
		}, CodeValue, "clusters[1].auth"},
		{"a credential of unknown type", func(p *routerpb.Table) { p.Clusters[1].Auth[0].Type = "basic" }, CodeValue, "clusters[1].auth[0].type"},
		{"a credential in two places", func(p *routerpb.Table) { p.Clusters[1].Auth[0].File = "/x" }, CodeValue, "clusters[1].auth[0]"},

		{"a tenant without a name", func(p *routerpb.Table) { p.Tenants[0].Id = "" }, CodeValue, "tenants[0].id"},
		{"a tenant twice", func(p *routerpb.Table) { p.Tenants[1].Id = "acme" }, CodeDuplicate, "tenants[1].id"},
		{"an empty place of residence", func(p *routerpb.Table) { p.Tenants[1].Residency = []string{""} }, CodeValue, "tenants[1].residency"},
		{"half a key", func(p *routerpb.Table) { p.Tenants[0].KeySha256[1] = []byte("short") }, CodeValue, "tenants[0].key_sha256[1]"},
		{"half an expiring key", func(p *routerpb.Table) {
			p.Tenants[0].ExpiringKeys = []*routerpb.ExpiringKey{{Sha256: []byte("short"), ExpiresUnixMs: 1}}
		}, CodeValue, "tenants[0].expiring_keys[0].sha256"},
		{"a key that ended before time began", func(p *routerpb.Table) {
			p.Tenants[0].ExpiringKeys = []*routerpb.ExpiringKey{{Sha256: keySum("x")}}
		}, CodeValue, "tenants[0].expiring_keys[0].expires_unix_ms"},
		{"a key that expires and doesn't", func(p *routerpb.Table) {
			p.Tenants[1].ExpiringKeys = []*routerpb.ExpiringKey{{Sha256: keySum("k-acme"), ExpiresUnixMs: 1}}
		}, CodeDuplicate, "tenants[1].expiring_keys[0].sha256"},
		{"tokens of nobody", jwt(&routerpb.JwtRule{Audiences: []string{"a"}, JwksUrl: "https://x/keys"}), CodeValue, "tenants[0].jwt[0].issuer"},
		{"tokens for anybody", jwt(&routerpb.JwtRule{Issuer: "i", JwksUrl: "https://x/keys"}), CodeValue, "tenants[0].jwt[0].audiences"},
		{"tokens without keys", jwt(&routerpb.JwtRule{Issuer: "i", Audiences: []string{"a"}}), CodeValue, "tenants[0].jwt[0].jwks_url"},
		{"tokens with keys from a file", jwt(&routerpb.JwtRule{Issuer: "i", Audiences: []string{"a"}, JwksUrl: "file:///etc/keys"}), CodeValue, "tenants[0].jwt[0].jwks_url"},
		{"tokens with keys that are none", jwt(&routerpb.JwtRule{Issuer: "i", Audiences: []string{"a"}, Jwks: "{}"}), CodeValue, "tenants[0].jwt[0].jwks"},
		{"tokens with an empty claim", jwt(&routerpb.JwtRule{
			Issuer: "i", Audiences: []string{"a"}, JwksUrl: "https://x/keys", Claims: []*routerpb.JwtClaim{{Name: "org"}},
		}), CodeValue, "tenants[0].jwt[0].claims[0]"},
		{"a key of two tenants", func(p *routerpb.Table) { p.Tenants[1].KeySha256[0] = keySum("k-acme") }, CodeDuplicate, "tenants[1].key_sha256[0]"},

		{"a quota without a name", func(p *routerpb.Table) { p.Quotas[0].Id = "" }, CodeValue, "quotas[0].id"},
		{"a quota twice", func(p *routerpb.Table) { p.Quotas[1].Id = "q1" }, CodeDuplicate, "quotas[1].id"},
		{"a quota of nobody", func(p *routerpb.Table) { p.Quotas[0].Tenant = "nobody" }, CodeUnknown, "quotas[0].tenant"},
		{"a quota of bananas", func(p *routerpb.Table) { p.Quotas[0].Kind = "bananas" }, CodeValue, "quotas[0].kind"},
		{"a quota of nothing", func(p *routerpb.Table) { p.Quotas[0].Limit = 0 }, CodeValue, "quotas[0].limit"},
		{"a share above 1", func(p *routerpb.Table) { p.Quotas[1].Share = 2 }, CodeValue, "quotas[1].share"},
		{"an unknown degraded mode", func(p *routerpb.Table) { p.Quotas[1].Degraded = "maybe" }, CodeValue, "quotas[1].degraded"},

		{"a class without a name", func(p *routerpb.Table) { p.Classes[0].Id = "" }, CodeValue, "classes[0].id"},
		{"a class twice for a model", func(p *routerpb.Table) { p.Classes[0].Models = []string{"big"} }, CodeDuplicate, "classes[1]"},
		{"an unknown pick mode", func(p *routerpb.Table) { p.Classes[0].PickMode = "best" }, CodeValue, "classes[0].pick_mode"},
		{"a negative time-out", func(p *routerpb.Table) { p.Classes[0].RequestTimeoutMs = -1 }, CodeValue, "classes[0].request_timeout_ms"},
		{"an objective that is no number", func(p *routerpb.Table) { p.Classes[0].TtftObjectiveMs = math.NaN() }, CodeValue, "classes[0].ttft_objective_ms"},
		{"a failure ratio above 1", func(p *routerpb.Table) { p.Classes[1].Ejection.FailureRatio = 1.1 }, CodeValue, "classes[1].ejection.failure_ratio"},
		{"a window of a month", func(p *routerpb.Table) { p.Classes[1].Ejection.WindowMs = 1 << 40 }, CodeValue, "classes[1].ejection.window_ms"},

		{"weights of an unknown model", func(p *routerpb.Table) { p.Weights[0].Model = "nope" }, CodeUnknown, "weights[0].model"},
		{"weights of an adapter", func(p *routerpb.Table) { p.Weights[0].Model = "support-lora" }, CodeUnknown, "weights[0].model"},
		{"weights of no class", func(p *routerpb.Table) { p.Weights[0].Class = "" }, CodeValue, "weights[0].class"},
		{"weights from nowhere", func(p *routerpb.Table) { p.Weights[0].Source = "mars" }, CodeUnknown, "weights[0].source"},
		{"weights twice", func(p *routerpb.Table) { p.Weights[1].Model = "llama" }, CodeDuplicate, "weights[1]"},
		{"a weight for an unknown cluster", func(p *routerpb.Table) { p.Weights[0].Clusters[0].Cluster = "x" }, CodeUnknown, "weights[0].clusters[0].cluster"},
		{"a cluster weighed twice", func(p *routerpb.Table) { p.Weights[0].Clusters[1].Cluster = "us-a" }, CodeDuplicate, "weights[0].clusters[1].cluster"},
		{"a weight where the model isn't", func(p *routerpb.Table) {
			p.Weights[1].Clusters = []*routerpb.ClusterWeight{{Cluster: "us-a", Weight: 1}}
		}, CodeServes, "weights[1].clusters[0].cluster"},
		{"a negative weight", func(p *routerpb.Table) { p.Weights[0].Clusters[0].Weight = -0.1 }, CodeValue, "weights[0].clusters[0].weight"},
		{"a weight that is no number", func(p *routerpb.Table) { p.Weights[0].Clusters[1].Weight = math.NaN() }, CodeValue, "weights[0].clusters[1].weight"},
		{"weights that sum to zero", func(p *routerpb.Table) {
			p.Weights[0].Clusters[0].Weight, p.Weights[0].Clusters[1].Weight = 0, 0
		}, CodeWeightSum, "weights[0].clusters"},
		{"weights just off 1", func(p *routerpb.Table) { p.Weights[0].Clusters[0].Weight += 2e-6 }, CodeWeightSum, "weights[0].clusters"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { refused(t, good(), tt.spoil, tt.code, tt.field) })
	}
}

// refused wants a table to be refused once it is spoiled, and to be accepted before.
func refused(t *testing.T, pb *routerpb.Table, spoil func(*routerpb.Table), code, field string) {
	t.Helper()
	build(t, proto.CloneOf(pb))
	spoil(pb)
	tab, err := Build(pb)
	var got *Invalid
	if !errors.As(err, &got) {
		t.Fatalf("Build = %v, %v, want an *Invalid", tab, err)
	}
	if got.Code != code || got.Field != field || got.Message == "" {
		t.Errorf("refused with %q at %q (%s), want %q at %q", got.Code, got.Field, got.Message, code, field)
	}
	if tab != nil {
		t.Error("a table came with the error")
	}
}

func TestBuildRefusesNil(t *testing.T) {
	if _, err := Build(nil); err == nil {
		t.Error("nil was taken for a table")
	}
}

func TestBuildAllowsWeightsWithinTolerance(t *testing.T) {
	pb := good()
	pb.Weights[0].Clusters[0].Weight += 5e-7
	build(t, pb)
}

func TestBuildKeepsTheMessage(t *testing.T) {
	pb := good()
	tab := build(t, pb)
	if !proto.Equal(tab.Proto(), good()) {
		t.Error("building changed the message")
	}
	if tab.Ref != (Ref{"9b2c", 1, 41}) || !proto.Equal(tab.Ref.Proto(), pb.Ref) {
		t.Errorf("Ref = %v", tab.Ref)
	}
	if want := time.UnixMilli(1_764_400_000_000); !tab.Created.Equal(want) {
		t.Errorf("Created = %v, want %v", tab.Created, want)
	}
	pb.Models[1].CreatedUnixMs = -1
	models := build(t, pb).Models()
	if first, second := models[0].Created, models[1].Created; !first.Equal(time.UnixMilli(1_760_000_000_500)) || !second.IsZero() {
		t.Errorf("models of %v and %v", first, second)
	}
}

func TestRefOrder(t *testing.T) {
	at := func(epoch, revision uint64) Ref { return Ref{"c", epoch, revision} }
	tests := []struct {
		name string
		a, b Ref
		want bool
	}{
		{"higher revision", at(1, 5), at(1, 4), true},
		{"same", at(1, 5), at(1, 5), false},
		{"lower revision", at(1, 4), at(1, 5), false},
		{"higher epoch beats revision", at(2, 1), at(1, 900), true},
		{"lower epoch", at(1, 900), at(2, 1), false},
		{"any after none", at(0, 1), Ref{}, true},
		{"none after none", Ref{}, Ref{}, false},
		{"another control plane", Ref{"d", 9, 9}, at(1, 1), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.a.Newer(tt.b); got != tt.want {
				t.Errorf("%v.Newer(%v) = %v", tt.a, tt.b, got)
			}
		})
	}
}

// FuzzBuild: whatever bytes come, decoding and building end in a table or an error, and a table
// that is accepted holds what its readers rely on.
func FuzzBuild(f *testing.F) {
	whole, err := proto.Marshal(good())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	for _, pb := range []*routerpb.Table{ruled(), members()} {
		b, err := proto.Marshal(pb)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{})
	f.Add(whole[:len(whole)/2])
	f.Fuzz(func(t *testing.T, b []byte) {
		var pb routerpb.Table
		if proto.Unmarshal(b, &pb) != nil {
			return
		}
		tab, err := Build(&pb)
		if (tab == nil) == (err == nil) {
			t.Fatalf("Build = %v, %v", tab, err)
		}
		if err != nil {
			var invalid *Invalid
			if !errors.As(err, &invalid) {
				t.Fatalf("error is %T", err)
			}
			return
		}
		sound(t, tab)
	})
}

// sound: what readers of a table rely on.
func sound(t *testing.T, tab *Table) {
	t.Helper()
	for key, list := range tab.weights {
		sum := 0.0
		for _, w := range list {
			if !w.Cluster.Serves(key.model) || tab.Regions[w.Cluster.Region] == nil || w.Standby && w.Share > 0 {
				t.Fatalf("weights of %v lead to %+v", key, w)
			}
			sum += w.Share
		}
		if len(list) > 0 && math.Abs(sum-1) > sumTolerance {
			t.Fatalf("shares of %v sum to %v", key, sum)
		}
	}
	for _, c := range tab.Clusters {
		ways := len(c.Endpoints)
		if c.GatewayURL != "" || c.Discovery != nil || c.Kind == KindRouter {
			ways++
		}
		if ways == 0 || c.Discovery != nil && (c.Discovery.Port < 1 || c.Discovery.Port > 65535 || c.Discovery.Name == "") {
			t.Fatalf("no way to %+v", c)
		}
	}
	for _, c := range tab.classes {
		if c.PrefixLength < minPrefix || c.Concurrency < 1 || c.Queue < 0 || c.FirstByteDeadline < c.FirstByteFloor || !(c.Hedge == nil || c.Hedge.MaxShare > 0) {
			t.Fatalf("class %+v", c)
		}
	}
	for _, r := range tab.Rules() {
		soundRule(t, tab, r)
	}
	for _, m := range tab.Models() {
		if tab.Class(m.ID) == nil {
			t.Fatalf("%s has no class", m.ID)
		}
	}
}

func soundRule(t *testing.T, tab *Table, r *Rule) {
	t.Helper()
	wants := func(name string, only []fleet.ClusterID) {
		if m, _, ok := tab.Model(name); name != "" && (!ok || tab.ClassOf(r, m.ID).ID != r.Class) {
			t.Fatalf("%+v asks for %q", r, name)
		}
		for _, c := range only {
			if len(r.Clusters) > 0 && !slices.Contains(r.Clusters, c) {
				t.Fatalf("%+v goes to %q", r, c)
			}
		}
	}
	wants(r.Wants(nil))
	sum := 0.0
	for i := range r.Arms {
		wants(r.Wants(&r.Arms[i]))
		sum += r.Arms[i].Share
	}
	if len(r.Arms) > 0 && math.Abs(sum-1) > sumTolerance {
		t.Fatalf("shares of the arms of %+v sum to %v", r, sum)
	}
	if s := r.Shadow; s != nil && !(s.Share > 0 && s.Share <= 1) {
		t.Fatalf("copies of %+v", s)
	}
	for _, m := range r.Match {
		for _, h := range m.Headers {
			if h.Name == "" || h.Name != http.CanonicalHeaderKey(h.Name) {
				t.Fatalf("header %+v", h)
			}
		}
	}
}

// jwt gives the first tenant a rule for tokens.
func jwt(r *routerpb.JwtRule) func(*routerpb.Table) {
	return func(p *routerpb.Table) { p.Tenants[0].Jwt = []*routerpb.JwtRule{r} }
}
