package plan

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/failover"
)

// after lets time pass with all routers reporting, and plans each second.
func (b *bench) after(seconds int) {
	for range seconds {
		b.now = b.now.Add(time.Second)
		for _, region := range []string{"us", "eu", "ap"} {
			b.reportFrom(region)
		}
		b.plan()
	}
}

func TestTheSamePlanTwiceIsNoChange(t *testing.T) {
	b := newBench(t)
	b.ask("us", 18_000)
	b.report()
	b.plan()
	b.now = b.now.Add(time.Second)
	if b.plan().Changed {
		t.Error("nothing happened, and the table changed")
	}
}

func TestLoadMovesSlowlyOntoARegion(t *testing.T) {
	b := newBench(t)
	b.ask("us", 3000)
	b.report()
	b.plan()
	b.ask("us", 11_900) // what it should do at most
	before, steps := b.shares("us"), 0
	for range 120 {
		b.after(1)
		now := b.shares("us")
		for _, to := range []string{"us", "eu", "ap"} {
			if rise := region(now, to) - region(before, to); rise > 0.02+2*quantum {
				t.Fatalf("%s rose by %.4f within a second", to, rise)
			}
		}
		if !maps.Equal(now, before) {
			steps++
		}
		before = now
	}
	if local := region(before, "us"); steps < 5 || local > 0.88 {
		t.Errorf("after two minutes and %d steps %.2f is still at home", steps, local)
	}
}

// What home has too much does not wait for that: it leaves at once, as far as others have room for it as cold
// as they are; the rest of the way is at the pace of growth.
func TestWhatAClusterHasTooMuchLeavesAtOnce(t *testing.T) {
	tests := map[string]struct {
		ask, others float64 // of us, and of eu and ap
		low, high   float64 // share at home a second later
	}{
		"a little":                         {12_600, 3000, 0.92, 0.96},
		"a fifth":                          {15_000, 3000, 0.79, 0.81},
		"twice as much as it should":       {24_000, 3000, 0.5, 0.62}, // 1.7 times as much work where caches are cold
		"others have little room":          {24_000, 10_000, 0.85, 0.96},
		"others have none":                 {24_000, 14_000, 0.94, 1},
		"no more than a site should do":    {11_900, 3000, 0.979, 1},
		"more than everybody can together": {80_000, 3000, 0.6, 0.9},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.ask("us", 3000)
			b.ask("eu", tt.others)
			b.ask("ap", tt.others)
			b.report()
			b.plan()
			near(t, "share at home", region(b.shares("us"), "us"), 1, 0)
			b.ask("us", tt.ask)
			b.report()
			b.plan()
			if got := region(b.shares("us"), "us"); got < tt.low || got > tt.high {
				t.Errorf("home has %.4f, want %.2f to %.2f: %s", got, tt.low, tt.high, b.reasons["m/interactive/us"])
			}
		})
	}
}

func TestSmallChangesOfLoadMoveNothing(t *testing.T) {
	b := newBench(t)
	b.ask("us", 18_000)
	b.report()
	b.plan()
	before := b.shares("us")
	b.ask("us", 18_200)
	b.after(60)
	if after := b.shares("us"); !maps.Equal(before, after) {
		t.Errorf("one percent more load moved %v to %v", before, after)
	}
}

func TestANewLeaderHoldsTheWeights(t *testing.T) {
	b := newBench(t)
	b.ask("us", 3000)
	b.report()
	b.plan()
	before := b.shares("us")
	b.ask("us", 40_000)
	b.warm = false
	b.after(30)
	e, err := Explain(b.input(), Ask{Model: "m", Source: "us"})
	if err != nil || e.Demands[0].Standing != StandingHeld || !strings.Contains(e.Demands[0].Summary, "is wanted, and held until enough routers have reported") {
		t.Errorf("explained as %+v, error %v", e.Demands, err)
	}
	if !maps.Equal(before, b.shares("us")) {
		t.Errorf("%v became %v", before, b.shares("us"))
	}
	// An order is an order, also now: what it bars is left, and the rest keeps its proportions.
	b.cluster("us-a", "us", 10_000, "drained: true")
	b.after(1)
	near(t, "the cluster not drained", b.shares("us")["us-b"], 1, 0)
	if why := b.reasons["m/interactive/us"]; !strings.Contains(why, "held until enough routers have reported") {
		t.Errorf("the reason is %q", why)
	}
	b.warm = true
	b.after(60)
	if region(b.shares("us"), "us") > 0.5 {
		t.Errorf("warm for a minute, and %v", b.shares("us"))
	}
}

