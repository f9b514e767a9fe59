package plan

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/failover"
)

// sheds is what the table in force sheds of model m from a region, as text.
func (b *bench) sheds(source string) string {
	for _, w := range b.table.GetWeights() {
		if w.GetModel() == "m" && w.GetClass() == "interactive" && w.GetSource() == source {
			return ladderText(w.GetShed())
		}
	}
	return ""
}

func ladderText(all []*routerpb.Shed) string {
	var out []string
	for _, s := range all {
		out = append(out, fmt.Sprintf("%d:%.2f", s.GetPriority(), s.GetPart()))
	}
	return strings.Join(out, " ")
}

// askAll sets the same demand in all regions and has it reported until it is known.
func (b *bench) askAll(work float64) {
	for _, r := range []string{"us", "eu", "ap"} {
		b.ask(r, work)
	}
	b.report()
	b.plan()
}

// The fleet of newBench can do 14,250 work/s in each region: 0.95 of what it does at most.
func TestWhatThereIsNoRoomForIsShedByPriority(t *testing.T) {
	tests := map[string]struct {
		work  float64
		tiers map[int32]float64
		want  string
	}{
		"there is room":                            {14_000, map[int32]float64{-10: 0.5, 50: 0.5}, ""},
		"a breath more than there is room for":     {14_400, map[int32]float64{-10: 0.5, 50: 0.5}, ""},
		"a part of batch":                          {19_000, map[int32]float64{-10: 0.5, 50: 0.5}, "-10:0.50"},
		"all of batch and some of the next":        {19_000, map[int32]float64{-10: 0.1, 0: 0.4, 50: 0.5}, "-10:1.00 0:0.37"},
		"a tier that nobody asks in goes with it":  {19_000, map[int32]float64{-10: 0.1, 50: 0.9}, "-10:1.00 0:1.00 50:0.17"},
		"top when there is nothing else":           {19_000, map[int32]float64{100: 1}, "-10:1.00 0:1.00 50:1.00 100:0.25"},
		"routers that don't tell are of standard":  {19_000, nil, "-10:1.00 0:1.00 50:0.25"},
		"priorities between tiers are of the less": {19_000, map[int32]float64{49: 0.5, 120: 0.5}, "-10:1.00 0:0.50"},
		"ten times as much":                        {142_500, map[int32]float64{-10: 0.3, 0: 0.3, 50: 0.35, 100: 0.05}, "-10:1.00 0:1.00 50:0.86"},
		"hardly any of a priority is of the next":  {19_000, map[int32]float64{-10: 0.0005, 0: 0.4995, 50: 0.5}, "-10:1.00 0:0.50"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.tiers = tt.tiers
			b.askAll(tt.work)
			for _, source := range []string{"us", "eu", "ap"} {
				if got := b.sheds(source); got != tt.want {
					t.Errorf("from %s %q is shed, want %q", source, got, tt.want)
				}
			}
			if err := Sound(b.table); err != nil {
				t.Error(err)
			}
			why := b.reasons["m/interactive/us"]
			if strings.Contains(why, "routers shed") != (tt.want != "") {
				t.Errorf("the reason is %q", why)
			}
		})
	}
}

// Batch gives way in each region for what is urgent in one: room is where the network leads to it.
func TestBatchGivesWayElsewhere(t *testing.T) {
	b := newBench(t)
	for region, work := range map[string]float64{"us": 28_000, "eu": 14_000, "ap": 14_000} {
		b.ask(region, work)
	}
	// Routers of one region tell another mix than those of others.
	for range 100 {
		b.now = b.now.Add(time.Second)
		for region, tier := range map[string]int32{"us": 50, "eu": -10, "ap": -10} {
			b.tiers = map[int32]float64{tier: 1}
			b.reportFrom(region)
		}
	}
	b.plan()
	if got := b.sheds("us"); got != "" {
		t.Errorf("of standard %q is shed while batch is let in", got)
	}
	if eu, ap := b.sheds("eu"), b.sheds("ap"); !strings.HasPrefix(eu, "-10:0.") || !strings.HasPrefix(ap, "-10:0.") {
		t.Errorf("of batch %q and %q is shed", eu, ap)
	}
}

