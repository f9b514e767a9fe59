package sim_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/dataplane/route"
	"anabranch/dataplane/table"
)

// shelf is what operators have written, sorted by name.
type shelf map[policy.Kind][]*policy.Resource

func (s shelf) List(k policy.Kind) []*policy.Resource { return s[k] }

func (s shelf) Get(k policy.Kind, name string) (*policy.Resource, bool) {
	for _, r := range s[k] {
		if r.Metadata.Name == name {
			return r, true
		}
	}
	return nil, false
}

// put writes a resource as an API would: it is refused when anything is wrong with it.
func (s shelf) put(doc string) (refused []policy.Problem) {
	r, problems := policy.Parse([]byte(doc))
	if problems = policy.Vet(r, problems, s); len(problems) > 0 {
		return problems
	}
	r.Metadata.Revision = 1
	list := append(slices.Clone(s[r.Kind]), r)
	slices.SortFunc(list, func(a, b *policy.Resource) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) })
	s[r.Kind] = list
	return nil
}

// fleetOfAll has members of every kind in three regions, and tenants with and without residency.
func fleetOfAll(t testing.TB) shelf {
	s := shelf{}
	for _, doc := range []string{
		"Region us {zone: us, peerURLs: ['https://us'], rttMs: {eu: 80, sa: 120}}",
		"Region eu {zone: eu, peerURLs: ['https://eu']}",
		"Region sa {zone: us, peerURLs: ['https://sa']}",
		"Model small {aliases: [default], adapters: [legal]}",
		"Model big {}",
		"Cluster us-a {region: us, models: [small, big], endpoints: [{id: e, url: 'http://us-a', class: h100, kvEventsURL: 'tcp://us-a:5557'}]}",
		"Cluster us-b {region: us, models: [small], type: gateway, url: 'http://us-b', metricsURL: 'http://us-b/m'}",
		"Cluster eu-a {region: eu, models: [small, big], discovery: {kind: dns, name: pool}}",
		"Cluster out {region: eu, models: [big], modelNames: {big: vendor/big}, type: provider, url: 'https://api', auth: {env: KEY}}",
		"Cluster sa {region: sa, models: [small], type: router}",
		"Tenant acme {}",
		"Tenant berlin {residency: [eu]}",
	} {
		parts := strings.SplitN(doc, " ", 3)
		if problems := s.put("apiVersion: anabranch/v1\nkind: " + parts[0] + "\nmetadata: {name: " + parts[1] + "}\nspec: " + parts[2]); len(problems) > 0 {
			t.Fatalf("%s: %+v", doc, problems)
		}
	}
	return s
}

// drawPolicy draws a policy of which much is legal, and writes it down as an operator would.
func drawPolicy(t *rapid.T, i int) string {
	some := func(label string, of ...string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 0, 2, rapid.ID[string]).Draw(t, label)
	}
	list := func(field string, of []string) string {
		if len(of) == 0 {
			return ""
		}
		return fmt.Sprintf("%s: [%s], ", field, strings.Join(of, ", "))
	}
	one := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
	clusters := []string{"us-a", "us-b", "eu-a", "out", "sa"}
	spec := list("models", some("models", "small", "big")) + list("clusters", some("clusters", clusters...)) +
		list("residency", some("residency", "us", "eu", "sa")) + one("priority", "", "priority: 5, ", "priority: -5, ") +
		one("rewrite", "", "", "rewrite: {model: legal}, ", "rewrite: {model: big}, ") + one("spill", "", "spill: never, ") +
		one("class", "", "", "class: bulk, ") + one("mode", "", "pickMode: prefix-hash, queueMs: -1, hedge: {}, rescue: true, ") +
		one("regions", "", "regions: [{region: eu, weight: 0}], ")
	for range rapid.IntRange(0, 2).Draw(t, "matches") {
		m := list("tenants", some("tenants", "acme", "berlin")) + list("paths", some("paths", "/v1/chat/completions", "'/v1/*'")) +
			one("header", "", "headers: [{name: x-team, value: a}], ", "headers: [{name: X-Team, value: a, type: prefix}, {name: x-b, type: present}], ")
		if !strings.Contains(spec, "match: ") {
			spec += "match: ["
		}
		spec += "{" + m + "}, "
	}
	if strings.Contains(spec, "match: ") {
		spec += "], "
	}
	if rapid.Bool().Draw(t, "split") {
		spec += fmt.Sprintf("split: [{name: a, weight: 3, %s}, {name: b, weight: 1, %s%s}], ",
			list("clusters", some("arm a", clusters...)), one("arm b", "", "model: big, "), list("clusters", some("arm b", clusters...)))
	}
	if rapid.Bool().Draw(t, "shadow") {
		spec += fmt.Sprintf("shadow: {percent: 5, %s%s}, ", one("shadow", "", "model: big, "), list("clusters", some("shadow", clusters...)))
	}
	return fmt.Sprintf("apiVersion: anabranch/v1\nkind: TrafficPolicy\nmetadata: {name: p%d}\nspec: {%s}", i, spec)
}

