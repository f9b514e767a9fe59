package policy

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTheOrderOfPolicies(t *testing.T) {
	var s shelf
	for _, d := range []string{
		"TrafficPolicy a-general {}",
		"TrafficPolicy b-models {models: [m]}",
		"TrafficPolicy c-match {match: [{paths: [/v1/x]}]}",
		"TrafficPolicy d-match {models: [m], match: [{paths: [/v1/x]}]}",
		"TrafficPolicy e-low {priority: -1, match: [{paths: [/v1/x]}]}",
		"TrafficPolicy f-high {priority: 1}",
	} {
		s = append(s, resource(t, d))
	}
	slices.SortFunc(s, CompareTraffic)
	var got []string
	for _, r := range s {
		got = append(got, r.Metadata.Name)
	}
	if want := "f-high c-match d-match b-models a-general e-low"; strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
	}
	if CompareTraffic(s[0], resource(t, "Tenant t {}")) != 0 {
		t.Error("a tenant has a place among policies")
	}
}

func TestWhatAPolicyAsksFor(t *testing.T) {
	tests := []struct{ doc, of, want string }{
		{"{}", "m", "m"},
		{"{rewrite: {model: n}}", "m", "n"},
		{"{split: [{name: a, weight: 1}, {name: b, weight: 1, model: c}]}", "m", "m c"},
		{"{rewrite: {model: n}, split: [{name: a, weight: 1}, {name: b, weight: 1, model: c}]}", "m", "n c"},
		{"{shadow: {percent: 1, model: c}}", "m", "m"},
	}
	for _, tt := range tests {
		s := resource(t, "TrafficPolicy p "+tt.doc).Spec.(*TrafficPolicySpec)
		if got := strings.Join(s.Wanted(tt.of), " "); got != tt.want {
			t.Errorf("%s asks for %q, want %q", tt.doc, got, tt.want)
		}
	}
}

func TestHedgingIsOnWhereItIsNamed(t *testing.T) {
	for doc, want := range map[string]bool{"{}": false, "{hedge: {}}": true, "{hedge: {enabled: false}}": false, "{hedge: {afterMs: 5}}": true} {
		if got := resource(t, "TrafficPolicy p "+doc).Spec.(*TrafficPolicySpec).Hedge.On(); got != want {
			t.Errorf("%s: %v", doc, got)
		}
	}
}

func TestWhereAGatewayIs(t *testing.T) {
	for want, spec := range map[string]*ClusterSpec{
		"http://a": {URL: "http://a"},
		"http://b": {GatewayURL: "http://b"},
		"":         {},
	} {
		if got := spec.Target(); got != want {
			t.Errorf("%+v is at %q, want %q", spec, got, want)
		}
	}
}

func TestShadowsGoElsewhere(t *testing.T) {
	tests := []struct{ doc, want string }{
		{"{shadow: {percent: 1, model: n}}", ""},
		{"{shadow: {percent: 1, clusters: [a]}}", ""},
		{"{clusters: [a, b], shadow: {percent: 1, clusters: [a]}}", ""},
		{"{models: [m], shadow: {percent: 1, model: m, clusters: [a]}}", ""},
		{"{models: [m], rewrite: {model: n}, shadow: {percent: 1, model: m}}", ""},
		{"{shadow: {percent: 1}}", "spec.shadow"},
		{"{clusters: [a, b], shadow: {percent: 1, clusters: [b, a]}}", "spec.shadow"},
		{"{models: [m], shadow: {percent: 1, model: m}}", "spec.shadow.model"},
		{"{models: [l, m], shadow: {percent: 1, model: m}}", "spec.shadow.model"},
		{"{rewrite: {model: n}, shadow: {percent: 1, model: n}}", "spec.shadow.model"},
		{"{split: [{name: a, weight: 1}, {name: b, weight: 1, model: n}], shadow: {percent: 1, model: n}}", "spec.shadow.model"},
	}
	for _, tt := range tests {
		got := strings.Join(fieldsOf(t, "TrafficPolicy p "+tt.doc), " ")
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.doc, got, tt.want)
		}
	}
}

func TestPaths(t *testing.T) {
	for path, ok := range map[string]bool{
		"/v1/chat/completions": true, "/*": true, "/v1/x*": true, "/v1/%20~": true,
		"": false, "v1": false, "*": false, "/v1/*/x": false, "/v1?x": false, "/a b": false, "/v1#x": false,
		"/" + strings.Repeat("x", maxPathBytes): false,
	} {
		var f finding
		f.match("m", &MatchSpec{Paths: []string{path}})
		if (len(f.problems) == 0) != ok {
			t.Errorf("%q: %v", path, f.problems)
		}
	}
}

