package access

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"anabranch/controlplane/policy"
)

// document parses "Kind name {spec}"; what its kind knows nothing of is a mistake of the test.
func document(t testing.TB, text string) *policy.Resource {
	t.Helper()
	p := strings.SplitN(text, " ", 3)
	r, problems := policy.Parse([]byte("apiVersion: anabranch/v1\nkind: " + p[0] + "\nmetadata: {name: " + p[1] + "}\nspec: " + p[2]))
	if len(problems) > 0 {
		t.Fatalf("%s: %v", text, problems)
	}
	return r
}

// scope parses "regions eu us; models a".
func scope(text string) Scope {
	var s Scope
	for list := range strings.SplitSeq(text, ";") {
		words := strings.Fields(list)
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "regions":
			s.Regions = words[1:]
		case "tenants":
			s.Tenants = words[1:]
		case "models":
			s.Models = words[1:]
		default:
			panic(text)
		}
	}
	return s
}

// TestWhatIsInScope has a line for each kind and scope; out lists the fields that are out of it.
func TestWhatIsInScope(t *testing.T) {
	const (
		eu       = `Region eu {}`
		cluster  = `Cluster c {region: eu, models: [a, b], endpoints: [{url: "http://10.0.0.1:8000"}]}`
		model    = `Model a {}`
		acme     = `Tenant acme {}`
		quota    = `Quota q {tenant: acme, limits: [{kind: requests, perMinute: 1}]}`
		quotaOfA = `Quota q {tenant: acme, model: a, limits: [{kind: requests, perMinute: 1}]}`
		shared   = `Quota q {organization: acme, model: a, limits: [{kind: requests, perMinute: 1}]}`
		general  = `TrafficPolicy interactive {models: [a]}`
		acmes    = `TrafficPolicy p {models: [a], match: [{tenants: [acme]}]}`
		turned   = `TrafficPolicy p {models: [a], match: [{tenants: [acme]}], rewrite: {model: b}}`
		split    = `TrafficPolicy p {models: [a], match: [{tenants: [acme]}], split: [{name: x, weight: 1, model: b}, {name: y, weight: 1}]}`
		shadowed = `TrafficPolicy p {models: [a], match: [{tenants: [acme]}], shadow: {percent: 1, model: b}}`
		leaky    = `TrafficPolicy p {models: [a], match: [{tenants: [acme]}, {paths: ["/v1/*"]}]}`
		classed  = `TrafficPolicy p {models: [a], class: batch, match: [{tenants: [acme]}]}`
		default_ = `TrafficPolicy interactive {models: [a], match: [{tenants: [acme]}]}`
		cards    = `RateCard r {gpus: [{class: h100, region: eu, usdPerHour: 1}, {class: h100, region: us, usdPerHour: 1}], models: [{model: a, inputPerMTok: 1, outputPerMTok: 1}]}`
		safety   = `SafetyRule s {changeLimit: {maxMovedShare: 0.3}}`
	)
	for _, tt := range []struct {
		scope, doc string
		out        string // fields, in order
	}{
		{"", eu, ""},
		{"", safety, ""},
		{"", general, ""},

		{"regions eu", eu, ""},
		{"regions us", eu, "metadata.name"},
		{"regions us eu; tenants acme", eu, ""},
		{"tenants acme", eu, "metadata.name"},
		{"models a", eu, "metadata.name"},

		{"regions eu", cluster, ""},
		{"regions us", cluster, "spec.region"},
		{"models a b", cluster, ""},
		{"models a", cluster, "spec.models[1]"},
		{"regions us; models b", cluster, "spec.region spec.models[0]"},
		{"tenants acme", cluster, "spec"},

		{"models a", model, ""},
		{"models b", model, "metadata.name"},
		{"regions eu", model, "metadata.name"},

		{"tenants acme", acme, ""},
		{"tenants other", acme, "metadata.name"},
		{"regions eu", acme, "metadata.name"},
		{"regions eu; tenants acme", acme, ""},

		{"tenants acme", quota, ""},
		{"tenants other", quota, "spec.tenant"},
		{"tenants acme; models a", quota, "spec.model"},
		{"tenants acme; models a", quotaOfA, ""},
		{"models b", quotaOfA, "spec.model"},
		{"regions eu", quota, "spec"},
		{"tenants acme", shared, "spec.organization"},
		{"models a", shared, ""},

		{"models a", general, ""},
		{"models b", general, "spec.models[0]"},
		{"tenants acme", general, "spec.match"},
		{"regions eu", general, "spec"},
		{"tenants acme", acmes, ""},
		{"tenants acme; models a", acmes, ""},
		{"tenants other", acmes, "spec.match[0].tenants[0]"},
		{"regions eu; tenants acme", acmes, "spec"},
		{"tenants acme; models a", turned, "spec.rewrite.model"},
		{"tenants acme; models a b", turned, ""},
		{"tenants acme; models a", split, "spec.split[0].model"},
		{"tenants acme; models a", shadowed, "spec.shadow.model"},
		{"tenants acme", leaky, "spec.match[1].tenants"},
		{"tenants acme", classed, "spec.class"},
		{"models a", classed, ""},
		{"tenants acme", default_, "spec.class"},
		{"models a", `TrafficPolicy p {match: [{tenants: [acme]}]}`, "spec.models"},

		{"regions eu us", cards, "spec.models[0]"},
		{"models a", cards, "spec.gpus[0] spec.gpus[1]"},
		{"regions eu; models a", cards, "spec.gpus[1].region"},
		{"regions eu us; models a", cards, ""},
		{"tenants acme", cards, "spec.gpus[0] spec.gpus[1] spec.models[0]"},
		{"regions eu", `RateCard r {}`, "spec"},

		{"regions eu; tenants acme; models a", safety, "spec"},
	} {
		t.Run(tt.scope+"/"+tt.doc, func(t *testing.T) {
			doc, s := document(t, tt.doc), scope(tt.scope)
			for change, problems := range map[string][]policy.Problem{
				"create": s.Within(nil, doc), "delete": s.Within(doc, nil), "replace": s.Within(doc, doc),
			} {
				var fields []string
				for _, p := range problems {
					fields = append(fields, p.Field)
					if p.Reason == "" || p.Fix == "" {
						t.Errorf("%s: no reason or fix: %+v", change, p)
					}
				}
				if got := strings.Join(fields, " "); got != tt.out {
					t.Errorf("%s: out of scope are %q, want %q: %v", change, got, tt.out, problems)
				}
			}
		})
	}
}

