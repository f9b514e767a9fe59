package ours

import (
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
	"anabranch/sim/workload"
	"anabranch/sim/world"
)

// within a fleet something happens, and most requests don't notice.
type fault struct {
	pods   []int
	events []world.Event
	rate   float64
	last   time.Duration
	from   fleet.RegionID
	change func(*world.Spec)
	policy func(*policy.TrafficPolicySpec)
	tenant fleet.TenantID
}

func (f fault) play(t *testing.T) *world.Result {
	t.Helper()
	spec := fleetOf(f.pods...)
	spec.Events = f.events
	if f.change != nil {
		f.change(spec)
	}
	var from []workload.Origin
	if f.from != "" {
		from = append(from, workload.Origin{Region: f.from})
	}
	return run(t, spec, steady(t, f.rate, f.last, f.tenant, 50, from...), New(Options{Resources: quick(f.policy)}), world.Options{Seed: 1})
}

const second = time.Second

func TestADeadClusterIsLeftAndComesBack(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	r := fault{
		pods: []int{3, 3}, rate: 20, last: 150 * second, from: "us",
		events: []world.Event{{At: 20 * second, For: 30 * second, Kind: world.Lost, Cluster: "us-a"}},
	}.play(t)
	if got := share(r, 0, 0, 20*second); got < 0.8 {
		t.Errorf("%.2f at home before", got)
	}
	if by := count(r, 0, forever); by[world.OK]+by[world.Cut] != len(r.Records) || by[world.Cut] > 80 { // what streamed when it died is cut
		t.Errorf("ends %v", by)
	}
	if by := count(r, 20*second, forever); by[world.Cut] > 0 {
		t.Errorf("of those that came later: %v", by)
	}
	if got := share(r, 0, 21*second, 50*second); got > 0 {
		t.Errorf("%.2f is answered by the dead", got)
	}
	// Cool-down 15 s, good for 6 s, and a ramp of 3 s steps.
	if got := share(r, 0, 110*second, forever); got < 0.5 {
		t.Errorf("%.2f at home when it is long back", got)
	}
}

func TestAPodThatDiesIsLeftAndComesBack(t *testing.T) {
	r := fault{
		pods: []int{4}, rate: 20, last: 80 * second,
		events: []world.Event{{At: 20 * second, For: 10 * second, Kind: world.PodLoss, Cluster: "us-a", Pod: 1}},
	}.play(t)
	served := func(from, to time.Duration) (n int) {
		for i := range r.Records {
			if rec := &r.Records[i]; rec.At >= from && rec.At < to && rec.Pod == 1 && rec.End == world.OK {
				n++
			}
		}
		return n
	}
	if by := count(r, 0, forever); by[world.OK]+by[world.Cut] != len(r.Records) || by[world.Cut] > 20 {
		t.Errorf("ends %v", by)
	}
	if before, during, after := served(0, 20*second), served(20*second, 30*second), served(65*second, forever); before < 50 || during > 0 || after < 30 {
		t.Errorf("it served %d, %d while it was dead, %d after", before, during, after)
	}
}

func TestAClusterThatHangsIsLeft(t *testing.T) {
	r := fault{
		pods: []int{3, 3}, rate: 20, last: 90 * second, from: "us",
		events: []world.Event{{At: 20 * second, For: 40 * second, Kind: world.Hang, Cluster: "us-a"}},
	}.play(t)
	late := 0
	for i := range r.Records {
		if rec := &r.Records[i]; rec.At >= 30*second && (rec.End != world.OK || rec.First-rec.At > 5*second) {
			late++
		}
	}
	if late > 30 {
		t.Errorf("%d requests that came ten seconds later wait for nothing or long", late)
	}
	if got := share(r, 0, 35*second, 60*second); got > 0.05 {
		t.Errorf("%.2f is answered by what hangs", got)
	}
}

func TestARegionThatDiesTakesNobodyElseAlong(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	r := fault{
		pods: []int{3, 3, 3}, rate: 30, last: 120 * second,
		events: []world.Event{{At: 30 * second, For: 30 * second, Kind: world.Lost, Region: "eu"}},
	}.play(t)
	if by := count(r, 32*second, forever); by[world.OK] < (by[world.OK]+by[world.Failed]+by[world.Cut]+by[world.Shed]+by[world.GaveUp])*995/1000 {
		t.Errorf("after the first seconds: %v", by)
	}
	if got := share(r, 1, 100*second, forever); got < 0.2 {
		t.Errorf("%.2f is answered there when it is back", got)
	}
}

