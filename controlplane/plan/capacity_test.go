package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
	"anabranch/failover"
	"anabranch/failover/shift"
)

// replicas gives a cluster of a bench so many endpoints.
func (b *bench) replicas(name, region string, n int, more ...string) {
	b.t.Helper()
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("{id: e%d, url: \"http://%s-%d:1\", class: h100}", i, name, i))
	}
	b.write("Cluster", name, fmt.Sprintf("region: %s\n  models: [m]\n  endpoints: [%s]\n  %s", region, strings.Join(list, ", "), strings.Join(more, "\n  ")))
	b.capacity[name] = 1000 * float64(n)
}

// scaled has a cluster in each of us and eu, of eight and four replicas of 1,000 work/s.
func scaled(t testing.TB) *bench {
	b := newBench(t)
	for _, c := range []string{"us-a", "us-b", "eu-a", "eu-b", "ap-a", "ap-b"} {
		b.remove("Cluster", c)
	}
	b.replicas("us-a", "us", 8)
	b.replicas("eu-a", "eu", 4)
	return b
}

// advised is what a fleet that is not too large is advised.
func advised(in Input, o CapacityOptions) []Advice {
	all, err := Capacity(in, o)
	if err != nil {
		panic(err)
	}
	return all
}

// advice on model m.
func (b *bench) advice(o CapacityOptions) Advice {
	b.t.Helper()
	o.Model = "m"
	all := advised(b.input(), o)
	if len(all) != 1 || all[0].Model != "m" {
		b.t.Fatalf("advice on %+v", all)
	}
	return all[0]
}

func (a Advice) at(t testing.TB, cluster fleet.ClusterID) ClusterAdvice {
	t.Helper()
	i := slices.IndexFunc(a.Clusters, func(c ClusterAdvice) bool { return c.Cluster == cluster })
	if i < 0 {
		t.Fatalf("nothing is said of %s: %+v", cluster, a)
	}
	return a.Clusters[i]
}

func TestReplicasForTheObjective(t *testing.T) {
	for name, tt := range map[string]struct {
		us, objective float64
		wanted        int
		says          string
	}{
		"more":           {7300, 800, 10, "2 more: at 0.91 of capacity, objective 800 ms needs ≤ 0.78"},
		"less":           {4000, 800, 6, "2 fewer would still hold: at 0.67 of capacity with 6, objective 800 ms needs ≤ 0.78"},
		"as it is":       {6000, 800, 8, "as many as there are: at 0.75 of capacity, objective 800 ms needs ≤ 0.78"},
		"nothing asked":  {0, 800, 1, "7 fewer would do: it stands ready, and nothing is asked for"},
		"a strict one":   {6000, 510, 8, "as many as there are: at 0.75 of capacity, objective 510 ms needs ≤ 0.78"},
		"never to be":    {4000, 100, 11, "3 more: at 0.50 of capacity, objective 100 ms needs ≤ 0.40"},
		"far too little": {100_000, 2000, 128, "120 more: at 12.50 of capacity"},
	} {
		t.Run(name, func(t *testing.T) {
			b := scaled(t)
			b.write("TrafficPolicy", "p", fmt.Sprintf("models: [m]\n  ttftObjectiveMs: %g", tt.objective))
			b.ask("us", tt.us)
			b.report()
			c := b.advice(CapacityOptions{}).at(t, "us-a")
			if c.Wanted != tt.wanted || c.Needed != tt.wanted || c.Replicas != 8 || !strings.HasPrefix(c.Reasons[0], tt.says) || c.ObjectiveMs != tt.objective {
				t.Errorf("%d replicas are wanted: %q", c.Wanted, c.Reasons)
			}
			if unattainable := strings.Contains(strings.Join(c.Reasons, "; "), "takes about 500 ms by itself"); unattainable != (tt.objective < 556) {
				t.Errorf("%q", c.Reasons)
			}
			if !c.Measured || c.ReplicaPerS != 1000 || !within(c.WorkPerS, tt.us, 1) || !within(c.Use, tt.us/8000, 1e-3) {
				t.Errorf("%+v", c)
			}
		})
	}
}

func TestWhatSpillsIsWantedAtHome(t *testing.T) {
	b := scaled(t)
	b.ask("us", 9000) // of which at most 6,272 are done there in time
	b.ask("eu", 500)
	b.report()
	a := b.advice(CapacityOptions{})
	if us, eu := a.at(t, "us-a"), a.at(t, "eu-a"); us.Wanted != 12 || eu.Wanted != 1 || a.Replicas != 12 || a.Wanted != 13 {
		t.Errorf("us %+v\neu %+v", us, eu)
	}
}

