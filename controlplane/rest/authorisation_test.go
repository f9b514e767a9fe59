package rest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"anabranch/controlplane/access"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// caller is someone who asks; role is empty for those who have none, whatever they send.
type caller struct {
	name, role string
	scope      access.Scope
}

// The scopes that callers have beside everything: no document can be within both.
var (
	ofPlaces   = access.Scope{Regions: []string{"mine"}}
	ofBusiness = access.Scope{Tenants: []string{"mine"}, Models: []string{"mine"}}
)

// callers is one of every kind; each sends the token of its name.
func callers() []caller {
	all := []caller{{name: ""}, {name: "nobody"}, {name: "expired"}, {name: "revoked"}, {name: "rotated"}}
	for _, role := range roles {
		all = append(all, caller{name: role, role: role}, caller{role + "-of-places", role, ofPlaces}, caller{role + "-of-business", role, ofBusiness})
	}
	return all
}

// token makes one through the state, as a double's other tokens: its secret is "secret-" and its name.
func (d *double) token(name, role string, scope access.Scope, change ...func(*statepb.PutToken)) {
	d.t.Helper()
	p := &statepb.PutToken{Token: &statepb.Token{
		Name: name, Role: role, Sha256: access.Hash("secret-" + name),
		Scope: &statepb.TokenScope{Regions: scope.Regions, Tenants: scope.Tenants, Models: scope.Models},
	}}
	for _, f := range change {
		f(p)
	}
	d.order(&statepb.Command_PutToken{PutToken: p})
}

func (d *double) order(op any) {
	d.t.Helper()
	cmd := &statepb.Command{Format: 3, AtUnixMs: d.now().UnixMilli(), Actor: &statepb.Actor{Name: "test"}}
	switch op := op.(type) {
	case *statepb.Command_PutToken:
		cmd.Op = op
	case *statepb.Command_RevokeToken:
		cmd.Op = op
	case *statepb.Command_SetFeatureLevel:
		cmd.Op = op
	}
	if out := d.apply(cmd); out.GetCode() != "" {
		d.t.Fatalf("%v: %v", op, out)
	}
}

// withCallers has a token for each caller, and resources that are "mine" and "hidden" of every kind.
func withCallers(t *testing.T) *double {
	t.Helper()
	d := newDouble(t)
	d.order(&statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}})
	for _, c := range callers() {
		if !c.scope.Everything() {
			d.token(c.name, c.role, c.scope)
		}
	}
	d.token("expired", "admin", access.Scope{}, func(p *statepb.PutToken) { p.Token.ExpiresUnixMs = d.now().Add(time.Second).UnixMilli() })
	d.token("revoked", "admin", access.Scope{})
	d.order(&statepb.Command_RevokeToken{RevokeToken: &statepb.RevokeToken{Name: "revoked"}})
	d.token("rotated", "admin", access.Scope{})
	d.order(&statepb.Command_PutToken{PutToken: &statepb.PutToken{
		Token: &statepb.Token{Name: "rotated", Sha256: access.Hash("another")}, Rotate: true, IfRevision: d.current().Index(), OverlapMs: 1000,
	}})
	d.advance(time.Second)
	for _, kind := range policy.Kinds() {
		for _, whose := range []string{"mine", "hidden"} {
			d.do("admin", "POST", "/v1/"+policy.Plural(kind), sample(t, kind, whose), yaml).want(201, "")
		}
	}
	return d
}

// proposals has the operator make a proposal about a quota that is "mine" and one that is "hidden", and gives
// their ids.
func (d *double) proposals() map[string]string {
	d.t.Helper()
	d.do("admin", "POST", "/v1/safetyrules", doc("SafetyRule", "two-people", "{approval: {kinds: [Quota], names: [new-mine, new-hidden]}}"), yaml).want(201, "")
	ids := map[string]string{}
	for _, whose := range []string{"mine", "hidden"} {
		var p Proposal
		quota := doc("Quota", "new-"+whose, fmt.Sprintf(samples[policy.KindQuota], whose))
		d.do("operator", "POST", "/v1/quotas", quota, yaml).want(202, "").into(&p)
		ids[whose] = p.ID
	}
	return ids
}

