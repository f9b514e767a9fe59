package rival

import (
	"math"
	"testing"
	"time"

	"anabranch/sim"
	"anabranch/sim/world"
)

func h100(t *testing.T) sim.Profile {
	t.Helper()
	p, err := sim.Lookup("h100", model)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPaceAgainstTheEngine: what is predicted for an idle pod and for a queue is what the engine does.
func TestPaceAgainstTheEngine(t *testing.T) {
	profile := h100(t)
	for _, c := range []struct {
		name          string
		queue, prompt int // requests of the same length ahead of it
		slack         float64
	}{
		{"a short prompt on an idle pod", 0, 200, 0.02},
		{"a prompt of a few steps", 0, 7000, 0.03},
		{"a queue of prompts", 4, 3000, 0.1},
	} {
		e := sim.New(sim.Options{Profile: profile})
		for i := range c.queue + 1 {
			if err := e.Submit(0, sim.Request{ID: uint64(i + 1), PromptTokens: c.prompt, OutputTokens: 50}); err != nil {
				t.Fatal(err)
			}
		}
		var took time.Duration
		for _, event := range e.Advance(time.Minute) {
			if event.Kind == sim.First && event.ID == uint64(c.queue+1) {
				took = event.At
			}
		}
		s := stand{options: &sim.Options{Profile: profile}, ahead: float64(c.queue * c.prompt), slow: 1}
		got, _ := s.first(float64(c.prompt), 0)
		if math.Abs(got-took.Seconds()) > c.slack*took.Seconds() {
			t.Errorf("%s: predicted %.1f ms, the engine takes %v", c.name, 1000*got, took)
		}
	}
}

func TestPaceOfFullPods(t *testing.T) {
	options := &sim.Options{Profile: h100(t), MaxSequences: 4}
	free := stand{options: options, running: 3, hold: 8, slow: 1}
	base, work := free.first(1000, 0)
	full := stand{options: options, running: 4, waiting: 1, hold: 8, slow: 1}
	if got, _ := full.first(1000, 0); math.Abs(got-base-4) > 0.01 {
		t.Errorf("two before it for four places held for 8 s each: %.2f s more, want 4", got-base)
	}
	slow := free
	slow.slow = 2
	if got, w := slow.first(1000, 0); math.Abs(got-2*base) > 1e-9 || math.Abs(w-2*work) > 1e-9 {
		t.Errorf("twice as slow: %v and %v of %v and %v", got, w, base, work)
	}
	crowded := free
	crowded.kv = 1
	if got, _ := crowded.first(float64(options.Profile.KVTokens)/2, 0); got < 4 {
		t.Errorf("a prompt half as long as a full KV cache starts after %.2f s, want 4 at least", got)
	}
	if a, _ := free.first(1000, 992); a >= base {
		t.Errorf("a cached prompt takes %v, an uncached one %v", a, base)
	}
}

func TestGreedyTakesTheLeastPredicted(t *testing.T) {
	r := prompt(1, 4000, 1) // some 150 ms of prefill
	for _, c := range []struct {
		name          string
		home, waiting int // requests waiting on each pod at home, and in all elsewhere
		hits          float64
		want          int
	}{
		{"home for nearness", 0, 0, 0, 0},
		{"away from a queue", 3, 0, 0, 1},
		{"a short queue is nearer than a round trip away", 0, 40, 0, 0},
		{"no further for a queue there", 3, 40, 0, 0},
		{"a cluster with warm caches", 1, 0, 0.9, 1},
	} {
		s := regions(2, 2)
		p := s.policy(t, "greedy")
		s.hear(p)
		s.local(0).Waiting, s.local(1).Waiting = c.home, c.home
		s.view.Clusters[1].Told.Waiting, s.view.Clusters[1].Told.PrefixHits = c.waiting, c.hits
		if got := p.Route(r, s.view).Cluster; got != c.want {
			t.Errorf("%s: goes to %d, want %d", c.name, got, c.want)
		}
	}
}

func TestGreedyFollowsThePromptAndTheFasterPod(t *testing.T) {
	s := regions(2)
	s.spec.Clusters[0].Pods = []world.Pods{{Class: "l40s", Count: 1}, {Class: "h100", Count: 1}}
	s.spec = s.spec.WithDefaults()
	for i := range s.spec.Clusters[0].Pods {
		profile, err := sim.Lookup(s.spec.Clusters[0].Pods[i].Class, model)
		if err != nil {
			t.Fatal(err)
		}
		s.spec.Clusters[0].Pods[i].Options.Profile = profile
	}
	p := s.policy(t, "greedy")
	r := prompt(1, 8000, 1)
	if got := p.Pick(r, 0, -1, s.view).Pod; got != 1 {
		t.Errorf("picks the slower pod")
	}
	s.local(1).Waiting = 1
	if got := p.Pick(prompt(2, 8000, 1), 0, -1, s.view).Pod; got != 1 {
		t.Errorf("leaves the prompt's cache for one that waits")
	}
}

func TestGreedyCountsItsOwnUntilTheFirstToken(t *testing.T) {
	s := regions(2)
	p := s.policy(t, "greedy")
	var attempts []*world.Attempt
	for i := range uint64(4) {
		r := prompt(i+1, 2000, i)
		a := &world.Attempt{Request: r, Cluster: 0, Pod: p.Pick(r, 0, -1, s.view).Pod, Sent: s.view.Now}
		p.Sent(a, s.view)
		attempts = append(attempts, a)
	}
	if attempts[0].Pod == attempts[1].Pod || attempts[2].Pod == attempts[3].Pod {
		t.Errorf("four requests one after the other go to %d, %d, %d, %d", attempts[0].Pod, attempts[1].Pod, attempts[2].Pod, attempts[3].Pod)
	}
	g := p.rule.(*greedy)
	if got := g.routers[0].backlog[[2]int{0, attempts[0].Pod}]; got != 4000 {
		t.Errorf("backlog of a pod with two prompts of 2,000 tokens is %v", got)
	}
	for i, a := range attempts {
		if i%2 == 0 {
			a.First = s.view.Now
			p.First(a, s.view)
		}
		s.view.Now += 2 * time.Second
		a.Cached = 500
		p.Ended(a, world.Answered, s.view)
	}
	if n := len(g.routers[0].backlog); n != 0 {
		t.Errorf("%d backlogs are left", n)
	}
	if got := g.routers[0].work.value; got != 1500 {
		t.Errorf("the mean prompt has %v uncached tokens, want 1500", got)
	}
}

// TestGreedyCountsWhatItSentAbroad: a router doesn't pick there, and still knows what is on its way.
func TestGreedyCountsWhatItSentAbroad(t *testing.T) {
	s := regions(1, 1, 1)
	s.local(0).Waiting = 50
	s.view.RTT[1], s.view.RTT[2] = 80*time.Millisecond, 100*time.Millisecond
	p := s.policy(t, "greedy")
	s.hear(p)
	var first *world.Attempt
	counts := map[int]int{}
	for i := range uint64(10) {
		r := prompt(i+1, 3000, i)
		a := &world.Attempt{Request: r, Cluster: p.Route(r, s.view).Cluster, Pod: -1, Away: true}
		p.Sent(a, s.view)
		s.view.Clusters[a.Cluster].InFlight++
		counts[a.Cluster]++
		if first == nil {
			first = a
		}
	}
	if counts[0] != 0 || counts[1] < 4 || counts[2] < 4 {
		t.Errorf("ten requests away from a queue go to %v, want about half to each of the others", counts)
	}
	g := p.rule.(*greedy)
	before := g.routers[0].backlog[[2]int{first.Cluster, -1}]
	p.Ended(first, world.Refused, s.view)
	p.Ended(first, world.Refused, s.view) // and only once
	if got := g.routers[0].backlog[[2]int{first.Cluster, -1}]; before-got != 3000 {
		t.Errorf("the backlog falls from %v to %v, want 3000 less", before, got)
	}
	if g.routers[0].hold.any {
		t.Error("how long requests hold their places is learned from one that was refused")
	}
}

func TestGreedyBlindToItsOwn(t *testing.T) {
	s := regions(2)
	p := s.policy(t, "greedy", map[string]float64{countOwn: 0})
	s.hear(p)
	s.local(1).Waiting = 1
	for i := range uint64(20) {
		r := prompt(i+1, 2000, i)
		pod := p.Pick(r, 0, -1, s.view).Pod
		if pod != 0 {
			t.Fatalf("request %d goes to pod %d, though nothing new was scraped", i, pod)
		}
		p.Sent(&world.Attempt{Request: r, Cluster: 0, Pod: pod}, s.view)
		s.local(0).InFlight++
	}
}

func TestGreedyGoesWhereTheAdapterIs(t *testing.T) {
	s := regions(3)
	for i := range s.spec.Clusters[0].Pods {
		s.spec.Clusters[0].Pods[i].Options.MaxAdapters = 4
	}
	p := s.policy(t, "greedy")
	for i := range 3 {
		s.local(i).MaxAdapters = 4
	}
	s.local(1).Adapters = []string{"red"}
	r := prompt(1, 500, 1)
	r.Adapter = "red"
	if got := p.Pick(r, 0, -1, s.view).Pod; got != 1 {
		t.Errorf("picks %d, want 1, which has the adapter", got)
	}
	s.local(1).Waiting = 50
	r.ID = 2
	if got := p.Pick(r, 0, -1, s.view).Pod; got == 1 {
		t.Error("waits behind fifty prompts to save the loading of an adapter")
	}
}