func TestReplicasToSurviveALoss(t *testing.T) {
	b := scaled(t)
	b.ask("us", 5000)
	b.ask("eu", 2000)
	b.report()
	cold := func(fleet.ModelID) (shift.Cold, bool) { return shift.Cold{Prefill: 0.5, Hit: 0.5}, true } // 1.5
	wanted := func(o CapacityOptions) [2]int {
		o.Cold = cold
		a := b.advice(o)
		return [2]int{a.at(t, "us-a").Wanted, a.at(t, "eu-a").Wanted}
	}
	enough := func(work float64) int { return int(math.Ceil(work / 784)) }
	if got := wanted(CapacityOptions{}); got != [2]int{enough(5000), enough(2000)} {
		t.Errorf("for now %v", got)
	}
	if got := wanted(CapacityOptions{Survive: policy.SurviveRegion}); got != [2]int{enough(5000 + 3000), enough(2000 + 7500)} {
		t.Errorf("for the loss of a region %v", got)
	}
	us := b.advice(CapacityOptions{Survive: policy.SurviveRegion, Cold: cold}).at(t, "us-a")
	if us.Without != "eu" || !within(us.ColdPerS, 1000, 1) || !strings.Contains(us.Reasons[0], "3 more: without eu it would be at 1.00 of capacity") {
		t.Errorf("%+v", us)
	}
	b.write("TrafficPolicy", "p", "models: [m]\n  survive: cluster")
	b.replicas("us-b", "us", 8)
	b.report()
	a := b.advice(CapacityOptions{Cold: cold})
	if a.Survive != policy.SurviveCluster || a.at(t, "us-b").Wanted != enough(2500+1.5*2500) || a.at(t, "us-a").Without != "us-b" {
		t.Errorf("as the policy wants: %+v", a)
	}
	if a := b.advice(CapacityOptions{Survive: policy.SurviveNone, Cold: cold}); a.at(t, "us-b").Wanted != enough(2500) {
		t.Errorf("as asked: %+v", a)
	}
}

func TestAModelThatIsServedCheaperElsewhereNeedsNothingHere(t *testing.T) {
	b := scaled(t)
	b.write("RateCard", "card", "gpus: [{class: h100, region: us, usdPerHour: 2}, {class: h100, region: eu, usdPerHour: 9}]")
	b.replicas("us-a", "us", 8, "gpus: [{class: h100, count: 16}]")
	b.replicas("eu-a", "eu", 4, "gpus: [{class: h100, count: 8}]")
	b.write("TrafficPolicy", "p", "models: [m]\n  costPreference: 1")
	b.ask("eu", 2000)
	b.report()
	a := b.advice(CapacityOptions{})
	eu := a.at(t, "eu-a")
	if eu.Wanted != 0 || eu.Reasons[0] != "0: the model is served cheaper in us" || eu.ChangePerHour != (Money{USD: -72}) {
		t.Errorf("%+v", eu)
	}
	if us := a.at(t, "us-a"); us.Wanted != 3 || us.ChangePerHour != (Money{USD: -20}) || a.ChangePerHour != (Money{USD: -92}) {
		t.Errorf("%+v", us)
	}
	b.ask("eu", 20_000)
	b.report()
	if us := b.advice(CapacityOptions{}).at(t, "us-a"); us.Wanted != 26 || us.ChangePerHour != (Money{USD: 18 * 4}) {
		t.Errorf("more costs more: %+v", us)
	}
}

func TestNothingIsLoweredWhileOutOfUseOrNotKnown(t *testing.T) {
	b := scaled(t)
	b.ask("us", 100)
	b.report()
	b.state("us-a", failover.Evacuated, 0)
	a := b.advice(CapacityOptions{})
	if us := a.at(t, "us-a"); us.Wanted != 8 || !strings.Contains(strings.Join(us.Reasons, "; "), "not lowered: EVACUATED") {
		t.Errorf("evacuated: %+v", us)
	}
	b.state("us-a", failover.Healthy, 1)
	if us := b.advice(CapacityOptions{}).at(t, "us-a"); us.Wanted != 1 {
		t.Errorf("healthy: %+v", us)
	}
	b.now = b.now.Add(20e9)
	a = b.advice(CapacityOptions{})
	if us := a.at(t, "us-a"); !strings.Contains(a.Held, "no fresh report from ap") || us.Wanted != 8 || !strings.Contains(strings.Join(us.Reasons, "; "), "not lowered: no fresh report") {
		t.Errorf("silent: %+v", a)
	}
	b.write("Cluster", "us-a", "region: us\n  models: [m]\n  discovery: {kind: dns, name: pods.example}")
	b.now = b.now.Add(60e9)
	if a := b.advice(CapacityOptions{}); len(a.Clusters) != 1 || a.Clusters[0].Cluster != "eu-a" {
		t.Errorf("of a cluster whose endpoints nobody has counted nothing is said: %+v", a.Clusters)
	}
	if a := newBench(t).advice(CapacityOptions{}); !strings.Contains(a.Held, "no router reports") {
		t.Errorf("held: %q", a.Held)
	}
}

