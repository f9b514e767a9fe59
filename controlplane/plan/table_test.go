package plan

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/failover"
)

func TestResourcesBecomeTheTable(t *testing.T) {
	b := newBench(t)
	key := strings.Repeat("ab", 32)
	b.write("Model", "m", "aliases: [chat]\n  adapters: [lora]\n  outputWeight: 4")
	b.written[len(b.written)-1].Metadata.CreatedAt = time.UnixMilli(1_760_000_000_500)
	b.write("Model", "undated", "{}")
	b.write("Cluster", "us-g", "region: us\n  type: gateway\n  models: [m]\n  gatewayURL: http://gw:80\n  metricsURL: http://gw:9090\n  auth: {type: bearer, env: TOKEN}")
	b.write("Tenant", "acme", "tier: top\n  residency: [eu]\n  apiKeys: [{id: k1, sha256: "+key+"}, {id: k2, sha256: "+strings.Repeat("bb", 32)+", expiresAt: 2027-01-31T00:00:00Z}]"+
		"\n  jwt: [{issuer: 'https://id.example', audiences: [llm], jwksURL: 'https://id.example/keys', claims: {team: a, org: acme}}]")
	b.write("Tenant", "plain", "{}")
	b.write("Quota", "q", "tenant: acme\n  model: m\n  degraded: open\n  limits: [{kind: requests, perMinute: 60}, {kind: total-tokens, perMinute: 1000, burst: 5000}]")
	b.write("RateCard", "card", "models: [{model: m, inputPerMTok: 0.05, outputPerMTok: 0.08}]")
	b.write("RateCard", "older", "models: [{model: m, inputPerMTok: 9, outputPerMTok: 9}]")
	b.state("us-a", failover.Ramping, 0.25)
	b.plan()

	if r := b.table.Regions[2]; r.Id != "us" || r.Zone != "us" || r.PeerUrls[0] != "https://us:1" || r.RttMs["eu"] != 80 {
		t.Errorf("region: %v", r)
	}
	clusters := map[string]*routerpb.Cluster{}
	for _, c := range b.table.Clusters {
		clusters[c.Id] = c
	}
	want := &routerpb.Cluster{
		Id: "us-a", Region: "us", Kind: "endpoints", Models: []string{"m"},
		Endpoints: []*routerpb.Endpoint{{Id: "e1", Url: "http://us-a:1", Class: "h100"}},
		Health:    "RAMPING", HealthCap: 0.25,
	}
	if !proto.Equal(clusters["us-a"], want) {
		t.Errorf("cluster: %v", clusters["us-a"])
	}
	want = &routerpb.Cluster{
		Id: "us-g", Region: "us", Kind: "gateway", Models: []string{"m"}, GatewayUrl: "http://gw:80", MetricsUrl: "http://gw:9090",
		Health: "HEALTHY", HealthCap: 1, Auth: []*routerpb.Credential{{Type: "bearer", Env: "TOKEN"}},
	}
	if !proto.Equal(clusters["us-g"], want) {
		t.Errorf("gateway: %v", clusters["us-g"])
	}
	model := &routerpb.Model{
		Id: "m", Aliases: []string{"chat"}, Adapters: []string{"lora"}, OutputWeight: 4,
		InputMicrosPerMtok: 50_000, OutputMicrosPerMtok: 80_000, CreatedUnixMs: 1_760_000_000_500,
	}
	if !proto.Equal(b.table.Models[0], model) {
		t.Errorf("model: %v", b.table.Models[0])
	}
	if at := b.table.Models[1].CreatedUnixMs; at != 0 {
		t.Errorf("a model that was never written was at %d", at)
	}
	sum, err := hex.DecodeString(key)
	if err != nil {
		t.Fatal(err)
	}
	acme := &routerpb.Tenant{
		Id: "acme", Tier: "top", Priority: 100, KeySha256: [][]byte{sum}, Residency: []string{"eu"},
		ExpiringKeys: []*routerpb.ExpiringKey{{Sha256: bytes.Repeat([]byte{0xbb}, 32), ExpiresUnixMs: 1801353600_000}},
		Jwt: []*routerpb.JwtRule{{
			Issuer: "https://id.example", Audiences: []string{"llm"}, JwksUrl: "https://id.example/keys",
			Claims: []*routerpb.JwtClaim{{Name: "org", Value: "acme"}, {Name: "team", Value: "a"}},
		}},
	}
	if !proto.Equal(b.table.Tenants[0], acme) {
		t.Errorf("tenant: %v", b.table.Tenants[0])
	}
	if p := b.table.Tenants[1]; p.Tier != "standard" || p.Priority != 50 {
		t.Errorf("tenant without a spec: %v", p)
	}
	quotas := []*routerpb.Quota{
		{Id: "q/requests", Tenant: "acme", Kind: "requests", Limit: 60, PeriodMs: 60_000, Burst: 60, Degraded: "open", Model: "m", Share: 1.0 / 3, Organisation: "acme"},
		{Id: "q/total-tokens", Tenant: "acme", Kind: "total-tokens", Limit: 1000, PeriodMs: 60_000, Burst: 5000, Degraded: "open", Model: "m", Share: 1.0 / 3, Organisation: "acme"},
	}
	for i, q := range quotas {
		if !proto.Equal(b.table.Quotas[i], q) {
			t.Errorf("quota: %v, want %v", b.table.Quotas[i], q)
		}
	}
	if b.table.CreatedUnixMs != b.now.UnixMilli() {
		t.Errorf("created at %d", b.table.CreatedUnixMs)
	}
}

