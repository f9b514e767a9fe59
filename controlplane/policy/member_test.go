package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Each type of cluster has its fields, and is told of those that belong to others.
func TestFieldsBelongToTypes(t *testing.T) {
	fields := map[string]string{
		"endpoints":  "endpoints: [{id: e, url: 'https://e', class: x}]",
		"discovery":  "discovery: {kind: dns, name: pool, scheme: https}",
		"url":        "url: 'https://a'",
		"gatewayURL": "gatewayURL: 'https://a'",
		"metricsURL": "metricsURL: 'https://a/m'",
		"modelNames": "modelNames: {m: n}",
		"auth":       "auth: {env: X}",
		"gpus":       "gpus: [{class: x, count: 1}]",
		"priorWork":  "priorWork: 7",
		"drained":    "drained: true",
	}
	tests := []struct {
		kind  string
		needs []string // one list of fields that makes it whole
		may   []string
	}{
		{"endpoints", []string{"endpoints"}, []string{"discovery", "modelNames", "auth", "gpus", "priorWork", "drained"}},
		{"endpoints", []string{"discovery"}, []string{"endpoints", "modelNames", "auth", "gpus", "priorWork", "drained"}},
		{"gateway", []string{"url", "metricsURL"}, []string{"gatewayURL", "modelNames", "auth", "gpus", "priorWork", "drained"}},
		{"gateway", []string{"gatewayURL", "metricsURL"}, []string{"url", "modelNames", "auth", "gpus", "priorWork", "drained"}},
		{"provider", []string{"url"}, []string{"modelNames", "auth", "priorWork", "drained"}},
		{"router", nil, []string{"gpus", "priorWork", "drained"}},
	}
	for _, tt := range tests {
		t.Run(tt.kind+" by "+strings.Join(tt.needs, " "), func(t *testing.T) {
			doc := func(names ...string) string {
				spec := "region: us, models: [m], type: " + tt.kind
				for _, n := range names {
					spec += ", " + fields[n]
				}
				return "Cluster c {" + spec + "}"
			}
			if got := fieldsOf(t, doc(tt.needs...)); len(got) > 0 {
				t.Fatalf("incomplete: %q", got)
			}
			for i, n := range tt.needs {
				if got := fieldsOf(t, doc(slices.Delete(slices.Clone(tt.needs), i, i+1)...)); len(got) == 0 {
					t.Errorf("whole without %s", n)
				}
			}
			for n := range fields {
				if slices.Contains(tt.needs, n) {
					continue
				}
				got := fieldsOf(t, doc(append(slices.Clone(tt.needs), n)...))
				if may := slices.Contains(tt.may, n); may != (len(got) == 0) || !may && !slices.Equal(got, []string{"spec." + n}) {
					t.Errorf("with %s: %q", n, got)
				}
			}
		})
	}
}

func TestDiscoveryByKind(t *testing.T) {
	tests := []struct{ spec, want string }{
		{"{kind: dns, name: pool.serving.svc.cluster.local}", ""},
		{"{kind: dns, name: pool., port: 80, class: h100}", ""},
		{"{kind: srv, name: _http._tcp.pool.example.com}", ""},
		{"{kind: srv, name: pool, port: 80}", "spec.discovery.port"},
		{"{kind: file, name: /etc/anabranch/endpoints.yaml}", ""},
		{"{kind: file, name: endpoints.yaml}", "spec.discovery.name"},
		{"{kind: file, name: " + "/" + strings.Repeat("x", maxPath) + "}", "spec.discovery.name"},
		{"{kind: endpointslices, name: pool, namespace: serving}", ""},
		{"{kind: endpointslices, name: pool}", "spec.discovery.namespace"},
		{"{kind: inferencepool, name: pool, namespace: serving}", ""},
		{"{kind: inferencepool, name: Pool, namespace: serving}", "spec.discovery.name"},
		{"{kind: dns, name: pool, namespace: serving}", "spec.discovery.namespace"},
		{"{kind: dns}", "spec.discovery.name"},
		{"{kind: dns, name: 'http://pool'}", "spec.discovery.name"},
		{"{kind: dns, name: " + strings.Repeat("x", 254) + "}", "spec.discovery.name"},
		{"{name: pool}", "spec.discovery.kind"},
		{"{kind: dns, name: pool, scheme: h2c}", "spec.discovery.scheme"},
		{"{kind: dns, name: pool, class: H100}", "spec.discovery.class"},
	}
	for _, tt := range tests {
		got := strings.Join(fieldsOf(t, "Cluster c {region: us, models: [m], discovery: "+tt.spec+"}"), " ")
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.spec, got, tt.want)
		}
	}
}

