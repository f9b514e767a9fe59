package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/signal"
	"anabranch/costmodel"
)

func TestMembersOfEachKindBecomeTheTable(t *testing.T) {
	b := newBench(t)
	b.write("Region", "sa", "peerURLs: [https://sa:1]")
	b.write("Cluster", "out", "region: us\n  type: provider\n  models: [m]\n  url: https://api.example\n  modelNames: {m: big/m, lora: ft:1}\n  auth: {type: sigv4, file: /aws, profile: p, region: us-east-1, service: bedrock}")
	b.write("Cluster", "sa", "region: sa\n  type: router\n  models: [m]")
	b.write("Cluster", "k8s", "region: us\n  models: [m]\n  discovery: {kind: endpointslices, name: pool, namespace: serving, class: h100, scheme: https}\n  endpoints: [{id: e, url: \"https://e:1\", class: h100, kvEventsURL: \"tcp://e:5557\"}]\n  auth: {type: mtls, certFile: /c, keyFile: /k, caFile: /ca}")
	b.write("Cluster", "gw", "region: us\n  type: gateway\n  models: [m]\n  url: http://gw\n  metricsURL: http://gw/m")
	b.plan()
	got := map[string]*routerpb.Cluster{}
	for _, c := range b.table.Clusters {
		got[c.Id] = c
	}
	for _, want := range []*routerpb.Cluster{
		{
			Id: "out", Region: "us", Kind: "provider", Models: []string{"m"}, GatewayUrl: "https://api.example",
			ModelNames: map[string]string{"m": "big/m", "lora": "ft:1"},
			Auth:       []*routerpb.Credential{{Type: "sigv4", File: "/aws", Profile: "p", Region: "us-east-1", Service: "bedrock"}},
		},
		{Id: "sa", Region: "sa", Kind: "router", Models: []string{"m"}},
		{
			Id: "k8s", Region: "us", Kind: "endpoints", Models: []string{"m"},
			Endpoints: []*routerpb.Endpoint{{Id: "e", Url: "https://e:1", Class: "h100", KvEventsUrl: "tcp://e:5557"}},
			Discovery: &routerpb.Discovery{Kind: "endpointslices", Name: "pool", Namespace: "serving", Port: 8000, Scheme: "https", Class: "h100"},
			Auth:      []*routerpb.Credential{{Type: "mtls", CertFile: "/c", KeyFile: "/k", CaFile: "/ca"}},
		},
		{Id: "gw", Region: "us", Kind: "gateway", Models: []string{"m"}, GatewayUrl: "http://gw", MetricsUrl: "http://gw/m"},
	} {
		want.Health, want.HealthCap = "HEALTHY", 1
		if !proto.Equal(got[want.Id], want) {
			t.Errorf("got  %v\nwant %v", got[want.Id], want)
		}
	}
}

func TestWhoReachesWhichMember(t *testing.T) {
	b := newBench(t)
	b.write("Region", "sa", "peerURLs: [https://sa:1]")
	b.write("Region", "xx", "{}") // no router stands there
	b.write("Cluster", "sa", "region: sa\n  type: router\n  models: [m]")
	b.write("Cluster", "out", "region: xx\n  type: provider\n  models: [m]\n  url: https://api.example")
	b.write("Cluster", "shut", "region: xx\n  type: router\n  models: [m]")
	w := survey(Input{Resources: b.written})
	for source, want := range map[fleet.RegionID]string{
		"us": "ap-a ap-b eu-a eu-b out sa us-a us-b",
		"sa": "ap-a ap-b eu-a eu-b out us-a us-b", // not to itself
		"xx": "ap-a ap-b eu-a eu-b out sa us-a us-b",
	} {
		var got []string
		for _, x := range w.ways("m", signal.Snapshot{})[slices.Index(w.regionIDs, source)] {
			got = append(got, string(x.site.id))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("from %s: %q, want %q", source, got, want)
		}
	}
}

// What can't be measured is what its author says, whatever others are measured to do, and whatever
// somebody reports of it.
func TestCapacityOfWhatIsNotMeasured(t *testing.T) {
	b := newBench(t)
	b.write("Region", "sa", "peerURLs: [https://sa:1]")
	b.write("Cluster", "sa", "region: sa\n  type: router\n  models: [m]\n  priorWork: 60000")
	b.write("Cluster", "out", "region: us\n  type: provider\n  models: [m]\n  url: https://api.example")
	b.capacity["out"] = 77
	b.report()
	w := survey(Input{Resources: b.written, Signals: b.signals.Snapshot(b.now)})
	for _, s := range w.sites {
		want := map[fleet.ClusterID]float64{"sa": 60_000, "out": 5000, "us-a": 10_000}[s.id]
		if got := s.capacity["m"]; want > 0 && got != want {
			t.Errorf("%s is believed to do %v, want %v", s.id, got, want)
		}
	}
}

