package plan

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
	"anabranch/failover/shift"
)

func (b *bench) survive(o SurvivalOptions) Survival {
	b.t.Helper()
	out, err := Survive(b.input(), o)
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// row without a region, a cluster or anything.
func (s Survival) row(t testing.TB, lost string) SurvivalRow {
	t.Helper()
	i := slices.IndexFunc(s.Rows, func(r SurvivalRow) bool { return r.Lost.String() == lost })
	if i < 0 {
		t.Fatalf("no row without %s", lost)
	}
	return s.Rows[i]
}

// within says whether two figures are as good as equal.
func within(a, b, by float64) bool { return math.Abs(a-b) <= by }

func TestAMatrixHasARowForEachLoss(t *testing.T) {
	b := newBench(t)
	b.ask("us", 3000)
	b.report()
	lost := func(o SurvivalOptions) string {
		var names []string
		for _, r := range b.survive(o).Rows {
			names = append(names, r.Lost.String())
		}
		return strings.Join(names, ", ")
	}
	const each = "nothing, ap, eu, us, ap-a, ap-b, eu-a, eu-b, us-a, us-b"
	if got := lost(SurvivalOptions{}); got != each {
		t.Errorf("rows are %s", got)
	}
	if got := lost(SurvivalOptions{Pairs: true}); got != each+", ap + eu, ap + us, eu + us" {
		t.Errorf("with pairs %s", got)
	}
	b.write("Model", "other", "{}")
	b.write("Cluster", "ap-c", "region: ap\n  models: [other]\n  endpoints: [{id: e1, url: \"http://c:1\", class: h100}]")
	if got := lost(SurvivalOptions{Model: "other"}); got != "nothing, ap, ap-c" {
		t.Errorf("narrowed to a model %s", got)
	}
}

func TestTheHeadroomOfSurvivors(t *testing.T) {
	b := newBench(t)
	b.ask("us", 6000)
	b.ask("eu", 3000)
	b.report()
	s := b.survive(SurvivalOptions{Cold: func(fleet.ModelID) (shift.Cold, bool) { return shift.Cold{Prefill: 0.5, Hit: 0.5}, true }})
	if len(s.Silent) != 0 {
		t.Errorf("silent: %v", s.Silent)
	}
	now := s.row(t, "nothing")
	if now.Verdict != Survives || now.MovedPerS != 0 || now.ColdPerS != 0 || len(now.Clusters) != 6 || len(now.Shed)+len(now.Stranded)+len(now.Tenants) != 0 {
		t.Errorf("as it is: %+v", now)
	}
	without := s.row(t, "us")
	if len(without.Clusters) != 4 || !within(without.MovedPerS, 6000, 60) || !within(without.ColdPerS, 3000, 30) { // 0.5 + 0.5/0.5 is 1.5
		t.Errorf("without us: %+v", without)
	}
	// eu is 80 ms away, ap, where there is more room, 160.
	if without.ExtraRTTMs < 80 || without.ExtraRTTMs > 120 {
		t.Errorf("what moves goes %.0f ms further", without.ExtraRTTMs)
	}
	work := 0.0
	for _, h := range without.Clusters {
		work += h.WorkPerS
		if !h.Measured || h.ObjectiveMs != 2000 || h.Class != fleet.DefaultClass || !within(h.HeadroomPerS, h.CanPerS-h.WorkPerS, 1e-6) || !within(h.Headroom*h.CanPerS, h.HeadroomPerS, 1e-6) {
			t.Errorf("%+v", h)
		}
		if !within(h.CanPerS/h.CapacityPerS, 0.784, 0.001) {
			t.Errorf("%s can do %.3f of its capacity", h.Cluster, h.CanPerS/h.CapacityPerS)
		}
	}
	if !within(work, 9000+3000, 40) {
		t.Errorf("survivors get %.0f work/s", work)
	}
	if !strings.Contains(without.Why, "least headroom") {
		t.Errorf("why: %s", without.Why)
	}
}

func TestTooMuchForTheSurvivorsFails(t *testing.T) {
	b := newBench(t)
	for _, r := range []string{"us", "eu", "ap"} {
		b.ask(r, 8000)
	}
	b.report()
	s := b.survive(SurvivalOptions{})
	if v := s.row(t, "nothing").Verdict; v != Survives {
		t.Errorf("as it is: %s", v)
	}
	r := s.row(t, "eu")
	// 24,000 and 70 % on top of the 8,000 that move, at least, for which 30,000 × 0.784 are there.
	if r.Verdict != Fails || len(r.Shed) != 1 || r.Shed[0].Priority != 50 || !within(r.Shed[0].PerS, 24_000+0.7*r.MovedPerS-0.784*30_000, 60) || r.MovedPerS < 7900 {
		t.Errorf("without eu: %s, %s, %+v", r.Verdict, r.Why, r.Shed)
	}
	if r := s.row(t, "eu-b"); r.Verdict != Survives {
		t.Errorf("without the small one: %s, %s", r.Verdict, r.Why)
	}
}

func TestWhatResidencyStrands(t *testing.T) {
	b := newBench(t)
	b.write("TrafficPolicy", "inland", "class: inland\n  models: [m]\n  residency: [eu]")
	b.write("Tenant", "initech", "tier: batch\n  residency: [ap]")
	b.write("Tenant", "acme", "tier: top\n  residency: [us, ap]")
	b.ask("us", 3000)
	b.report()
	s := b.survive(SurvivalOptions{})
	if r := s.row(t, "nothing"); r.Verdict != Survives {
		t.Errorf("as it is: %s", r.Why)
	}
	r := s.row(t, "eu")
	if r.Verdict != Fails || len(r.Stranded) != 1 || r.Stranded[0].Class != "inland" || r.Stranded[0].Model != "m" || len(r.Stranded[0].Sources) != 3 || r.Stranded[0].Why == "" {
		t.Errorf("without eu: %+v", r)
	}
	r = s.row(t, "ap")
	if r.Verdict != Degrades || len(r.Tenants) != 1 || r.Tenants[0].Tenant != "initech" || !r.Tenants[0].Batch || !slices.Equal(r.Tenants[0].Models, []fleet.ModelID{"m"}) {
		t.Errorf("without ap: %s, %+v", r.Verdict, r.Tenants)
	}
	b.write("Tenant", "acme", "tier: top\n  residency: [ap]")
	if r := b.survive(SurvivalOptions{}).row(t, "ap"); r.Verdict != Fails || !strings.Contains(r.Why, "acme") {
		t.Errorf("of a tenant of the top tier: %s, %s", r.Verdict, r.Why)
	}
}

func TestAModelThatNothingElseServesIsStranded(t *testing.T) {
	b := newBench(t)
	b.write("Model", "other", "{}")
	b.write("Cluster", "ap-c", "region: ap\n  models: [other]\n  endpoints: [{id: e1, url: \"http://c:1\", class: h100}]")
	b.report()
	r := b.survive(SurvivalOptions{}).row(t, "ap-c")
	if r.Verdict != Fails || len(r.Stranded) != 1 || r.Stranded[0].Model != "other" || r.Stranded[0].PerS != 0 {
		t.Errorf("got %+v", r)
	}
}

func TestWhatALossCosts(t *testing.T) {
	b := newBench(t)
	b.write("RateCard", "card", "gpus: [{class: h100, region: us, usdPerHour: 3}, {class: h100, region: us, purchase: reserved, usdPerHour: 2}, {class: h100, region: eu, usdPerHour: 5, estimate: true}]\n"+
		"  models: [{model: m, inputPerMTok: 1, outputPerMTok: 6}]")
	b.cluster("us-a", "us", 10_000, "gpus: [{class: h100, count: 4}]")
	b.cluster("us-b", "us", 5_000, "gpus: [{class: h100, count: 4, purchase: reserved}]")
	b.cluster("eu-a", "eu", 10_000, "gpus: [{class: h100, count: 2}]")
	b.ask("us", 3000)
	b.report()
	s := b.survive(SurvivalOptions{})
	for lost, want := range map[string]Money{
		"nothing": {USD: 12 + 8 + 10, Estimate: true},
		"us":      {USD: 8 + 10, Estimate: true}, // reserved ones are paid all the same
		"eu":      {USD: 12 + 8, Estimate: true},
		"us-a":    {USD: 8 + 10, Estimate: true},
	} {
		if got := s.row(t, lost).SpendPerHour; got != want {
			t.Errorf("without %s: %+v, want %+v", lost, got, want)
		}
	}
	// A provider is asked for money by the token, and does not go down with us.
	b.write("Cluster", "us-api", "region: us\n  type: provider\n  url: https://api.example\n  models: [m]\n  priorWork: 100000")
	for _, c := range []string{"us-a", "us-b", "eu-b", "ap-a", "ap-b"} {
		b.remove("Cluster", c)
	}
	b.report()
	got := b.survive(SurvivalOptions{}).row(t, "eu")
	if len(got.Clusters) != 1 || got.Clusters[0].Cluster != "us-api" || !within(got.SpendPerHour.USD, 3000*3600/1e6, 0.2) {
		t.Errorf("by a provider: %+v", got)
	}
	if r := b.survive(SurvivalOptions{}); slices.ContainsFunc(r.Rows, func(r SurvivalRow) bool { return r.Lost.String() == "us" }) {
		t.Error("us has nothing to lose but a provider, and has a row")
	}
}

func TestRegionsThatAreSilentAreNamed(t *testing.T) {
	b := newBench(t)
	b.reportFrom("eu")
	if got := b.survive(SurvivalOptions{}).Silent; !slices.Equal(got, []fleet.RegionID{"ap", "us"}) {
		t.Errorf("silent: %v", got)
	}
}

func TestAMatrixThatTakesTooLongIsRefused(t *testing.T) {
	b := newBench(t)
	for i := range 2000 { // few routes, and a loss each
		b.written = append(b.written, resource(policy.KindCluster, fmt.Sprintf("c%04d", i), &policy.ClusterSpec{Region: "us", Models: []string{"m"}}))
	}
	if _, err := Survive(b.input(), SurvivalOptions{}); !errors.Is(err, ErrTooMuch) {
		t.Errorf("got %v", err)
	}
	if _, err := Capacity(b.input(), CapacityOptions{Survive: policy.SurviveCluster}); !errors.Is(err, ErrTooMuch) {
		t.Errorf("of capacity: %v", err)
	}
}

// Of many losses those are tried that take away most work, each with the outcome that it has among all.
func TestOfManyLossesTheBusiestRegionsAreTried(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := scaledFleet(t).input(nil, true)
		all, err := Survive(in, SurvivalOptions{})
		if err != nil {
			t.Fatal(err)
		}
		of := map[fleet.RegionID]SurvivalRow{}
		work := map[fleet.RegionID]float64{}
		for _, r := range all.Rows {
			if len(r.Lost.Regions) == 1 {
				of[r.Lost.Regions[0]] = r
			}
		}
		for _, h := range all.Rows[0].Clusters {
			work[h.Region] += h.WorkPerS
		}
		most := rapid.IntRange(1, len(of)+1).Draw(t, "most")
		got, err := Survive(in, SurvivalOptions{Most: most})
		if err != nil {
			t.Fatal(err)
		}
		if want := max(0, len(of)-most); got.Untried != want || len(got.Rows) != 1+len(of)-want {
			t.Fatalf("%d of %d regions: %d rows, %d untried", most, len(of), len(got.Rows), got.Untried)
		}
		if !reflect.DeepEqual(got.Rows[0], all.Rows[0]) {
			t.Fatalf("without a loss: %+v, want %+v", got.Rows[0], all.Rows[0])
		}
		least := math.Inf(1)
		for _, r := range got.Rows[1:] {
			name := r.Lost.Regions[0]
			if !reflect.DeepEqual(r, of[name]) {
				t.Fatalf("without %s: %+v, want %+v", name, r, of[name])
			}
			least = min(least, work[name])
			delete(of, name)
		}
		for name := range of {
			if work[name] > least+1e-6 {
				t.Fatalf("%s does %v and was not tried, one that does %v was", name, work[name], least)
			}
		}
	})
}