func TestBothTheOldAndTheNewDocumentAreInScope(t *testing.T) {
	mine, theirs := document(t, `Quota q {tenant: acme, limits: [{kind: requests, perMinute: 1}]}`), document(t, `Quota q {tenant: other, limits: [{kind: requests, perMinute: 1}]}`)
	s := scope("tenants acme")
	if p := s.Within(theirs, mine); len(p) != 1 || p[0].Field != "spec.tenant" || !strings.HasPrefix(p[0].Reason, `as it is now: "other"`) {
		t.Errorf("taken from another: %v", p)
	}
	if p := s.Within(mine, theirs); len(p) != 1 || strings.HasPrefix(p[0].Reason, "as it is now") {
		t.Errorf("given to another: %v", p)
	}
	if p := s.Within(nil, nil); p != nil {
		t.Errorf("nothing at all: %v", p)
	}
}

func TestKindsThatNobodyHasARuleFor(t *testing.T) {
	r := &policy.Resource{Kind: "Novelty", Metadata: policy.Metadata{Name: "acme"}}
	for _, bounded := range []string{"tenants acme", "regions eu", "models a"} {
		s := scope(bounded)
		if s.Covers("Novelty") || len(s.Within(nil, r)) != 1 {
			t.Errorf("%s covers a kind without a rule", bounded)
		}
		if s.Sees(r) != (len(s.Tenants) == 0) {
			t.Errorf("%s sees it: %v", bounded, s.Sees(r))
		}
	}
	if s := (Scope{}); !s.Covers("Novelty") || s.Within(nil, r) != nil || !s.Sees(r) {
		t.Error("a scope of everything leaves it out")
	}
}

