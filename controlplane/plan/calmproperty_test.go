package plan

import (
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
)

// Where the search for the solution begins has no say in what is found: the weights are the same but for rounding, and
// planning on top of a table that was found otherwise is no change of it.
func TestWhereTheSearchBeganIsNotSeen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := draw(t)
		in := f.input(nil, true)
		one := Compute(in)
		if one.Table == nil {
			return
		}
		in.Congestion = map[fleet.ClusterID]float64{}
		wild := rapid.SampledFrom([]float64{0, 1e-6, 3, 80, 4000, 30_000, 1e9, -7, math.NaN(), math.Inf(1), math.Inf(-1)})
		for i := range 8 {
			if id := fleet.ClusterID([]string{"c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"}[i]); rapid.Bool().Draw(t, "known") {
				in.Congestion[id] = wild.Draw(t, "congestion")
			}
		}
		two := Compute(in)
		for i, list := range two.Table.GetWeights() {
			for j, c := range list.GetClusters() {
				if was := one.Table.GetWeights()[i].GetClusters()[j]; math.Abs(was.GetWeight()-c.GetWeight()) > 1.5*quantum {
					t.Fatalf("from %v\n%v\n%v", in.Congestion, one.Table.GetWeights()[i], list)
				}
			}
		}
		in.Previous = published(one)
		if again := Compute(in); again.Changed {
			t.Fatalf("the table changed: %s", difference(one.Table, again.Table))
		}
	})
}

// Noise of a percent in what is asked for and measured makes no tables, once what is wanted is in force.
func TestNoiseOfAPercentMakesNoTables(t *testing.T) {
	for name, tt := range map[string]struct {
		ask     float64
		seconds int // to settle, and of calm
	}{
		"at home": {9000, 240}, "spilling": {15_000, 90}, "more than everybody can": {70_000, 40},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write("TrafficPolicy", "batch", "class: batch\n  costPreference: 0.7\n  regions: [{region: us, maxShare: 0.6}, {region: eu, weight: 2}]")
			b.perRequest = 1000
			dice := uint64(7)
			noisy := func(x float64) float64 {
				dice = dice*6364136223846793005 + 1442695040888963407
				return x * (0.99 + 0.02*float64(dice>>11)/(1<<53))
			}
			capacity := map[string]float64{}
			for c, x := range b.capacity {
				capacity[c] = x
			}
			second := func() {
				b.ask("us", noisy(tt.ask))
				b.ask("eu", noisy(4000))
				b.ask("ap", noisy(3000))
				for _, c := range sortedKeys(capacity) {
					b.capacity[c] = noisy(capacity[c])
				}
				b.after(1)
			}
			for range tt.seconds {
				second()
			}
			tables, settled := 0, proto.CloneOf(b.table)
			for range tt.seconds {
				before := b.table
				if second(); b.table != before {
					tables++
				}
			}
			// A list may have stopped at the edge of the dead-band, and be moved to its middle once.
			if tables > 2 {
				t.Errorf("%d tables: %s", tables, difference(settled, b.table))
			}
		})
	}
}

// The rules of a fleet hold in each table on the way, whatever changes under it: what an order, a pin, residency or
// health bars gets nothing, and each list sums to 1.
func TestRulesHoldOnTheWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := draw(t)
		for _, r := range f.written.List(policy.KindTrafficPolicy) {
			spec := r.Spec.(*policy.TrafficPolicySpec)
			spec.Residency = rapid.SampledFrom([][]string{nil, nil, {"r0"}, {"r0", "r1"}}).Draw(t, "residency")
			spec.Clusters = rapid.SampledFrom([][]string{nil, nil, nil, {"c0", "c1", "c2"}}).Draw(t, "pins")
		}
		now := noon
		var table *routerpb.Table
		var congestion map[fleet.ClusterID]float64
		for step := range rapid.IntRange(2, 5).Draw(t, "steps") {
			g := draw(t)
			f.reports = g.reports
			if rapid.Bool().Draw(t, "health changes") {
				for id, c := range g.health {
					f.health[id] = c
				}
			}
			in := f.input(table, rapid.IntRange(0, 3).Draw(t, "warm") > 0)
			in.Now, in.Congestion = now, congestion
			w := survey(in)
			demands := w.demands(in)
			out := Compute(in)
			check(t, f.written, f.health, out)
			if out.Table == nil {
				return
			}
			if err := Sound(out.Table); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			for i, d := range demands {
				for _, r := range d.routes {
					for _, c := range out.Table.GetWeights()[i].GetClusters() {
						if c.GetCluster() == string(r.site.id) && c.GetWeight() > 0 && r.excluded {
							t.Fatalf("%s is excluded and has %v", c.GetCluster(), out.Table.GetWeights()[i])
						}
						if c.GetCluster() == string(r.site.id) && c.GetWeight() > 0 && r.barred != "" && d.usable() {
							t.Fatalf("%s is barred (%s) and has a share in %v", c.GetCluster(), r.barred, out.Table.GetWeights()[i])
						}
					}
				}
			}
			if out.Changed {
				table = out.Table
				table.Ref = &routerpb.TableRef{ClusterId: "c", Epoch: 1, Revision: uint64(10 + step)}
				table.CreatedUnixMs = now.UnixMilli()
			}
			congestion = out.Congestion
			now = now.Add(time.Second)
		}
	})
}
