package costmodel

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
)

// use is what one key used and what it cost, in thousands of tokens and dollars.
type use struct {
	tenant, cluster, source string
	input, cached           int64
	cost, egress            float64
}

// rolled puts uses together, as the account would: of model m and class c, cached tokens at a tenth.
func rolled(uses ...use) Rollup {
	r := Rollup{}
	for _, u := range uses {
		k := Key{Tenant: fleet.TenantID(u.tenant), Model: "m", Class: "c", Cluster: fleet.ClusterID(u.cluster), Region: fleet.RegionID(u.cluster[:2]), Source: fleet.RegionID(u.source)}
		usage := Usage{Input: 1000 * u.input, Cached: 1000 * u.cached, Succeeded: u.input}
		r.Add(k, Sum{Usage: usage, Work: Weights{Cached: CachedWeight, Output: 4}.Work(usage), Cost: FromUSD(u.cost), Egress: FromUSD(u.egress)})
	}
	return r
}

func TestWhatLeavingAClusterCosts(t *testing.T) {
	left := func(c fleet.ClusterID) bool { return c == "us-a" }
	byToken := func(c fleet.ClusterID) bool { return c == "xx-api" }
	us := use{tenant: "acme", cluster: "us-a", source: "us", input: 1000, cost: 2}
	eu := use{tenant: "globex", cluster: "eu-a", source: "eu", input: 1000, cost: 3}
	tests := map[string]struct {
		before, during       []use
		work, tokens, egress float64
		paid, uncompared     float64
		moved, units         float64 // in thousands
	}{
		"nothing moved":                       {before: []use{us, eu}, during: []use{us, eu}, units: 1000},
		"twice the traffic is not dearer":     {before: []use{us}, during: []use{{tenant: "acme", cluster: "us-a", source: "us", input: 2000, cost: 4}}, units: 2000},
		"to a dearer cluster, with egress":    {before: []use{us, eu}, during: []use{{tenant: "acme", cluster: "eu-a", source: "us", input: 1000, cost: 3, egress: 0.5}, eu}, work: 1, egress: 0.5, paid: 0.5, moved: 1000, units: 1000},
		"to a cheaper cluster":                {before: []use{us}, during: []use{{tenant: "acme", cluster: "ap-a", source: "us", input: 1000, cost: 0.5}}, work: -1.5, moved: 1000, units: 1000},
		"half of it":                          {before: []use{us}, during: []use{{tenant: "acme", cluster: "us-a", source: "us", input: 500, cost: 1}, {tenant: "acme", cluster: "eu-a", source: "us", input: 500, cost: 1.5, egress: 0.2}}, work: 0.5, egress: 0.2, paid: 0.2, moved: 500, units: 1000},
		"to a provider":                       {before: []use{us}, during: []use{{tenant: "acme", cluster: "xx-api", source: "us", input: 1000, cost: 5}}, work: -2, tokens: 5, paid: 5, moved: 1000, units: 1000},
		"what others use is not of it":        {before: []use{us, eu}, during: []use{us, {tenant: "globex", cluster: "eu-a", source: "eu", input: 1000, cost: 9}}, units: 1000},
		"cold caches cost":                    {before: []use{{tenant: "acme", cluster: "us-a", source: "us", input: 1000, cached: 500, cost: 1.1}}, during: []use{{tenant: "acme", cluster: "eu-a", source: "us", input: 1000, cost: 2}}, work: 0.9, moved: 1000, units: 1000},
		"a new tenant is compared with all":   {before: []use{us}, during: []use{{tenant: "initech", cluster: "eu-a", source: "us", input: 1000, cost: 3}}, work: 1, moved: 1000, units: 1000},
		"a new source with the model":         {before: []use{us}, during: []use{{tenant: "acme", cluster: "eu-a", source: "ap", input: 1000, cost: 3}}, work: 1, moved: 1000, units: 1000},
		"nothing was before":                  {before: nil, during: []use{us}, uncompared: 2},
		"what was away a while ago came back": {before: []use{{tenant: "acme", cluster: "eu-a", source: "us", input: 500, cost: 1.5}, {tenant: "acme", cluster: "us-a", source: "us", input: 500, cost: 1}}, during: []use{us}, work: -0.5, units: 1000},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			during := rolled(tt.during...)
			during.Add(Key{Cluster: "eu-a", Region: "eu"}, Sum{Idle: Dollar}) // idle time is of nobody
			var got Extra
			for _, e := range Compare(rolled(tt.before...), during, left, byToken) {
				got = got.Plus(e)
			}
			want := Extra{Work: FromUSD(tt.work), Tokens: FromUSD(tt.tokens), Egress: FromUSD(tt.egress), Uncompared: FromUSD(tt.uncompared), Units: 1000 * tt.units, Moved: 1000 * tt.moved}
			got.Answers = 0
			if got.Units = math.Round(got.Units); got != want || got.Paid() != FromUSD(tt.paid) || got.Total() != FromUSD(tt.work+tt.tokens+tt.egress) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestExtraCostsAreToldByWhoAsked(t *testing.T) {
	left := func(c fleet.ClusterID) bool { return c == "us-a" }
	none := func(fleet.ClusterID) bool { return false }
	before := rolled(use{"acme", "us-a", "us", 1000, 0, 2, 0}, use{"globex", "us-a", "us", 500, 0, 1, 0})
	during := rolled(use{"acme", "eu-a", "us", 1000, 0, 4, 0}, use{"globex", "us-a", "us", 500, 0, 1, 0})
	k := Key{Tenant: "acme", Model: "m", Class: "c", Source: "us"}
	s := during[Key{Tenant: "acme", Model: "m", Class: "c", Cluster: "eu-a", Region: "eu", Source: "us"}]
	s.Estimate, s.Unpriced = true, true
	during[Key{Tenant: "acme", Model: "m", Class: "c", Cluster: "eu-a", Region: "eu", Source: "us"}] = s
	got := Compare(before, during, left, none)
	if len(got) != 2 || got[k].Work != 2*Dollar || !got[k].Estimate || !got[k].Unpriced || got[k].Answers != 1000 {
		t.Errorf("%+v", got)
	}
	k.Tenant = "globex"
	if e := got[k]; e.Total() != 0 || e.Estimate || e.Moved != 0 {
		t.Errorf("%+v", e)
	}
}

// Traffic that is served as it was costs nothing on top, however much of it there is.
func TestUsageThatIsServedAsBeforeCostsNothingOnTop(t *testing.T) {
	left := func(c fleet.ClusterID) bool { return c == "us-a" }
	rapid.Check(t, func(t *rapid.T) {
		var before, during []use
		n := int64(rapid.IntRange(1, 50).Draw(t, "times"))
		for _, tenant := range []string{"a", "b"} {
			for _, cluster := range []string{"us-a", "eu-a", "xx-api"} {
				u := use{tenant, cluster, "us", rapid.Int64Range(0, 1000).Draw(t, "input"), 0, float64(rapid.IntRange(0, 1000).Draw(t, "cost")), float64(rapid.IntRange(0, 9).Draw(t, "egress"))}
				if u.input == 0 {
					u.cost, u.egress = 0, 0
				}
				before = append(before, u)
				u.input, u.cost, u.egress = n*u.input, float64(n)*u.cost, float64(n)*u.egress
				during = append(during, u)
			}
		}
		for k, e := range Compare(rolled(before...), rolled(during...), left, func(c fleet.ClusterID) bool { return c == "xx-api" }) {
			if abs := max(e.Total(), -e.Total()); abs > 3 || e.Moved > 1e-3 || e.Uncompared != 0 {
				t.Errorf("%v costs %+v", k, e)
			}
		}
	})
}

func TestExtraAmountsSaturate(t *testing.T) {
	for _, tt := range []struct{ a, b, want Micros }{
		{1, -2, -1}, {math.MaxInt64, 1, math.MaxInt64}, {math.MinInt64, -1, math.MinInt64}, {math.MaxInt64, math.MinInt64, -1}, {-5, 5, 0},
	} {
		if got := (Extra{Work: tt.a}).Plus(Extra{Work: tt.b}).Work; got != tt.want {
			t.Errorf("%d and %d are %d", tt.a, tt.b, got)
		}
	}
}