// What operators may write, routers obey: of every set of policies that the checks accept, the
// planner makes a table that routers accept, and there each request is dealt with by the policy that
// comes first among those that speak of it, goes nowhere that the policy or its tenant forbids, and
// finds weights ready for what it ends up asking for.
func TestRoutersObeyWhatOperatorsMayWrite(t *testing.T) {
	base := fleetOfAll(t)
	accepted, sent := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		all := maps.Clone(base)
		for i := range rapid.IntRange(0, 5).Draw(rt, "policies") {
			doc := drawPolicy(rt, i)
			if len(all.put(doc)) == 0 {
				accepted++
			}
		}
		out := plan.Compute(plan.Input{Resources: all, Signals: signal.Snapshot{}, Now: time.Unix(1, 0), Warm: true})
		out.Table.Ref = &routerpb.TableRef{ClusterId: "c", Revision: 1}
		wire, err := proto.Marshal(out.Table)
		if err != nil {
			rt.Fatal(err)
		}
		var received routerpb.Table
		if err := proto.Unmarshal(wire, &received); err != nil {
			rt.Fatal(err)
		}
		tab, err := table.Build(&received)
		if err != nil {
			rt.Fatalf("refused by routers: %v", err)
		}
		for range 8 {
			if send(rt, all, tab) {
				sent++
			}
		}
	})
	least := 15
	if testing.Short() {
		least = 3 // of a fifth of the sets
	}
	if accepted < least || sent < 6*least {
		t.Errorf("only %d policies were accepted and %d requests sent: nothing is shown", accepted, sent)
	}
}

