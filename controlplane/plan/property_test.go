package plan

import (
	"fmt"
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/failover"
)

var states = []failover.State{
	failover.Healthy, failover.Degraded, failover.Suspect, failover.FailingOver, failover.Evacuated,
	failover.Recovering, failover.Ramping, failover.Frozen, failover.Draining, failover.Drained,
}

// drawnFleet is any fleet that validation lets through, and any report on it.
type drawnFleet struct {
	written shelf
	health  map[failover.Place]failover.Cluster
	reports []signal.Observation
}

func resource(kind policy.Kind, name string, spec any) *policy.Resource {
	r := &policy.Resource{Kind: kind, Metadata: policy.Metadata{Name: name, Revision: 1}, Spec: spec}
	policy.Defaults(r)
	return r
}

func draw(t *rapid.T) drawnFleet {
	f := drawnFleet{health: map[failover.Place]failover.Cluster{}}
	regions := []string{"r0", "r1", "r2", "r3"}[:rapid.IntRange(1, 4).Draw(t, "regions")]
	models := []string{"m0", "m1", "m2"}[:rapid.IntRange(1, 3).Draw(t, "models")]
	numbers := rapid.SampledFrom([]float64{0, 1e-9, 0.3, 1, 80, 5000, 1e6, 1e12, math.NaN(), math.Inf(1), -5})
	for _, r := range regions {
		spec := &policy.RegionSpec{RTTMs: map[string]float64{}}
		if rapid.IntRange(0, 4).Draw(t, "door") > 0 {
			spec.PeerURLs = []string{"https://" + r}
		}
		for _, to := range regions {
			if rapid.Bool().Draw(t, "rtt") {
				spec.RTTMs[to] = rapid.Float64Range(0, 300).Draw(t, "ms")
			}
		}
		f.written = append(f.written, resource(policy.KindRegion, r, spec))
	}
	for _, m := range models {
		f.written = append(f.written, resource(policy.KindModel, m, &policy.ModelSpec{}))
	}
	for i := range rapid.IntRange(1, 8).Draw(t, "clusters") {
		id := fmt.Sprintf("c%d", i)
		spec := &policy.ClusterSpec{
			Region:    rapid.SampledFrom(regions).Draw(t, "region"),
			Models:    rapid.SliceOfNDistinct(rapid.SampledFrom(models), 1, len(models), func(s string) string { return s }).Draw(t, "serves"),
			Endpoints: make([]policy.EndpointSpec, rapid.IntRange(0, 6).Draw(t, "endpoints")),
			Drained:   rapid.IntRange(0, 7).Draw(t, "drained") == 0,
			GPUs:      []policy.GPUSpec{{Class: "h100", Count: rapid.IntRange(0, 9).Draw(t, "gpus"), Purchase: rapid.SampledFrom([]string{"spot", "owned", "on-demand"}).Draw(t, "purchase")}},
		}
		f.written = append(f.written, resource(policy.KindCluster, id, spec))
		for _, m := range append(rapid.SliceOfDistinct(rapid.SampledFrom(spec.Models), func(s string) string { return s }).Draw(t, "judged"), "") {
			f.health[failover.Place{Cluster: fleet.ClusterID(id), Model: fleet.ModelID(m)}] = failover.Cluster{
				State: rapid.SampledFrom(states).Draw(t, "state"), Share: rapid.Float64Range(0, 1).Draw(t, "share"),
			}
		}
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "policies") {
		spec := &policy.TrafficPolicySpec{
			Class:          rapid.SampledFrom([]string{"", "interactive", "offline"}).Draw(t, "class"),
			CostPreference: rapid.Float64Range(0, 1).Draw(t, "preference"),
			Spill:          rapid.SampledFrom([]string{"", "never", "allowed"}).Draw(t, "spill"),
			Models:         rapid.SliceOfDistinct(rapid.SampledFrom(models), func(s string) string { return s }).Draw(t, "for"),
		}
		for _, r := range rapid.SliceOfDistinct(rapid.SampledFrom(regions), func(s string) string { return s }).Draw(t, "wishes") {
			weight, limit := rapid.SampledFrom([]float64{0, 0.5, 1, 7}).Draw(t, "weight"), rapid.Float64Range(0, 1).Draw(t, "limit")
			wish := policy.RegionWish{Region: r, Weight: &weight, MaxShare: &limit}
			if weight > 0 && spec.Spill != policy.SpillNever && rapid.IntRange(0, 3).Draw(t, "least") == 0 {
				wish.MinShare = min(limit, 0.25)
			}
			spec.Regions = append(spec.Regions, wish)
		}
		if rapid.IntRange(0, 3).Draw(t, "premium") == 0 {
			ms, usd := rapid.Float64Range(0, 300).Draw(t, "further"), rapid.Float64Range(0, 2).Draw(t, "dearer")
			spec.MaxPremium = &policy.PremiumSpec{LatencyMs: &ms, USDPerMTok: &usd}
		}
		f.written = append(f.written, resource(policy.KindTrafficPolicy, fmt.Sprintf("p%d", i), spec))
	}
	f.written = append(f.written, resource(policy.KindRateCard, "card", &policy.RateCardSpec{
		GPUs: []policy.GPUPrice{{Class: "h100", Region: regions[0], USDPerHour: 4}, {Class: "h100", Region: regions[0], Purchase: "spot", USDPerHour: 2}},
	}))
	for _, r := range regions {
		if rapid.IntRange(0, 5).Draw(t, "silent") == 0 {
			continue
		}
		report := &routerpb.Report{AtUnixMs: 1, WindowMs: 1000}
		for _, m := range models {
			for _, class := range []string{"interactive", "offline", "unheard-of"} {
				report.Demand = append(report.Demand, &routerpb.DemandSignal{Model: m, Class: class, WorkPerS: numbers.Draw(t, "work")})
			}
			for i := range 8 {
				report.Clusters = append(report.Clusters, &routerpb.ClusterSignal{
					Cluster: fmt.Sprintf("c%d", i), Model: m, Scraped: rapid.Bool().Draw(t, "scraped"),
					CapacityWork: numbers.Draw(t, "capacity"), Saturation: numbers.Draw(t, "saturation"), TtftP95Ms: numbers.Draw(t, "ttft"),
				})
			}
		}
		f.reports = append(f.reports, signal.Observation{
			Node: "n", Hello: &routerpb.Hello{RouterId: "r-" + r, Region: r}, Report: report, Received: noon, Connected: true,
		})
	}
	return f
}