// plain is a fleet without rules, in which all can be reached: losing more of it can only be worse.
func plain(t *rapid.T) drawnFleet {
	f := draw(t)
	for _, r := range f.written {
		switch spec := r.Spec.(type) {
		case *policy.RegionSpec:
			spec.PeerURLs = []string{"https://" + r.Metadata.Name}
		case *policy.ClusterSpec:
			spec.Drained = false
			spec.Endpoints = make([]policy.EndpointSpec, max(len(spec.Endpoints), 1))
		}
	}
	f.written = slices.DeleteFunc(f.written, func(r *policy.Resource) bool { return r.Kind == policy.KindTrafficPolicy })
	f.health = nil
	return f
}

// Losing more never leaves more headroom in what is left, unless it strands work. Caches are warm here: what is
// lost with the first region may be fewer sessions than with the second one beside it.
func TestLosingMoreNeverLeavesMoreHeadroom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := Survive(scaledFleet(t).input(nil, true), SurvivalOptions{Pairs: true, Cold: warm})
		if err != nil {
			t.Fatal(err)
		}
		left := func(r SurvivalRow, of []Headroom) float64 {
			sum := 0.0
			for _, h := range r.Clusters {
				if slices.ContainsFunc(of, func(o Headroom) bool { return o.Cluster == h.Cluster }) {
					sum += h.WorkPerS / h.CapacityPerS
				}
			}
			return sum
		}
		for _, less := range s.Rows {
			for _, more := range s.Rows {
				if len(less.Lost.Clusters)+len(more.Lost.Clusters) > 0 || len(more.Stranded) > 0 || len(less.Lost.Regions) >= len(more.Lost.Regions) ||
					slices.ContainsFunc(less.Lost.Regions, func(r fleet.RegionID) bool { return !slices.Contains(more.Lost.Regions, r) }) {
					continue
				}
				if a, b := left(less, more.Clusters), left(more, more.Clusters); b < a*(1-0.02)-0.02 {
					t.Fatalf("without %s survivors have %.3f of their capacities to do, without %s %.3f", less.Lost, a, more.Lost, b)
				}
			}
		}
	})
}