// send lets one request find its way, and says whether it was sent somewhere.
func send(rt *rapid.T, all shelf, tab *table.Table) bool {
	asked, _, _ := tab.Model(rapid.SampledFrom([]string{"small", "big", "legal", "default"}).Draw(rt, "model"))
	tenant, _ := tab.Tenant(rapid.SampledFrom([]fleet.TenantID{"acme", "berlin"}).Draw(rt, "tenant"))
	path := rapid.SampledFrom([]string{"/v1/chat/completions", "/v1/embeddings"}).Draw(rt, "path")
	header := http.Header{}
	for _, name := range []string{"X-Team", "X-B"} {
		if v := rapid.SampledFrom([]string{"", "a", "ab"}).Draw(rt, name); v != "" {
			header.Set(name, v)
		}
	}
	key := rapid.Uint64().Draw(rt, "key")

	rule := tab.Rule(asked, tenant, path, header)
	speaking := first(all, string(asked.ID), string(tenant.ID), path, header)
	if (rule == nil) != (speaking == nil) || rule != nil && rule.Policy != speaking.Metadata.Name {
		rt.Fatalf("the rule is %+v, the policy %+v", rule, speaking)
	}
	var arm *table.Arm
	in := route.Input{Table: tab, Region: rapid.SampledFrom([]fleet.RegionID{"us", "eu"}).Draw(rt, "region"), Tenant: tenant, Key: key}
	if rule != nil {
		if i := route.Draw(rule.Arms, key); i >= 0 {
			arm = &rule.Arms[i]
		}
		in.Residency = rule.Residency
	}
	name, only := rule.Wants(arm)
	in.Model, in.Only = asked, only
	if name != "" {
		in.Model, _, _ = tab.Model(name)
	}
	in.Class = tab.ClassOf(rule, in.Model.ID)
	if rule != nil && in.Class.ID != rule.Class {
		rt.Fatalf("rule %s is of class %s, and gets %s", rule.Policy, rule.Class, in.Class.ID)
	}
	if _, ok := tab.Weights(in.Model.ID, in.Class.ID, in.Region); !ok {
		rt.Fatalf("no weights for %s in class %s from %s", in.Model.ID, in.Class.ID, in.Region)
	}
	choice := route.Choose(in)
	for _, target := range choice.Targets {
		if why := forbidden(all, speaking, tenant, target.Cluster); why != "" {
			rt.Fatalf("%s is sent to %s: %s", asked.ID, target.Cluster.ID, why)
		}
		if !target.Cluster.Serves(in.Model.ID) {
			rt.Fatalf("%s does not serve %s", target.Cluster.ID, in.Model.ID)
		}
	}
	return len(choice.Targets) > 0
}

// first is the first policy that speaks of a request, plainly searched.
func first(all shelf, model, tenant, path string, header http.Header) *policy.Resource {
	list := slices.Clone(all[policy.KindTrafficPolicy])
	slices.SortFunc(list, policy.CompareTraffic)
	for _, r := range list {
		s := r.Spec.(*policy.TrafficPolicySpec)
		if len(s.Models) > 0 && !slices.Contains(s.Models, model) {
			continue
		}
		if len(s.Match) == 0 || slices.ContainsFunc(s.Match, func(m policy.MatchSpec) bool { return fits(m, tenant, path, header) }) {
			return r
		}
	}
	return nil
}

func fits(m policy.MatchSpec, tenant, path string, header http.Header) bool {
	onPath := func(p string) bool {
		prefix, wild := strings.CutSuffix(p, "*")
		return p == path || wild && strings.HasPrefix(path, prefix)
	}
	if len(m.Tenants) > 0 && !slices.Contains(m.Tenants, tenant) || len(m.Paths) > 0 && !slices.ContainsFunc(m.Paths, onPath) {
		return false
	}
	for _, h := range m.Headers {
		v := header.Get(h.Name)
		switch {
		case v == "":
			return false
		case h.Type == policy.HeaderExact && v != h.Value, h.Type == policy.HeaderPrefix && !strings.HasPrefix(v, h.Value):
			return false
		}
	}
	return true
}

// forbidden says what forbids a cluster to a request, "" if nothing does.
func forbidden(all shelf, speaking *policy.Resource, tenant *table.Tenant, c *table.Cluster) string {
	region, _ := all.Get(policy.KindRegion, string(c.Region))
	zone := region.Spec.(*policy.RegionSpec).Zone
	within := func(places []string) bool {
		return len(places) == 0 || slices.Contains(places, zone) || slices.Contains(places, string(c.Region))
	}
	if !within(tenant.Residency) {
		return "the tenant's residency"
	}
	if speaking == nil {
		return ""
	}
	s := speaking.Spec.(*policy.TrafficPolicySpec)
	switch {
	case !within(s.Residency):
		return "the policy's residency"
	case len(s.Clusters) > 0 && !slices.Contains(s.Clusters, string(c.ID)):
		return "the policy's pin"
	}
	return ""
}
