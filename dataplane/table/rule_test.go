package table

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// ruled is the good table with rules over all that rules can say.
func ruled() *routerpb.Table {
	pb := good()
	pb.Classes = append(pb.Classes, &routerpb.Class{Id: "canary", Policy: "canary", Models: []string{"llama", "big"}, TtftObjectiveMs: 300})
	pb.Rules = []*routerpb.Rule{
		{
			Id: "canary", Models: []string{"llama"}, Class: "canary", Model: "support-lora", Clusters: []string{"us-a", "eu-g"}, Residency: []string{"us", "eu-west-1"},
			Match: []*routerpb.Match{
				{
					Tenants: []string{"acme", "ghost"}, Paths: []string{"/v1/chat/completions", "/v1/resp*"},
					Headers: []*routerpb.HeaderMatch{{Name: "x-team", Value: "search"}, {Name: "USER-AGENT", Value: "curl/", Type: "prefix"}},
				},
				{Headers: []*routerpb.HeaderMatch{{Name: "x-canary", Type: "present"}}},
			},
			Arms:   []*routerpb.Arm{{Id: "stable", Weight: 3}, {Id: "new", Weight: 1, Model: "big", Clusters: []string{"eu-g"}}, {Id: "off"}},
			Shadow: &routerpb.Shadow{Share: 0.25, Model: "big", Clusters: []string{"eu-g"}},
		},
		{Id: "batch", Class: "interactive", Match: []*routerpb.Match{{Tenants: []string{"initech"}}}},
		{Id: "small", Models: []string{"llama"}, Class: "bulk"},
		{Id: "all", Class: "interactive"},
		{Id: "never", Class: "interactive"},
	}
	return pb
}

func TestTheFirstRuleThatFitsCounts(t *testing.T) {
	tab := build(t, ruled())
	const chat = "/v1/chat/completions"
	header := func(pairs ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Add(pairs[i], pairs[i+1])
		}
		return h
	}
	team := header("X-Team", "search", "User-Agent", "curl/8.1")
	tests := []struct {
		name          string
		model, tenant string
		path          string
		header        http.Header
		want          string
	}{
		{"all of a match", "llama", "acme", chat, team, "canary"},
		{"a path by prefix", "llama", "acme", "/v1/responses", team, "canary"},
		{"another path", "llama", "acme", "/v1/chat/completions/x", team, "small"},
		{"another tenant", "llama", "globex", chat, team, "small"},
		{"no tenant", "llama", "", chat, team, "small"},
		{"another model", "big", "acme", chat, team, "all"},
		{"another value", "llama", "acme", chat, header("X-Team", "Search", "User-Agent", "curl/8.1"), "small"},
		{"one of two values", "llama", "acme", chat, header("X-Team", "ads", "X-Team", "search", "User-Agent", "curl/8.1"), "canary"},
		{"one header of two", "llama", "acme", chat, header("X-Team", "search"), "small"},
		{"the other match", "llama", "nobody", "/v1/x", header("X-Canary", ""), "canary"},
		{"no header at all", "llama", "acme", chat, nil, "small"},
		{"a rule for all models before one for the model", "llama", "initech", chat, nil, "batch"},
		{"and of any other model", "big", "initech", chat, nil, "batch"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			model, _, _ := tab.Model(tt.model)
			var tenant *Tenant
			if tt.tenant != "" {
				tenant = &Tenant{ID: fleet.TenantID(tt.tenant)}
			}
			got := tab.Rule(model, tenant, tt.path, tt.header)
			if got == nil || got.Policy != tt.want {
				t.Errorf("got %+v, want %s", got, tt.want)
			}
		})
	}
}

func TestNoRuleFits(t *testing.T) {
	pb := ruled()
	pb.Rules = pb.Rules[:2]
	tab := build(t, pb)
	big, _, _ := tab.Model("big")
	if r := tab.Rule(big, nil, "/v1/x", nil); r != nil {
		t.Errorf("got %+v", r)
	}
	pb.Rules = nil
	if r := build(t, pb).Rule(big, nil, "/v1/x", nil); r != nil {
		t.Errorf("a table without rules has %+v", r)
	}
}