func TestSilenceHoldsTheWeights(t *testing.T) {
	b := newBench(t)
	b.ask("us", 20_000)
	b.report()
	b.plan()
	before := b.shares("us")
	b.ask("us", 3000)
	for range 60 { // eu says nothing
		b.now = b.now.Add(time.Second)
		b.reportFrom("us")
		b.reportFrom("ap")
		b.plan()
		if b.now.Sub(noon) > 110*time.Second && !strings.Contains(b.reasons["m/interactive/us"], "held: no fresh report from eu") {
			t.Fatalf("the reason is %q", b.reasons["m/interactive/us"])
		}
	}
	// In the first five seconds eu counted as fresh.
	if moved := distanceOf(before, b.shares("us")); moved > 6*growth {
		t.Errorf("%.2f moved while eu was silent", moved)
	}
}

// What home has too much leaves it all the same, for where it can be seen that there is room.
func TestSilenceDoesNotHoldWhatIsTooMuch(t *testing.T) {
	b := newBench(t)
	b.ask("us", 15_000)
	b.report()
	b.plan()
	before := b.shares("us")
	if region(before, "eu") < 0.05 || region(before, "ap") > 0.01 {
		t.Fatalf("us goes to %v", before)
	}
	hear := func(seconds int) {
		for range seconds { // eu says nothing
			b.now = b.now.Add(time.Second)
			b.reportFrom("us")
			b.reportFrom("ap")
			b.plan()
		}
	}
	hear(20)
	near(t, "held in us", region(b.shares("us"), "us"), region(before, "us"), 1e-9)
	b.ask("us", 22_000)
	hear(60)
	after := b.shares("us")
	near(t, "share of eu", region(after, "eu"), region(before, "eu"), 1e-9)
	near(t, "load of us", region(after, "us")*22_000/15_000, rhoMax, excess)
	if why := b.reasons["m/interactive/us"]; !strings.Contains(why, "held: no fresh report from eu") {
		t.Errorf("the reason is %q", why)
	}
	tables := b.table.GetRef().GetRevision()
	hear(60)
	if b.table.GetRef().GetRevision() != tables {
		t.Error("tables go on changing")
	}
	b.ask("us", 3000) // and it comes back when eu is heard again
	hear(60)
	near(t, "share of us, asking for less", region(b.shares("us"), "us"), region(after, "us"), 1e-9)
	b.after(90)
	near(t, "share of us, heard again", region(b.shares("us"), "us"), 1, deadBand)
}

// A region that does not speak is not relieved by what was last known of it, nor does anything leave a source that is
// silent itself.
func TestWhatIsSilentIsNotRelieved(t *testing.T) {
	b := newBench(t)
	b.ask("us", 12_500)
	b.ask("eu", 12_500)
	b.report()
	b.plan()
	eu := b.shares("eu")
	b.ask("eu", 30_000)
	b.now = b.now.Add(time.Second)
	b.reportFrom("eu") // its last word
	for range 30 {
		b.now = b.now.Add(time.Second)
		b.reportFrom("us")
		b.reportFrom("ap")
		if b.now.Sub(noon) > 110*time.Second {
			before := b.shares("eu")
			b.plan()
			if !maps.Equal(before, b.shares("eu")) {
				t.Fatalf("from %v to %v", before, b.shares("eu"))
			}
		}
	}
	if moved := distanceOf(eu, b.shares("eu")); moved > 0 {
		t.Errorf("%.3f of eu moved", moved)
	}
}

func distanceOf(a, b map[string]float64) float64 {
	far := 0.0
	for k := range a {
		far = max(far, a[k]-b[k], b[k]-a[k])
	}
	return far
}

func TestASuspectDoesNotGrow(t *testing.T) {
	b := newBench(t)
	b.ask("us", 14_000)
	b.report()
	b.plan()
	before := b.shares("us")
	b.state("eu-a", failover.Suspect, 0)
	b.state("eu-b", failover.Degraded, 0)
	b.ask("us", 22_000)
	b.after(90)
	after := b.shares("us")
	if region(after, "eu") > region(before, "eu")+2*quantum {
		t.Errorf("eu grew from %.3f to %.3f", region(before, "eu"), region(after, "eu"))
	}
	if region(after, "ap") <= region(before, "ap") {
		t.Errorf("ap did not take what eu may not: %v", after)
	}
}

func TestAPolicyChangeMovesAtOnce(t *testing.T) {
	b := newBench(t)
	b.report()
	b.plan()
	b.write("TrafficPolicy", "p", "regions: [{region: us, weight: 0.3}]")
	b.after(1)
	near(t, "us", region(b.shares("us"), "us"), 0.3, 0.001)
	if b.now = b.now.Add(time.Second); b.plan().Changed {
		t.Error("the same policy moved weights twice")
	}
}

