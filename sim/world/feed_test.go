package world

import (
	"testing"
	"time"

	"anabranch/sim/workload"
)

// idle is a fleet of three regions with nothing to do but one request at the end, so that feeds can be
// watched until then.
func idle(t *testing.T, change func(*Spec), until time.Duration, policy *turns) *Result {
	t.Helper()
	s := three(2)
	s.Scrape.Interval, s.Tell.Interval = 50*ms, 100*ms
	if change != nil {
		change(s)
	}
	return play(t, s, policy, ask(1, until, 1))
}

// hearing is a measurement as a policy hears of it.
type hearing struct {
	router, cluster, pod int
	now, at              time.Duration // by the router's clock, by its own
}

func hearings(t *testing.T, change func(*Spec), until time.Duration) []hearing {
	t.Helper()
	var all []hearing
	idle(t, change, until, &turns{heard: func(h *Heard, v *View) {
		x := hearing{v.Router, h.Cluster, h.Pod, v.Now, v.Clusters[h.Cluster].Told.At}
		if h.Pod >= 0 {
			x.at = v.Clusters[h.Cluster].Pods[h.Pod].At
		}
		all = append(all, x)
	}})
	return all
}

func TestRoutersHearInTime(t *testing.T) {
	t.Parallel()
	const seconds = 20
	for _, c := range []struct {
		name         string
		change       func(*Spec)
		pods, others int // measurements, of pods and of other regions' clusters
		late         time.Duration
	}{
		{name: "at each interval", pods: 3 * 2 * 20 * seconds, others: 6 * 10 * seconds},
		{
			name:   "each router of a region by itself",
			change: func(s *Spec) { s.Regions[0].Routers = 3 },
			pods:   5 * 2 * 20 * seconds, others: (3*2 + 4) * 10 * seconds,
		},
		{
			name:   "late",
			change: func(s *Spec) { s.Scrape.Delay, s.Tell.Delay = 2*time.Second, 2*time.Second },
			pods:   3 * 2 * 20 * (seconds - 2), others: 6 * 10 * (seconds - 2), late: 2 * time.Second,
		},
		{
			name:   "what is not lost",
			change: func(s *Spec) { s.Scrape.Loss, s.Tell.Loss = 0.25, 0.5 },
			pods:   3 * 2 * 15 * seconds, others: 6 * 5 * seconds,
		},
		{
			name: "nothing of a blacked-out cluster, but in its own region",
			change: func(s *Spec) {
				s.Events = []Event{{Kind: Blackout, Cluster: "eu-west-1", At: 10 * time.Second, For: 5 * time.Second}}
			},
			pods: 3 * 2 * 20 * seconds, others: 4*10*seconds + 2*10*(seconds-5),
		},
		{
			name: "nothing across a partition",
			change: func(s *Spec) {
				s.Events = []Event{{Kind: Partition, Region: "eu-west-1", At: 10 * time.Second, For: 5 * time.Second}}
			},
			pods: 3 * 2 * 20 * seconds, others: 2*10*seconds + 4*10*(seconds-5),
		},
		{
			name: "nothing from or in a lost region",
			change: func(s *Spec) {
				s.Events = []Event{{Kind: Lost, Region: "eu-west-1", At: 10 * time.Second, For: 5 * time.Second}}
			},
			pods: 2*2*20*seconds + 2*20*(seconds-5), others: 2*10*seconds + 4*10*(seconds-5),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pods, others := 0, 0
			for _, h := range hearings(t, c.change, seconds*time.Second) {
				if h.now-h.at != c.late {
					t.Fatalf("%+v is heard %v late, want %v", h, h.now-h.at, c.late)
				}
				switch {
				case h.pod >= 0:
					pods++
				case three(1).Regions[h.cluster].ID != regionOfRouter(c.change, h.router):
					others++
				}
			}
			near := func(what string, got, want int) {
				if d := float64(got) / float64(want); d < 0.94 || d > 1.06 {
					t.Errorf("%d measurements of %s, want about %d", got, what, want)
				}
			}
			near("pods", pods, c.pods)
			near("clusters elsewhere", others, c.others)
		})
	}
}

