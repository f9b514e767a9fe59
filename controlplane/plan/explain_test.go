package plan

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/signal"
	"anabranch/failover"
)

// explained explains model m of a fleet, and finds the demand of a region.
func (b *bench) explained(source fleet.RegionID, effort int) ExplainedDemand {
	b.t.Helper()
	e, err := Explain(b.input(), Ask{Model: "m", Class: fleet.DefaultClass, Source: source, Effort: effort})
	if err != nil || len(e.Demands) != 1 {
		b.t.Fatalf("%d demands: %v", len(e.Demands), err)
	}
	return e.Demands[0]
}

func (e ExplainedDemand) to(cluster fleet.ClusterID) ExplainedRoute {
	for _, r := range e.Clusters {
		if r.Cluster == cluster {
			return r
		}
	}
	return ExplainedRoute{}
}

func (r ExplainedRoute) bound(kind ConstraintKind) bool {
	for _, c := range r.Constraints {
		if c.Kind == kind && c.Text != "" {
			return true
		}
	}
	return false
}

func leverOf(list []Lever, kind LeverKind, gains bool) (Lever, bool) {
	for _, l := range list {
		if l.Kind == kind && l.Gains == gains {
			return l, true
		}
	}
	return Lever{}, false
}

func TestSpillIsExplained(t *testing.T) {
	b := newBench(t)
	b.ask("us", 13_000)
	b.report()
	b.plan() // the first weights are the solution
	e := b.explained("us", 0)
	if e.Standing != StandingSettled || !strings.HasPrefix(e.Summary, "us keeps ") || !strings.Contains(e.Summary, " at home and sends ") ||
		!strings.Contains(e.Summary, " to eu: home is at 0.") {
		t.Errorf("%s: %s", e.Standing, e.Summary)
	}
	home, away := e.to("us-a"), e.to("eu-a")
	near(t, "distance to eu", away.Cost.DistanceMs, 80, 0)
	near(t, "home beside its level", home.Cost.AboveLevelMs, 0, 8)
	near(t, "eu beside its level", away.Cost.AboveLevelMs, 0, 8)
	near(t, "parts of the cost", away.Cost.DistanceMs+away.Cost.MoneyMs+away.Cost.CongestionMs, away.Cost.TotalMs, 1e-9)
	if ap := e.to("ap-a"); ap.Wanted != 0 || ap.Cost.AboveLevelMs < 20 || ap.Reason != notNeeded || len(ap.Constraints) != 0 {
		t.Errorf("ap: %+v", ap)
	}
	if e.Clusters[0].Cluster != "us-a" || e.Clusters[1].Cluster != "us-b" || e.Clusters[2].Cluster != "eu-a" {
		t.Errorf("order: %s, %s, %s", e.Clusters[0].Cluster, e.Clusters[1].Cluster, e.Clusters[2].Cluster)
	}
	sum := 0.0
	for _, r := range e.Clusters {
		sum += r.Load.WantedPerS
	}
	near(t, "work", sum, e.WorkPerS, 1)
	near(t, "load of us-a", home.Load.Wanted, home.Load.WantedPerS/10_000, 1e-6)
	if c := home.Capacity; !c.Measured || c.MeasuredPerS != 10_000 || c.PerS != 10_000 || c.Freshness != string(signal.Fresh) || c.AgeS < 0 || c.SilentS < 0 || c.Confidence != 1 || c.Doubt != 0 {
		t.Errorf("capacity %+v", c)
	}
}