func TestWhichPoliciesHideOthers(t *testing.T) {
	tests := []struct {
		name, a, b string
		want       bool // a speaks of all that b does
	}{
		{"all of all", "{}", "{}", true},
		{"all of a model", "{}", "{models: [m]}", true},
		{"a model of all", "{models: [m]}", "{}", false},
		{"more models", "{models: [m, n]}", "{models: [n]}", true},
		{"fewer models", "{models: [n]}", "{models: [m, n]}", false},
		{"all of a match", "{}", "{match: [{paths: [/v1/x]}]}", true},
		{"a match of all", "{match: [{paths: [/v1/x]}]}", "{}", false},
		{"more tenants", "{match: [{tenants: [a, b]}]}", "{match: [{tenants: [a], paths: [/v1/x]}]}", true},
		{"other tenants", "{match: [{tenants: [a, b]}]}", "{match: [{tenants: [a, c]}]}", false},
		{"tenants of a path", "{match: [{tenants: [a]}]}", "{match: [{paths: [/v1/x]}]}", false},
		{"a prefix of a path", "{match: [{paths: ['/v1/*']}]}", "{match: [{paths: [/v1/x, '/v1/y*']}]}", true},
		{"a path of a prefix", "{match: [{paths: [/v1/x]}]}", "{match: [{paths: ['/v1/x*']}]}", false},
		{"the same path", "{match: [{paths: [/v1/x]}]}", "{match: [{paths: [/v1/x]}]}", true},
		{"two matches of two", "{match: [{tenants: [a]}, {tenants: [b]}]}", "{match: [{tenants: [b]}, {tenants: [a]}]}", true},
		{"one match of two", "{match: [{tenants: [a]}]}", "{match: [{tenants: [b]}, {tenants: [a]}]}", false},
		{"presence of a value", "{match: [{headers: [{name: X-A, type: present}]}]}", "{match: [{headers: [{name: x-a, value: v}, {name: x-b, value: w}]}]}", true},
		{"a value of presence", "{match: [{headers: [{name: x-a, value: v}]}]}", "{match: [{headers: [{name: x-a, type: present}]}]}", false},
		{"a prefix of a value", "{match: [{headers: [{name: x-a, value: v, type: prefix}]}]}", "{match: [{headers: [{name: x-a, value: vw}]}]}", true},
		{"a prefix of a prefix", "{match: [{headers: [{name: x-a, value: v, type: prefix}]}]}", "{match: [{headers: [{name: x-a, value: vw, type: prefix}]}]}", true},
		{"a prefix of presence", "{match: [{headers: [{name: x-a, value: v, type: prefix}]}]}", "{match: [{headers: [{name: x-a, type: present}]}]}", false},
		{"one header of two", "{match: [{headers: [{name: x-a, value: v}, {name: x-b, value: w}]}]}", "{match: [{headers: [{name: x-a, value: v}]}]}", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := resource(t, "TrafficPolicy a "+tt.a).Spec.(*TrafficPolicySpec)
			b := resource(t, "TrafficPolicy b "+tt.b).Spec.(*TrafficPolicySpec)
			if got := covers(a, b); got != tt.want {
				t.Errorf("%v", got)
			}
		})
	}
}

// request is one request as matches see it.
type request struct {
	model, tenant, path string
	header              map[string]string
}

// fits is what a router does, written down once more and plainly.
func (q request) fits(s *TrafficPolicySpec) bool {
	if len(s.Models) > 0 && !slices.Contains(s.Models, q.model) {
		return false
	}
	match := func(m MatchSpec) bool {
		path := func(p string) bool {
			prefix, ok := strings.CutSuffix(p, "*")
			return p == q.path || ok && strings.HasPrefix(q.path, prefix)
		}
		header := func(h HeaderSpec) bool {
			v, ok := q.header[strings.ToLower(h.Name)]
			return ok && (h.Type == HeaderPresent || h.Type == HeaderPrefix && strings.HasPrefix(v, h.Value) || h.Type == HeaderExact && v == h.Value)
		}
		return (len(m.Tenants) == 0 || slices.Contains(m.Tenants, q.tenant)) &&
			(len(m.Paths) == 0 || slices.ContainsFunc(m.Paths, path)) && all(m.Headers, header)
	}
	return len(s.Match) == 0 || slices.ContainsFunc(s.Match, match)
}

// Whatever a policy is said to hide, it does: there is no request that only the other speaks of.
func TestWhatIsHiddenIsUnreachable(t *testing.T) {
	words := func(t *rapid.T, label string, of ...string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 0, 2, rapid.ID[string]).Draw(t, label)
	}
	draw := func(t *rapid.T, label string) *TrafficPolicySpec {
		s := &TrafficPolicySpec{Models: words(t, label+" models", "m", "n")}
		for range rapid.IntRange(0, 2).Draw(t, label+" matches") {
			m := MatchSpec{Tenants: words(t, label+" tenants", "a", "b"), Paths: words(t, label+" paths", "/x", "/x*", "/xy", "/*")}
			for _, name := range words(t, label+" headers", "h", "i") {
				m.Headers = append(m.Headers, HeaderSpec{
					Name: name, Value: rapid.SampledFrom([]string{"v", "vw"}).Draw(t, "value"),
					Type: rapid.SampledFrom([]string{HeaderExact, HeaderPrefix, HeaderPresent}).Draw(t, "type"),
				})
			}
			s.Match = append(s.Match, m)
		}
		return s
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw(t, "a"), draw(t, "b")
		if !covers(a, b) {
			return
		}
		for range 20 {
			q := request{
				model: rapid.SampledFrom([]string{"m", "n"}).Draw(t, "model"), tenant: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tenant"),
				path: rapid.SampledFrom([]string{"/x", "/xy", "/z"}).Draw(t, "path"), header: map[string]string{},
			}
			for _, name := range words(t, "headers", "h", "i") {
				q.header[name] = rapid.SampledFrom([]string{"v", "vw", "w"}).Draw(t, "value")
			}
			if q.fits(b) && !q.fits(a) {
				t.Fatalf("%+v fits %+v, and not %+v", q, b, a)
			}
		}
	})
}
