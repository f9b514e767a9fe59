package whatif

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
)

// shelf is a Lookup that sorts as the state does.
type shelf []*policy.Resource

func (s shelf) List(kind policy.Kind) []*policy.Resource {
	var out []*policy.Resource
	for _, r := range s {
		if r.Kind == kind {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *policy.Resource) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) })
	return out
}

// written reads "Kind name {spec}"; a later one replaces an earlier one of the name.
func written(t testing.TB, docs ...string) shelf {
	t.Helper()
	var s shelf
	for _, text := range docs {
		p := strings.SplitN(text, " ", 3)
		r, problems := policy.Parse([]byte("apiVersion: anabranch/v1\nkind: " + p[0] + "\nmetadata: {name: " + p[1] + "}\nspec: " + p[2]))
		if len(problems) > 0 {
			t.Fatalf("%s: %v", text, problems)
		}
		s = slices.DeleteFunc(s, func(o *policy.Resource) bool { return o.Kind == r.Kind && o.Metadata.Name == r.Metadata.Name })
		s = append(s, r)
	}
	return s
}

const gpus = "gpus: [{class: h100, count: 2}]"

// three regions with two pods each, of 10,000 work units a second by pod.
var three = []string{
	"Region us {peerURLs: ['https://us'], rttMs: {eu: 80, ap: 160}}", "Region eu {peerURLs: ['https://eu'], rttMs: {ap: 120}}", "Region ap {peerURLs: ['https://ap']}",
	"Model m {}",
	"Cluster us-1 {region: us, models: [m], endpoints: [{id: a, url: 'http://a', class: h100}, {id: b, url: 'http://b', class: h100}], " + gpus + "}",
	"Cluster eu-1 {region: eu, models: [m], endpoints: [{id: a, url: 'http://a', class: h100}, {id: b, url: 'http://b', class: h100}], " + gpus + "}",
	"Cluster ap-1 {region: ap, models: [m], endpoints: [{id: a, url: 'http://a', class: h100}, {id: b, url: 'http://b', class: h100}], " + gpus + "}",
	"TrafficPolicy main {ttftObjectiveMs: 500}",
	"RateCard card {gpus: [{class: h100, region: us, usdPerHour: 3}, {class: h100, region: eu, usdPerHour: 4}, {class: h100, region: ap, usdPerHour: 5}]}",
}

// hearing makes routers report demand for a model in work units a second, a thousand of them a request,
// by region, and the capacities of clusters.
func hearing(model string, work, capacity map[string]float64) signal.Snapshot {
	now := time.Unix(1_800_000_000, 0)
	s := signal.New(func() time.Time { return now })
	for range 100 {
		now = now.Add(time.Second)
		for region, w := range work {
			r := &routerpb.Report{
				AtUnixMs: now.UnixMilli(), WindowMs: 1000, QuotaStoreOk: true,
				Demand: []*routerpb.DemandSignal{{Model: model, Class: "interactive", RequestsPerS: w / 1000, WorkPerS: w}},
			}
			if c := capacity[region+"-1"]; c > 0 {
				r.Clusters = []*routerpb.ClusterSignal{{Cluster: region + "-1", Model: model, Scraped: true, EndpointsTotal: 2, EndpointsReady: 2, CapacityWork: c}}
			}
			s.Put(signal.Observation{Node: "n", Connected: true, Received: now, Hello: &routerpb.Hello{RouterId: "r-" + region, Region: region}, Report: r})
		}
	}
	return s.Snapshot(now)
}

func forecast(t *testing.T, in Input) Outcome {
	t.Helper()
	in.Requests = 300
	began := time.Now()
	out, err := Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%v of virtual time in %v: %s", out.Span, time.Since(began), out.Note)
	return out
}

