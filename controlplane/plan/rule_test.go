package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
	"anabranch/failover"
)

// rulesOf are the table's rules in order, by policy.
func rulesOf(b *bench) (order []string, rules map[string]*routerpb.Rule) {
	rules = map[string]*routerpb.Rule{}
	for _, r := range b.table.Rules {
		order = append(order, r.Id)
		rules[r.Id] = r
	}
	return order, rules
}

// weighed are a list's clusters with weight, and those on standby.
func weighed(b *bench, model, class, source string) (with, standby []string) {
	for _, w := range b.table.Weights {
		if w.Model != model || w.Class != class || w.Source != source {
			continue
		}
		for _, c := range w.Clusters {
			if c.Weight > 0 {
				with = append(with, c.Cluster)
			}
			if c.Standby {
				standby = append(standby, c.Cluster)
			}
		}
	}
	return with, standby
}

func wantWeighed(t *testing.T, b *bench, list, with, standby string) {
	t.Helper()
	at := strings.Split(list, "/")
	gotWith, gotStandby := weighed(b, at[0], at[1], at[2])
	if !slices.Equal(gotWith, strings.Fields(with)) || !slices.Equal(gotStandby, strings.Fields(standby)) {
		t.Errorf("%s: weight on %q and standby %q, want %q and %q", list, gotWith, gotStandby, with, standby)
	}
}

func TestPoliciesBecomeRulesInOrder(t *testing.T) {
	b := newBench(t)
	b.write("Model", "n", "{}")
	b.write("Tenant", "acme", "{}")
	b.write("TrafficPolicy", "all", "{}")
	b.write("TrafficPolicy", "named", "models: [n]")
	b.write("TrafficPolicy", "urgent", "priority: 10\n  models: [n, m]\n  class: top")
	b.write("TrafficPolicy", "canary", `models: [m]
  match:
    - {tenants: [acme], paths: ["/v1/chat*"], headers: [{name: X-Team, value: a}, {name: x-y, type: present}]}
  rewrite: {model: lora}
  clusters: [us-a, us-b]
  residency: [us]
  split: [{name: a, weight: 9}, {name: b, weight: 1, model: n, clusters: [us-a]}]
  shadow: {percent: 5, model: n, clusters: [eu-a]}`)
	b.plan()
	order, rules := rulesOf(b)
	if want := []string{"urgent", "canary", "named", "all"}; !slices.Equal(order, want) {
		t.Fatalf("order %q, want %q", order, want)
	}
	want := &routerpb.Rule{
		Id: "canary", Models: []string{"m"}, Class: "canary", Model: "lora", Clusters: []string{"us-a", "us-b"}, Residency: []string{"us"},
		Match: []*routerpb.Match{{
			Tenants: []string{"acme"}, Paths: []string{"/v1/chat*"},
			Headers: []*routerpb.HeaderMatch{{Name: "X-Team", Value: "a", Type: "exact"}, {Name: "x-y", Type: "present"}},
		}},
		Arms:   []*routerpb.Arm{{Id: "a", Weight: 9}, {Id: "b", Weight: 1, Model: "n", Clusters: []string{"us-a"}}},
		Shadow: &routerpb.Shadow{Share: 0.05, Model: "n", Clusters: []string{"eu-a"}},
	}
	if !proto.Equal(rules["canary"], want) {
		t.Errorf("got  %v\nwant %v", rules["canary"], want)
	}
	if r := rules["all"]; len(r.Models)+len(r.Match) > 0 || r.Class != "interactive" {
		t.Errorf("the general rule: %v", r)
	}
}

// What a policy names and is gone narrows the rule, or is left out, and is never taken for "any".
func TestRulesOfWhatIsGone(t *testing.T) {
	b := newBench(t)
	b.write("TrafficPolicy", "pinned", "match: [{tenants: [gone]}]\n  clusters: [gone]\n  rewrite: {model: gone}\n  shadow: {percent: 1, model: gone}")
	b.write("TrafficPolicy", "ghost", "models: [gone]")
	b.write("TrafficPolicy", "half", "match: [{paths: [/v1/x]}]\n  models: [m, gone]\n  split: [{name: a, weight: 1, model: gone}, {name: b, weight: 1}]")
	b.plan()
	order, rules := rulesOf(b)
	if want := []string{"half", "pinned"}; !slices.Equal(order, want) {
		t.Fatalf("rules %q, want %q", order, want)
	}
	p := rules["pinned"]
	if !slices.Equal(p.Clusters, []string{"gone"}) || p.Match[0].Tenants[0] != "gone" || p.Model != "" || p.Shadow != nil {
		t.Errorf("got %v", p)
	}
	if h := rules["half"]; !slices.Equal(h.Models, []string{"m"}) || h.Arms[0].Model != "" {
		t.Errorf("got %v", h)
	}
	if with, _ := weighed(b, "m", "pinned", "us"); len(with) > 0 {
		t.Errorf("a pin to what is gone gives weight to %q", with)
	}
}