func (f drawnFleet) snapshot() signal.Snapshot {
	s := signal.New(func() time.Time { return noon })
	for _, o := range f.reports {
		s.Put(o)
	}
	return s.Snapshot(noon)
}

func (f drawnFleet) input(previous *routerpb.Table, warm bool) Input {
	return Input{Resources: f.written, Signals: f.snapshot(), Previous: previous, Health: f.health, Now: noon, Warm: warm}
}

func published(out Output) *routerpb.Table {
	if out.Table == nil {
		return nil
	}
	t := proto.CloneOf(out.Table)
	t.Ref = &routerpb.TableRef{ClusterId: "c", Epoch: 1, Revision: 5}
	t.CreatedUnixMs = noon.Add(-time.Minute).UnixMilli()
	return t
}

// difference shows the first list of weights that differs.
func difference(a, b *routerpb.Table) string {
	for i, w := range a.GetWeights() {
		if i >= len(b.GetWeights()) || !proto.Equal(w, b.GetWeights()[i]) {
			return fmt.Sprintf("\n%v\n%v", w, b.GetWeights()[i])
		}
	}
	return "something other than weights"
}

// Whatever fleet, health and reports: weights are shares that sum to 1, no number is none, what is
// evacuated or drained gets nothing while others live, and every list has its reasons.
func TestEveryPlanIsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := draw(t)
		first := Compute(f.input(nil, rapid.Bool().Draw(t, "warm")))
		check(t, f.written, f.health, first)
		// Then the fleet changes under the table in force.
		g := draw(t)
		check(t, g.written, g.health, Compute(g.input(published(first), rapid.Bool().Draw(t, "warm"))))
	})
}