func TestNewAndGoneClustersMoveAtOnce(t *testing.T) {
	b := newBench(t)
	b.report()
	b.plan()
	b.cluster("us-c", "us", 15_000)
	b.after(1)
	near(t, "the new cluster, by its prior", b.shares("us")["us-c"], 0.25, 0.001)
	b.after(30)
	near(t, "the new cluster, measured", b.shares("us")["us-c"], 0.5, 0.02)
	b.remove("Cluster", "us-a")
	b.after(1)
	if got := b.shares("us"); len(got) != 6 || got["us-a"] != 0 {
		t.Errorf("got %v", got)
	}
}

// A cluster that is listed may be used when the others are dead, so one that gets nothing must
// still be listed from the moment it exists, although no share changes.
func TestANewClusterThatIsNotNeededIsListed(t *testing.T) {
	b := newBench(t)
	b.report()
	for _, name := range []string{"eu-a", "eu-b", "ap-a", "ap-b"} {
		b.remove("Cluster", name)
	}
	b.plan()
	b.cluster("eu-a", "eu", 10_000)
	b.after(1)
	if got, listed := b.shares("us")["eu-a"]; got != 0 || !listed {
		t.Errorf("us-east's shares are %v", b.shares("us"))
	}
}

// Load that alternates between two levels must not swing weights by more than the field's wish of
// five points peak to peak.
func TestAlternatingLoadDoesNotSwingWeights(t *testing.T) {
	for _, period := range []int{2, 5, 10} {
		b := newBench(t)
		b.ask("us", 15_000)
		b.report()
		b.plan()
		b.after(60)
		low, high := 1.0, 0.0
		for i := range 30 {
			b.ask("us", []float64{12_000, 18_000}[i%2])
			b.after(period)
			if i < 6 {
				continue
			}
			local := region(b.shares("us"), "us")
			low, high = min(low, local), max(high, local)
		}
		if high-low > 0.05 {
			t.Errorf("with a period of %ds the local share swings by %.3f", period, high-low)
		}
	}
}

func TestWhileFrozenLoadMovesNothingAndHealthDoes(t *testing.T) {
	b := newBench(t)
	b.ask("us", 3000)
	b.report()
	b.plan()
	before := b.shares("us")
	b.frozen = true
	b.ask("us", 20_000)
	b.after(30)
	if now := b.shares("us"); !maps.Equal(now, before) {
		t.Errorf("load moved weights from %v to %v", before, now)
	}
	if why := b.reasons["m/interactive/us"]; !strings.Contains(why, "changes are frozen") {
		t.Errorf("reason %q", why)
	}
	b.health[at("us-a")] = failover.Cluster{State: failover.Evacuated, Reason: "dead"}
	b.after(1)
	if now := b.shares("us"); now["us-a"] != 0 {
		t.Errorf("a dead cluster keeps %v", now["us-a"])
	}
	b.frozen = false
	delete(b.health, at("us-a"))
	b.after(1)
	if maps.Equal(b.shares("us"), before) {
		t.Error("nothing moves after the freeze")
	}
}