func TestWhatARuleSays(t *testing.T) {
	tab := build(t, ruled())
	r := tab.RuleOf("canary")
	if r == nil || tab.RuleOf("nothing") != nil {
		t.Fatalf("rules by policy: %v, %v", r, tab.RuleOf("nothing"))
	}
	if r.Match[0].Headers[1] != (HeaderMatch{"User-Agent", "curl/", HeaderPrefix}) || r.Match[0].Headers[0].Type != HeaderExact {
		t.Errorf("headers: %+v", r.Match[0].Headers)
	}
	if got := []float64{r.Arms[0].Share, r.Arms[1].Share, r.Arms[2].Share}; !slices.Equal(got, []float64{0.75, 0.25, 0}) {
		t.Errorf("shares of arms: %v", got)
	}
	if s := r.Shadow; s == nil || s.Share != 0.25 || s.Model != "big" || !slices.Equal(s.Clusters, []fleet.ClusterID{"eu-g"}) {
		t.Errorf("shadow: %+v", s)
	}
	var order []string
	for _, r := range tab.Rules() {
		order = append(order, r.Policy)
	}
	if strings.Join(order, " ") != "canary batch small all never" {
		t.Errorf("order %q", order)
	}
}

func TestWhatAnArmWants(t *testing.T) {
	r := build(t, ruled()).RuleOf("canary")
	both := []fleet.ClusterID{"us-a", "eu-g"}
	tests := []struct {
		arm, model string
		only       []fleet.ClusterID
	}{
		{"", "support-lora", both}, {"stable", "support-lora", both}, {"new", "big", []fleet.ClusterID{"eu-g"}}, {"gone", "support-lora", both},
	}
	for _, tt := range tests {
		model, only := r.Wants(r.Arm(tt.arm))
		if model != tt.model || !slices.Equal(only, tt.only) {
			t.Errorf("arm %q wants %q on %q", tt.arm, model, only)
		}
	}
	var none *Rule
	if model, only := none.Wants(nil); model != "" || only != nil {
		t.Errorf("no rule wants %q on %q", model, only)
	}
}

func TestNoCopiesWithoutAShare(t *testing.T) {
	pb := ruled()
	pb.Rules[0].Shadow.Share = 0
	if s := build(t, pb).RuleOf("canary").Shadow; s != nil {
		t.Errorf("got %+v", s)
	}
}

func TestTheClassOfARequest(t *testing.T) {
	tab := build(t, ruled())
	policyOf := func(c *Class) string { return string(c.ID) + " " + c.Policy }
	if got := policyOf(tab.ClassOf(tab.RuleOf("canary"), "big")); got != "canary canary" {
		t.Errorf("a rule's class, for what it asks for instead: %q", got)
	}
	if got := policyOf(tab.ClassOf(tab.RuleOf("all"), "big")); got != "interactive p-big" {
		t.Errorf("of the policies of a class, the one for the model: %q", got)
	}
	if got := policyOf(tab.ClassOf(nil, "llama")); got != "interactive p-all" {
		t.Errorf("no rule: %q", got)
	}
	if got := policyOf(tab.Class("llama")); got != "bulk p-bulk" {
		t.Errorf("what no match speaks of has the class of the rule without: %q", got)
	}
	if got := policyOf(tab.Class("big")); got != "interactive p-big" {
		t.Errorf("and another model that of another: %q", got)
	}
}

