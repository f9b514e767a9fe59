package plan

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/failover"
)

func TestSharesAreRoundedToSumToOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.OneOf(rapid.Just(0.0), rapid.Just(1.0), rapid.Float64Range(0, 1)) // many alike, as an idle fleet has
		raw := rapid.SliceOfN(some, 1, 400).Draw(t, "shares")
		sum := 0.0
		for _, x := range raw {
			sum += x
		}
		if sum < 1e-6 {
			return
		}
		shares := make([]float64, len(raw))
		for i, x := range raw {
			shares[i] = x / sum
		}
		before := append([]float64(nil), shares...)
		round(shares)
		total := 0.0
		for i, x := range shares {
			if x < 0 || math.Abs(x*1e4-math.Round(x*1e4)) > 1e-6 {
				t.Fatalf("share %v is no multiple of 0.0001", x)
			}
			if math.Abs(x-before[i]) > quantum*(1+1e-6) || before[i] == 0 && x > 0 {
				t.Fatalf("share %v became %v", before[i], x)
			}
			total += x
		}
		if math.Abs(total-1) > 1e-9 {
			t.Fatalf("shares sum to %v", total)
		}
		again := append([]float64(nil), shares...)
		round(again)
		if distance(again, shares) != 0 {
			t.Fatalf("rounding twice moves %v to %v", shares, again)
		}
	})
	alike := make([]float64, 190) // 52.63 steps each
	for i := range alike {
		alike[i] = 1.0 / 190
	}
	if round(alike); slices.Min(alike) != 0.0052 || slices.Max(alike) != 0.0053 {
		t.Errorf("190 clusters alike have shares from %v to %v", slices.Min(alike), slices.Max(alike))
	}
	none := []float64{0, 0}
	if round(none); none[0] != 0 || none[1] != 0 {
		t.Errorf("nothing became %v", none)
	}
}

// three is a demand from us over one site in each of three regions.
func three(before ...float64) *demand {
	d := &demand{source: "us", model: "m", class: "interactive", policy: builtIn(), before: &routerpb.Weights{}}
	for i, region := range []fleet.RegionID{"us", "eu", "ap"} {
		s := &site{id: fleet.ClusterID(region + "-a"), region: region, spec: &policy.ClusterSpec{}}
		d.routes = append(d.routes, &route{site: s, factor: 1, wish: 1, size: 1.0 / 3, before: before[i]})
		d.before.Clusters = append(d.before.Clusters, &routerpb.ClusterWeight{Cluster: string(s.id), Weight: before[i]})
	}
	return d
}

func weightsOf(d *demand) []float64 {
	var out []float64
	for _, c := range d.out {
		out = append(out, c.GetWeight())
	}
	return out
}

func TestTheWayToATarget(t *testing.T) {
	tests := map[string]struct {
		before, target, want []float64
		passed               time.Duration
	}{
		"a second on": {
			[]float64{1, 0, 0}, []float64{0.5, 0.5, 0}, []float64{0.98, 0.02, 0}, time.Second,
		},
		"half a second on": {
			[]float64{1, 0, 0}, []float64{0.5, 0.5, 0}, []float64{0.99, 0.01, 0}, time.Second / 2,
		},
		"an hour after the last table, a second's worth": {
			[]float64{1, 0, 0}, []float64{0.5, 0.5, 0}, []float64{0.98, 0.02, 0}, time.Hour,
		},
		"the clock of the leader before was ahead, a second's worth": {
			[]float64{1, 0, 0}, []float64{0.5, 0.5, 0}, []float64{0.98, 0.02, 0}, -time.Hour,
		},
		"two regions rise, the faster sets the pace": {
			[]float64{1, 0, 0}, []float64{0.4, 0.4, 0.2}, []float64{0.97, 0.02, 0.01}, time.Second,
		},
		"home rises no faster": {
			[]float64{0.5, 0.5, 0}, []float64{1, 0, 0}, []float64{0.52, 0.48, 0}, time.Second,
		},
		"a small step is taken whole": {
			[]float64{0.5, 0.5, 0}, []float64{0.515, 0.485, 0}, []float64{0.515, 0.485, 0}, time.Second,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := three(tt.before...)
			in := Input{Now: noon.Add(tt.passed), Previous: &routerpb.Table{CreatedUnixMs: noon.UnixMilli()}}
			d.approach(tt.before, tt.target, in)
			if distance(weightsOf(d), tt.want) > quantum/2 {
				t.Errorf("got %v, want %v (%s)", weightsOf(d), tt.want, d.why)
			}
		})
	}
}