func TestAddressesOfEvents(t *testing.T) {
	for url, ok := range map[string]bool{
		"tcp://10.0.0.7:5557": true, "tcp://[::1]:5557": true, "tcp://pod.svc:1": true,
		"tcp://10.0.0.7": false, "tcp://:5557": false, "ipc:///tmp/x": false, "10.0.0.7:5557": false, "tcp://x:1/y": false, "tcp://u@x:1": false,
	} {
		got := fieldsOf(t, fmt.Sprintf("Cluster c {region: us, models: [m], endpoints: [{id: e, url: 'http://e', class: x, kvEventsURL: '%s'}]}", url))
		if (len(got) == 0) != ok || !ok && got[0] != "spec.endpoints[0].kvEventsURL" {
			t.Errorf("%s: %q", url, got)
		}
	}
}

// A client certificate is shown over TLS only, so every address has to have it.
func TestCertificatesNeedTLS(t *testing.T) {
	const auth = ", auth: {type: mtls, certFile: /c, keyFile: /k}}"
	for spec, want := range map[string]string{
		"endpoints: [{id: a, url: 'https://a', class: x}, {id: b, url: 'http://b', class: x}]": "spec.endpoints[1].url",
		"endpoints: [{id: a, url: 'https://a', class: x}], discovery: {kind: dns, name: pool}": "spec.discovery.scheme",
		"type: gateway, gatewayURL: 'http://g', metricsURL: 'http://g/m'":                      "spec.gatewayURL",
		"type: gateway, url: 'https://g', metricsURL: 'http://g/m'":                            "",
		"type: provider, url: 'HTTP://p'":                                                      "spec.url",
		"type: provider, url: 'http://p'":                                                      "spec.url",
		"type: provider, url: 'https://p'":                                                     "",
	} {
		if got := strings.Join(fieldsOf(t, "Cluster c {region: us, models: [m], "+spec+auth), " "); got != want {
			t.Errorf("%s: %q, want %q", spec, got, want)
		}
	}
}

func TestSecretsAreNotMatched(t *testing.T) {
	for name, ok := range map[string]bool{
		"x-team": true, "User-Agent": true, "x-api-key-id": true,
		"Authorization": false, "cookie": false, "X-API-Key": false, "api-key": false, "Proxy-Authorization": false, "host": false,
		"": false, "x team": false, "x:y": false, strings.Repeat("x", maxHeaderBytes+1): false,
	} {
		var f finding
		f.header("h", &HeaderSpec{Name: name, Type: HeaderPresent}, map[string]bool{})
		if (len(f.problems) == 0) != ok {
			t.Errorf("%q: %v", name, f.problems)
		}
		for _, p := range f.problems {
			if p.Field != "h.name" || p.Fix == "" {
				t.Errorf("%q: %+v", name, p)
			}
		}
	}
}

func TestListsAreBounded(t *testing.T) {
	s := resource(t, "TrafficPolicy p {}").Spec.(*TrafficPolicySpec)
	for range maxMatches + 1 {
		s.Match = append(s.Match, MatchSpec{Paths: []string{"/v1/x"}})
	}
	for i := range maxOfMatch + 1 {
		s.Match[0].Tenants = append(s.Match[0].Tenants, fmt.Sprint("t", i))
	}
	for i := range maxArms + 1 {
		s.Split = append(s.Split, ArmSpec{Name: fmt.Sprint("a", i), Weight: 1})
	}
	var f finding
	f.traffic(s)
	var got []string
	for _, p := range f.problems {
		got = append(got, p.Field)
	}
	if want := []string{"spec.match", "spec.match[0].tenants", "spec.split"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The order of policies is one: every two have a place, whichever is asked first, and it holds along a
// chain.
func TestTheOrderOfPoliciesIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) *Resource {
			s := &TrafficPolicySpec{Priority: rapid.IntRange(-1, 1).Draw(t, label+" priority")}
			if rapid.Bool().Draw(t, label+" match") {
				s.Match = []MatchSpec{{Paths: []string{"/"}}}
			}
			if rapid.Bool().Draw(t, label+" models") {
				s.Models = []string{"m"}
			}
			return &Resource{Spec: s, Metadata: Metadata{Name: rapid.StringMatching("[ab]{1,2}").Draw(t, label)}}
		}
		a, b, c := draw("a"), draw("b"), draw("c")
		ab, ba, bc, ac := CompareTraffic(a, b), CompareTraffic(b, a), CompareTraffic(b, c), CompareTraffic(a, c)
		if ab != -ba || CompareTraffic(a, a) != 0 || ab == 0 && a.Metadata.Name != b.Metadata.Name {
			t.Fatalf("a to b %d, b to a %d", ab, ba)
		}
		if ab < 0 && bc < 0 && ac >= 0 {
			t.Fatalf("a before b before c, and a to c %d", ac)
		}
	})
}