func TestClustersThatServeSeveralModelsAreAdvisedOnceForAll(t *testing.T) {
	b := scaled(t)
	b.write("Model", "n", "{}")
	spec := *b.written.List(policy.KindCluster)[1].Spec.(*policy.ClusterSpec)
	spec.Models = []string{"m", "n"}
	b.remove("Cluster", "us-a")
	b.written = append(b.written, resource(policy.KindCluster, "us-a", &spec))
	b.demand["us"] = map[string]float64{"m": 3000, "n": 3000}
	b.report()
	all := advised(b.input(), CapacityOptions{})
	if len(all) != 2 {
		t.Fatalf("%+v", all)
	}
	m, n := all[0].at(t, "us-a"), all[1].at(t, "us-a")
	if m.Wanted != 8 || n.Wanted != 8 || !slices.Equal(m.SharedWith, []fleet.ModelID{"n"}) || !slices.Equal(n.SharedWith, []fleet.ModelID{"m"}) {
		t.Errorf("m %+v\nn %+v", m, n)
	}
}

// scaledFleet is a plain fleet with some demand, and what it would be with other numbers of replicas.
func scaledFleet(t *rapid.T) drawnFleet {
	f := plain(t)
	for _, o := range f.reports {
		for _, d := range o.Report.Demand {
			d.WorkPerS = rapid.SampledFrom([]float64{0, 0, 900, 7000, 40_000}).Draw(t, "asked")
		}
		for _, c := range o.Report.Clusters {
			c.CapacityWork = 0 // as believed: so much for each replica
		}
	}
	for _, r := range f.written {
		if spec, ok := r.Spec.(*policy.ClusterSpec); ok {
			spec.PriorWork = policy.DefaultPriorWork * float64(len(spec.Endpoints))
		}
	}
	return f
}

// With what is advised, every cluster holds the objective by the planner's own curve, as it divides the demand;
// and following the advice asks for nothing more.
func TestAdviceThatIsFollowedHoldsTheObjective(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := scaledFleet(t)
		in := f.input(nil, true)
		want := map[string]int{}
		for _, a := range advised(in, CapacityOptions{}) {
			for _, c := range a.Clusters {
				want[string(c.Cluster)] = max(c.Needed, 1)
			}
		}
		for i, r := range f.written {
			if spec, ok := r.Spec.(*policy.ClusterSpec); ok {
				next := *spec
				next.Endpoints = make([]policy.EndpointSpec, want[r.Metadata.Name])
				next.PriorWork = policy.DefaultPriorWork * float64(len(next.Endpoints))
				f.written[i] = resource(policy.KindCluster, r.Metadata.Name, &next)
			}
		}
		in = f.input(nil, true)
		w := survey(in)
		demands := w.demands(in)
		w.solve(demands)
		loads := map[*site]float64{}
		for _, d := range demands {
			for _, r := range d.routes {
				loads[r.site] += d.work * r.share / r.site.capacity[d.model]
			}
		}
		for _, s := range w.sites {
			if ms := promptnessOf(in.endpoints(s)).at(loads[s]); ms > policy.DefaultTTFTObjectiveMs*1.001 {
				t.Fatalf("%s is at %.3f of its capacity, where a first token takes %.0f ms", s.id, loads[s], ms)
			}
		}
		for _, a := range advised(in, CapacityOptions{}) {
			for _, c := range a.Clusters {
				if at := max(c.Needed, 1); at > want[string(c.Cluster)]+1+want[string(c.Cluster)]/20 {
					t.Fatalf("%s was to have %d replicas, has them, and is to have %d", c.Cluster, want[string(c.Cluster)], at)
				}
			}
		}
	})
}

// More demand never asks for fewer replicas anywhere, nor does a loss that must be survived.
func TestMoreDemandNeverWantsFewerReplicas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := scaledFleet(t)
		needed := func(survive string) map[fleet.ClusterID]int {
			out := map[fleet.ClusterID]int{}
			for _, a := range advised(f.input(nil, true), CapacityOptions{Survive: survive, Cold: warm}) {
				for _, c := range a.Clusters {
					out[c.Cluster] = c.Needed
				}
			}
			return out
		}
		// With cold caches it is so as well, but for what moves at a loss: that may become less.
		less := map[string]map[fleet.ClusterID]int{}
		for _, survive := range survives {
			less[survive] = needed(survive)
			for c, n := range less[survive] {
				if n < less[policy.SurviveNone][c] {
					t.Fatalf("%s needs %d replicas, and %d to survive the loss of a %s", c, less[policy.SurviveNone][c], n, survive)
				}
			}
		}
		if len(f.reports) > 0 {
			for _, d := range f.reports[rapid.IntRange(0, len(f.reports)-1).Draw(t, "who")].Report.Demand {
				d.WorkPerS += rapid.SampledFrom([]float64{0, 100, 9000}).Draw(t, "more")
			}
		}
		for _, survive := range survives {
			for c, n := range needed(survive) {
				if n < less[survive][c] {
					t.Fatalf("%s needs %d replicas, and with more demand %d (%s)", c, less[survive][c], n, survive)
				}
			}
		}
	})
}

// warm is caches that moved requests find as they left them.
func warm(fleet.ModelID) (shift.Cold, bool) { return shift.Cold{}, true }
