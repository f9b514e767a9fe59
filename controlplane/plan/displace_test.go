package plan

import (
	"math"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/failover"
	"anabranch/failover/shift"
)

// evacuate loses a cluster now.
func (b *bench) evacuate(cluster string) {
	b.health[at(cluster)] = failover.Cluster{State: failover.Evacuated, Since: b.now, Reason: "lost"}
}

// small has a cluster of 10,000 work/s in each region, which has served its own for long.
func small(t testing.TB, asks float64) *bench {
	b := emptyBench(t)
	b.write("Region", "us", "zone: us\n  peerURLs: [https://us:1]\n  rttMs: {eu: 80, ap: 160}")
	b.write("Region", "eu", "zone: eu\n  peerURLs: [https://eu:1]\n  rttMs: {ap: 120}")
	b.write("Region", "ap", "zone: ap\n  peerURLs: [https://ap:1]")
	b.write("Model", "m", "{}")
	for _, region := range []string{"us", "eu", "ap"} {
		b.cluster(region+"-a", region, 10_000)
		b.ask(region, asks)
	}
	b.plan()
	b.report()
	b.plan()
	b.report()
	return b
}

func TestWhatALostRegionDidMovesAtOnceAndCountsAsCold(t *testing.T) {
	for name, c := range map[string]struct {
		asks   float64
		cold   func(fleet.ModelID) (shift.Cold, bool)
		sheds  bool
		demand string
	}{
		"safe by what is believed of caches":     {4800, nil, false, "us"},
		"too much by what is believed of caches": {6000, nil, true, "us"},
		"safe where caches save nothing":         {6000, warm, false, "us"},
		"too much where they save a lot":         {4800, func(fleet.ModelID) (shift.Cold, bool) { return shift.Cold{Prefill: 0.5, Hit: 0.8}, true }, true, "us"},
		"those alike give way alike":             {6000, nil, true, "eu"},
	} {
		t.Run(name, func(t *testing.T) {
			b := small(t, c.asks)
			b.evacuate("us-a")
			b.cold = c.cold
			b.plan()
			shares := b.shares("us")
			if shares["us-a"] != 0 || math.Abs(shares["eu-a"]-0.5) > 0.03 {
				t.Errorf("it goes %v", shares)
			}
			sheds := false
			for _, w := range b.table.GetWeights() {
				sheds = sheds || w.GetSource() == c.demand && len(w.GetShed()) > 0
			}
			if sheds != c.sheds {
				t.Errorf("sheds: %v; %s", sheds, b.reasons["m/interactive/us"])
			}
		})
	}
}

func TestALossIsOverOnceCachesAreWarm(t *testing.T) {
	b := small(t, 6000)
	b.evacuate("us-a")
	b.plan()
	shed := func() int {
		n := 0
		for _, w := range b.table.GetWeights() {
			n += len(w.GetShed())
		}
		return n
	}
	if shed() == 0 {
		t.Fatal("nothing is shed")
	}
	for range 3 {
		b.report()
		b.plan()
	}
	if shed() != 0 {
		t.Errorf("after five minutes: %s", b.reasons["m/interactive/us"])
	}
}

func TestWhatCountsAsALoss(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*bench)
		lost   bool
	}{
		"evacuated now":              {func(b *bench) { b.evacuate("us-a") }, true},
		"failing over in steps":      {func(b *bench) { b.since("us-a", failover.FailingOver, 0.5, 0) }, true},
		"draining":                   {func(b *bench) { b.since("us-a", failover.Draining, 0, time.Second) }, true},
		"drained by an order":        {func(b *bench) { b.cluster("us-a", "us", 10_000, "drained: true") }, true},
		"evacuated for ten minutes":  {func(b *bench) { b.since("us-a", failover.Evacuated, 0, 10*time.Minute) }, false},
		"evacuated, who knows when":  {func(b *bench) { b.state("us-a", failover.Evacuated, 0) }, false},
		"frozen":                     {func(b *bench) { b.since("us-a", failover.Frozen, 0, 0) }, false},
		"in its ramp":                {func(b *bench) { b.since("us-a", failover.Ramping, 0.5, time.Second) }, false},
		"a clock that was set back":  {func(b *bench) { b.since("us-a", failover.Evacuated, 0, -time.Minute) }, true},
		"caches that save nothing":   {func(b *bench) { b.evacuate("us-a"); b.cold = warm }, true},
		"one that did none of it":    {func(b *bench) { b.cluster("us-b", "us", 10_000); b.evacuate("us-b") }, false},
		"evacuated for some seconds": {func(b *bench) { b.since("us-a", failover.Evacuated, 0, 3*time.Second) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := small(t, 4000)
			c.change(b)
			in := b.input()
			in.Previous, in.Cold = b.table, b.cold
			w := survey(in)
			demands := w.demands(in)
			displace(demands, in)
			for _, d := range demands {
				if d.source == "us" && d.lost != c.lost {
					t.Errorf("lost: %v", d.lost)
				}
			}
		})
	}
}

func TestWhatADrillTakesAwayComesColdToo(t *testing.T) {
	b := small(t, 4000)
	in := b.input()
	in.Previous, in.supposed = b.table, &suppositions{out: []fleet.ClusterID{"us-a"}}
	w := survey(in)
	demands := w.demands(in)
	displace(demands, in)
	for _, d := range demands {
		for _, r := range d.routes {
			if d.source == "us" && r.site.id == "eu-a" && (!d.lost || math.Abs(r.moved-shift.Unmeasured.Factor()) > 1e-9) {
				t.Errorf("lost: %v, what moves is %v times the work", d.lost, r.moved)
			}
		}
	}
}

// since puts a cluster in a state that began so long ago.
func (b *bench) since(cluster string, s failover.State, share float64, ago time.Duration) {
	b.health[at(cluster)] = failover.Cluster{State: s, Share: share, Since: b.now.Add(-ago), Reason: "told so"}
}

func TestARampIsAlsoByWork(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		share float64
		most  float64
		least float64
	}{
		"the first step fits in what any place may have":      {time.Second, 0.01, 0.011, 0.009},
		"a step that comes too soon waits for caches to fill": {time.Second, 0.25, 0.10, 0.05},
		"after some time the step holds":                      {5 * time.Minute, 0.05, 0.051, 0.049},
	} {
		t.Run(name, func(t *testing.T) {
			b := small(t, 8000)
			b.since("us-a", failover.Evacuated, 0, 10*time.Minute)
			b.plan()
			b.report()
			b.since("us-a", failover.Ramping, c.share, c.after)
			b.plan()
			if got := b.shares("us")["us-a"]; got > c.most || got < c.least {
				t.Errorf("it gets %v: %s", got, b.reasons["m/interactive/us"])
			}
		})
	}
}
