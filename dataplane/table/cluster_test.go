package table

import (
	"strings"
	"testing"

	"anabranch/api/routerpb"
)

// members is the good table with a member of each kind and all that they may say.
func members() *routerpb.Table {
	pb := good()
	pb.Clusters = append(pb.Clusters,
		&routerpb.Cluster{
			Id: "out", Region: "us-east-1", Kind: "provider", Models: []string{"llama"}, HealthCap: 1, GatewayUrl: "https://api.example/", MetricsUrl: "not looked at",
			ModelNames: map[string]string{"llama": "meta/llama"},
			Auth:       []*routerpb.Credential{{Type: "sigv4", File: "/aws", Profile: "p", Region: "us-east-1", Service: "bedrock"}},
		},
		&routerpb.Cluster{Id: "all-eu", Region: "eu-west-1", Kind: "router", Models: []string{"llama"}, HealthCap: 1},
		&routerpb.Cluster{
			Id: "k8s", Region: "us-east-1", Kind: "endpoints", Models: []string{"llama"}, HealthCap: 1,
			Discovery: &routerpb.Discovery{Kind: "inferencepool", Name: "pool", Namespace: "serving", Class: "H100", Scheme: "https"},
			Auth:      []*routerpb.Credential{{Type: "mtls", CertFile: "/c", KeyFile: "/k", CaFile: "/ca"}},
		},
	)
	pb.Clusters[0].Endpoints[0].KvEventsUrl = "tcp://10.0.0.1:5557"
	return pb
}

func TestMembersOfEachKind(t *testing.T) {
	tab := build(t, members())
	out := tab.Clusters["out"]
	if out.GatewayURL != "https://api.example" || out.MetricsURL != "" || out.NameOf("llama") != "meta/llama" || out.NameOf("support-lora") != "support-lora" {
		t.Errorf("provider: %+v", out)
	}
	if *out.Auth != (Credential{Type: AuthSigV4, File: "/aws", Profile: "p", Region: "us-east-1", Service: "bedrock"}) {
		t.Errorf("its credential: %+v", out.Auth)
	}
	if r := tab.Clusters["all-eu"]; r.Kind != KindRouter || r.GatewayURL != "" || len(r.Endpoints) > 0 || r.Auth != nil {
		t.Errorf("router: %+v", r)
	}
	k8s := tab.Clusters["k8s"]
	if *k8s.Discovery != (Discovery{Kind: DiscoverInferencePool, Name: "pool", Namespace: "serving", Port: 8000, Scheme: "https", Class: "h100"}) {
		t.Errorf("discovery: %+v", k8s.Discovery)
	}
	if *k8s.Auth != (Credential{Type: AuthMTLS, CertFile: "/c", KeyFile: "/k", CAFile: "/ca"}) {
		t.Errorf("its credential: %+v", k8s.Auth)
	}
	if e := tab.Clusters["us-a"].Endpoints; e[0].KVEventsURL != "tcp://10.0.0.1:5557" || e[1].KVEventsURL != "" {
		t.Errorf("endpoints: %+v", e)
	}
	if d := tab.Clusters["us-a"].Discovery; d != nil {
		t.Errorf("discovery out of nothing: %+v", d)
	}
}

func TestDiscoverySaysPortAndScheme(t *testing.T) {
	for kind, name := range map[string]string{"dns": "pool.svc", "srv": "_http._tcp.pool.svc", "file": "/etc/endpoints.yaml", "endpointslices": "pool"} {
		pb := members()
		pb.Clusters[4].Discovery = &routerpb.Discovery{Kind: kind, Name: name, Namespace: "x", Port: 9000}
		pb.Clusters[4].Auth = nil
		d := build(t, pb).Clusters["k8s"].Discovery
		if d.Kind != kind || d.Name != name || d.Port != 9000 || d.Scheme != "http" {
			t.Errorf("%s: %+v", kind, d)
		}
	}
}