// regionOfRouter is where a router of the three regions is.
func regionOfRouter(change func(*Spec), router int) any {
	s := three(2)
	if change != nil {
		change(s)
	}
	for _, r := range s.Regions {
		if router -= max(1, r.Routers); router < 0 {
			return r.ID
		}
	}
	return nil
}

func TestClocksOfRegionsDiffer(t *testing.T) {
	t.Parallel()
	skews := []time.Duration{0, 300 * ms, -2 * time.Second}
	all := hearings(t, func(s *Spec) {
		for i := range s.Regions {
			s.Regions[i].Skew = skews[i]
		}
	}, 5*time.Second)
	for _, h := range all {
		if want := skews[h.router] - skews[h.cluster]; h.now-h.at != want {
			t.Fatalf("%+v is %v old by the clocks, want %v", h, h.now-h.at, want)
		}
	}
	p := &turns{local: true}
	seen := 0
	p.log = func(what string, a *Attempt, _ Outcome, v *View) {
		seen++
		if v.Now < 300*ms || what == "first" && a.First != v.Now || a.Sent < 300*ms {
			t.Errorf("%s: now %v, sent %v, first %v by a clock that is 300 ms ahead", what, v.Now, a.Sent, a.First)
		}
	}
	s := three(1)
	s.Regions[0].Skew = 300 * ms
	if r := play(t, s, p, ask(1, 0, 1)); r.Records[0].First > 20*ms || seen != 3 {
		t.Errorf("records are in true time, not %v; %d things happened", r.Records[0].First, seen)
	}
}

// watch plays until a time and looks at a router's view at each tick.
func watchTicks(t *testing.T, change func(*Spec), until time.Duration, see func(v *View)) {
	t.Helper()
	idle(t, change, until, &turns{tick: see})
}

func TestViewsFollowPods(t *testing.T) {
	t.Parallel()
	type state struct {
		pods    string // K known, F failing, - not known
		told    [2]int // ready of pods
		price   int64
		leader  bool
		quotas  bool
		regions int
	}
	at := map[time.Duration]state{}
	watchTicks(t, func(s *Spec) {
		s.Clusters[0].Pods[0].Options.StartUp = 2 * time.Second
		s.Events = []Event{
			{Kind: PodLoss, Cluster: "us-east-1", Pod: 1, At: time.Second, For: time.Second},
			{Kind: ScaleOut, Cluster: "us-east-1", Count: 2, At: 6 * time.Second, For: 6 * time.Second},
			{Kind: ScaleIn, Cluster: "us-east-1", At: 14 * time.Second, For: 2 * time.Second},
			{Kind: Price, Region: "us-east-1", Factor: 3, At: 20 * time.Second, For: time.Second},
			{Kind: NoLeader, At: 20 * time.Second, For: time.Second},
			{Kind: NoQuotas, At: 22 * time.Second, For: time.Second},
			{Kind: HalfPods, Cluster: "us-east-1", At: 24 * time.Second},
		}
	}, 26*time.Second, func(v *View) {
		if v.Router != 0 {
			return
		}
		s := state{told: [2]int{v.Clusters[0].Told.Ready, v.Clusters[0].Told.Pods}, price: v.Clusters[0].PriceMicroUSD, leader: v.Leader, quotas: v.QuotaStore}
		for _, p := range v.Clusters[0].Pods {
			switch {
			case p.Known && p.Failing:
				s.pods += "F"
			case p.Known:
				s.pods += "K"
			default:
				s.pods += "-"
			}
		}
		at[v.Now.Truncate(100*ms)] = s
		if v.Clusters[1].Pods != nil {
			t.Errorf("at %v pods of another region are known", v.Now)
		}
	})
	one := int64(3_600_000)
	for _, c := range []struct {
		at   float64
		what string
		want state
	}{
		{0.5, "all is well", state{"KK", [2]int{2, 2}, 2 * one, true, true, 0}},
		{1.5, "a pod is dead", state{"KF", [2]int{1, 2}, one, true, true, 0}},
		{3.5, "it starts up", state{"KF", [2]int{1, 2}, 2 * one, true, true, 0}},
		{4.5, "it is back", state{"KK", [2]int{2, 2}, 2 * one, true, true, 0}},
		{7.5, "two start up, and are paid", state{"KK", [2]int{2, 4}, 4 * one, true, true, 0}},
		{8.5, "they are there", state{"KKKK", [2]int{4, 4}, 4 * one, true, true, 0}},
		{12.5, "they have gone", state{"KK--", [2]int{2, 2}, 2 * one, true, true, 0}},
		{14.5, "the last that was left has gone", state{"K---", [2]int{1, 1}, one, true, true, 0}},
		{17.0, "it starts up again", state{"K---", [2]int{1, 2}, 2 * one, true, true, 0}},
		{18.5, "it is back", state{"KK--", [2]int{2, 2}, 2 * one, true, true, 0}},
		{20.5, "dear, and no leader", state{"KK--", [2]int{2, 2}, 6 * one, false, true, 0}},
		{22.5, "no quotas", state{"KK--", [2]int{2, 2}, 2 * one, true, false, 0}},
		{25.0, "half are dead", state{"FK--", [2]int{1, 2}, one, true, true, 0}},
	} {
		if got := at[time.Duration(c.at*10)*100*ms]; got != c.want {
			t.Errorf("at %v s, when %s: %+v, want %+v", c.at, c.what, got, c.want)
		}
	}
}