func TestASummarySaysWhereTrafficGoesAndWhy(t *testing.T) {
	tests := map[string]struct {
		given func(*bench)
		want  string
	}{
		"at home":     {func(*bench) {}, "us serves all of it at home: home is at 0.40 of what it can do"},
		"no demand":   {func(b *bench) { b.ask("us", 0) }, "us asks for nothing now; what comes stays at home"},
		"home is out": {func(b *bench) { b.state("us-a", failover.Evacuated, 0); b.state("us-b", failover.Evacuated, 0) }, "us sends all of it to eu: us is out of use"},
		"residency":   {func(b *bench) { b.write("TrafficPolicy", "p", "residency: [eu]") }, "us sends all of it to eu: the policy does not allow us"},
		"a weight": {
			func(b *bench) { b.write("TrafficPolicy", "p", "regions: [{region: us, weight: 0.25}]") },
			"us keeps 25 % at home and sends 75 % to eu: the policy gives us weight 0.25",
		},
		"stranded": {
			func(b *bench) { b.write("TrafficPolicy", "p", "clusters: [gone]") },
			"us can't be served: its pins and residency allow no cluster that serves the model",
		},
		"dead": {
			func(b *bench) {
				for _, c := range []string{"us-a", "us-b", "eu-a", "eu-b", "ap-a", "ap-b"} {
					b.state(c, failover.Evacuated, 0)
				}
			},
			"no cluster is healthy: last good weights",
		},
		"money": {
			func(b *bench) { b.write("TrafficPolicy", "p", "objective: cost-first"); b.charge(20) },
			"us sends all of it to eu: a million units of work cost $",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.ask("us", 6000)
			tt.given(b)
			b.report()
			b.plan()
			if got := b.explained("us", 0).Summary; !strings.Contains(got, tt.want) {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestWhatBindsAShareIsNamed(t *testing.T) {
	tests := map[string]struct {
		given func(*bench)
		at    fleet.ClusterID
		want  ConstraintKind
	}{
		"drain":         {func(b *bench) { b.cluster("us-a", "us", 10_000, "drained: true") }, "us-a", ConstraintDrain},
		"dead":          {func(b *bench) { b.state("us-a", failover.Evacuated, 0) }, "us-a", ConstraintHealth},
		"ramp":          {func(b *bench) { b.state("us-a", failover.Ramping, 0.1) }, "us-a", ConstraintRamp},
		"does not grow": {func(b *bench) { b.state("us-a", failover.Degraded, 1) }, "us-a", ConstraintHealth},
		"pin":           {func(b *bench) { b.write("TrafficPolicy", "p", "clusters: [us-b]") }, "us-a", ConstraintPin},
		"residency":     {func(b *bench) { b.write("TrafficPolicy", "p", "residency: [us]") }, "eu-a", ConstraintResidency},
		"weight":        {func(b *bench) { b.write("TrafficPolicy", "p", "regions: [{region: us, weight: 0.5}]") }, "us-a", ConstraintWeight},
		"weight 0":      {func(b *bench) { b.write("TrafficPolicy", "p", "regions: [{region: us, weight: 0}]") }, "us-a", ConstraintWeight},
		"max share":     {func(b *bench) { b.write("TrafficPolicy", "p", "regions: [{region: us, maxShare: 0.5}]") }, "us-a", ConstraintMaxShare},
		"no spill":      {func(b *bench) { b.write("TrafficPolicy", "p", "spill: never") }, "eu-a", ConstraintSpill},
		"probe":         {func(b *bench) { b.perRequest = 1000 }, "eu-a", ConstraintProbe},
		"full":          {func(b *bench) { b.ask("us", 60_000) }, "us-a", ConstraintFull},
		"home in a ramp": {func(b *bench) {
			b.state("us-b", failover.Ramping, 0.5)
			b.state("us-a", failover.Ramping, 0.5)
			b.write("TrafficPolicy", "p", "spill: never")
		}, "eu-a", ConstraintSpill},
		"weight of 0 max": {func(b *bench) { b.write("TrafficPolicy", "p", "regions: [{region: us, maxShare: 0}]") }, "us-a", ConstraintWeight},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.ask("us", 9000)
			tt.given(b)
			b.report()
			b.plan()
			if r := b.explained("us", 0).to(tt.at); !r.bound(tt.want) {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestAMoveIsToldWithItsPace(t *testing.T) {
	b := asking(t)
	b.ask("us", 11_900)
	b.report()
	e := b.explained("us", 0)
	if e.Standing != StandingMoving || !e.to("us-a").bound(ConstraintGrowth) || !strings.Contains(e.Summary, "; on the way to ") {
		t.Errorf("%s: %s", e.Standing, e.Summary)
	}
	wanted := e.to("us-a").Wanted + e.to("us-b").Wanted
	near(t, "seconds left", e.SecondsLeft, (1-wanted)/growth, 2)
	b.after(1)
	near(t, "a second later", region(b.shares("us"), "us"), e.to("us-a").Next+e.to("us-b").Next, 2*growth)

	b = priced(t)
	b.after(20)
	b.reprice(8)
	e = b.explained("us", 0)
	if e.Standing != StandingMoving || !e.to("us-a").bound(ConstraintPrice) || e.SecondsLeft < 200 {
		t.Errorf("%s for %.0f s: %+v", e.Standing, e.SecondsLeft, e.to("us-a").Constraints)
	}
}

// What is explained is what is done: whatever the fleet, Next are the weights that Compute makes.
func TestWhatIsExplainedIsWhatIsDone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := draw(t)
		first := Compute(f.input(nil, true)).Table
		if first == nil {
			return
		}
		first.Ref = &routerpb.TableRef{Revision: 1}
		in := draw(t).input(first, rapid.Bool().Draw(t, "warm"))
		in.Frozen = rapid.Bool().Draw(t, "frozen")
		out := Compute(in)
		if out.Table == nil {
			return
		}
		weights := map[string]float64{}
		for _, w := range out.Table.GetWeights() {
			for _, c := range w.GetClusters() {
				weights[w.GetModel()+" "+w.GetClass()+" "+w.GetSource()+" "+c.GetCluster()] = c.GetWeight()
			}
		}
		for _, m := range out.Table.GetModels() {
			e, err := Explain(in, Ask{Model: fleet.ModelID(m.GetId())})
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range e.Demands {
				if d.Summary == "" || d.Why == "" || d.Standing == "" {
					t.Fatalf("%+v", d)
				}
				for _, r := range d.Clusters {
					at := m.GetId() + " " + string(d.Class) + " " + string(d.Source) + " " + string(r.Cluster)
					if weights[at] != r.Next {
						t.Fatalf("%s has %v, and is explained by %+v", at, weights[at], r)
					}
					delete(weights, at)
				}
			}
			if _, err := json.Marshal(e); err != nil {
				t.Fatal(err)
			}
		}
		for at, x := range weights {
			if x > 0 {
				t.Fatalf("%s has %v, and nothing is said of it", at, x)
			}
		}
	})
}

func TestHeldWeightsSayWhatHoldsThem(t *testing.T) {
	b := asking(t)
	b.ask("us", 20_000)
	b.report()
	in := b.input()
	in.Frozen = true
	e, err := Explain(in, Ask{Model: "m", Source: "us"})
	if err != nil || e.Demands[0].Standing != StandingHeld || !e.Demands[0].to("us-a").bound(ConstraintHeld) ||
		!strings.Contains(e.Demands[0].Summary, "held: changes are frozen") {
		t.Errorf("%+v, %v", e, err)
	}
	in.Previous = nil
	if e, _ = Explain(in, Ask{Model: "m", Source: "us"}); e.Demands[0].Standing != StandingFirst {
		t.Errorf("without weights in force: %s", e.Demands[0].Standing)
	}
}

func TestPricesAreToldWithTheirSource(t *testing.T) {
	b := priced(t)
	p := b.explained("us", 0).to("us-a").Price
	if p.Sunk || p.Unpriced || len(p.GPUs) != 1 || p.USDPerMillion <= 0 {
		t.Fatalf("%+v", p)
	}
	if g := p.GPUs[0]; !g.Known || g.USDPerHour != 1 || !strings.Contains(g.Why, "operator's price") || g.Source != "rate card list" || g.Purchase != "on-demand" || g.AgeS != -1 {
		t.Errorf("%+v", g)
	}
	b.cluster("us-a", "us", 10_000, "gpus: [{class: h100, count: 4, purchase: owned}]")
	if p := b.explained("us", 0).to("us-a").Price; !p.Sunk || p.USDPerMillion != 0 {
		t.Errorf("owned: %+v", p)
	}
	b.cluster("us-a", "us", 10_000, "gpus: [{class: abacus, count: 4}]")
	if p := b.explained("us", 0).to("us-a").Price; p.Sunk || !p.Unpriced || p.GPUs[0].Known {
		t.Errorf("unpriced: %+v", p)
	}
}

func TestOneClusterIsToldOf(t *testing.T) {
	b := asking(t)
	e, err := Explain(b.input(), Ask{Model: "m", Source: "us", Cluster: "eu-a", Effort: 20_000})
	if err != nil || len(e.Demands) != 1 || len(e.Demands[0].Clusters) != 1 || e.Demands[0].to("eu-a").Cost.DistanceMs != 80 {
		t.Errorf("%+v, %v", e, err)
	}
	if !strings.Contains(e.Demands[0].Summary, "at home") {
		t.Errorf("the summary is of all: %s", e.Demands[0].Summary)
	}
}

func TestNoSuchTraffic(t *testing.T) {
	b := newBench(t)
	for _, ask := range []Ask{{Model: "x"}, {Model: "m", Class: "x"}, {Model: "m", Source: "x"}, {Model: "m", Cluster: "x"}} {
		if _, err := Explain(b.input(), ask); !errors.Is(err, ErrNoDemand) {
			t.Errorf("%+v: %v", ask, err)
		}
	}
}