func TestRulesThatAreRefused(t *testing.T) {
	rule := func(f func(*routerpb.Rule)) func(*routerpb.Table) {
		return func(p *routerpb.Table) { f(p.Rules[0]) }
	}
	tests := []struct {
		name  string
		spoil func(*routerpb.Table)
		code  string
		field string
	}{
		{"without a name", rule(func(r *routerpb.Rule) { r.Id = "" }), CodeValue, "rules[0].id"},
		{"twice", func(p *routerpb.Table) { p.Rules[1].Id = "canary" }, CodeDuplicate, "rules[1].id"},
		{"of an unknown model", rule(func(r *routerpb.Rule) { r.Models[0] = "x" }), CodeUnknown, "rules[0].models[0]"},
		{"of an alias", rule(func(r *routerpb.Rule) { r.Models[0] = "gpt-small" }), CodeUnknown, "rules[0].models[0]"},
		{"of an adapter", rule(func(r *routerpb.Rule) { r.Models[0] = "support-lora" }), CodeUnknown, "rules[0].models[0]"},
		{"of a model twice", rule(func(r *routerpb.Rule) { r.Models = []string{"llama", "llama"} }), CodeDuplicate, "rules[0].models[1]"},
		{"without a class", rule(func(r *routerpb.Rule) { r.Class = "" }), CodeValue, "rules[0].class"},
		{"of an unknown class", rule(func(r *routerpb.Rule) { r.Class = "x" }), CodeUnknown, "rules[0].class"},
		{"of a class that is not for all models", func(p *routerpb.Table) { p.Rules[1].Class = "bulk" }, CodeUnknown, "rules[1].class"},
		{"of a class that is not for what an arm asks for", func(p *routerpb.Table) { p.Rules[0].Class = "bulk" }, CodeUnknown, "rules[0].class"},
		{"asking for an unknown model", rule(func(r *routerpb.Rule) { r.Model = "x" }), CodeUnknown, "rules[0].model"},
		{"asking for an alias", rule(func(r *routerpb.Rule) { r.Model = "gpt-small" }), CodeUnknown, "rules[0].model"},
		{"pinned to nothing with a name", rule(func(r *routerpb.Rule) { r.Clusters = []string{""} }), CodeValue, "rules[0].clusters"},
		{"at home in no place with a name", rule(func(r *routerpb.Rule) { r.Residency = []string{""} }), CodeValue, "rules[0].residency"},

		{"matching no tenant with a name", rule(func(r *routerpb.Rule) { r.Match[0].Tenants = []string{""} }), CodeValue, "rules[0].match[0].tenants"},
		{"matching what is no path", rule(func(r *routerpb.Rule) { r.Match[0].Paths[1] = "v1" }), CodeValue, "rules[0].match[0].paths"},
		{"matching no header", rule(func(r *routerpb.Rule) { r.Match[0].Headers[1].Name = "" }), CodeValue, "rules[0].match[0].headers[1].name"},
		{"matching in another way", rule(func(r *routerpb.Rule) { r.Match[1].Headers[0].Type = "suffix" }), CodeValue, "rules[0].match[1].headers[0].type"},

		{"an arm without a name", rule(func(r *routerpb.Rule) { r.Arms[1].Id = "" }), CodeValue, "rules[0].arms[1].id"},
		{"an arm twice", rule(func(r *routerpb.Rule) { r.Arms[1].Id = "stable" }), CodeDuplicate, "rules[0].arms[1].id"},
		{"an arm of negative weight", rule(func(r *routerpb.Rule) { r.Arms[1].Weight = -1 }), CodeValue, "rules[0].arms[1].weight"},
		{"an arm of a weight that is no number", rule(func(r *routerpb.Rule) { r.Arms[0].Weight = math.NaN() }), CodeValue, "rules[0].arms[0].weight"},
		{"arms that weigh nothing", rule(func(r *routerpb.Rule) { r.Arms[0].Weight, r.Arms[1].Weight = 0, 0 }), CodeWeightSum, "rules[0].arms"},
		{"arms that weigh more than numbers hold", rule(func(r *routerpb.Rule) { r.Arms[0].Weight, r.Arms[1].Weight = math.MaxFloat64, math.MaxFloat64 }), CodeWeightSum, "rules[0].arms"},
		{"an arm asking for an unknown model", rule(func(r *routerpb.Rule) { r.Arms[1].Model = "x" }), CodeUnknown, "rules[0].arms[1].model"},
		{"an arm that goes where the rule doesn't", rule(func(r *routerpb.Rule) { r.Clusters = []string{"us-a"} }), CodeWidens, "rules[0].arms[1].clusters"},

		{"more copies than requests", rule(func(r *routerpb.Rule) { r.Shadow.Share = 1.1 }), CodeValue, "rules[0].shadow.share"},
		{"copies of a share that is no number", rule(func(r *routerpb.Rule) { r.Shadow.Share = math.NaN() }), CodeValue, "rules[0].shadow.share"},
		{"copies for an unknown model", rule(func(r *routerpb.Rule) { r.Shadow.Model = "x" }), CodeUnknown, "rules[0].shadow.model"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { refused(t, ruled(), tt.spoil, tt.code, tt.field) })
	}
}

