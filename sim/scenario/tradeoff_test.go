package scenario

import (
	"slices"
	"strings"
	"testing"

	"anabranch/controlplane/policy"
	"anabranch/sim/report"
)

// priced are two places of which the near one is dear, with little to do.
const priced = `
name: priced
about: The near place costs ten times as much as the far one.
fleet:
  regions: [{id: us-east-1, zone: us}, {id: eu-west-1, zone: eu}]
  models: [{id: llama-3.1-8b}]
  clusters:
    - {id: us-a, region: us-east-1, model: llama-3.1-8b, pods: [{class: h100, count: 1, price: 68.8}]}
    - {id: eu-a, region: eu-west-1, model: llama-3.1-8b, pods: [{class: h100, count: 1, price: 6.88}]}
  warmup: 30s
workload:
  - kind: uniform
    traffic: {arrivals: {rate: 4}, regions: [{region: us-east-1}], requests: 300}
    mix: {models: [{model: llama-3.1-8b}]}
    prompt: {mean: 500, p99: 2000}
vary:
  - name: plain
  - name: with-a-policy
    set:
      resources: |
        apiVersion: anabranch/v1
        kind: TrafficPolicy
        metadata: {name: frugal}
        spec: {models: [llama-3.1-8b], objective: balanced}
seeds: 2
`

func TestATradeoffTellsWhatMoneyBuys(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for _, variant := range []string{"plain", "with-a-policy"} {
		s := parse(t, priced)
		told := 0.0
		r, err := s.Tradeoff(t.Context(), Options{Variants: []string{variant}, Progress: func(x float64) { told = x }}, []float64{0, 1})
		if err != nil {
			t.Fatal(err)
		}
		first, last := PreferenceName(0), PreferenceName(1)
		if got := r.Policies(); !slices.Equal(got, []string{first, last, LeastLatency}) {
			t.Fatalf("%s: rows %v", variant, got)
		}
		for i, run := range r.Runs {
			if want := uint64(i%2) + 1; run.Seed != want || run.Timeline != nil {
				t.Errorf("%s: run %d has seed %d, want %d", variant, i, run.Seed, want)
			}
		}
		for i := range 2 {
			quick, cheap, least := r.Of(first)[i], r.Of(last)[i], r.Of(LeastLatency)[i]
			if cheap.Cost.WorkPerAnswer > quick.Cost.WorkPerAnswer/2 || cheap.Cost.OverBound > 5 || quick.Cost.OverBound < 3 {
				t.Errorf("%s: %v µ$ with cost first, %v times the least; %v µ$ with latency first, %v times", variant,
					cheap.Cost.WorkPerAnswer, cheap.Cost.OverBound, quick.Cost.WorkPerAnswer, quick.Cost.OverBound)
			}
			if cheap.TTFT.P50 < quick.TTFT.P50+50 || quick.TTFT.P50 > least.TTFT.P50*1.3 {
				t.Errorf("%s: medians of %v, %v and %v ms", variant, cheap.TTFT.P50, quick.TTFT.P50, least.TTFT.P50)
			}
		}
		if len(r.About) != 2 || !strings.Contains(r.About[1], "µ$ for each answer at the least") || told < 0.999 {
			t.Errorf("%s: %v, told %v", variant, r.About, told)
		}
		var table strings.Builder
		if err := r.Table(&table, TradeoffFigures()); err != nil || strings.Count(table.String(), "\n| ") != 3 {
			t.Errorf("%s: %v\n%s", variant, err, &table)
		}
		var proof strings.Builder
		if err := WriteTradeoffs(&proof, []*report.Report{r, r}); err != nil || strings.Count(proof.String(), "## priced/"+variant+": what money buys\n") != 2 || strings.Count(proof.String(), table.String()) != 2 {
			t.Errorf("%s: %v\n%s", variant, err, &proof)
		}
	}
}

func TestATradeoffOfOneClusterHasNoLeast(t *testing.T) {
	r, err := parse(t, small).Tradeoff(t.Context(), Options{Seeds: 1}, []float64{0.5})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.About) != 1 || r.Title != "small/slow: what money buys" {
		t.Errorf("%s: %v", r.Title, r.About)
	}
}

func TestWhatIsNoTradeoff(t *testing.T) {
	tests := map[string]struct {
		options     Options
		preferences []float64
		want        string
	}{
		"no point":           {preferences: nil, want: "0 are not 1 to 21"},
		"too many":           {preferences: make([]float64, 22), want: "22 are not 1 to 21"},
		"too frugal":         {preferences: []float64{0, 1.01}, want: "1.01 is not 0 to 1"},
		"twice the same":     {preferences: []float64{0.5, 0.5}, want: "0.5 is not 0 to 1, or is there twice"},
		"others' policies":   {options: Options{Policies: []string{"p2c"}}, preferences: []float64{0}, want: "by ours alone"},
		"two variants":       {options: Options{Variants: []string{"plain", "with-a-policy"}}, preferences: []float64{0}, want: "is of one"},
		"no such variant":    {options: Options{Variants: []string{"nowhere"}}, preferences: []float64{0}, want: `no variant "nowhere"`},
		"no number of seeds": {options: Options{Seeds: -1}, preferences: []float64{0}, want: "seeds"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(t, priced).Tradeoff(t.Context(), tt.options, tt.preferences); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

// What a document says of preferences does not count, and what else it says stays.
func TestAPreferenceTakesThePlaceOfWhatPoliciesSay(t *testing.T) {
	s, err := parse(t, priced).Variant("with-a-policy")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := s.Fleet.spec("priced")
	if err != nil {
		t.Fatal(err)
	}
	preference := 0.75
	for _, want := range []*float64{nil, &preference} {
		s.preference = want
		o, err := s.oursOptions(spec)
		if err != nil || len(o.Resources) != 1 {
			t.Fatalf("%v: %d resources", err, len(o.Resources))
		}
		p := o.Resources[0].Spec.(*policy.TrafficPolicySpec)
		if wanted := map[bool]float64{true: 0.75, false: 0.5}[want != nil]; p.CostPreference != wanted || want != nil && p.Objective != "" || len(p.Models) != 1 {
			t.Errorf("%+v, want a preference of %g", p, wanted)
		}
	}
}

func TestTradeoffsAreShipped(t *testing.T) {
	for _, name := range Tradeoffs() {
		if !slices.Contains(Examples(), name) {
			t.Errorf("there is no %s", name)
		}
	}
	for _, p := range Preferences() {
		if policy.ObjectiveTitle(p) == "" {
			t.Errorf("%g has no name", p)
		}
	}
}
