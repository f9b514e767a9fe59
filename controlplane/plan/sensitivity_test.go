package plan

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"anabranch/api/fleet"
	"anabranch/failover"
)

// sharesWith are the shares of a region's demand that the planner wants with a change.
func sharesWith(in Input, c Change, source fleet.RegionID) map[string]float64 {
	in = in.with(c)
	w := survey(in)
	demands := w.demands(in)
	w.solve(demands)
	out := map[string]float64{}
	for _, d := range demands {
		if d.source == source && d.model == "m" && d.class == fleet.DefaultClass {
			for _, r := range d.routes {
				out[string(r.site.id)] = r.share
			}
		}
	}
	return out
}

// changeOf is the change that a lever of a cluster or region tells, its distance from now times a margin.
func changeOf(l Lever, margin float64, of func(factor float64) Change) Change {
	at := l.Now + (l.At-l.Now)*margin
	switch {
	case of != nil:
		return of(at / l.Now)
	case l.Kind == LeverPrice:
		return Change{Prices: []PriceChange{{Cluster: fleet.ClusterID(l.Of), USDPerHour: at}}}
	}
	return Change{Capacity: []CapacityChange{{fleet.ClusterID(l.Of), at / l.Now}}}
}

// drawFleet is a fleet of three regions with up to two clusters each, with demand, prices and a policy.
func drawFleet(t *testing.T, random *rand.Rand) *bench {
	b := newBench(t)
	between := func(least, most float64) float64 { return least + (most-least)*random.Float64() }
	var prices []string
	for _, r := range []string{"us", "eu", "ap"} {
		bought := []string{"on-demand", "on-demand", "owned"}[random.IntN(3)]
		b.cluster(r+"-a", r, between(3000, 20_000), "gpus: [{class: h100, count: 8, purchase: "+bought+"}]")
		if random.IntN(2) == 0 {
			b.remove("Cluster", r+"-b")
		}
		b.ask(r, between(100, 15_000))
		prices = append(prices, fmt.Sprintf("{class: h100, region: %s, usdPerHour: %.2f}", r, between(1, 9)))
	}
	b.write("RateCard", "list", "gpus: ["+strings.Join(prices, ", ")+"]")
	b.write("TrafficPolicy", "p", fmt.Sprintf("costPreference: %g", []float64{0, 0.02, 0.1, 0.5}[random.IntN(4)]))
	b.report()
	return b
}

// fleetsDrawn is how many fleets are tried.
func fleetsDrawn() uint64 {
	if os.Getenv("ANABRANCH_STRESS") != "" {
		return 400
	}
	return 4
}

// What is told to move a share moves it when it is exceeded by a margin, and does not when it is missed by one.
func TestToldChangesMoveSharesAndSmallerOnesDoNot(t *testing.T) {
	const margin = 0.05 // of the way from now
	for seed := range fleetsDrawn() {
		random := rand.New(rand.NewPCG(seed, 7))
		b := drawFleet(t, random)
		in := b.input()
		source := []fleet.RegionID{"us", "eu", "ap"}[random.IntN(3)]
		e, err := Explain(in, Ask{Model: "m", Source: source, Effort: 60_000})
		if err != nil || e.Cut {
			t.Fatalf("cut %v, %v", e.Cut, err)
		}
		d := e.Demands[0]
		base := sharesWith(in, Change{}, source)
		for _, c := range d.Clusters {
			for _, l := range c.Changes {
				holdsAt(t, seed, l, margin, func(margin float64) bool {
					share := sharesWith(in, changeOf(l, margin, nil), source)[l.Of]
					if l.Gains {
						return share >= base[l.Of]+leverPoint
					}
					return share <= base[l.Of]-leverPoint
				})
			}
		}
		for _, l := range d.Changes { // of the region
			holdsAt(t, seed, l, margin, func(margin float64) bool {
				home := region(sharesWith(in, changeOf(l, margin, ofRegion(d, l.Kind)), source), string(source))
				if l.Gains {
					return home > 1-leverPoint
				}
				return home <= region(base, string(source))-leverPoint
			})
		}
	}
}

// holdsAt fails unless something moves beyond a lever's figure, and does not before it.
func holdsAt(t *testing.T, seed uint64, l Lever, margin float64, moved func(margin float64) bool) {
	t.Helper()
	if !moved(1 + margin) {
		t.Errorf("fleet %d, %s: %s: more than that does not", seed, l.Of, l.Text)
	}
	if moved(1 - margin) {
		t.Errorf("fleet %d, %s: %s: less than that does, too", seed, l.Of, l.Text)
	}
}

// ofRegion changes all clusters of a demand's own region by a factor, or what it asks for.
func ofRegion(d ExplainedDemand, kind LeverKind) func(factor float64) Change {
	return func(factor float64) (c Change) {
		if kind == LeverDemand {
			c.Demand = []DemandChange{{d.Source, factor}}
		}
		for _, r := range d.Clusters {
			switch {
			case r.Region != d.Source:
			case kind == LeverCapacity:
				c.Capacity = append(c.Capacity, CapacityChange{r.Cluster, factor})
			case kind == LeverPrice && !r.Price.Sunk:
				c.Prices = append(c.Prices, PriceChange{Cluster: r.Cluster, USDPerHour: factor * r.Price.perGPU()})
			}
		}
		return c
	}
}

