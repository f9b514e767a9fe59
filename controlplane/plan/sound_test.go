package plan

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"anabranch/api/routerpb"
)

func TestATableThatMustNotBePublished(t *testing.T) {
	good := func() *routerpb.Table {
		return &routerpb.Table{
			Regions:  []*routerpb.Region{{Id: "us", Zone: "americas"}, {Id: "eu", Zone: "eu"}},
			Clusters: []*routerpb.Cluster{{Id: "a", Region: "us", Models: []string{"m"}}, {Id: "b", Region: "eu", Models: []string{"m", "n"}}},
			Models:   []*routerpb.Model{{Id: "m"}},
			Weights:  []*routerpb.Weights{list("us", 0.25, 0.75)},
		}
	}
	for name, tt := range map[string]struct {
		change func(*routerpb.Table)
		says   string // empty: it is sound
	}{
		"as it is":             {func(*routerpb.Table) {}, ""},
		"no target is legal":   {func(x *routerpb.Table) { x.Weights[0].Clusters = nil }, ""},
		"nothing in it":        {func(x *routerpb.Table) { x.Models = nil }, "no model"},
		"too large":            {func(x *routerpb.Table) { x.Models[0].Aliases = []string{strings.Repeat("x", MaxTableBytes)} }, "the limit is"},
		"sums to zero":         {func(x *routerpb.Table) { x.Weights[0] = list("us", 0, 0) }, "sum to 0"},
		"sums to more":         {func(x *routerpb.Table) { x.Weights[0] = list("us", 1, 1) }, "sum to 2"},
		"below zero":           {func(x *routerpb.Table) { x.Weights[0] = list("us", -1, 2) }, "share of a is -1"},
		"no number":            {func(x *routerpb.Table) { x.Weights[0] = list("us", math.NaN(), 1) }, "share of a is NaN"},
		"a cluster not there":  {func(x *routerpb.Table) { x.Clusters = x.Clusters[:1] }, "b is not in the table"},
		"a model not served":   {func(x *routerpb.Table) { x.Weights[0].Model = "n" }, "a does not serve"},
		"outside of residency": {func(x *routerpb.Table) { x.Rules = []*routerpb.Rule{{Class: "interactive", Residency: []string{"eu"}}} }, "a is outside"},
		"within residency": {func(x *routerpb.Table) {
			x.Rules = []*routerpb.Rule{{Class: "interactive", Residency: []string{"eu", "us"}}, {Class: "bulk", Residency: []string{"mars"}}}
		}, ""},
		"residency of other models": {func(x *routerpb.Table) {
			x.Rules = []*routerpb.Rule{{Class: "interactive", Models: []string{"n"}, Residency: []string{"eu"}}}
		}, ""},
		"a rule that steers elsewhere": {func(x *routerpb.Table) {
			x.Rules = []*routerpb.Rule{{Class: "interactive", Model: "n", Residency: []string{"eu"}}}
		}, ""},
		"no share outside of residency": {func(x *routerpb.Table) {
			x.Rules = []*routerpb.Rule{{Class: "interactive", Residency: []string{"eu"}}}
			x.Weights[0] = list("us", 0, 1)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			table := good()
			tt.change(table)
			err := Sound(table)
			if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want %q", err, tt.says)
			}
		})
	}
}

// What the planner makes is sound, of any fleet.
func TestWhatIsPlannedIsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := draw(t)
		if out := Compute(f.input(nil, true)); out.Table != nil {
			if err := Sound(out.Table); err != nil {
				t.Fatal(err)
			}
		}
	})
}
