package plan

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
)

func (b *bench) input() Input {
	return Input{Resources: b.written, Signals: b.signals.Snapshot(b.now), Previous: b.table, Health: b.health, Now: b.now, Warm: b.warm}
}

func (p Picture) from(source fleet.RegionID) DemandPicture {
	for _, d := range p.Demands {
		if d.Source == source && d.Class == fleet.DefaultClass {
			return d
		}
	}
	return DemandPicture{}
}

func (p Picture) at(cluster fleet.ClusterID) SitePicture {
	for _, s := range p.Sites {
		if s.Cluster == cluster {
			return s
		}
	}
	return SitePicture{}
}

func (d DemandPicture) region(name string) float64 { return region(sharesBy(d), name) }

// asking is a fleet with demand everywhere that is at home where it comes from.
func asking(t testing.TB) *bench {
	b := newBench(t)
	b.ask("us", 6000)
	b.ask("eu", 3000)
	b.ask("ap", 1500)
	b.report()
	b.plan()
	return b
}

func TestALostRegionIsServedElsewhere(t *testing.T) {
	b := asking(t)
	e := WhatIf(b.input(), Change{WithoutRegions: []fleet.RegionID{"us"}})
	if got := e.Before.from("us").region("us"); got != 1 {
		t.Errorf("before, %.3f of us is at home", got)
	}
	us := e.After.from("us")
	near(t, "after, of us in eu", us.region("eu"), 1, 0.01)
	near(t, "distance of us", us.RTTMs, 80, 2)
	near(t, "distance in the mean", e.After.RTTMs, 80*6000.0/10500, 2)
	near(t, "work of eu", e.After.at("eu-a").WorkPerS+e.After.at("eu-b").WorkPerS, 9000, 60)
	if site := e.After.at("us-a"); !site.Lost || site.WorkPerS != 0 || e.Before.at("us-a").Lost {
		t.Errorf("us-a is %+v", site)
	}
	near(t, "use of eu", e.After.at("eu-a").Use, 9000.0/15000, 0.01)
	if len(e.Moves) != 1 || e.Moves[0].Source != "us" || e.After.StrandedPerS != 0 {
		t.Errorf("moves %+v, stranded %v", e.Moves, e.After.StrandedPerS)
	}
}

func TestWithoutAClusterItsNeighbourTakesOver(t *testing.T) {
	b := asking(t)
	e := WhatIf(b.input(), Change{WithoutClusters: []fleet.ClusterID{"ap-a"}})
	if got := e.After.from("ap").Shares; len(got) != 1 || got[0] != (ClusterShare{"ap-b", 1}) {
		t.Errorf("ap goes to %+v", got)
	}
}

func TestWhatMayNotLeaveIsStranded(t *testing.T) {
	b := asking(t)
	b.write("TrafficPolicy", "home", "residency: [eu]\n  models: [m]")
	e := WhatIf(b.input(), Change{WithoutRegions: []fleet.RegionID{"eu"}})
	near(t, "stranded", e.After.StrandedPerS, 10500, 100)
	if why := e.After.from("eu").Stranded; !strings.Contains(why, "residency") {
		t.Errorf("stranded: %q", why)
	}
	if e.Before.StrandedPerS != 0 {
		t.Errorf("stranded before: %v", e.Before.StrandedPerS)
	}
}

func TestPricesMoveWhatCaresForThem(t *testing.T) {
	b := priced(t)
	for name, change := range map[string][]PriceChange{
		"of clusters": {{Cluster: "us-a", USDPerHour: 9}, {Cluster: "us-b", USDPerHour: 9}, {Cluster: "eu-a", USDPerHour: 1}, {Cluster: "eu-b", USDPerHour: 1}},
		"the last of two": {
			{Class: "H100", USDPerHour: 1},
			{Cluster: "us-a", USDPerHour: 30},
			{Cluster: "us-b", USDPerHour: 30},
			{Cluster: "us-a", USDPerHour: 9},
			{Cluster: "us-b", USDPerHour: 9},
		},
	} {
		e := WhatIf(b.input(), Change{Prices: change})
		if got := e.After.from("us").region("eu"); got < 0.9 {
			t.Errorf("%s: %.3f of us goes to eu", name, got)
		}
	}
	for name, change := range map[string]struct {
		prices []PriceChange
		eu     float64
	}{
		"nine times in the region":             {[]PriceChange{{Region: "us", Factor: 9}}, 1},
		"three times, twice, in its clusters":  {[]PriceChange{{Cluster: "us-a", Factor: 3}, {Cluster: "us-b", Factor: 3}, {Region: "us", Factor: 3}}, 1},
		"nine times everywhere, as it is now":  {[]PriceChange{{Factor: 9}}, 0},
		"a price in a region after its factor": {[]PriceChange{{Region: "us", Factor: 9}, {Region: "us", USDPerHour: 1}}, 0},
	} {
		e := WhatIf(b.input(), Change{Prices: change.prices})
		near(t, name, e.After.from("us").region("eu"), change.eu, 0.1)
		if len(change.prices) == 1 && change.prices[0].Region == "" {
			near(t, "bill, "+name, e.After.BillPerHour.USD, 9*e.Before.BillPerHour.USD, 1e-6)
		}
	}
	e := WhatIf(b.input(), Change{Prices: []PriceChange{{Class: "h100", USDPerHour: 2}}})
	near(t, "bill", e.After.BillPerHour.USD, 2*gpus(b), 1e-9)
	if e.After.BillPerHour.Unpriced || e.After.MarginalPerHour.USD <= 0 || e.After.MarginalPerHour.USD >= e.After.BillPerHour.USD {
		t.Errorf("money: %+v of %+v", e.After.MarginalPerHour, e.After.BillPerHour)
	}
}