// An arm of a policy that was stored before its pin does not widen it.
func TestArmsStayWithinThePin(t *testing.T) {
	b := newBench(t)
	b.write("TrafficPolicy", "p", "clusters: [us-a]\n  split: [{name: a, weight: 1, clusters: [us-a, eu-a]}, {name: b, weight: 0}]")
	b.write("TrafficPolicy", "q", "match: [{paths: [/v1/x]}]\n  split: [{name: a, weight: 0}, {name: b, weight: 0}]")
	b.plan()
	_, rules := rulesOf(b)
	if got := rules["p"].Arms[0].Clusters; !slices.Equal(got, []string{"us-a"}) {
		t.Errorf("arm goes to %q", got)
	}
	if got := rules["q"].Arms; got != nil {
		t.Errorf("arms without weight: %v", got)
	}
}

func TestWeightsStandReadyForWhatRulesLeadTo(t *testing.T) {
	b := newBench(t)
	for _, m := range []string{"n", "o", "p"} {
		b.write("Model", m, "{}")
	}
	b.write("TrafficPolicy", "canary", "models: [m]\n  match: [{paths: [/v1/x]}]\n  split: [{name: a, weight: 1}, {name: b, weight: 1, model: n}]\n  shadow: {percent: 1, model: o}")
	b.write("TrafficPolicy", "plain", "class: interactive\n  models: [m]\n  rewrite: {model: p}")
	b.plan()
	got := map[string]int{}
	for _, w := range b.table.Weights {
		if w.Class == "canary" {
			got[w.Model]++
		}
	}
	if len(got) != 3 || got["m"] != 3 || got["n"] != 3 || got["o"] != 3 {
		t.Errorf("lists of class canary: %v", got)
	}
	var classes []string
	for _, c := range b.table.Classes {
		classes = append(classes, c.Id+" "+c.Policy+" "+strings.Join(c.Models, ","))
	}
	// In a class with a general policy, or the built-in one, that speaks for what others lead to.
	want := []string{"canary canary m,n,o", "interactive plain m", "interactive  "}
	if !slices.Equal(classes, want) {
		t.Errorf("classes %q, want %q", classes, want)
	}
}

func TestPinsAndResidencyInWeights(t *testing.T) {
	tests := []struct{ name, spec, with, standby string }{
		{"a pin", "clusters: [eu-a, eu-b]", "eu-a eu-b", "ap-a ap-b us-a us-b"},
		{"residency by zone", "residency: [us]", "us-a us-b", "ap-a ap-b eu-a eu-b"},
		{"both", "clusters: [us-a, eu-a]\n  residency: [us, ap]", "us-a", "ap-a ap-b eu-a eu-b us-b"},
		{"a split over two pins", "split: [{name: a, weight: 1, clusters: [us-a]}, {name: b, weight: 1, clusters: [us-b]}]", "us-a us-b", "ap-a ap-b eu-a eu-b"},
		{"a split of which one arm goes anywhere", "split: [{name: a, weight: 1, clusters: [us-a]}, {name: b, weight: 1}]", "us-a us-b", ""},
		{"an arm of another model has no say", "split: [{name: a, weight: 1, clusters: [us-a]}, {name: b, weight: 1, model: n, clusters: [us-b]}]", "us-a", "ap-a ap-b eu-a eu-b us-b"},
		{"a weight of 0", "regions: [{region: us, weight: 0}]", "eu-a eu-b", "us-a us-b"},
		{"at home", "spill: never", "us-a us-b", "ap-a ap-b eu-a eu-b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.write("Model", "n", "{}")
			b.write("TrafficPolicy", "p", "class: interactive\n  "+tt.spec)
			b.ask("us", 3000)
			b.report()
			b.plan()
			wantWeighed(t, b, "m/interactive/us", tt.with, tt.standby)
			if again := b.plan(); again.Changed {
				t.Error("the same again is a change")
			}
		})
	}
}

func TestAPinHoldsWhenItsClustersAreDead(t *testing.T) {
	b := newBench(t)
	b.write("TrafficPolicy", "p", "clusters: [us-a]")
	b.state("us-a", failover.Evacuated, 0)
	b.state("us-b", failover.Evacuated, 0)
	b.ask("us", 3000)
	b.report()
	b.plan()
	wantWeighed(t, b, "m/interactive/us", "us-a", "ap-a ap-b eu-a eu-b us-b")
	b.cluster("us-a", "us", 10_000, "drained: true")
	b.plan()
	wantWeighed(t, b, "m/interactive/us", "", "")
}

// Many rules that nobody's requests fit are no load, and move nothing.
func TestIdleRulesAreNoLoad(t *testing.T) {
	plan := func(rules int) map[string]float64 {
		b := newBench(t)
		for i := range rules {
			b.write("TrafficPolicy", fmt.Sprint("p", i), fmt.Sprintf("match: [{headers: [{name: x-team, value: team-%d}]}]", i))
		}
		b.ask("us", 11_000) // about to spill
		b.report()
		b.plan()
		return b.shares("us")
	}
	without, with := plan(0), plan(60)
	for c, want := range without {
		if got := with[c]; got < want-0.005 || got > want+0.005 {
			t.Errorf("%s has %v with idle rules, and %v without", c, got, want)
		}
	}
}