// No figure of a matrix is none, whatever fleet and reports.
func TestEveryMatrixIsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := draw(t)
		f.written = slices.DeleteFunc(f.written, func(r *policy.Resource) bool { // few enough to be quick
			return r.Kind == policy.KindCluster && r.Metadata.Name > "c2"
		})
		s, err := Survive(f.input(nil, true), SurvivalOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range s.Rows {
			figures := []float64{r.MovedPerS, r.ColdPerS, r.ExtraRTTMs, r.SpendPerHour.USD}
			for _, h := range r.Clusters {
				figures = append(figures, h.WorkPerS, h.ColdPerS, h.CapacityPerS, h.CanPerS, h.HeadroomPerS, h.Headroom)
				if h.CanPerS <= 0 || h.CanPerS > h.CapacityPerS || h.Headroom > 1 {
					t.Fatalf("%+v", h)
				}
			}
			for i, x := range figures {
				if math.IsNaN(x) || math.IsInf(x, 0) {
					t.Fatalf("figure %d without %s is %g", i, r.Lost, x)
				}
			}
			if r.Verdict == "" || r.Why == "" || (r.Verdict == Survives) != (len(r.Stranded)+len(r.Tenants) == 0 && !slices.ContainsFunc(r.Shed, func(t Tier) bool { return t.PerS >= 0.5 })) {
				t.Fatalf("verdict %q, %q of %+v", r.Verdict, r.Why, r)
			}
		}
	})
}