func TestARegionThatIsPartedServesItsOwn(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	r := fault{
		pods: []int{3, 3}, rate: 20, last: 60 * second,
		events: []world.Event{{At: 20 * second, For: 20 * second, Kind: world.Partition, Region: "eu"}},
	}.play(t)
	if by := count(r, 22*second, 40*second); by[world.OK] < 300 || by[world.Failed]+by[world.GaveUp]+by[world.Shed] > 5 {
		t.Errorf("while it is parted: %v", by)
	}
	for i := range r.Records {
		if rec := &r.Records[i]; rec.At > 21*second && rec.At < 38*second && rec.End == world.OK && rec.Cluster != rec.Region {
			t.Fatalf("a request of region %d is answered by cluster %d", rec.Region, rec.Cluster)
		}
	}
}

func TestResidencyHoldsWhateverDies(t *testing.T) {
	r := fault{
		pods: []int{3, 3, 3}, rate: 8, last: 120 * second, tenant: "initech",
		change: func(s *world.Spec) { s.Tenants = []world.Tenant{{ID: "initech", Residency: []string{"eu"}}} },
		events: []world.Event{
			{At: 15 * second, For: 10 * second, Kind: world.HalfPods, Cluster: "eu-a"},
			{At: 30 * second, For: 15 * second, Kind: world.Lost, Cluster: "eu-a"},
			{At: 35 * second, For: 5 * second, Kind: world.NoLeader},
		},
	}.play(t)
	for i := range r.Records {
		if r.Records[i].Abroad || r.Records[i].End == world.OK && r.Records[i].Cluster != 1 {
			t.Fatalf("served abroad: %+v", r.Records[i])
		}
	}
	if by := count(r, 0, 27*second); by[world.OK] < 180 || by[world.Failed] > 0 {
		t.Errorf("with half the pods: %v", by)
	}
	if by := count(r, 32*second, 44*second); by[world.OK] != 0 || by[world.Failed] < 70 {
		t.Errorf("without any: %v", by)
	}
	// The control plane gives nothing to what has just come back, and the tenant may go nowhere else.
	if by := count(r, 90*second, forever); by[world.OK] < 200 || by[world.Failed] > 0 {
		t.Errorf("when they are back: %v", by)
	}
}

func TestQuotasHoldOverAllRegions(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	play := func(events ...world.Event) (tokens [3]int, r *world.Result) {
		r = fault{
			pods: []int{3, 3, 3}, rate: 30, last: 180 * second, tenant: "globex", events: events,
			change: func(s *world.Spec) {
				s.Tenants = []world.Tenant{{ID: "globex"}}
				s.Quotas = []world.Quota{{Tenant: "globex", Tokens: 300_000}} // of 30 × 640 × 60 that are asked for
			},
		}.play(t)
		for i := range r.Records {
			if rec := &r.Records[i]; rec.End == world.OK {
				tokens[min(int(rec.At/time.Minute), 2)] += int(rec.Prompt + rec.Output)
			}
		}
		return tokens, r
	}
	tokens, r := play()
	// A minute's worth at once, and then a minute's worth each.
	for minute, want := range []int{600_000, 300_000, 300_000} {
		if got := tokens[minute]; got < want*95/100 || got > want*105/100 {
			t.Errorf("minute %d: %d tokens, want about %d", minute+1, got, want)
		}
	}
	if by := count(r, 0, forever); by[world.Denied] == 0 || by[world.OK]+by[world.Denied] != len(r.Records) {
		t.Errorf("ends %v", by)
	}
	tokens, _ = play(world.Event{At: 60 * second, For: 60 * second, Kind: world.NoQuotas})
	if got := tokens[1]; got < 250_000 || got > 360_000 {
		t.Errorf("without the store %d tokens in a minute", got)
	}
	if got := tokens[2]; got > 315_000 {
		t.Errorf("%d tokens in the minute when it was back", got)
	}
}

