package rival

import (
	"maps"
	"slices"
	"testing"

	"anabranch/sim/world"
)

func near(got, want int, slack float64) bool {
	return float64(got) >= float64(want)*(1-slack) && float64(got) <= float64(want)*(1+slack)
}

func TestRandomFollowsThePods(t *testing.T) {
	s := regions(4, 1, 3)
	clusters, pods := s.shares(s.policy(t, "random"), 8000)
	for c, want := range []int{4000, 1000, 3000} {
		if !near(clusters[c], want, 0.1) {
			t.Errorf("cluster %d got %d of 8000, want about %d", c, clusters[c], want)
		}
	}
	for p := range 4 {
		if !near(pods[p], 1000, 0.15) {
			t.Errorf("pod %d got %d, want about 1000", p, pods[p])
		}
	}
}

func TestRoundRobinIsExact(t *testing.T) {
	s := regions(4, 1, 3)
	clusters, pods := s.shares(s.policy(t, "round-robin"), 800)
	if want := map[int]int{0: 400, 1: 100, 2: 300}; !maps.Equal(clusters, want) {
		t.Errorf("clusters got %v, want %v", clusters, want)
	}
	if want := map[int]int{0: 100, 1: 100, 2: 100, 3: 100}; !maps.Equal(pods, want) {
		t.Errorf("pods got %v, want %v", pods, want)
	}
}

func TestRoundRobinPassesOverTheDead(t *testing.T) {
	s := regions(4)
	p := s.policy(t, "round-robin")
	s.local(2).Failing = true
	var got []int
	for i := range uint64(4) {
		got = append(got, p.Pick(prompt(i, 100, i), 0, -1, s.view).Pod)
	}
	s.local(2).Failing = false
	for i := range uint64(4) {
		got = append(got, p.Pick(prompt(i, 100, i), 0, -1, s.view).Pod)
	}
	if want := []int{0, 1, 3, 0, 1, 2, 3, 0}; !slices.Equal(got, want) {
		t.Errorf("turns are %v, want %v", got, want)
	}
}

func TestRoutersTakeTurnsOfTheirOwn(t *testing.T) {
	s := regions(2, 2)
	s.spec.Regions[0].Routers = 2
	p := s.policy(t, "round-robin")
	r := prompt(1, 100, 1)
	first := p.Pick(r, 0, -1, s.view).Pod
	s.view.Router = 1
	if second := p.Pick(r, 0, -1, s.view).Pod; first != 0 || second != 0 {
		t.Errorf("two routers begin with pods %d and %d, want 0 each", first, second)
	}
}

func TestLeastOutstandingCountsOwnRequestsOnly(t *testing.T) {
	s := regions(3, 2)
	p := s.policy(t, "least-outstanding")
	s.local(0).InFlight, s.local(1).InFlight, s.local(2).InFlight = 2, 1, 3
	s.local(1).Waiting = 100 // of others
	if got := p.Pick(prompt(1, 100, 1), 0, -1, s.view).Pod; got != 1 {
		t.Errorf("picks pod %d, want 1", got)
	}
	for _, c := range []struct{ here, there, want int }{
		{6, 0, 1},
		{0, 2, 0},
		{5, 3, 0}, // 6/3 against 4/2 is a tie, drawn below
		{5, 4, 0},
	} {
		s.view.Clusters[0].InFlight, s.view.Clusters[1].InFlight = c.here, c.there
		clusters, _ := s.shares(p, 50)
		if c.here == 5 && c.there == 3 {
			if clusters[0] == 0 || clusters[1] == 0 {
				t.Errorf("a tie always goes one way: %v", clusters)
			}
			continue
		}
		if clusters[c.want] != 50 {
			t.Errorf("%d on three pods and %d on two: %v, want all to %d", c.here, c.there, clusters, c.want)
		}
	}
}

func TestTwoChoicesNeverTakeTheMostLoaded(t *testing.T) {
	s := regions(4)
	p := s.policy(t, "p2c")
	for i, n := range []int{9, 3, 2, 1} {
		s.local(i).Running = n
	}
	_, pods := s.shares(p, 3000)
	if pods[0] != 0 {
		t.Errorf("the most loaded of four got %d", pods[0])
	}
	// Of the six pairs the least loaded is in three, the next wins two, and the one after that one.
	for i, want := range map[int]int{3: 1500, 2: 1000, 1: 500} {
		if !near(pods[i], want, 0.15) {
			t.Errorf("pod %d got %d of 3000, want about %d", i, pods[i], want)
		}
	}
}

func TestTwoChoicesCountWhatWasSentSinceTheLastWord(t *testing.T) {
	s := regions(2, 2)
	p := s.policy(t, "p2c")
	s.hear(p)
	s.view.Clusters[1].Told.Running = 4
	if got, _ := s.shares(p, 20); got[0] != 20 {
		t.Errorf("%v, want all to the idle cluster", got)
	}
	s.view.Clusters[0].InFlight = 6
	s.local(0).InFlight, s.local(1).InFlight = 3, 3
	if got, _ := s.shares(p, 20); got[1] != 20 {
		t.Errorf("%v, want all to the one with fewer: six are under way to the other", got)
	}
}

func TestFailedAndDoubtfulPlaces(t *testing.T) {
	for _, name := range blind() {
		t.Run(name, func(t *testing.T) {
			s := regions(2, 2)
			p := s.policy(t, name)
			s.hear(p)
			r := prompt(1, 100, 1)

			s.view.Attempt, s.view.Tried = 2, []world.Place{{Cluster: 0, Pod: -1}}
			if got := p.Route(r, s.view).Cluster; got != 1 {
				t.Errorf("after cluster 0 has failed it goes to %d", got)
			}
			s.view.Tried = []world.Place{{Cluster: 0, Pod: 1}}
			if got := p.Pick(r, 0, -1, s.view).Pod; got != 0 {
				t.Errorf("after pod 1 has failed it picks %d", got)
			}
			s.view.Tried = []world.Place{{Cluster: 0, Pod: -1}, {Cluster: 1, Pod: -1}}
			if got := p.Route(r, s.view); got.Cluster != -1 || got.Code == "" || got.Wait {
				t.Errorf("after both have failed: %+v", got)
			}
			s.view.Attempt, s.view.Tried = 4, nil
			if got := p.Route(r, s.view).Cluster; got != -1 {
				t.Errorf("a fourth attempt goes to %d", got)
			}

			s.view.Attempt = 1
			s.view.Clusters[1].Told.Ready = 0
			s.local(1).Failing = true
			for range 20 {
				if c, pod := p.Route(r, s.view).Cluster, p.Pick(r, 0, -1, s.view).Pod; c != 0 || pod != 0 {
					t.Fatalf("with one pod alive in all it goes to %d, pod %d", c, pod)
				}
			}
			s.local(0).Failing = true
			if got := p.Pick(r, 0, -1, s.view).Pod; got != -1 {
				t.Errorf("with no pod alive it picks %d", got)
			}
			if got := p.Route(r, s.view).Cluster; got < 0 {
				t.Error("with all in doubt nothing is tried")
			}
		})
	}
}