// samples has a document of each kind, of which all that a scope can name is %[1]s.
var samples = map[policy.Kind]string{
	policy.KindRegion:        `{}`,
	policy.KindModel:         `{}`,
	policy.KindCluster:       `{region: %[1]s, models: [%[1]s], endpoints: [{id: e, url: "http://%[1]s", class: h100}]}`,
	policy.KindTenant:        `{}`,
	policy.KindTrafficPolicy: `{models: [%[1]s], match: [{tenants: [mine]}]}`,
	policy.KindQuota:         `{tenant: %[1]s, model: %[1]s, limits: [{kind: requests, perMinute: 1}]}`,
	policy.KindRateCard:      `{gpus: [{class: h100, region: %[1]s, usdPerHour: 1}]}`,
	policy.KindSafetyRule:    `{changeLimit: {maxMovedShare: 0.3}}`,
	policy.KindDrillPlan:     `{kind: soft, target: {region: %[1]s}, models: [%[1]s], tenants: [%[1]s]}`,
}

func sample(t *testing.T, kind policy.Kind, whose string) string {
	t.Helper()
	spec, ok := samples[kind]
	if !ok {
		t.Fatalf("there is no sample of %s", kind)
	}
	if strings.Contains(spec, "%") {
		spec = fmt.Sprintf(spec, whose)
	}
	return doc(string(kind), whose, spec)
}

// covered says whether a scope covers what is "mine" of a kind.
func covered(kind policy.Kind, scope access.Scope) bool {
	switch kind {
	case policy.KindRegion, policy.KindRateCard:
		return len(scope.Regions) > 0
	case policy.KindCluster, policy.KindDrillPlan:
		return true // by its region, and by its models
	case policy.KindModel, policy.KindTenant, policy.KindQuota, policy.KindTrafficPolicy:
		return len(scope.Tenants) > 0
	}
	return false
}

// verdict is what the document says that becomes of a caller: "" lets through, else the code of the
// refusal.
func verdict(o operation, c caller, kind policy.Kind, whose string) string {
	switch {
	case o.Needs == "none":
		return ""
	case c.role == "":
		return "unauthenticated"
	case !slices.Contains(contract().Rights[o.Needs], c.role):
		return "forbidden"
	case c.scope.Everything() || o.Scope == "any" || o.Scope == "filtered":
		return ""
	case o.Scope == "within" && whose == "mine" && (kind == "" || covered(kind, c.scope)):
		return ""
	}
	return "out_of_scope"
}

// TestEveryOperationLetsThroughWhomTheDocumentNames holds every operation to the right and the scope that
// the document asks for, and every right to the roles that the document gives it: whoever is not named is
// refused.
func TestEveryOperationLetsThroughWhomTheDocumentNames(t *testing.T) {
	d := withCallers(t)
	proposals := d.proposals()
	d.server.Drain() // watches end after what they have to tell at first
	told := map[string]Capabilities{}
	for _, c := range callers() {
		if c.role != "" {
			var all Capabilities
			d.do(c.name, "GET", "/v1/capabilities", "").want(200, "").into(&all)
			told[c.name] = all
			if len(all.Operations) != len(operations()) || all.Name != c.name || all.Role != c.role {
				t.Errorf("%s is told of %d operations, of %d", c.name, len(all.Operations), len(operations()))
			}
		}
	}
	for _, route := range slices.Sorted(maps.Keys(operations())) {
		o := operations()[route]
		if _, known := contract().Rights[o.Needs]; !known && o.Needs != "none" {
			t.Errorf("%s needs %q, which x-anabranch-rights does not list", route, o.Needs)
			continue
		}
		if !slices.Contains([]string{"", "any", "filtered", "within"}, o.Scope) {
			t.Errorf("%s has the scope %q, which is none", route, o.Scope)
		}
		method, path, _ := strings.Cut(route, " ")
		kind, _ := policy.KindOf(strings.Split(path, "/")[min(2, len(strings.Split(path, "/"))-1)])
		for _, whose := range []string{"mine", "hidden"} {
			id := "r-0123456789abcdef"
			if strings.HasPrefix(path, "/v1/proposals") {
				kind, id = policy.KindQuota, proposals[whose]
			}
			target := strings.NewReplacer("{name}", whose, "{id}", id, "{revision}", "1").Replace(path)
			body, media := "{}", "Content-Type: application/json"
			if strings.HasSuffix(path, "/rollback") {
				body = `{"revision":1}`
			}
			if kind != "" && (method == "POST" || method == "PUT") && !strings.Contains(path, "{id}") && !strings.Contains(path, "}/") {
				body, media = sample(t, kind, whose), yaml
			}
			for _, c := range callers() {
				d.advance(time.Second) // for those who are slowed down
				a := d.do(c.name, method, target, body, media)
				if can := told[c.name].Operations[o.OperationID]; c.role != "" && whose == "mine" {
					can.holds(t, route, c, o, a)
				}
				switch want := verdict(o, c, kind, whose); {
				case want == "" && (a.status == 401 || a.status == 403):
					t.Errorf("%s %s refuses %q: %s", method, target, c.name, a.body)
				case want == "unauthenticated":
					a.want(401, want)
					if a.header.Get("WWW-Authenticate") == "" {
						t.Errorf("%s refuses %q without a challenge", route, c.name)
					}
				case want != "" && a.status != 403:
					t.Errorf("%s %s lets %q through, who should meet %s: %d %s", method, target, c.name, want, a.status, a.body)
				case want != "":
					a.want(403, want)
				}
			}
		}
	}
}