// A provider takes what the fleet has no room for: no missing metric makes it look idle and draw all,
// nor dead and get nothing, nor hold the weights of the others.
func TestAProviderTakesWhatIsLeft(t *testing.T) {
	b := newBench(t)
	b.write("Region", "xx", "rttMs: {us: 30}") // no router stands there
	b.write("Cluster", "out", "region: xx\n  type: provider\n  models: [m]\n  url: https://api.example\n  priorWork: 10000")
	b.ask("us", 3000)
	b.report()
	b.plan()
	if got := b.shares("us")["out"]; got > 0.05 {
		t.Errorf("with room at home it gets %v", got)
	}
	b.ask("us", 20_000)
	b.ask("eu", 14_000)
	b.ask("ap", 14_000)
	for range 60 {
		b.reportFrom("us")
		b.reportFrom("eu")
		b.reportFrom("ap")
		b.now = b.now.Add(time.Second)
		b.plan()
	}
	if got := b.shares("us")["out"]; got < 0.1 || got > 0.6 {
		t.Errorf("without room at home it gets %v", got)
	}
	for _, r := range b.reasons {
		if strings.Contains(r, "no fresh report") {
			t.Errorf("held: %s", r)
		}
	}
	if covered := Covered(b.written, b.signals.Snapshot(b.now), b.table); covered < 0.999 {
		t.Errorf("only %v is covered", covered)
	}
}

func TestAProviderCostsItsTokens(t *testing.T) {
	b := newBench(t)
	b.write("Model", "n", "outputWeight: 2")
	b.write("Cluster", "out", "region: us\n  type: provider\n  models: [m, n]\n  url: https://api.example")
	b.write("RateCard", "a", "models: [{model: m, inputPerMTok: 1, outputPerMTok: 3}, {model: n, inputPerMTok: 1, outputPerMTok: 3}]")
	w := survey(Input{Resources: b.written})
	i := slices.IndexFunc(w.sites, func(s *site) bool { return s.id == "out" })
	for model, want := range map[fleet.ModelID]costmodel.Micros{"m": costmodel.Dollar, "n": 3 * costmodel.Dollar / 2, "o": 0} {
		if got := w.marginal(w.sites[i], model); got != want {
			t.Errorf("a million work units of %s cost %s, want %s", model, got, want)
		}
	}
}

// Where money counts, a fleet that costs nothing at the margin goes before a provider.
func TestCostKeepsTrafficFromAProvider(t *testing.T) {
	for name, card := range map[string]string{
		"its price is known":         "models: [{model: m, inputPerMTok: 1, outputPerMTok: 3}]",
		"that of its GPUs alone is":  "gpus: [{class: h100, region: us, purchase: on-demand, usdPerHour: 3}]",
		"another model's price only": "models: [{model: n, inputPerMTok: 1, outputPerMTok: 3}]",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write("TrafficPolicy", "p", "costPreference: 1")
			b.write("Cluster", "out", "region: us\n  type: provider\n  models: [m]\n  url: https://api.example\n  priorWork: 100000")
			b.write("RateCard", "a", card)
			b.ask("us", 8000)
			b.report()
			b.plan()
			if got := b.shares("us")["out"]; got > 0 {
				t.Errorf("the provider gets %v", got)
			}
		})
	}
}

// Every router reaches a provider, or a region as a whole, by itself: what the most of them find
// counts, wherever they are.
func TestEvidenceOfWhatAllReachThemselves(t *testing.T) {
	b := newBench(t)
	b.write("Region", "xx", "peerURLs: [https://xx:1]")
	b.write("Cluster", "out", "region: xx\n  type: provider\n  models: [m]\n  url: https://api.example")
	b.write("Cluster", "sa", "region: xx\n  type: router\n  models: [m]")
	b.write("Cluster", "gw", "region: xx\n  type: gateway\n  models: [m]\n  url: http://gw\n  metricsURL: http://gw/m")
	signals := func(ejected bool) (out []*routerpb.ClusterSignal) {
		for _, c := range []string{"out", "sa", "gw"} {
			out = append(out, &routerpb.ClusterSignal{Cluster: c, Model: "m", AgeMs: -1, Requests: 5, Ejected: ejected})
		}
		return out
	}
	b.hear("r-us", "us", time.Second, 5, signals(true)...)
	b.hear("r-eu", "eu", time.Second, 5, signals(false)...)
	b.hear("r-ap", "ap", time.Second, 5, signals(true)...)
	evidence := Evidence(b.written, b.signals.Snapshot(b.now))
	for id, own := range map[string]bool{"out": true, "sa": true, "gw": false} {
		if len(evidence[at(id)].Sights) != 3 {
			t.Fatalf("%s has %d sights", id, len(evidence[at(id)].Sights))
		}
		for _, s := range evidence[at(id)].Sights {
			if s.Own != own || s.Scraped {
				t.Errorf("%s as %s sees it: %+v", id, s.Router, s)
			}
		}
	}
}