// gpus of all clusters.
func gpus(b *bench) float64 {
	sum := 0
	for _, r := range b.written.List(policy.KindCluster) {
		for _, g := range r.Spec.(*policy.ClusterSpec).GPUs {
			sum += g.Count
		}
	}
	return float64(sum)
}

func TestDemandAndCapacityAreFactors(t *testing.T) {
	b := asking(t)
	e := WhatIf(b.input(), Change{
		Demand:   []DemandChange{{Factor: 2}, {Region: "us", Factor: 1.5}},
		Capacity: []CapacityChange{{"us-a", 0.5}, {"us-a", 0.5}},
	})
	near(t, "us asks for", e.After.from("us").WorkPerS, 18_000, 50)
	near(t, "eu asks for", e.After.from("eu").WorkPerS, 6000, 50)
	near(t, "us-a can do", e.After.at("us-a").CapacityPerS, 2500, 5)
	if got := e.After.from("us").region("us"); got > 0.6 {
		t.Errorf("%.2f of us stays in a home that does %.2f of it", got, 7500.0/18_000)
	}
}

func TestTooMuchDemandIsOver(t *testing.T) {
	b := asking(t)
	e := WhatIf(b.input(), Change{Demand: []DemandChange{{Factor: 10}}})
	if e.Before.OverPerS != 0 || math.Abs(e.After.OverPerS-(105_000-0.8*45_000)) > 2000 {
		t.Errorf("over by %v, then %v", e.Before.OverPerS, e.After.OverPerS)
	}
	if len(e.Before.Shed) != 0 || len(e.After.Shed) != 1 || e.After.Shed[0].Tier != "standard" {
		t.Fatalf("shed %+v, then %+v", e.Before.Shed, e.After.Shed)
	}
	near(t, "shed", e.After.Shed[0].WorkPerS, 105_000-loadMax*45_000, 3000)
	near(t, "part that is shed", e.After.Shed[0].Part, 1-loadMax*45_000/105_000, 0.05)
}

// A picture is of weights that have settled, whatever holds those in force.
func TestWhatIfIsNotDamped(t *testing.T) {
	b := asking(t)
	b.ask("us", 16_000)
	b.report()
	in := b.input()
	in.Frozen, in.Warm = true, false
	if got := WhatIf(in, Change{}); got.Before.from("us").region("us") > 0.9 || len(got.Moves) != 0 {
		t.Errorf("%+v", got.Before.from("us"))
	}
	if in.Previous != b.table || in.supposed != nil {
		t.Error("the input is another")
	}
}