// A plan made twice is the same, and made again on top of itself changes nothing.
func TestPlansAreDeterministicAndIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := draw(t)
		one, two := Compute(f.input(nil, true)), Compute(f.input(nil, true))
		if (one.Table == nil) != (two.Table == nil) || !proto.Equal(one.Table, two.Table) {
			t.Fatalf("two plans differ: %s", difference(one.Table, two.Table))
		}
		if one.Table == nil {
			return
		}
		if again := Compute(f.input(published(one), true)); again.Changed {
			t.Fatalf("the same plan again is a change: %s", difference(one.Table, again.Table))
		}
	})
}

func shuffled[S ~[]E, E any](t *rapid.T, s S) S {
	if len(s) == 0 {
		return s
	}
	return rapid.Permutation(s).Draw(t, "order")
}

// The order in which routers report, and in which reports list things, does not matter.
func TestOrderOfReportsDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := draw(t)
		one := Compute(f.input(nil, true))
		g := f
		g.reports = nil
		for _, o := range f.reports {
			r := proto.CloneOf(o.Report)
			r.Clusters = shuffled(t, r.Clusters)
			r.Demand = shuffled(t, r.Demand)
			o.Report = r
			g.reports = append(g.reports, o)
		}
		g.reports = shuffled(t, g.reports)
		g.written = shuffled(t, f.written)
		two := Compute(g.input(nil, true))
		if !proto.Equal(one.Table, two.Table) {
			t.Fatalf("plans differ: %s", difference(one.Table, two.Table))
		}
	})
}

// A leader that is not warm moves no weight by itself, whatever it has or has not heard.
func TestNotWarmMovesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := draw(t)
		before := published(Compute(f.input(nil, true)))
		if before == nil {
			return
		}
		g := f
		g.reports = draw(t).reports
		if after := Compute(g.input(before, false)); after.Changed {
			t.Fatalf("weights moved: %s", difference(before, after.Table))
		}
	})
}

// The solution is as good as any other: no request is better off elsewhere, nor by not being served, however much is
// asked for.
func TestNoRequestIsBetterOffElsewhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := draw(t)
		in := f.input(nil, true)
		w := survey(in)
		for i, s := range w.sites {
			for m := range s.capacity {
				s.capacity[m] = float64(1000 * (i + 1))
			}
		}
		demands := w.demands(in)
		for _, d := range demands {
			capacity := 0.0
			for _, r := range d.routes {
				if r.barred == "" {
					capacity += r.site.capacity[d.model]
				}
			}
			d.load = min(d.load, 10*capacity)
			for _, r := range d.routes {
				r.factor, r.wish, r.reserve, r.dear, r.use = 1, 1, false, false, d.load/r.site.capacity[d.model]
			}
			limits := *d.policy
			limits.Regions = nil
			d.policy = &limits
		}
		w.solve(demands)
		load := make([]float64, len(w.sites))
		for _, d := range demands {
			lost := 0.0
			for _, s := range d.shed {
				lost += s.part
			}
			for _, r := range d.routes {
				load[r.site.index] += r.fits * r.use
				if r.barred != "" {
					continue
				}
				if here := r.costMs + r.congestionMs + tiltMs*r.fits/r.size; r.fits > 1e-9 && here > d.levelMs*(1+1e-6)+1e-3 ||
					r.fits < 1-1e-9 && here < d.levelMs*(1-1e-6)-1e-3 {
					t.Fatalf("%s costs %.3f ms at a share of %g, the last request %.3f", r.site.id, here, r.fits, d.levelMs)
				}
			}
			if cheapest := tierOf(policy.DefaultTier).step(1).CostMs; lost > 0 && d.levelMs < cheapest*(1-1e-9) {
				t.Fatalf("%g of it is shed, and the last request costs only %.0f ms", lost, d.levelMs)
			}
		}
		for i, s := range w.sites {
			if load[i] > loadMax*(1+1e-6) {
				t.Fatalf("%s has to work at %.4f of its capacity", s.id, load[i])
			}
		}
	})
}
