package rival

import (
	"testing"
	"time"

	"anabranch/sim"
	"anabranch/sim/workload"
	"anabranch/sim/world"
)

// pods are engines by cluster; nil: dead.
type pods struct {
	engines [][]*sim.Engine
	slow    map[world.Place]float64
	hangs   map[int]bool
	cut     map[int]bool
}

func (p *pods) Engine(c, i int) *sim.Engine { return p.engines[c][i] }
func (p *pods) Pods(c int) int              { return len(p.engines[c]) }
func (p *pods) Hangs(c int) bool            { return p.hangs[c] }
func (p *pods) Reachable(_, c int) bool     { return !p.cut[c] }

func (p *pods) Slow(c, i int) float64 {
	if f := p.slow[world.Place{Cluster: c, Pod: i}]; f > 0 {
		return f
	}
	return 1
}

// engines gives the scene's pods real ones.
func (s *scene) engines() *pods {
	p := &pods{slow: map[world.Place]float64{}, hangs: map[int]bool{}, cut: map[int]bool{}}
	for _, c := range s.spec.Clusters {
		var list []*sim.Engine
		for range c.Pods[0].Count {
			list = append(list, sim.New(sim.Options{Profile: c.Pods[0].Options.Profile}))
		}
		p.engines = append(p.engines, list)
	}
	s.view.Truth = p
	return p
}

var ids = uint64(1 << 40)

// give submits a request of a topic to a pod at the scene's time.
func (s *scene) give(t *testing.T, c, i, tokens int, topic uint64) {
	t.Helper()
	ids++
	r := prompt(ids, tokens, topic)
	if err := s.view.Truth.Engine(c, i).Submit(s.view.Now, sim.Request{ID: ids, PromptTokens: tokens, Blocks: r.Blocks, OutputTokens: 1}); err != nil {
		t.Fatal(err)
	}
}

func TestOracleSeesQueuesThatNobodyTells(t *testing.T) {
	s := regions(2, 2)
	s.engines()
	p := s.policy(t, "oracle")
	r := prompt(1, 2000, 1)
	if to := p.Route(r, s.view).Cluster; to != 0 {
		t.Errorf("with all idle it goes to %d", to)
	}
	s.give(t, 0, 0, 30_000, 2)
	if got := p.Pick(r, 0, -1, s.view).Pod; got != 1 {
		t.Errorf("picks %d, want the idle one", got)
	}
	s.give(t, 0, 1, 30_000, 3)
	if to := p.Route(r, s.view).Cluster; to != 1 {
		t.Errorf("with a second of prompts on both pods at home it goes to %d, want 1", to)
	}
}

func TestOracleSeesCaches(t *testing.T) {
	s := regions(3)
	engines := s.engines()
	p := s.policy(t, "oracle")
	s.give(t, 0, 2, 8000, 5)
	s.view.Now += 5 * time.Second
	engines.engines[0][2].Advance(s.view.Now)
	if got := p.Pick(prompt(1, 8000, 5), 0, -1, s.view).Pod; got != 2 {
		t.Errorf("picks %d, want 2, which has the prompt cached", got)
	}
	// Work for others counts: it waits up to about the time that it would take to compute it elsewhere.
	s.give(t, 0, 2, 6000, 6)
	if got := p.Pick(prompt(2, 8000, 5), 0, -1, s.view).Pod; got != 2 {
		t.Errorf("picks %d, though the prompt would be computed a second time", got)
	}
	s.give(t, 0, 2, 40_000, 7)
	if got := p.Pick(prompt(3, 8000, 5), 0, -1, s.view).Pod; got == 2 {
		t.Error("waits behind 40,000 tokens for a prompt of 8,000")
	}
	selfish := s.policy(t, "oracle", map[string]float64{wasteCost: 0})
	if got := selfish.Pick(prompt(4, 8000, 9), 0, -1, s.view).Pod; got == 2 {
		t.Error("takes the busy pod for a prompt that nobody has")
	}
}

func TestOracleSeesWhatIsOnItsWay(t *testing.T) {
	s := regions(2, 2)
	s.engines()
	p := s.policy(t, "oracle")
	for round := range uint64(2) {
		a := p.Pick(prompt(2*round+1, 3000, 2*round), 0, -1, s.view).Pod
		b := p.Pick(prompt(2*round+2, 3000, 2*round+1), 0, -1, s.view).Pod
		if a == b {
			t.Errorf("round %d: two at the same time go to pod %d", round, a)
		}
	}
	o := p.rule.(*oracle)
	if n := len(o.under); n != 4 {
		t.Fatalf("%d requests are under way, want 4", n)
	}
	if tokens, count, _ := o.others([2]int{0, 0}, s.view.Now, nil); count != 2 || tokens != 6000 {
		t.Errorf("%v tokens of %d requests are coming, want 6000 of 2", tokens, count)
	}
	s.view.Now += world.LocalRTT
	if _, count, _ := o.others([2]int{0, 0}, s.view.Now, nil); count != 0 {
		t.Errorf("%d are still coming after a round trip", count)
	}
	for id := range uint64(20) {
		a := &world.Attempt{Request: prompt(id, 3000, id), Cluster: 0, First: s.view.Now}
		p.First(a, s.view)
		p.Ended(a, world.Answered, s.view)
	}
	if len(o.under) != 0 || o.tokens[[2]int{0, 0}] != 0 || o.tokens[[2]int{0, 1}] != 0 {
		t.Errorf("after all have ended: %v, %v", o.under, o.tokens)
	}
}