func TestTheMeanTimeToTheFirstToken(t *testing.T) {
	p := promptnessOf(1)
	if p != promptnessOf(0) || slotsOf(0) != slotsPerEndpoint || slotsOf(1e6) != maxSlots {
		t.Error("slots are not those of endpoints")
	}
	// Of W(u) itself, of which the curve is the marginal cost, and half of what a batch adds.
	for _, rho := range []float64{0.1, 0.4, 0.7, 0.77} {
		u, k, c := rho/rhoMax, math.Sqrt(2*(slotsPerEndpoint+1))-1, float64(slotsPerEndpoint)
		want := serviceMs + batchMs*u/2 + serviceMs*math.Pow(u, k)/(c*(1-u))
		if got := p.at(rho); !within(got, want, 0.01*want) {
			t.Errorf("at %g: %g ms, want %g", rho, got, want)
		}
	}
	for _, objective := range []float64{560, 600, 650, 700} {
		rho, holds := p.within(objective)
		if !holds || !within(p.at(rho), objective, 1e-6) {
			t.Errorf("%g ms hold up to %g, where it is %g", objective, rho, p.at(rho))
		}
	}
	for objective, wait := range map[float64]float64{499: 49.9, 100: 10, 0: 0.1, math.NaN(): 0.1} {
		if rho, holds := p.within(objective); holds || !within(p.at(rho), serviceMs+wait, 1e-6) {
			t.Errorf("%g ms: %g, %v", objective, rho, holds)
		}
	}
	before := 0.0
	for rho := 0.0; rho < 1.2; rho += 0.01 {
		if at := p.at(rho); at < before {
			t.Fatalf("it falls at %g", rho)
		} else {
			before = at
		}
	}
}