func TestSpillBeginsAtATellableDemand(t *testing.T) {
	b := asking(t)
	e := b.explained("us", 20000)
	l, found := leverOf(e.Changes, LeverDemand, false)
	if !found || l.At < 1.2*l.Now || l.At > 2.2*l.Now || !strings.Contains(l.Text, "some of it leaves home") {
		t.Fatalf("%+v", e.Changes)
	}
	if _, found := leverOf(e.Changes, LeverDemand, true); found {
		t.Error("all is at home, and less demand would let it stay there")
	}
	if l, found := leverOf(e.Changes, LeverCapacity, false); !found || l.At >= l.Now {
		t.Errorf("%+v", e.Changes)
	}
	b.ask("us", 14_000)
	b.report()
	if l, found := leverOf(b.explained("us", 20000).Changes, LeverDemand, true); !found || l.At >= l.Now {
		t.Errorf("in a spill: %+v", l)
	}
}

func TestRulesSayWhatWouldBeWithoutThem(t *testing.T) {
	tests := map[string]struct {
		given func(*bench)
		at    fleet.ClusterID
		kind  LeverKind
		of    string
		share float64
	}{
		"drain":     {func(b *bench) { b.cluster("us-a", "us", 10_000, "drained: true") }, "us-a", LeverRule, "Cluster us-a spec.drained", 2.0 / 3},
		"dead":      {func(b *bench) { b.state("us-a", failover.Evacuated, 0) }, "us-a", LeverHealth, "us-a", 2.0 / 3},
		"ramp":      {func(b *bench) { b.state("us-a", failover.Ramping, 0.1) }, "us-a", LeverHealth, "us-a", 2.0 / 3},
		"pin":       {func(b *bench) { b.write("TrafficPolicy", "p", "clusters: [us-b]") }, "us-a", LeverRule, "TrafficPolicy p spec.clusters", 2.0 / 3},
		"residency": {func(b *bench) { b.write("TrafficPolicy", "p", "residency: [eu]") }, "us-a", LeverRule, "TrafficPolicy p spec.residency", 2.0 / 3},
		"weight 0":  {func(b *bench) { b.write("TrafficPolicy", "p", "regions: [{region: us, weight: 0}]") }, "us-a", LeverRule, "TrafficPolicy p spec.regions", 2.0 / 3},
		"max share": {func(b *bench) { b.write("TrafficPolicy", "p", "regions: [{region: us, maxShare: 0.5}]") }, "us-a", LeverRule, "TrafficPolicy p spec.regions", 2.0 / 3},
		"no spill":  {func(b *bench) { b.write("TrafficPolicy", "p", "spill: never") }, "eu-a", LeverRule, "TrafficPolicy p spec.spill", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.ask("us", 4000)
			tt.given(b)
			b.report()
			b.plan()
			for _, l := range b.explained("us", 10000).to(tt.at).Changes {
				if l.Kind == tt.kind && l.Of == tt.of {
					near(t, l.Text, l.Share, tt.share, 0.02)
					if l.Gains != (tt.share > 0) {
						t.Errorf("gains: %v", l.Gains)
					}
					return
				}
			}
			t.Errorf("%+v", b.explained("us", 10000).to(tt.at).Changes)
		})
	}
}

func TestEffortIsBounded(t *testing.T) {
	b := asking(t)
	for _, most := range []int{0, 1, 50, 500} {
		e, err := Explain(b.input(), Ask{Model: "m", Effort: most})
		if err != nil || e.Solved > most/19 || !e.Cut && most > 0 { // 18 routes
			t.Errorf("of %d: solved %d, cut %v, %v", most, e.Solved, e.Cut, err)
		}
	}
	if e, _ := Explain(b.input(), Ask{Model: "m", Effort: DefaultEffort}); e.Cut || e.Solved < 100 {
		t.Errorf("solved %d, cut %v", e.Solved, e.Cut)
	}
}

func TestLeversSpeakPlainly(t *testing.T) {
	tests := map[string]string{
		Lever{Kind: LeverPrice, Of: "c", Now: 3.2, At: 2.1, Gains: true}.words(0):         "begins to take traffic below $2.1 per GPU and hour (now $3.2)",
		Lever{Kind: LeverPrice, Of: "c", Now: 3.2, At: 4, Gains: false}.words(0.5):        "loses a point above $4 per GPU and hour (now $3.2)",
		Lever{Kind: LeverCapacity, Of: "c", Now: 1e4, At: 12_400, Gains: true}.words(0.1): "takes a point more if it could do 12,400 work/s (1.24 times what it is now)",
		Lever{Kind: LeverDemand, Of: "r", Now: 1e4, At: 1_234_567}.homeWords(1):           "above 1,234,567 work/s asked for (123 times what it is now), some of it leaves home",
		Lever{Kind: LeverDemand, Of: "r", Now: 1e4, At: 800, Gains: true}.homeWords(0.5):  "below 800 work/s asked for (0.08 times what it is now), all of it stays at home",
		Lever{Kind: LeverPrice, Of: "r", Now: 1, At: 1.5}.homeWords(0.5):                  "if home cost 1.5 times what it is now, a point more leaves home",
		Lever{Kind: LeverHealth, Of: "c", Share: 0.995}.words(0.001):                      "in good health it would get 99.5 % (now under 1 %)",
	}
	for got, want := range tests {
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