func TestPoliciesBecomeClasses(t *testing.T) {
	tests := map[string]struct {
		policies [][2]string
		want     []string // "class policy models"
	}{
		"no policy": {nil, []string{"interactive  []"}},
		"one for all": {
			[][2]string{{"p", "{}"}}, []string{"interactive p []"},
		},
		"one for a model, the rest built in": {
			[][2]string{{"p", "models: [m]"}}, []string{"interactive p [m]", "interactive  []"},
		},
		"two for one model: the first by name": {
			[][2]string{{"b", "models: [m, n]"}, {"a", "models: [m]"}},
			[]string{"interactive a [m]", "interactive b [n]", "interactive  []"},
		},
		"two for the same model alone": {
			[][2]string{{"a", "models: [m]"}, {"b", "models: [m]"}, {"c", "{}"}, {"d", "{}"}},
			[]string{"interactive a [m]", "interactive c []"},
		},
		"another class": {
			[][2]string{{"p", "class: offline"}, {"q", "class: offline\n  models: [m]"}},
			[]string{"offline q [m]", "offline p []", "interactive  []"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write("Model", "n", "{}")
			for _, p := range tt.policies {
				b.write("TrafficPolicy", p[0], p[1])
			}
			b.plan()
			var got []string
			for _, c := range b.table.Classes {
				got = append(got, c.Id+" "+c.Policy+" ["+strings.Join(c.Models, " ")+"]")
			}
			if strings.Join(got, "; ") != strings.Join(tt.want, "; ") {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestClassesCarryThePolicysNumbers(t *testing.T) {
	b := newBench(t)
	b.write("TrafficPolicy", "p", `ttftObjectiveMs: 900
  spill: never
  pickMode: least-outstanding
  requestTimeoutMs: 1234
  firstByteFloorMs: 77
  firstByteDeadlineMs: 88
  stallMs: 5000
  queueMs: -1
  prefixLength: 2048
  concurrencyThreshold: 7
  hedge: {maxSharePercent: 1, afterMs: 300}
  brownout: {enterMs: 2000, floorPercent: 20, weights: {acme: 3}}
  rescue: true
  failover: {connectFailures: 9, failureRatio: 0.5, minRequests: 8, windowMs: 700, reprobeMs: 600, reprobeMaxMs: 5000}`)
	b.plan()
	want := &routerpb.Class{
		Id: "interactive", Policy: "p", TtftObjectiveMs: 900, PickMode: "least-outstanding", RequestTimeoutMs: 1234, FirstByteFloorMs: 77,
		FirstByteDeadlineMs: 88, StallMs: 5000, QueueMs: -1, PrefixLength: 2048, ConcurrencyThreshold: 7,
		Hedge: &routerpb.Hedge{MaxShare: 0.01, MaxSaturation: 0.7, AfterMs: 300}, Rescue: true,
		Brownout: &routerpb.Brownout{
			EnterAt: 0.9, LeaveAt: 0.8, EnterMs: 2000, LeaveMs: 30_000, BatchCeiling: 0.3, BatchTokens: 512, Floor: 0.2,
			Weights: map[string]float64{"acme": 3},
		},
		Ejection: &routerpb.Ejection{ConnectFailures: 9, FailureRatio: 0.5, MinRequests: 8, WindowMs: 700, ReprobeMs: 600, ReprobeMaxMs: 5000},
	}
	if !proto.Equal(b.table.Classes[0], want) {
		t.Errorf("got %v", b.table.Classes[0])
	}
}

func TestEveryClassHasWeightsForItsModels(t *testing.T) {
	b := newBench(t)
	b.write("Model", "n", "{}")
	b.write("TrafficPolicy", "p", "class: offline\n  models: [n]")
	b.plan()
	got := map[string]int{}
	for _, w := range b.table.Weights {
		got[w.Model+"/"+w.Class]++
	}
	if len(got) != 3 || got["m/interactive"] != 3 || got["n/interactive"] != 3 || got["n/offline"] != 3 {
		t.Errorf("lists of weights: %v", got)
	}
}

func TestChangesOfAnyPartAreChanges(t *testing.T) {
	changes := map[string]func(*bench){
		"a key": func(b *bench) { b.write("Tenant", "t", "tier: batch") },
		"a quota": func(b *bench) {
			b.write("Quota", "q", "tenant: known\n  limits: [{kind: requests, perMinute: 60}]")
		},
		"a URL":      func(b *bench) { b.write("Region", "ap", "peerURLs: [https://elsewhere:1]") },
		"an alias":   func(b *bench) { b.write("Model", "m", "aliases: [x]\n  adapters: [lora]") },
		"a suspect":  func(b *bench) { b.state("us-a", failover.Suspect, 0) },
		"a deletion": func(b *bench) { b.remove("Cluster", "us-b") },
		"a price":    func(b *bench) { b.write("RateCard", "r", "models: [{model: m, inputPerMTok: 1, outputPerMTok: 1}]") },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write("Tenant", "known", "{}")
			b.report()
			b.plan()
			change(b)
			b.now = b.now.Add(time.Second)
			if !b.plan().Changed {
				t.Error("not noticed")
			}
			b.now = b.now.Add(time.Second)
			if b.plan().Changed {
				t.Error("noticed twice")
			}
		})
	}
}

func TestWhatIsNotTrafficIsNoChange(t *testing.T) {
	b := newBench(t)
	b.report()
	b.plan()
	b.write("RateCard", "r", "gpus: [{class: h100, region: us, usdPerHour: 1}]")
	if b.plan().Changed {
		t.Error("a price of idle GPUs changed the table")
	}
}

func TestFailoverNumbersComeFromThePolicyOfTheModel(t *testing.T) {
	b := newBench(t)
	b.write("TrafficPolicy", "p", "models: [m]\n  failover: {timeScale: 0.05, confirmMs: 1000, coolDownMs: 2000, recoveryMs: 3000, rampStepMs: 4000}")
	b.write("TrafficPolicy", "q", "class: offline\n  models: [m]\n  failover: {timeScale: 0.5}")
	got := FailoverConfig(b.written)(at("us-a"))
	if got.TimeScale != 0.05 || got.Confirm != time.Second || got.CoolDown != 2*time.Second ||
		got.Recovery != 3*time.Second || got.RampStep != 4*time.Second {
		t.Errorf("got %+v", got)
	}
	if got := FailoverConfig(b.written)(failover.Place{Cluster: "us-a", Model: "unknown"}); got.TimeScale != 1 || got.CoolDown != policy.DefaultCoolDownMs*time.Millisecond {
		t.Errorf("a model that no policy names has %+v", got)
	}
	b.remove("TrafficPolicy", "p")
	if got := FailoverConfig(b.written)(at("us-a")); got.CoolDown != policy.DefaultCoolDownMs*time.Millisecond {
		t.Errorf("without a policy the cool-down is %s", got.CoolDown)
	}
}