func TestWhatAScopeReachesItCanCover(t *testing.T) {
	// Of each kind, a document about nothing but what is "mine", and what of it scopes can bound.
	documents := map[policy.Kind]string{
		policy.KindRegion: "Region mine {}", policy.KindModel: "Model mine {}", policy.KindTenant: "Tenant mine {}",
		policy.KindCluster:       "Cluster mine {region: mine, models: [mine], endpoints: [{id: e, url: 'http://e', class: h100}]}",
		policy.KindQuota:         "Quota mine {tenant: mine, model: mine, limits: [{kind: requests, perMinute: 1}]}",
		policy.KindTrafficPolicy: "TrafficPolicy mine {models: [mine], match: [{tenants: [mine]}]}",
		policy.KindRateCard:      "RateCard mine {gpus: [{class: h100, region: mine, usdPerHour: 1}]}",
		policy.KindSafetyRule:    "SafetyRule mine {changeLimit: {maxMovedShare: 0.3}}",
		policy.KindDrillPlan:     "DrillPlan mine {kind: soft, target: {region: mine}, models: [mine], tenants: [mine]}",
	}
	models := "RateCard mine {models: [{model: mine, inputPerMTok: 1, outputPerMTok: 1}]}"
	for _, kind := range policy.Kinds() {
		r := document(t, documents[kind])
		for _, s := range []string{"", "regions mine", "tenants mine", "models mine", "regions mine; models mine", "regions mine; tenants mine", "tenants mine; models mine"} {
			covers := len(scope(s).Within(nil, r)) == 0
			if kind == policy.KindRateCard {
				covers = covers || len(scope(s).Within(nil, document(t, models))) == 0
			}
			if got := scope(s).Reaches(kind); got != covers {
				t.Errorf("%q reaches %s: %v, and covers it: %v", s, kind, got, covers)
			}
		}
	}
}

func TestNamesAreJudgedBeforeAnythingIsLookedUp(t *testing.T) {
	for _, tt := range []struct {
		scope string
		kind  policy.Kind
		name  string
		ok    bool
	}{
		{"tenants acme", policy.KindTenant, "acme", true},
		{"tenants acme", policy.KindTenant, "other", false},
		{"tenants acme", policy.KindRegion, "acme", false},
		{"tenants acme", policy.KindQuota, "other", true}, // its name tells nothing
		{"regions eu", policy.KindRegion, "us", false},
		{"", policy.KindTenant, "other", true},
	} {
		if got := scope(tt.scope).Names(tt.kind, tt.name); (len(got) == 0) != tt.ok {
			t.Errorf("%q, %s %s: %v", tt.scope, tt.kind, tt.name, got)
		}
	}
}

func TestEveryKindIsInTheTable(t *testing.T) {
	for _, k := range policy.Kinds() {
		if _, known := rules[k]; !known {
			t.Errorf("what scopes mean for %s is not said", k)
		}
	}
}

// TestMoreNamesInAScopeAllowMore: adding a name to a list that bounds never takes something away, and
// taking the last bound away allows everything.
func TestMoreNamesInAScopeAllowMore(t *testing.T) {
	names := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.ID)
	rapid.Check(t, func(t *rapid.T) {
		s := Scope{Regions: names.Draw(t, "regions"), Tenants: names.Draw(t, "tenants"), Models: names.Draw(t, "models")}
		name := rapid.SampledFrom([]string{"a", "b", "c"})
		tenant, model := name.Draw(t, "tenant"), name.Draw(t, "model")
		docs := []*policy.Resource{
			{Kind: policy.KindTenant, Metadata: policy.Metadata{Name: tenant}, Spec: &policy.TenantSpec{}},
			{Kind: policy.KindQuota, Spec: &policy.QuotaSpec{Tenant: tenant, Model: model}},
			{Kind: policy.KindCluster, Spec: &policy.ClusterSpec{Region: name.Draw(t, "region"), Models: []string{model}}},
			{Kind: policy.KindRateCard, Spec: &policy.RateCardSpec{Models: []policy.ModelPrice{{Model: model}}}},
		}
		more := s
		for _, list := range []*[]string{&more.Regions, &more.Tenants, &more.Models} {
			if len(*list) > 0 {
				*list = append(slices.Clone(*list), "a", "b", "c")
			}
		}
		for _, doc := range docs {
			if len(s.Within(nil, doc)) == 0 && len(more.Within(nil, doc)) > 0 {
				t.Errorf("%+v is in %v and not in %v", doc.Spec, s, more)
			}
			if len(s.Within(nil, doc)) == 0 && !s.Sees(doc) {
				t.Errorf("%+v may be changed and not seen by %v", doc.Spec, s)
			}
			if (Scope{}).Within(nil, doc) != nil {
				t.Errorf("%+v is out of everything", doc.Spec)
			}
		}
	})
}