func TestAChangeIsChecked(t *testing.T) {
	b := newBench(t)
	b.write("Cluster", "rented", "region: us\n  type: provider\n  models: [m]\n  url: https://api.example.com")
	tests := map[string]struct {
		change Change
		field  string
		says   string
	}{
		"no such region":       {Change{WithoutRegions: []fleet.RegionID{"us", "uk"}}, "withoutRegions[1]", "ap, eu, us"},
		"no such cluster":      {Change{WithoutClusters: []fleet.ClusterID{"x"}}, "withoutClusters[0]", "us-a"},
		"a price of nothing":   {Change{Prices: []PriceChange{{USDPerHour: 1}}}, "prices[0]", "name one"},
		"a price of both":      {Change{Prices: []PriceChange{{Cluster: "us-a", Class: "h100"}}}, "prices[0]", "name one"},
		"a price of two":       {Change{Prices: []PriceChange{{Region: "us", Class: "h100", Factor: 2}}}, "prices[0]", "name one"},
		"no such region's":     {Change{Prices: []PriceChange{{Region: "uk", Factor: 2}}}, "prices[0].region", "ap, eu, us"},
		"a price and a factor": {Change{Prices: []PriceChange{{Region: "us", Factor: 2, USDPerHour: 2}}}, "prices[0]", "one of usdPerHour and factor"},
		"a factor below 0":     {Change{Prices: []PriceChange{{Factor: -2}}}, "prices[0].factor", "from 1e-06"},
		"no such class":        {Change{Prices: []PriceChange{{Class: "abacus"}}}, "prices[0].class", "h100"},
		"no such priced":       {Change{Prices: []PriceChange{{Cluster: "x"}}}, "prices[0].cluster", "us-a"},
		"paid by tokens":       {Change{Prices: []PriceChange{{Cluster: "rented"}}}, "prices[0].cluster", "RateCard"},
		"a price below 0":      {Change{Prices: []PriceChange{{Class: "h100", USDPerHour: -1}}}, "prices[0].usdPerHour", "from 0"},
		"no number":            {Change{Demand: []DemandChange{{Factor: math.NaN()}}}, "demand[0].factor", "from 0"},
		"demand of nowhere":    {Change{Demand: []DemandChange{{Region: "uk", Factor: 1}}}, "demand[0].region", "ap, eu, us"},
		"no capacity":          {Change{Capacity: []CapacityChange{{"us-a", 0}}}, "capacity[0].factor", "from 1e-06"},
		"capacity of nothing":  {Change{Capacity: []CapacityChange{{"", 1}}}, "capacity[0].cluster", "us-a"},
		"more than is planned": {Change{Demand: make([]DemandChange, 1001)}, "demand", "less at a time"},
	}
	b.write("Cluster", "us-a", "region: us\n  models: [m]\n  endpoints: [{id: e1, url: \"http://a:1\", class: h100}]\n  gpus: [{class: h100, count: 1}]")
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := tt.change.Check(b.written)
			if len(got) == 0 || got[0].Field != tt.field || !strings.Contains(got[0].Fix, tt.says) {
				t.Errorf("got %+v", got)
			}
		})
	}
	good := Change{
		WithoutRegions: []fleet.RegionID{"us"}, WithoutClusters: []fleet.ClusterID{"eu-a"}, Prices: []PriceChange{{Class: "H100", USDPerHour: 0}},
		Demand: []DemandChange{{Factor: 0}, {Region: "ap", Factor: 2}}, Capacity: []CapacityChange{{"us-a", 0.5}},
	}
	if got := good.Check(b.written); len(got) != 0 || good.Empty() || !(Change{}).Empty() {
		t.Errorf("got %+v", got)
	}
	unknown := b.written
	unknown = append(unknown, resource(policy.KindCluster, "bare", &policy.ClusterSpec{Region: "us"}))
	if got := (Change{Prices: []PriceChange{{Cluster: "bare"}}}).Check(unknown); len(got) != 1 || !strings.Contains(got[0].Fix, "spec.gpus") {
		t.Errorf("got %+v", got)
	}
}

// Whatever is supposed, of all that is asked for each unit is served somewhere or stranded.
func TestPicturesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := draw(t)
		c := Change{
			WithoutRegions:  rapid.SliceOfN(rapid.SampledFrom([]fleet.RegionID{"r0", "r1"}), 0, 2).Draw(t, "without"),
			WithoutClusters: rapid.SliceOfN(rapid.SampledFrom([]fleet.ClusterID{"c0", "c1"}), 0, 2).Draw(t, "lost"),
			Demand:          []DemandChange{{Factor: rapid.Float64Range(0, 3).Draw(t, "demand")}},
			Capacity:        []CapacityChange{{"c2", rapid.Float64Range(0.01, 9).Draw(t, "capacity")}},
			Prices:          []PriceChange{{Class: "h100", USDPerHour: rapid.Float64Range(0, 9).Draw(t, "price")}},
		}
		var before *routerpb.Table
		e := WhatIf(f.input(before, true), c)
		for _, p := range []Picture{e.Before, e.After} {
			served := 0.0
			for _, s := range p.Sites {
				if s.Lost && s.WorkPerS > 0 {
					t.Fatalf("%s is lost and has work %v", s.Cluster, s.WorkPerS)
				}
				served += s.WorkPerS
			}
			if math.Abs(served+p.StrandedPerS-p.WorkPerS) > 1e-6*p.WorkPerS {
				t.Fatalf("%v served and %v stranded of %v", served, p.StrandedPerS, p.WorkPerS)
			}
		}
	})
}