func TestMembersThatAreRefused(t *testing.T) {
	discovery := func(f func(*routerpb.Discovery)) func(*routerpb.Table) {
		return func(p *routerpb.Table) { f(p.Clusters[4].Discovery) }
	}
	auth := func(cluster int, f func(*routerpb.Credential)) func(*routerpb.Table) {
		return func(p *routerpb.Table) { f(p.Clusters[cluster].Auth[0]) }
	}
	tests := []struct {
		name  string
		spoil func(*routerpb.Table)
		code  string
		field string
	}{
		{"a provider without a URL", func(p *routerpb.Table) { p.Clusters[2].GatewayUrl = "" }, CodeNoTarget, "clusters[2].gateway_url"},
		{"a provider by another scheme", func(p *routerpb.Table) { p.Clusters[2].GatewayUrl = "ftp://x" }, CodeValue, "clusters[2].gateway_url"},
		{"a model called nothing", func(p *routerpb.Table) { p.Clusters[2].ModelNames["llama"] = "" }, CodeValue, "clusters[2].model_names"},
		{"nothing called something", func(p *routerpb.Table) { p.Clusters[2].ModelNames[""] = "x" }, CodeValue, "clusters[2].model_names"},
		{"a model of a very long name", func(p *routerpb.Table) { p.Clusters[2].ModelNames["llama"] = strings.Repeat("x", 257) }, CodeValue, "clusters[2].model_names"},

		{"no endpoints and nothing to find them", func(p *routerpb.Table) { p.Clusters[4].Discovery = nil }, CodeNoTarget, "clusters[4].endpoints"},
		{"discovery of no kind", discovery(func(d *routerpb.Discovery) { d.Kind = "" }), CodeValue, "clusters[4].discovery.kind"},
		{"discovery of an unknown kind", discovery(func(d *routerpb.Discovery) { d.Kind = "consul" }), CodeValue, "clusters[4].discovery.kind"},
		{"discovery of nothing", discovery(func(d *routerpb.Discovery) { d.Name = "" }), CodeValue, "clusters[4].discovery.name"},
		{"discovery in no namespace", discovery(func(d *routerpb.Discovery) { d.Namespace = "" }), CodeValue, "clusters[4].discovery.namespace"},
		{"discovery of a high port", discovery(func(d *routerpb.Discovery) { d.Port = 65536 }), CodeValue, "clusters[4].discovery.port"},
		{"discovery of a port beyond all bounds", discovery(func(d *routerpb.Discovery) { d.Port = 1<<32 - 1 }), CodeValue, "clusters[4].discovery.port"},
		{"discovery by another scheme", discovery(func(d *routerpb.Discovery) { d.Scheme = "h2c" }), CodeValue, "clusters[4].discovery.scheme"},
		{"discovery in a file somewhere", discovery(func(d *routerpb.Discovery) { d.Kind, d.Name = "file", "endpoints.yaml" }), CodeValue, "clusters[4].discovery.name"},

		{"events over HTTP", func(p *routerpb.Table) { p.Clusters[0].Endpoints[1].KvEventsUrl = "http://x:1" }, CodeValue, "clusters[0].endpoints[1].kv_events_url"},
		{"events without a port", func(p *routerpb.Table) { p.Clusters[0].Endpoints[1].KvEventsUrl = "tcp://x" }, CodeValue, "clusters[0].endpoints[1].kv_events_url"},
		{"events at a path", func(p *routerpb.Table) { p.Clusters[0].Endpoints[1].KvEventsUrl = "tcp://x:1/y" }, CodeValue, "clusters[0].endpoints[1].kv_events_url"},

		{"a signature without a region", auth(2, func(c *routerpb.Credential) { c.Region = "" }), CodeValue, "clusters[2].auth[0]"},
		{"a signature without a service", auth(2, func(c *routerpb.Credential) { c.Service = "" }), CodeValue, "clusters[2].auth[0]"},
		{"a signature by two keys", auth(2, func(c *routerpb.Credential) { c.Env = "AWS" }), CodeValue, "clusters[2].auth[0]"},
		{"a certificate without a key", auth(4, func(c *routerpb.Credential) { c.KeyFile = "" }), CodeValue, "clusters[4].auth[0]"},
		{"a key without a certificate", auth(4, func(c *routerpb.Credential) { c.CertFile = "" }), CodeValue, "clusters[4].auth[0]"},
		{"a certificate for what is found in the clear", discovery(func(d *routerpb.Discovery) { d.Scheme = "http" }), CodeValue, "clusters[4].auth[0].type"},
		{"a certificate for an endpoint in the clear", func(p *routerpb.Table) {
			p.Clusters[4].Endpoints = []*routerpb.Endpoint{{Id: "e", Url: "http://x"}}
		}, CodeValue, "clusters[4].auth[0].type"},
		{"a certificate for an endpoint in the clear, in capitals", func(p *routerpb.Table) {
			p.Clusters[4].Endpoints = []*routerpb.Endpoint{{Id: "e", Url: "HTTP://x"}}
		}, CodeValue, "clusters[4].auth[0].type"},
		{"a certificate for a gateway in the clear", func(p *routerpb.Table) {
			p.Clusters[1].GatewayUrl, p.Clusters[1].Auth = "http://x", []*routerpb.Credential{{Type: "mtls", CertFile: "/c", KeyFile: "/k"}}
		}, CodeValue, "clusters[1].auth[0].type"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { refused(t, members(), tt.spoil, tt.code, tt.field) })
	}
}