// holds what a caller is told that they can do to what the server answers them.
func (can Capability) holds(t *testing.T, route string, c caller, o operation, a answer) {
	t.Helper()
	refused := a.status == 401 || a.status == 403
	if refused && can.Allowed && o.Scope == "within" && !c.scope.Everything() && len(a.problem().Errors) > 0 {
		return // its scope covers others of the kind, and not this document
	}
	if can.Allowed == refused || can.Allowed != (can.Reason == "") || can.Needs != o.Needs {
		t.Errorf("%s is told of %s: %+v, and answered %d %.200s", c.name, route, can, a.status, a.body)
	}
	if refused && can.Code != a.problem().Code {
		t.Errorf("%s is told of %s that it is %s, which is %s", c.name, route, can.Code, a.problem().Code)
	}
	if can.Code == codeForbidden && (slices.Contains(can.Roles, c.role) || !strings.Contains(can.Reason, can.Roles[0])) {
		t.Errorf("%s is told of %s: %+v", c.name, route, can)
	}
}

// TestWhatIsOfOtherTenantsIsNotTold reads every operation that is filtered as someone of one tenant.
func TestWhatIsOfOtherTenantsIsNotTold(t *testing.T) {
	d := withCallers(t)
	d.do("admin", "PATCH", "/v1/tenants/hidden", `{"spec":{"tier":"top"}}`, "If-Match: *").want(200, "")
	d.do("admin", "POST", "/v1/tenants", doc("Tenant", "hidden-too", "{}"), yaml).want(201, "")
	d.do("admin", "DELETE", "/v1/tenants/hidden-too", "", "If-Match: *").want(204, "")
	d.do("viewer", "DELETE", "/v1/quotas/hidden", "").want(403, "forbidden")
	d.server.Drain()
	told := 0
	for route, o := range operations() {
		method, path, _ := strings.Cut(route, " ")
		if o.Scope != "filtered" {
			continue
		}
		owned := strings.HasPrefix(path, "/v1/tenants") || strings.HasPrefix(path, "/v1/quotas")
		if owned && strings.Contains(path, "{name}") {
			d.do("viewer-of-business", method, strings.NewReplacer("{name}", "hidden", "{revision}", "1").Replace(path), "").want(404, "not_found")
			told++
			continue
		}
		if strings.Contains(path, "{") || !owned && path != "/v1/watch" && !strings.HasPrefix(path, "/v1/audit") {
			continue // topology, which everybody sees, has the same name here
		}
		queries := []string{""}
		if owned {
			queries = append(queries, "?watch=true")
		}
		for _, query := range queries {
			a := d.do("viewer-of-business", method, path+query, "")
			for line := range strings.Lines(string(a.body)) {
				for item := range strings.SplitSeq(line, `},{"index"`) { // entries of the trail stand on one line
					if strings.Contains(item, "hidden") && (strings.Contains(item, "Tenant") || strings.Contains(item, "Quota")) && !strings.Contains(item, `"TrafficPolicy"`) {
						t.Errorf("%s%s tells %s", path, query, item)
					}
				}
			}
			if !bytes.Contains(a.body, []byte("mine")) {
				t.Errorf("%s%s does not tell what it may: %s", path, query, a.body)
			}
			told++
		}
	}
	if told < 10 {
		t.Errorf("only %d answers were read", told)
	}
}

// TestRightsAreThoseOfTheDocument: the table above tells by what is answered, which would miss a right
// that no operation needs.
func TestRightsAreThoseOfTheDocument(t *testing.T) {
	listed := map[access.Right][]string{}
	for name, roles := range contract().Rights {
		listed[access.Right(name)] = roles
	}
	have := map[access.Right][]string{}
	for _, r := range access.Rights() {
		have[r] = r.Roles()
	}
	if !maps.EqualFunc(have, listed, slices.Equal) {
		t.Errorf("the server's rights are %v, the document's %v", have, listed)
	}
}

func TestAWatchOfOneKindNeedsAToken(t *testing.T) {
	newDouble(t).do("", "GET", "/v1/regions?watch=true", "").want(401, "unauthenticated")
}
