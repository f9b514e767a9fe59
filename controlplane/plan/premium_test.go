package plan

import (
	"strings"
	"testing"

	"anabranch/failover"
)

// standby are the clusters that are nobody's overflow.
func (b *bench) standby(source string) map[string]bool {
	out := map[string]bool{}
	for _, w := range b.table.GetWeights() {
		for _, c := range w.GetClusters() {
			if w.GetSource() == source && w.GetClass() == "interactive" {
				out[c.GetCluster()] = c.GetStandby()
			}
		}
	}
	return out
}

func TestAPremiumForLatencyBoundsTheWay(t *testing.T) {
	for _, tc := range []struct {
		name, premium string
		down          string // region
		eu, ap        [2]float64
	}{
		{"without one traffic goes as far as it must", "0", "", [2]float64{0.2, 1}, [2]float64{0.05, 1}},
		{"as far as eu, and no further", "{latencyMs: 100}", "", [2]float64{0.2, 1}, [2]float64{0, 0}},
		{"nowhere, be home ever so full", "{latencyMs: 50}", "", [2]float64{0, 0}, [2]float64{0, 0}},
		{"without home eu is the nearest", "{latencyMs: 50}", "us", [2]float64{1, 1}, [2]float64{0, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			if tc.premium != "0" {
				b.write("TrafficPolicy", "near", "{maxPremium: "+tc.premium+"}")
			}
			b.ask("us", 32_000)
			b.report()
			if tc.down != "" {
				for _, c := range []string{"-a", "-b"} {
					b.state(tc.down+c, failover.Evacuated, 0)
				}
			}
			b.plan()
			shares := b.shares("us")
			for name, want := range map[string][2]float64{"eu": tc.eu, "ap": tc.ap} {
				if got := region(shares, name); got < want[0]-1e-9 || got > want[1]+1e-9 {
					t.Errorf("%s gets %.3f, want %v: %v", name, got, want, shares)
				}
			}
			if far := b.standby("us")["ap-a"]; far != (tc.premium != "0") {
				t.Errorf("ap-a stands by: %v", far)
			}
		})
	}
}

// Where prices have to be looked at, clusters of us cost 1, of eu 3 and of ap 9 dollars for a GPU and hour.
func pricedBench(t *testing.T, spec string) *bench {
	b := newBench(t)
	for _, r := range []string{"us", "eu", "ap"} {
		for c, work := range map[string]float64{"-a": 10_000, "-b": 5_000} {
			b.cluster(r+c, r, work, "gpus: [{class: h100, count: 8, purchase: spot}]")
		}
	}
	b.prices("1", "3", "9")
	b.write("TrafficPolicy", "p", spec)
	return b
}

func (b *bench) prices(us, eu, ap string) {
	b.t.Helper()
	var list []string
	for r, usd := range map[string]string{"us": us, "eu": eu, "ap": ap} {
		list = append(list, "{class: h100, region: "+r+", purchase: spot, usdPerHour: "+usd+"}")
	}
	b.write("RateCard", "card", "{gpus: ["+strings.Join(list, ", ")+"]}")
}

func TestAPremiumForMoneyBoundsThePrice(t *testing.T) {
	// eight GPUs at 10,000 work/s: a dollar for an hour is 0.22 for a million
	for _, tc := range []struct {
		name, premium  string
		us, eu, ap     float64
		standby, drawn string
	}{
		{"none: latency alone decides", "{latencyMs: 1000}", 0, 0, 1, "", ""},
		{"ap is too dear, eu is not", "{usdPerMTok: 1}", 0, 1, 0, "ap-a", ""},
		{"only the cheapest", "{usdPerMTok: 0}", 1, 0, 0, "eu-a", ""},
		{"the cheapest of those that are near enough", "{usdPerMTok: 0, latencyMs: 0}", 0, 0, 1, "us-a", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := pricedBench(t, "{maxPremium: "+tc.premium+"}")
			b.ask("ap", 3000)
			b.report()
			b.plan()
			shares := b.shares("ap")
			for name, want := range map[string]float64{"us": tc.us, "eu": tc.eu, "ap": tc.ap} {
				if got := region(shares, name); got < want-0.05 || got > want+0.05 {
					t.Errorf("%s gets %.3f, want %g: %v", name, got, want, shares)
				}
			}
			if tc.standby != "" && !b.standby("ap")[tc.standby] {
				t.Errorf("%s takes overflow", tc.standby)
			}
		})
	}
}

func TestWhatBecomesTooDearIsLeftAtThePaceOfPrices(t *testing.T) {
	b := pricedBench(t, "{maxPremium: {usdPerMTok: 1}}")
	b.prices("1", "1", "1")
	b.ask("ap", 3000)
	b.report()
	b.plan()
	if got := region(b.shares("ap"), "ap"); got < 0.95 {
		t.Fatalf("ap gets %.3f of its own while nothing is too dear", got)
	}
	b.prices("1", "1", "9")
	for second := 1; second <= 60; second++ {
		b.report1()
		b.plan()
	}
	if left := 1 - region(b.shares("ap"), "ap"); left < 0.15 || left > 0.25 {
		t.Errorf("after a minute %.3f has left", left)
	}
	if b.standby("ap")["ap-a"] {
		t.Error("a cluster with traffic stands by")
	}
}

// report1 lets a second pass in which all regions report.
func (b *bench) report1() {
	b.now = b.now.Add(1e9)
	for _, r := range []string{"us", "eu", "ap"} {
		b.reportFrom(r)
	}
	b.table.CreatedUnixMs = b.now.Add(-1e9).UnixMilli()
}

// While home ramps the nearest in full use is the one to compare with: what home may not have yet goes there.
func TestAPremiumLetsARampGoOn(t *testing.T) {
	b := newBench(t)
	b.write("TrafficPolicy", "near", "{maxPremium: {latencyMs: 0}}")
	b.ask("us", 3000)
	b.report()
	b.state("us-a", failover.Ramping, 0.25)
	b.state("us-b", failover.Ramping, 0.25)
	b.plan()
	if us, eu := region(b.shares("us"), "us"), region(b.shares("us"), "eu"); us < 0.24 || us > 0.26 || eu < 0.74 {
		t.Errorf("us gets %.3f and eu %.3f: %v", us, eu, b.shares("us"))
	}
}