// What is too much is taken from the lowest priorities of each cluster, and a row that sheds batch alone is degraded.
func TestWhatIsShedIsTheLowestFirst(t *testing.T) {
	b := newBench(t)
	b.ask("us", 10_000)
	b.report()
	w := survey(b.input())
	demands := w.demands(b.input())
	w.solve(demands)
	over := []Headroom{{Cluster: "us-a", WorkPerS: 6000, HeadroomPerS: -1500}, {Cluster: "us-b", WorkPerS: 3000, HeadroomPerS: 20}}
	got := shedOf(demands, over)
	if len(got) != 1 || got[0].Priority != 50 || !within(got[0].PerS, 1500, 1e-6) {
		t.Errorf("%+v", got)
	}
	for _, tt := range []struct {
		shed []Tier
		want Verdict
		says string
	}{
		{[]Tier{{-10, 500}}, Degrades, "500 work/s of batch more than the objectives allow"},
		{[]Tier{{-10, 500}, {50, 3}}, Fails, "3 work/s of standard more than the objectives allow; 500 work/s of batch"},
		{[]Tier{{50, 0.4}}, Survives, "no cluster has the least headroom"},
	} {
		r := SurvivalRow{Shed: tt.shed}
		if r.judge(); r.Verdict != tt.want || !strings.HasPrefix(r.Why, tt.says) {
			t.Errorf("%+v: %s, %s", tt.shed, r.Verdict, r.Why)
		}
	}
}

// What becomes of a loss is the same in the matrix, caches apart, and in a what-if: also for a provider, which no region's
// loss takes down.
func TestTheMatrixAndWhatIfAgree(t *testing.T) {
	fleets := rapid.Custom(draw)
	for seed := range 15 {
		f := fleets.Example(seed)
		f.written = append(f.written, resource(policy.KindCluster, "rented", &policy.ClusterSpec{
			Region: "r0", Type: policy.TypeProvider, Models: []string{"m0"}, PriorWork: 3000,
		}))
		in := f.input(nil, true)
		s, err := Survive(in, SurvivalOptions{Cold: func(fleet.ModelID) (shift.Cold, bool) { return shift.Cold{}, true }})
		if err != nil {
			t.Fatalf("survive: %v", err)
		}
		for _, row := range s.Rows {
			after := WhatIf(in, Change{WithoutRegions: row.Lost.Regions, WithoutClusters: row.Lost.Clusters}).After
			left := map[fleet.ClusterID]bool{}
			for _, h := range row.Clusters {
				left[h.Cluster] = true
				if there := after.at(h.Cluster); there.Lost || math.Abs(there.WorkPerS-h.WorkPerS) > 1e-6*(1+h.WorkPerS) {
					t.Fatalf("without %s: %+v, and %+v", row.Lost, h, there)
				}
			}
			for _, x := range after.Sites {
				if !left[x.Cluster] && x.WorkPerS > 0 || x.Cluster == "rented" && x.Lost && len(row.Lost.Regions) > 0 {
					t.Fatalf("without %s: %+v", row.Lost, x)
				}
			}
		}
	}
}