func TestATenantsPolicySharesItsClassWithNobody(t *testing.T) {
	mine := document(t, `TrafficPolicy gold {models: [a], match: [{tenants: [acme]}]}`)
	for _, tt := range []struct {
		scope, other string
		shares       bool
	}{
		{"tenants acme", `TrafficPolicy general {class: gold}`, true},
		{"tenants acme", `TrafficPolicy general {class: silver}`, false},
		{"tenants acme", `TrafficPolicy second {class: second, match: [{tenants: [acme]}]}`, false},
		{"tenants acme", `TrafficPolicy gold {class: gold}`, false}, // the one that it replaces, which is judged itself
		{"models a", `TrafficPolicy general {class: gold}`, false},
		{"", `TrafficPolicy general {class: gold}`, false},
	} {
		got := scope(tt.scope).Shares(mine, []*policy.Resource{document(t, tt.other)})
		if (len(got) > 0) != tt.shares || tt.shares && got[0].Field != "spec.class" {
			t.Errorf("%q beside %s: %v", tt.scope, tt.other, got)
		}
	}
	if got := scope("tenants acme").Shares(document(t, `Tenant acme {}`), nil); got != nil {
		t.Errorf("a tenant has a class: %v", got)
	}
}

func TestATenantTakesNoTokensOfAnothersIssuer(t *testing.T) {
	tenant := func(name, issuer string, more ...string) *policy.Resource {
		spec := "{}"
		if issuer != "" {
			spec = "{jwt: [{issuer: '" + issuer + "', audiences: [llm], jwksURL: 'https://id/keys'" + strings.Join(more, "") + "}]}"
		}
		return document(t, "Tenant "+name+" "+spec)
	}
	for _, tt := range []struct {
		scope     string
		old, next *policy.Resource
		other     *policy.Resource
		claims    bool
	}{
		{"tenants acme", nil, tenant("acme", "https://a"), tenant("other", "https://a"), true},
		{"tenants acme", nil, tenant("acme", "https://a"), tenant("other", "https://b"), false},
		{"tenants acme", nil, tenant("acme", "https://a"), tenant("other", ""), false},
		{"tenants acme other", nil, tenant("acme", "https://a"), tenant("other", "https://a"), false},
		{"tenants acme", tenant("acme", "https://a"), tenant("acme", "https://a"), tenant("other", "https://a"), false},
		{"tenants acme", tenant("acme", "https://a"), tenant("acme", "https://a", ", claims: {org: x}"), tenant("other", "https://a"), true},
		{"tenants acme", tenant("acme", "https://a"), tenant("acme", ""), tenant("other", "https://a"), false},
		{"models a", nil, tenant("acme", "https://a"), tenant("other", "https://a"), false},
		{"", nil, tenant("acme", "https://a"), tenant("other", "https://a"), false},
	} {
		got := scope(tt.scope).Claims(tt.old, tt.next, []*policy.Resource{tt.other, tt.next})
		if (len(got) > 0) != tt.claims || tt.claims && got[0].Field != "spec.jwt[0].issuer" {
			t.Errorf("%q: %v", tt.scope, got)
		}
	}
	loop := document(t, "Tenant acme {jwt: [{issuer: 'https://a', audiences: [llm], jwksURL: 'http://127.0.0.1:9000/keys'}]}")
	for text, want := range map[string]int{"tenants acme": 1, "": 0} {
		if got := scope(text).Claims(nil, loop, nil); len(got) != want || want > 0 && got[0].Field != "spec.jwt[0].jwksURL" {
			t.Errorf("what routers ask themselves, by %q: %v", text, got)
		}
	}
	if got := scope("tenants acme").Claims(loop, loop, nil); got != nil {
		t.Errorf("what is there already: %v", got)
	}
	if got := scope("tenants acme").Claims(nil, document(t, "Region us {}"), nil); got != nil {
		t.Errorf("a region takes tokens: %v", got)
	}
}