func TestOracleFollowsARequestThatFailed(t *testing.T) {
	s := regions(2, 2)
	s.engines()
	p := s.policy(t, "oracle")
	o := p.rule.(*oracle)
	r := prompt(1, 3000, 1)
	pod := p.Pick(r, 0, -1, s.view).Pod
	p.Ended(&world.Attempt{Request: r, Cluster: 0, Pod: pod}, world.Refused, s.view)
	if len(o.under) != 0 {
		t.Fatal("a refused request is still under way")
	}
	s.view.Attempt, s.view.Tried = 2, []world.Place{{Cluster: 0, Pod: -1}}
	if to := p.Route(r, s.view).Cluster; to != 1 || o.under[1].to[0] != 1 {
		t.Errorf("the second attempt goes to %d and is noted for %v", to, o.under[1].to)
	}
	// The end of the first attempt is heard late.
	p.Ended(&world.Attempt{Request: r, Cluster: 0, Pod: pod}, world.Silent, s.view)
	if len(o.under) != 1 {
		t.Error("the second attempt is forgotten with the first")
	}
}

func TestOracleAvoidsWhatIsIll(t *testing.T) {
	s := regions(2, 2, 2)
	engines := s.engines()
	p := s.policy(t, "oracle")
	r := prompt(1, 2000, 1)
	engines.slow[world.Place{Cluster: 0, Pod: 0}] = 10
	if got := p.Pick(r, 0, -1, s.view).Pod; got != 1 {
		t.Errorf("picks %d, want the one that is not slow", got)
	}
	engines.engines[0][1] = nil
	engines.slow[world.Place{Cluster: 0, Pod: 0}] = 0
	if got := p.Pick(r, 0, -1, s.view).Pod; got != 0 {
		t.Errorf("picks %d, want the one alive", got)
	}
	engines.engines[0][0] = nil
	engines.hangs[1] = true
	if to := p.Route(r, s.view).Cluster; to != 2 {
		t.Errorf("with one dead and one hanging it goes to %d, want 2", to)
	}
	engines.hangs[1], engines.cut[2] = false, true
	if to := p.Route(r, s.view).Cluster; to != 1 {
		t.Errorf("with one dead and one cut off it goes to %d, want 1", to)
	}
}

func TestOracleKnowsTheTime(t *testing.T) {
	s := regions(1, 1)
	s.spec.Regions[0].Skew = time.Hour
	s.engines()
	p := s.policy(t, "oracle")
	s.view.Now += time.Hour
	s.view.Now -= 10 * time.Second // the true time is 0
	if err := s.view.Truth.Engine(0, 0).Submit(0, sim.Request{ID: 7, PromptTokens: 30_000, OutputTokens: 1}); err != nil {
		t.Fatal(err)
	}
	// The step under way ends in some 80 ms by true time, and a long prompt follows: 100 ms are nearer.
	if to := p.Route(prompt(1, 2000, 1), s.view).Cluster; to != 1 {
		t.Errorf("goes to %d, want 1", to)
	}
}

// TestOracleSeesAdapters: a prompt goes where its adapter is in a slot, or on its way there.
func TestOracleSeesAdapters(t *testing.T) {
	s := regions(3)
	for i := range s.spec.Clusters[0].Pods {
		s.spec.Clusters[0].Pods[i].Options.MaxAdapters = 1
	}
	truth := s.engines()
	ask := func(id uint64, adapter string) (r *workload.Request) {
		r = prompt(id, 500, id)
		r.Adapter = adapter
		return r
	}
	for i, name := range []string{"red", "green", "blue"} {
		e := sim.New(sim.Options{Profile: s.spec.Clusters[0].Pods[0].Options.Profile, MaxAdapters: 1})
		truth.engines[0][i] = e
		s.local(i).MaxAdapters = 1
		if err := e.Submit(s.view.Now, sim.Request{ID: uint64(i) + 1, PromptTokens: 500, OutputTokens: 5000, Adapter: name}); err != nil {
			t.Fatal(err)
		}
	}
	s.view.Now += time.Second
	for _, e := range truth.engines[0] {
		e.Advance(s.view.Now)
	}
	p := s.policy(t, "oracle")
	for id, name := range []string{"green", "blue", "red", "blue"} {
		want := map[string]int{"red": 0, "green": 1, "blue": 2}[name]
		if got := p.Pick(ask(uint64(id)+10, name), 0, -1, s.view).Pod; got != want {
			t.Errorf("%s goes to pod %d, want %d", name, got, want)
		}
	}
	first := p.Pick(ask(20, "white"), 0, -1, s.view).Pod
	if got := p.Pick(ask(21, "white"), 0, -1, s.view).Pod; got != first {
		t.Errorf("two that need an adapter which nobody has go to pods %d and %d", first, got)
	}
}