func TestNoLeaderIsNoLoss(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	r := fault{
		pods: []int{3, 3}, rate: 20, last: 120 * second,
		events: []world.Event{{At: 30 * second, For: 40 * second, Kind: world.NoLeader}},
	}.play(t)
	if by := count(r, 0, forever); by[world.OK] != len(r.Records) {
		t.Errorf("ends %v", by)
	}
	at := func(s int) []float32 {
		var all []float32
		for _, row := range r.Series.Weights {
			all = append(all, row[s])
		}
		return all
	}
	for s := 35; s < 69; s++ {
		for i, w := range at(s) {
			if w != at(34)[i] {
				t.Fatalf("weights at %d s are %v, and were %v", s, at(s), at(34))
			}
		}
	}
}

// Without a leader routers still leave what is dead, by what they see themselves.
func TestAClusterDiesWhileNobodyLeads(t *testing.T) {
	r := fault{
		pods: []int{3, 3}, rate: 20, last: 60 * second, from: "us",
		events: []world.Event{
			{At: 10 * second, For: 45 * second, Kind: world.NoLeader},
			{At: 20 * second, Kind: world.Lost, Cluster: "us-a"},
		},
	}.play(t)
	if by := count(r, 21*second, forever); by[world.OK] < 760 || by[world.Failed]+by[world.Cut] > 0 {
		t.Errorf("ends %v", by)
	}
}

func TestPodsThatComeAreUsedAndThoseThatGoAreNot(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	r := fault{
		pods: []int{2}, rate: 15, last: 150 * second,
		events: []world.Event{
			{At: 20 * second, For: 80 * second, Kind: world.ScaleOut, Cluster: "us-a", Count: 2},
		},
	}.play(t)
	served := func(from, to time.Duration) (n int) {
		for i := range r.Records {
			if rec := &r.Records[i]; rec.At >= from && rec.At < to && rec.Pod >= 2 {
				n++
			}
		}
		return n
	}
	if by := count(r, 0, forever); by[world.OK] != len(r.Records) {
		t.Errorf("ends %v", by)
	}
	if during, after := served(60*second, 100*second), served(101*second, forever); during < 150 || after > 0 {
		t.Errorf("new pods served %d, and %d after they were to go", during, after)
	}
}

func TestABrownOutIsRelieved(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	r := fault{
		pods: []int{4, 4}, rate: 40, last: 120 * second, from: "us",
		events: []world.Event{{At: 30 * second, Kind: world.Slow, Cluster: "us-a", Pod: -1, Factor: 4}},
	}.play(t)
	if by := count(r, 0, forever); by[world.OK] < len(r.Records)*99/100 {
		t.Errorf("ends %v", by)
	}
	before, after := share(r, 1, 0, 30*second), share(r, 1, 60*second, forever)
	if after < before+0.2 {
		t.Errorf("%.2f abroad before, %.2f when home is four times slower", before, after)
	}
}

// Where nothing is told of a cluster to others its own region uses it all the same.
func TestABlackoutHarmsNobody(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	r := fault{
		pods: []int{3, 3}, rate: 20, last: 90 * second,
		events: []world.Event{{At: 20 * second, For: 50 * second, Kind: world.Blackout, Region: "us"}},
	}.play(t)
	if by := count(r, 0, forever); by[world.OK] != len(r.Records) {
		t.Errorf("ends %v", by)
	}
	if got := share(r, 0, 30*second, 70*second); got < 0.3 {
		t.Errorf("%.2f goes where nothing is told of", got)
	}
}

// Measurements that come late don't let all go to one pod.
func TestLateMeasurementsDoNotHerd(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	r := fault{
		pods: []int{6}, rate: 60, last: 60 * second,
		change: func(s *world.Spec) { s.Scrape = world.Feed{Interval: second, Delay: second} },
	}.play(t)
	by := make([]int, 6)
	for i := range r.Records {
		if rec := &r.Records[i]; rec.End == world.OK {
			by[rec.Pod]++
		}
	}
	for pod, n := range by {
		if mean := len(r.Records) / 6; n < mean*2/3 || n > mean*3/2 {
			t.Errorf("pod %d served %d, the mean is %d", pod, n, mean)
		}
	}
}