func TestWithinARegionSharesMoveAtOnce(t *testing.T) {
	d := three(0.5, 0.5, 0)
	d.routes[1].site.region = "us"
	in := Input{Now: noon.Add(time.Second), Previous: &routerpb.Table{CreatedUnixMs: noon.UnixMilli()}}
	d.approach([]float64{0.5, 0.5, 0}, []float64{0.9, 0.1, 0}, in)
	if got := weightsOf(d); got[0] != 0.9 {
		t.Errorf("got %v", got)
	}
}

func TestWhatIsBarredIsLeftOutOfWhatIsHeld(t *testing.T) {
	d := three(0.5, 0.3, 0.2)
	d.routes[0].barred = "drained"
	before := []float64{0.5, 0.3, 0.2}
	if !d.keepUsable(before) || distance(before, []float64{0, 0.6, 0.4}) > quantum {
		t.Errorf("got %v", before)
	}
	d.routes[1].barred, d.routes[2].barred = "drained", "drained"
	if d.keepUsable([]float64{0.5, 0.3, 0.2}) {
		t.Error("something is left of nothing")
	}
}

func TestLastGoodWeights(t *testing.T) {
	evacuated := failover.Cluster{State: failover.Evacuated}
	tests := map[string]struct {
		before []float64
		change func(*demand)
		want   []float64
	}{
		"stay when all are evacuated": {
			[]float64{0.5, 0.3, 0.2}, func(*demand) {}, []float64{0.5, 0.3, 0.2},
		},
		"leave out what an operator drained": {
			[]float64{0.5, 0.3, 0.2}, func(d *demand) { d.routes[0].site.spec.Drained = true }, []float64{0, 0.6, 0.4},
		},
		"go by capacity when there were none": {
			[]float64{0, 0, 0}, func(d *demand) { d.routes[0].size, d.routes[1].size, d.routes[2].size = 0.6, 0.4, 0.0 }, []float64{0.6, 0.4, 0},
		},
		"are none when an operator drained all": {
			[]float64{0.5, 0.3, 0.2}, func(d *demand) {
				for _, r := range d.routes {
					r.site.spec.Drained = true
				}
			}, nil,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := three(tt.before...)
			for _, r := range d.routes {
				r.health, r.barred = &evacuated, "EVACUATED"
			}
			tt.change(d)
			d.last(tt.before, Input{Warm: true})
			if got := weightsOf(d); len(got) != len(tt.want) || distance(got, tt.want) > quantum/2 {
				t.Errorf("got %v, want %v (%s)", got, tt.want, d.why)
			}
			if d.why == "" {
				t.Error("no reason is given")
			}
		})
	}
}

func TestEveryShareTellsItsConstraint(t *testing.T) {
	b := newBench(t)
	b.write("TrafficPolicy", "p", "regions: [{region: ap, weight: 0}]")
	b.cluster("us-b", "us", 5000, "drained: true")
	b.state("eu-b", failover.Evacuated, 0)
	b.state("us-a", failover.Ramping, 0.25)
	b.report()
	b.plan()
	want := map[string]string{
		"us-a": "RAMPING at 25 % of its share", "us-b": "drained by an operator", "eu-a": "spill",
		"eu-b": "EVACUATED: told so", "ap-a": "the policy sends nothing to ap", "ap-b": "the policy sends nothing to ap",
	}
	for _, w := range b.table.GetWeights() {
		if w.GetSource() != "us" {
			continue
		}
		for _, c := range w.GetClusters() {
			if c.GetReason() != want[c.GetCluster()] {
				t.Errorf("%s: %q, want %q", c.GetCluster(), c.GetReason(), want[c.GetCluster()])
			}
		}
	}
	why := b.reasons["m/interactive/us"]
	for _, part := range []string{"first weights", "25 % local, 75 % elsewhere", "us-b drained by an operator"} {
		if !strings.Contains(why, part) {
			t.Errorf("the reason %q lacks %q", why, part)
		}
	}
}