// What is asked for varies by some percent, in waves that differ between regions.
func TestSheddingDoesNotFlap(t *testing.T) {
	for name, tt := range map[string]struct {
		work, waves float64
		most        int
	}{
		"about as much as there is room for": {14_350, 0.015, 0},
		"a little more":                      {14_650, 0.015, 1},
		"much more":                          {19_000, 0.02, 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.tiers = map[int32]float64{-10: 0.4, 50: 0.6}
			b.askAll(tt.work)
			changes, was := 0, b.sheds("us")
			for i := range 300 {
				b.now = b.now.Add(time.Second)
				for j, region := range []string{"us", "eu", "ap"} {
					b.ask(region, tt.work*(1+tt.waves*math.Sin(float64(i)/7+float64(j))))
					b.reportFrom(region)
				}
				b.plan()
				if now := b.sheds("us"); now != was {
					changes, was = changes+1, now
				}
			}
			if changes > tt.most {
				t.Errorf("what is shed changed %d times", changes)
			}
		})
	}
}

func TestSheddingEndsAtOnceWhenThereIsRoom(t *testing.T) {
	tests := map[string]func(*bench){
		"less is asked for": func(b *bench) {
			for _, r := range []string{"us", "eu", "ap"} {
				b.ask(r, 10_000)
			}
			b.report()
		},
		"a cluster comes that was never measured": func(b *bench) {
			b.cluster("us-c", "us", 20_000)
		},
		"no cluster is healthy, as far as is known": func(b *bench) {
			for _, c := range []string{"us-a", "us-b", "eu-a", "eu-b", "ap-a", "ap-b"} {
				b.state(c, failover.Evacuated, 0)
			}
		},
		"while changes are frozen": func(b *bench) {
			b.frozen = true
			for _, r := range []string{"us", "eu", "ap"} {
				b.ask(r, 10_000)
			}
			b.report()
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.tiers = map[int32]float64{-10: 0.5, 50: 0.5}
			if b.askAll(19_000); b.sheds("us") == "" {
				t.Fatal("nothing is shed")
			}
			change(b)
			if b.plan(); b.sheds("us") != "" {
				t.Errorf("%q is shed", b.sheds("us"))
			}
		})
	}
}

// Weights must not grow onto a cluster that is suspected, and what overflows finds its way there.
func TestWhereOnlyWeightsAreHeldBackNothingIsShed(t *testing.T) {
	b := newBench(t)
	b.tiers = map[int32]float64{-10: 1}
	b.ask("eu", 1000)
	b.ask("ap", 1000)
	b.ask("us", 10_000)
	b.report()
	b.plan()
	for _, c := range []string{"eu-a", "eu-b", "ap-a", "ap-b"} {
		b.state(c, failover.Frozen, 1)
	}
	b.ask("us", 30_000)
	b.report()
	b.plan()
	if why := b.reasons["m/interactive/us"]; !strings.Contains(why, "is to be shed") {
		t.Fatalf("weights are not held back: %s", why)
	}
	if got := b.sheds("us"); got != "" {
		t.Errorf("%q is shed, and there is room", got)
	}
}

func TestSheddingIsHeldAsWeightsAre(t *testing.T) {
	tests := map[string]func(*bench){
		"a leader that has not heard of enough": func(b *bench) { b.warm = false },
		"changes are frozen":                    func(b *bench) { b.frozen = true },
	}
	for name, change := range tests {
		for _, more := range []float64{16_500, 30_000} {
			t.Run(fmt.Sprintf("%s, %.0f", name, more), func(t *testing.T) {
				b := newBench(t)
				b.tiers = map[int32]float64{-10: 0.5, 50: 0.5}
				b.askAll(19_000)
				was := b.sheds("us")
				change(b)
				if b.askAll(more); b.sheds("us") != was {
					t.Errorf("%q is shed, and was %q", b.sheds("us"), was)
				}
				b.frozen, b.warm = false, true
				if b.plan(); b.sheds("us") == was {
					t.Error("it does not go on afterwards")
				}
			})
		}
	}
}

func TestNothingIsShedByAGuess(t *testing.T) {
	b := newBench(t)
	b.capacity = map[string]float64{} // nobody measures any
	b.tiers = map[int32]float64{-10: 1}
	if b.askAll(1e6); b.sheds("us") != "" {
		t.Errorf("%q is shed, and nobody knows what clusters can do", b.sheds("us"))
	}
}

// A loss that leaves too little is met in the plan that sees it.
func TestALossIsMetAtOnce(t *testing.T) {
	b := newBench(t)
	b.tiers = map[int32]float64{-10: 0.5, 50: 0.5}
	if b.askAll(13_000); b.sheds("eu") != "" {
		t.Fatalf("%q is shed", b.sheds("eu"))
	}
	b.state("us-a", failover.Evacuated, 0)
	b.state("us-b", failover.Evacuated, 0)
	b.now = b.now.Add(time.Second)
	for _, r := range []string{"us", "eu", "ap"} {
		b.reportFrom(r)
	}
	b.plan()
	if got := b.sheds("us"); !strings.HasPrefix(got, "-10:0.") {
		t.Errorf("%q is shed after the loss of a third", got)
	}
}