func TestASiteWithColdCachesGetsMoreAsItHasDoneMore(t *testing.T) {
	tests := map[string]struct {
		load   float64 // of the demand, in work/s; sites do 10,000
		served float64 // by eu for us
		before []float64
		shares []float64
		change func(*demand)
		want   []float64
	}{
		"a first part":                    {10_000, 0, []float64{1, 0, 0}, []float64{0.6, 0.4, 0}, nil, []float64{0.95, 0.05, 0}},
		"more for what it has done":       {10_000, 20_000, []float64{0.9, 0.1, 0}, []float64{0.6, 0.4, 0}, nil, []float64{0.75, 0.25, 0}},
		"all when it has done much":       {10_000, 60_000, []float64{0.9, 0.1, 0}, []float64{0.6, 0.4, 0}, nil, []float64{0.6, 0.4, 0}},
		"never less than it has":          {10_000, 0, []float64{0.7, 0.3, 0}, []float64{0.6, 0.4, 0}, nil, []float64{0.698, 0.302, 0}},
		"all of a little":                 {400, 0, []float64{1, 0, 0}, []float64{0.6, 0.4, 0}, nil, []float64{0.6, 0.4, 0}},
		"two with cold caches":            {10_000, 0, []float64{1, 0, 0}, []float64{0.4, 0.3, 0.3}, nil, []float64{0.9, 0.05, 0.05}},
		"all where nobody else could":     {10_000, 0, []float64{0, 0, 0}, []float64{0, 1, 0}, nil, []float64{0, 1, 0}},
		"all where the others are barred": {10_000, 0, []float64{1, 0, 0}, []float64{0, 1, 0}, func(d *demand) { d.routes[0].barred = "drained" }, []float64{0, 1, 0}},
		"all where the others must not grow": {10_000, 0, []float64{1, 0, 0}, []float64{0.6, 0.4, 0}, func(d *demand) {
			d.routes[0].health = &failover.Cluster{State: failover.Suspect}
		}, []float64{0.6, 0.4, 0}},
		"all that a dead site had": {10_000, 0, []float64{0, 0.4, 0.6}, []float64{0.5, 0.5, 0}, func(d *demand) {
			d.routes[1].served, d.routes[2].barred = 100_000, "EVACUATED"
		}, []float64{0.5, 0.5, 0}},
		"what a dead site had, and others keep the rest": {10_000, 0, []float64{0, 0.6, 0.4}, []float64{0.6, 0.4, 0}, func(d *demand) {
			d.routes[1].served, d.routes[2].barred = 100_000, "EVACUATED"
		}, []float64{0.4, 0.6, 0}},
		"its part where it ramps": {10_000, 0, []float64{1, 0, 0}, []float64{0.75, 0.25, 0}, func(d *demand) { d.routes[1].factor = 0.25 }, []float64{0.75, 0.25, 0}},
		"all where it is a provider": {10_000, 0, []float64{1, 0, 0}, []float64{0.6, 0.4, 0}, func(d *demand) {
			d.routes[1].site.spec.Type = policy.TypeProvider
		}, []float64{0.6, 0.4, 0}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := three(tt.before...)
			d.load = tt.load
			for _, r := range d.routes {
				r.capacity = 10_000
			}
			d.routes[1].served = tt.served
			if tt.change != nil {
				tt.change(d)
			}
			shares := slices.Clone(tt.shares)
			d.warmUp(shares)
			if distance(shares, tt.want) > quantum {
				t.Errorf("got %v, want %v", shares, tt.want)
			}
		})
	}
}

func TestColdCachesMakeMoreWork(t *testing.T) {
	r, d := &route{site: &site{spec: &policy.ClusterSpec{}}, capacity: 1000}, &demand{cold: 1.7}
	for served, want := range map[float64]float64{0: 1.7, 15_000: 1.35, 30_000: 1, 90_000: 1} {
		if r.served = served; math.Abs(r.coldFactor(d)-want) > 1e-9 {
			t.Errorf("after %v work units it is %v times, want %v", served, r.coldFactor(d), want)
		}
	}
}

// What a dead region did goes where the solution has room for it, whoever has had a share of it before.
func TestColdCachesDoNotCrowdWhatADeadRegionDid(t *testing.T) {
	b := newBench(t)
	b.ask("us", 15_000)
	b.ask("eu", 3000)
	b.report()
	b.plan()
	b.after(60)
	if before := b.shares("us"); region(before, "eu") < 0.2 || region(before, "ap") > 0.01 {
		t.Fatalf("us goes to %v", before)
	}
	b.state("us-a", failover.Evacuated, 0)
	b.state("us-b", failover.Evacuated, 0)
	b.after(1)
	if after := region(b.shares("us"), "eu"); after*15_000+3000 > 0.85*15_000 {
		t.Errorf("eu gets %.2f of us beside its own: %s", after, b.reasons["m/interactive/us"])
	}
}

// A router that has only just begun to report tells of the first seconds of its clients.
func TestARouterThatHasJustBegunMovesNothing(t *testing.T) {
	b := newBench(t)
	b.ask("us", 3000)
	b.report()
	b.plan()
	before := b.shares("us")
	second := func() {
		b.now = b.now.Add(time.Second)
		for _, region := range []string{"us", "eu", "ap"} {
			b.reportFrom(region)
		}
		b.signals.Put(signal.Observation{
			Node: "n1", Hello: &routerpb.Hello{RouterId: "r-us-2", Region: "us"}, Received: b.now, Connected: true,
			Report: &routerpb.Report{
				AtUnixMs: b.now.UnixMilli(), WindowMs: 1000,
				Demand: []*routerpb.DemandSignal{{Model: "m", Class: "interactive", WorkPerS: 30_000}},
			},
		})
		b.plan()
	}
	for range 10 {
		second()
	}
	if got := b.shares("us"); !maps.Equal(before, got) {
		t.Errorf("within ten seconds %v became %v", before, got)
	}
	if why := b.reasons["m/interactive/us"]; !strings.Contains(why, "a router in us has only just begun to report") {
		t.Errorf("the reason is %q", why)
	}
	for range 10 {
		second()
	}
	if local := region(b.shares("us"), "us"); local > 0.8 {
		t.Errorf("after twenty, %.2f is still at home", local)
	}
}