// Names that are not in the table fit nothing: a rule never becomes wider by them.
func TestUnknownNamesNarrow(t *testing.T) {
	pb := ruled()
	pb.Rules[3].Clusters, pb.Rules[3].Residency = []string{"gone"}, []string{"gone"}
	pb.Rules[3].Match = []*routerpb.Match{{Tenants: []string{"gone"}}}
	r := build(t, pb).RuleOf("all")
	if len(r.Clusters) != 1 || len(r.Residency) != 1 || Within(r.Residency, "us-east-1", "us") || r.fits(&Tenant{ID: "acme"}, "/", nil) {
		t.Errorf("got %+v", r)
	}
}

// Rule agrees with a walk through the message in its order.
func TestRuleAgreesWithTheMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pb := drawTable(t)
		drawRules(t, pb)
		tab, err := Build(pb)
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			model := tab.Models()[rapid.IntRange(0, len(pb.Models)-1).Draw(t, "model")]
			tenant := &Tenant{ID: fleet.TenantID(rapid.SampledFrom([]string{"t0", "t1"}).Draw(t, "tenant"))}
			path := rapid.SampledFrom([]string{"/v1/x", "/v1/xy", "/v1/z"}).Draw(t, "path")
			header := http.Header{}
			for _, name := range []string{"X-A", "X-B"} {
				for range rapid.IntRange(0, 2).Draw(t, "values") {
					header.Add(name, rapid.SampledFrom([]string{"", "v", "vw"}).Draw(t, "value"))
				}
			}
			want := ""
			for _, r := range pb.Rules {
				if plainlyFits(r, string(model.ID), string(tenant.ID), path, header) {
					want = r.Id
					break
				}
			}
			got := ""
			if r := tab.Rule(model, tenant, path, header); r != nil {
				got = r.Policy
			}
			if got != want {
				t.Fatalf("%s by %s at %s with %v: %q, want %q of %v", model.ID, tenant.ID, path, header, got, want, pb.Rules)
			}
		}
	})
}

func drawRules(t *rapid.T, pb *routerpb.Table) {
	some := func(label string, of ...string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 0, 2, rapid.ID[string]).Draw(t, label)
	}
	var models []string
	for _, m := range pb.Models {
		models = append(models, m.Id)
	}
	// A rule that fits nothing, many times over, puts the others into different words of sets.
	for i := range rapid.SampledFrom([]int{0, 0, 62, 70}).Draw(t, "others") {
		pb.Rules = append(pb.Rules, &routerpb.Rule{Id: fmt.Sprint("other", i), Class: "interactive", Match: []*routerpb.Match{{
			Tenants: []string{"nobody"}, Headers: []*routerpb.HeaderMatch{{Name: fmt.Sprint("x-", i), Type: "present"}},
		}}})
	}
	for i := range rapid.IntRange(0, 6).Draw(t, "rules") {
		r := &routerpb.Rule{Id: fmt.Sprint("p", i), Class: "interactive", Models: some("models", models...)}
		for range rapid.IntRange(0, 2).Draw(t, "matches") {
			m := &routerpb.Match{Tenants: some("tenants", "t0", "t1"), Paths: some("paths", "/v1/x", "/v1/x*", "/*")}
			for _, name := range some("headers", "x-a", "x-b") {
				m.Headers = append(m.Headers, &routerpb.HeaderMatch{
					Name: name, Value: rapid.SampledFrom([]string{"v", "vw"}).Draw(t, "wanted"),
					Type: rapid.SampledFrom([]string{"", "exact", "prefix", "present"}).Draw(t, "type"),
				})
			}
			r.Match = append(r.Match, m)
		}
		pb.Rules = append(pb.Rules, r)
	}
}