func TestSoundTablesShedInOrder(t *testing.T) {
	nan := math.NaN()
	shed := func(priority int32, part float64) *routerpb.Shed {
		return &routerpb.Shed{Priority: priority, Part: part}
	}
	tests := map[string]struct {
		shed []*routerpb.Shed
		ok   bool
	}{
		"nothing":                       {nil, true},
		"a part":                        {[]*routerpb.Shed{shed(-10, 0.5)}, true},
		"all of one, a part of another": {[]*routerpb.Shed{shed(-10, 1), shed(50, 0.01)}, true},
		"nothing of one":                {[]*routerpb.Shed{shed(-10, 0)}, false},
		"less than nothing":             {[]*routerpb.Shed{shed(-10, -1)}, false},
		"more than all":                 {[]*routerpb.Shed{shed(-10, 1.01)}, false},
		"no number":                     {[]*routerpb.Shed{shed(-10, nan)}, false},
		"a higher one first":            {[]*routerpb.Shed{shed(50, 1), shed(-10, 0.5)}, false},
		"the same twice":                {[]*routerpb.Shed{shed(50, 1), shed(50, 0.5)}, false},
		"both in part":                  {[]*routerpb.Shed{shed(-10, 0.9), shed(50, 0.5)}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.askAll(1000)
			b.table.Weights[0].Shed = tt.shed
			if err := Sound(b.table); (err == nil) != tt.ok {
				t.Errorf("%v", err)
			}
		})
	}
}

// Whatever is asked for, and whatever was shed before: lower tiers go first, what is shed is about what is too
// much, and it is nothing when there is room.
func TestSheddingLaws(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := &demand{work: rapid.Float64Range(1, 1e6).Draw(rt, "work"), model: "m", policy: builtIn(), before: &routerpb.Weights{}}
		d.routes = []*route{{site: &site{
			load: loadMax, spec: &policy.ClusterSpec{}, ability: map[fleet.ModelID]signal.Ability{"m": {Capacity: 1, Since: time.Hour}},
		}}}
		work := map[int32]float64{}
		for _, name := range policy.Tiers() {
			work[policy.TierPriority(name)] = rapid.Float64Range(0, 1).Draw(rt, name)
		}
		d.tiers = tiersOf(work)
		sum := 0.0
		for i, x := range d.tiers {
			if sum += x.part; i > 0 && d.tiers[i-1].priority >= x.priority {
				rt.Fatalf("tiers %v", d.tiers)
			}
		}
		if math.Abs(sum-1) > 1e-9 {
			rt.Fatalf("tiers %v sum to %v", d.tiers, sum)
		}
		over := func() float64 { // as the solver sheds: the lowest first
			left := rapid.SampledFrom([]float64{0, 0.001, 0.03, 0.2, 0.5, 0.97, 1}).Draw(rt, "over")
			d.shed = d.shed[:0]
			all := left
			for _, x := range d.tiers {
				if of := min(left, x.part); of > 1e-4*x.part {
					d.shed, left = append(d.shed, shed{x.priority, of / x.part}), left-of
				}
			}
			return all
		}
		for range 4 {
			all := over()
			d.refuse(Input{Warm: true})
			if err := soundShed(d.refused); err != nil {
				rt.Fatal(err)
			}
			told := 0.0
			for _, x := range d.tiers {
				for _, s := range d.refused {
					if s.GetPriority() == x.priority {
						told += s.GetPart() * x.part
					}
				}
			}
			if all == 0 && len(d.refused) > 0 || all >= 0.03 && len(d.refused) == 0 || math.Abs(told-all) > shedBand+shedGrain+shedFirst {
				rt.Fatalf("of %v %v is too much, and %q is shed, in all %v", d.tiers, all, ladderText(d.refused), told)
			}
			d.before = &routerpb.Weights{Shed: d.refused}
		}
	})
}

func TestAllPrioritiesCountAsOfATier(t *testing.T) {
	for priority, want := range map[int32]int32{math.MinInt32: -10, -11: -10, -10: -10, -1: -10, 0: 0, 49: 0, 50: 50, 99: 50, 100: 100, math.MaxInt32: 100} {
		if got := policy.CountsAs(priority); got != want {
			t.Errorf("%d counts as %d, want %d", priority, got, want)
		}
	}
}