func TestADrainOfAFullFleetCostsGoodput(t *testing.T) {
	all := map[string]float64{"us-1": 20_000, "eu-1": 20_000, "ap-1": 20_000}
	in := Input{
		Before:  written(t, three...),
		After:   written(t, append(slices.Clone(three), strings.Replace(three[4], "region: us", "region: us, drained: true", 1))...),
		Signals: hearing("m", map[string]float64{"us": 17_000, "eu": 17_000, "ap": 17_000}, all),
	}
	out := forecast(t, in)
	b, a := out.Before, out.After
	if b.Ends.Requests < 300 || b.Ends.Requests != a.Ends.Requests {
		t.Errorf("%v and %v requests: both must get the same", b.Ends.Requests, a.Ends.Requests)
	}
	if b.Goodput.Share < 0.9 {
		t.Errorf("before, at 85 %% of capacity, goodput is %v", b.Goodput.Share)
	}
	if a.Goodput.Share > b.Goodput.Share-0.05 || a.TTFT.P99 < b.TTFT.P99 {
		t.Errorf("after, at 128 %%, goodput is %v (%v) and P99 %v (%v)", a.Goodput.Share, b.Goodput.Share, a.TTFT.P99, b.TTFT.P99)
	}
	for _, c := range a.Clusters {
		if c.Name == "us-1" && c.Share > 0 {
			t.Errorf("what is drained serves %v", c.Share)
		}
	}
	if !b.Cost.PerAnswer.Known() || b.Cost.PerAnswer <= 0 {
		t.Errorf("an answer costs %v", b.Cost.PerAnswer)
	}
	if again := forecast(t, in); again.After.TTFT != a.TTFT || again.Before.Ends != b.Ends {
		t.Error("the same forecast differs")
	}
}

func TestAChangeThatChangesNothingForecastsNoDifference(t *testing.T) {
	in := Input{
		Before:  written(t, three...),
		After:   written(t, append(slices.Clone(three), "Tenant acme {}")...),
		Signals: hearing("m", map[string]float64{"us": 9000}, nil),
	}
	out := forecast(t, in)
	if out.Before.TTFT != out.After.TTFT || out.Before.Ends != out.After.Ends || out.Before.Cost.PerAnswer != out.After.Cost.PerAnswer {
		t.Errorf("before %+v, after %+v", out.Before.TTFT, out.After.TTFT)
	}
	if out.Before.Ends.Requests == 0 || !strings.Contains(out.Note, "not told apart") {
		t.Errorf("%v requests; %s", out.Before.Ends.Requests, out.Note)
	}
}

func TestWithoutDemandThereIsNothingToSimulate(t *testing.T) {
	in := Input{Before: written(t, three...), After: written(t, three...)}
	if out := forecast(t, in); out.Before != nil || out.After != nil || !strings.Contains(out.Note, "no demand") {
		t.Errorf("%+v", out)
	}
	in.Signals = hearing("another", map[string]float64{"us": 9000}, nil)
	if out := forecast(t, in); out.Before != nil || !strings.Contains(out.Note, "no demand") {
		t.Errorf("of a model that there is not: %+v", out)
	}
}

func TestNothingThatServesItIsNoForecast(t *testing.T) {
	in := Input{Before: written(t, three[:4]...), After: written(t, three...), Signals: hearing("m", map[string]float64{"us": 9000}, nil)}
	out := forecast(t, in)
	if out.Before != nil || out.After == nil || !strings.HasPrefix(out.Note, "Nothing serves the demand now.") {
		t.Errorf("the first cluster: %+v", out)
	}
	in.Before, in.After = in.After, in.Before
	if out = forecast(t, in); out.After != nil || out.Before == nil || !strings.HasPrefix(out.Note, "Nothing would serve") {
		t.Errorf("the last: %+v", out)
	}
}

func TestALargeFleetIsSimulatedInTheSmall(t *testing.T) {
	docs := slices.Clone(three[:4])
	for _, region := range []string{"us", "eu", "ap"} {
		var pods []string
		for i := range 100 {
			pods = append(pods, fmt.Sprintf("{id: p%d, url: 'http://%s-%d', class: unheard-of}", i, region, i))
		}
		docs = append(docs, fmt.Sprintf("Cluster %s-1 {region: %s, models: [m], endpoints: [%s]}", region, region, strings.Join(pods, ", ")))
	}
	in := Input{Before: written(t, docs...), After: written(t, docs...), Signals: hearing("m", map[string]float64{"us": 300_000, "eu": 300_000, "ap": 300_000}, nil)}
	out := forecast(t, in)
	if n := out.Before.Ends.Requests; n < 300 || n > 1000 {
		t.Errorf("%v requests are simulated", n)
	}
	if out.Before.Goodput.Share < 0.9 {
		t.Errorf("at 60 %% of capacity goodput is %v", out.Before.Goodput.Share)
	}
}

func TestAForecastEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Run(ctx, Input{Before: written(t, three...), After: written(t, three...), Signals: hearing("m", map[string]float64{"us": 9000}, nil)})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// broken is a Lookup of resources that nobody thought of.
type broken struct{ shelf }

func (b broken) List(kind policy.Kind) []*policy.Resource {
	if kind == policy.KindRateCard {
		panic("a surprise")
	}
	return b.shelf.List(kind)
}

// TestASimulationThatPanicsEndsNobody: it runs beside whatever else the process does.
func TestASimulationThatPanicsEndsNobody(t *testing.T) {
	in := Input{Before: written(t, three...), After: broken{written(t, three...)}, Signals: hearing("m", map[string]float64{"us": 2000}, nil)}
	if out, err := Run(t.Context(), in); err == nil || !strings.Contains(err.Error(), "a surprise") {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestAFleetInTheSmall(t *testing.T) {
	docs := append(slices.Clone(three),
		"Model n {}", "Model idle {}", "Region sa {rttMs: {us: 110}}",
		"Cluster both {region: sa, models: [m, n, idle], priorWork: 9000, endpoints: [{id: a, url: 'http://a', class: l40s}, {id: b, url: 'http://b', class: l40s}, {id: c, url: 'http://c', class: l40s}]}",
		"Cluster dead {region: sa, models: [m], endpoints: [{id: a, url: 'http://a', class: l40s}]}",
		"TrafficPolicy pinned {class: batch, models: [n, idle], clusters: [both], match: [{headers: [{name: x, value: y}]}]}",
		"TrafficPolicy other {class: other, models: [idle]}",
		"RateCard later {gpus: [{class: h100, region: us, usdPerHour: 99}]}", // the first by name holds
	)
	s := small{
		in:        Input{After: written(t, docs...), Dead: map[fleet.ClusterID]bool{"dead": true}},
		resources: written(t, docs...), scale: 1,
		asked: []demand{{model: "m", source: "us", work: 2000, rate: 2, prompt: 400, output: 100}, {model: "n", source: "us", work: 1000, rate: 1, prompt: 400, output: 100}},
	}
	b, err := s.fleet(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.spec.Validate(); err != nil {
		t.Fatal(err)
	}
	var clusters []string
	for _, c := range b.spec.Clusters {
		clusters = append(clusters, fmt.Sprintf("%s %s %s %d %v", c.ID, c.Region, c.Model, c.Pods[0].Count, b.drained[c.ID]))
	}
	// "both" is the second by name: two thirds of its pods are for m, and one for n.
	want := []string{"ap-1 ap m 2 false", "c1.m0 sa m 2 false", "c1.m1 sa n 1 false", "dead sa m 1 true", "eu-1 eu m 2 false", "us-1 us m 2 false"}
	if !slices.Equal(clusters, want) {
		t.Errorf("clusters %q, want %q", clusters, want)
	}
	if price := b.spec.Clusters[5].Pods[0].PriceMicroUSD; price != 3e6 {
		t.Errorf("a pod in us costs %d", price)
	}
	var own []string
	for _, r := range b.own {
		own = append(own, r.Metadata.Name)
		if spec, ok := r.Spec.(*policy.TrafficPolicySpec); ok && r.Metadata.Name == "pinned" {
			if !slices.Equal(spec.Clusters, []string{"c1.m0", "c1.m1"}) || !slices.Equal(spec.Models, []string{"n"}) || spec.Match != nil {
				t.Errorf("pinned is %+v", spec)
			}
		}
	}
	if !slices.Equal(own, []string{"sa", "main", "pinned"}) { // sa can't be entered
		t.Errorf("resources %q", own)
	}
	if d := b.spec.Between("us", "sa"); d != 110*time.Millisecond {
		t.Errorf("sa is %v from us", d)
	}
	if d := b.spec.Between("eu", "sa"); d != time.Duration(policy.DefaultRTTMs*float64(time.Millisecond)) {
		t.Errorf("sa is %v from eu", d)
	}
	if o := b.spec.Models[0].FirstToken; o != 500*time.Millisecond {
		t.Errorf("the objective of m is %v", o)
	}
}

// A pod does what was measured of it, whatever the profile of its class.
func TestPodsDoWhatWasMeasured(t *testing.T) {
	for _, capacity := range []float64{500, 20_000, 400_000} {
		s := small{
			in: Input{Signals: hearing("m", map[string]float64{"us": 9000}, map[string]float64{"us-1": capacity})}, resources: written(t, three...), scale: 1,
			asked: []demand{{model: "m", source: "us", work: 1000, rate: 1, prompt: 400, output: 100}},
		}
		spec := find(s.resources, policy.KindCluster, "us-1").Spec.(*policy.ClusterSpec)
		p := s.pods("us-1", "m", spec, 1, 6e6, map[string]float64{})
		if got := s.rate(p.Options.Profile, "m") * float64(p.Count); got < capacity*0.97 || got > capacity*1.03 {
			t.Errorf("measured %v, simulated %v", capacity, got)
		}
		if p.PriceMicroUSD != 3e6 {
			t.Errorf("a pod costs %d", p.PriceMicroUSD)
		}
	}
}

func TestRequestsHaveTheWorkThatIsReported(t *testing.T) {
	in := Input{Before: written(t, three...), After: written(t, three...)}
	for _, perRequest := range []float64{1, 10, 1000, 1e6} {
		now := time.Unix(1_800_000_000, 0)
		s := signal.New(func() time.Time { return now })
		for range 100 {
			now = now.Add(time.Second)
			s.Put(signal.Observation{Node: "n", Connected: true, Received: now, Hello: &routerpb.Hello{RouterId: "r", Region: "us"}, Report: &routerpb.Report{
				AtUnixMs: now.UnixMilli(), WindowMs: 1000, Demand: []*routerpb.DemandSignal{{Model: "m", Class: "interactive", RequestsPerS: 5, WorkPerS: 5 * perRequest}},
			}})
		}
		in.Signals = s.Snapshot(now)
		asked := demands(in)
		if len(asked) != 1 {
			t.Fatalf("%+v", asked)
		}
		d := asked[0]
		if got := d.rate * (d.prompt + policy.DefaultOutputWeight*d.output); got < 4.9*perRequest || got > 5.1*perRequest {
			t.Errorf("%v a request: simulated %v a second", perRequest, got)
		}
		if d.output < leastOutput || d.output > mostOutput {
			t.Errorf("%v tokens of output", d.output)
		}
	}
}

// What is supposed is of the second run alone.
func TestWhatIsSupposedIsOfTheRunAfter(t *testing.T) {
	fleet3 := written(t, three...)
	signals := hearing("m", map[string]float64{"us": 9000, "eu": 3000}, map[string]float64{"us-1": 20_000, "eu-1": 20_000, "ap-1": 20_000})
	ask := func(c plan.Change) Outcome {
		return forecast(t, Input{Before: fleet3, After: fleet3, Signals: signals, Suppose: c})
	}
	lost := ask(plan.Change{WithoutRegions: []fleet.RegionID{"us"}})
	if was, is := lost.Before.TTFT.P50, lost.After.TTFT.P50; float64(is) < float64(was)+50 {
		t.Errorf("without us, which is 80 ms from eu: P50 %v, then %v", was, is)
	}
	more := ask(plan.Change{Demand: []plan.DemandChange{{Factor: 2}}})
	if was, is := float64(more.Before.Ends.Requests), float64(more.After.Ends.Requests); is < 1.6*was || is > 2.4*was {
		t.Errorf("twice the demand: %v requests, then %v", was, is)
	}
	weak := ask(plan.Change{Capacity: []plan.CapacityChange{{Cluster: "us-1", Factor: 0.2}, {Cluster: "eu-1", Factor: 0.2}, {Cluster: "ap-1", Factor: 0.2}}})
	if was, is := weak.Before.TTFT.P50, weak.After.TTFT.P50; is <= was {
		t.Errorf("with a fifth of the capacity: P50 %v, then %v", was, is)
	}
	dear := ask(plan.Change{Prices: []plan.PriceChange{{Class: "h100", USDPerHour: 40}}})
	if was, is := dear.Before.Cost.PerAnswer, dear.After.Cost.PerAnswer; is < 8*was {
		t.Errorf("at ten times the price: %v an answer, then %v", was, is)
	}
	if none := ask(plan.Change{Demand: []plan.DemandChange{{Factor: 0}}}); none.Before != nil || none.Note == "" {
		t.Errorf("%+v", none)
	}
}