// plainlyFits is what the contract says of matches, word by word.
func plainlyFits(r *routerpb.Rule, model, tenant, path string, header http.Header) bool {
	if len(r.Models) > 0 && !slices.Contains(r.Models, model) {
		return false
	}
	anyMatch := len(r.Match) == 0
	for _, m := range r.Match {
		fits := len(m.Tenants) == 0 || slices.Contains(m.Tenants, tenant)
		anyPath := len(m.Paths) == 0
		for _, p := range m.Paths {
			anyPath = anyPath || p == path || strings.HasSuffix(p, "*") && strings.HasPrefix(path, p[:len(p)-1])
		}
		fits = fits && anyPath
		for _, h := range m.Headers {
			anyValue := false
			for _, v := range header.Values(h.Name) {
				anyValue = anyValue || h.Type == "present" || h.Type == "prefix" && strings.HasPrefix(v, h.Value) || v == h.Value
			}
			fits = fits && anyValue
		}
		anyMatch = anyMatch || fits
	}
	return anyMatch
}

func TestRuleDoesNotAllocate(t *testing.T) {
	tab := build(t, ruled())
	model, _, _ := tab.Model("llama")
	tenant, _ := tab.Tenant("acme")
	header := http.Header{"X-Team": {"search"}, "User-Agent": {"curl/8"}}
	if n := testing.AllocsPerRun(100, func() {
		r := tab.Rule(model, tenant, "/v1/chat/completions", header)
		r.Wants(r.Arm("new"))
		tab.ClassOf(r, "big")
		tab.Class("llama")
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// A hundred rules of which the last fits: the dearest case.
func BenchmarkRule(b *testing.B) {
	for _, kind := range []string{"tenant", "header", "path", "model"} {
		b.Run("rules=100/by="+kind, func(b *testing.B) {
			pb := good()
			for i := range 100 {
				r := &routerpb.Rule{Id: fmt.Sprint("p", i), Class: "interactive"}
				switch kind {
				case "tenant":
					r.Match = []*routerpb.Match{{Tenants: []string{fmt.Sprintf("t-%03d", i), fmt.Sprintf("u-%03d", i)}}}
				case "header":
					r.Match = []*routerpb.Match{{Headers: []*routerpb.HeaderMatch{{Name: "x-team", Value: fmt.Sprintf("team-%03d", i)}}}}
				case "path":
					r.Match = []*routerpb.Match{{Paths: []string{fmt.Sprintf("/v1/p-%03d*", i)}}}
				case "model":
					r.Models = []string{"big"}
				}
				pb.Rules = append(pb.Rules, r)
			}
			pb.Rules = append(pb.Rules, &routerpb.Rule{Id: "all", Class: "interactive"})
			tab, err := Build(pb)
			if err != nil {
				b.Fatal(err)
			}
			model, _, _ := tab.Model("llama")
			tenant := &Tenant{ID: "t-xxx"}
			header := http.Header{"X-Team": {"team-xxx"}, "Content-Type": {"application/json"}, "Authorization": {"Bearer x"}}
			b.ReportAllocs()
			for b.Loop() {
				if tab.Rule(model, tenant, "/v1/chat/completions", header).Policy != "all" {
					b.Fatal("rule")
				}
			}
		})
	}
}