func TestToldSumsUpTheLastTenSeconds(t *testing.T) {
	t.Parallel()
	s := three(2)
	s.Clusters[0].Pods[0].Options.MaxSequences = 1
	s.Tell.Interval = 100 * ms
	var requests []workload.Request
	blocks := make([]uint64, 60)
	for i := range blocks {
		blocks[i] = uint64(i + 1)
	}
	for i := range 4 { // each takes about 8 s, two at a time
		r := ask(uint64(i+1), time.Second, 1000)
		r.PromptTokens, r.Blocks = 1000, blocks
		requests = append(requests, r)
	}
	requests = append(requests, ask(9, 40*time.Second, 1))
	p := scripted(map[uint64]string{1: "0/0", 2: "0/1", 3: "0/0", 4: "0/1", 9: "0/0"})
	told := map[int]Told{}
	p.tick = func(v *View) {
		if v.Router == 1 { // in another region
			told[int(v.Now/time.Second)] = v.Clusters[0].Told
		}
	}
	play(t, s, p, requests...)
	if x := told[4]; x.Waiting != 2 || x.Running != 2 || x.Slots != 2 || x.KV <= 0 || x.FirstToken < 20*ms || x.FirstToken > 60*ms {
		t.Errorf("while two run and two wait: %+v", x)
	}
	if x := told[17]; x.FirstToken < 7*time.Second || x.PrefixHits < 0.4 || x.PrefixHits > 0.5 || x.Errors != 0 {
		t.Errorf("when all have ended within 10 s, half of them from the cache: %+v", x)
	}
	if x := told[39]; x.FirstToken != 0 || x.PrefixHits != 0 || x.Running != 0 || x.KV != 0 {
		t.Errorf("long after: %+v", x)
	}
}

func TestToldCountsFailures(t *testing.T) {
	t.Parallel()
	s := three(2)
	s.Tell.Interval = 100 * ms
	s.Events = []Event{{Kind: PodLoss, Cluster: "us-east-1"}}
	p := scripted(map[uint64]string{1: "0/0 0/1", 2: "0/1", 3: "1/0"})
	var told Told
	p.tick = func(v *View) { told = v.Clusters[0].Told }
	play(t, s, p, ask(1, 500*ms, 1), ask(2, 600*ms, 1), ask(3, 2*time.Second, 1))
	if told.Errors < 0.3 || told.Errors > 0.34 || told.Ready != 1 {
		t.Errorf("one of three attempts failed: %+v", told)
	}
}
