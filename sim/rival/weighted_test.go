package rival

import (
	"strings"
	"testing"
)

// TestScorersOfPods works out the sums 2 queue + 2 KV + 3 prefix by hand.
func TestScorersOfPods(t *testing.T) {
	for _, c := range []struct {
		name    string
		waiting [3]int
		kv      [3]float64
		warm    int // pod that the prompt was sent to before; -1: none
		want    int
	}{
		{"one waiting counts as much as fifty", [3]int{1, 0, 0}, [3]float64{0, 0.9, 0.5}, -1, 2}, // 2, 2.2, 3
		{"KV use as it is", [3]int{0, 0, 0}, [3]float64{0.3, 0.2, 0.4}, -1, 1},
		{"a known prompt is worth more than the queue", [3]int{9, 0, 4}, [3]float64{}, 0, 0},   // 2+3 against 4
		{"but not more than queue and KV cache", [3]int{9, 0, 4}, [3]float64{0.6, 0, 0}, 0, 1}, // 0.8+3 against 4
	} {
		s := regions(3)
		p := s.policy(t, "weighted")
		for i := range 3 {
			if i != c.warm {
				s.local(i).Waiting = 10 // so that the first goes to the warm one
			}
		}
		r := prompt(1, 1600, 1)
		if c.warm >= 0 {
			if got := p.Pick(r, 0, -1, s.view).Pod; got != c.warm {
				t.Fatalf("%s: the first goes to %d", c.name, got)
			}
		}
		for i := range 3 {
			s.local(i).Waiting, s.local(i).KV = c.waiting[i], c.kv[i]
		}
		if got := p.Pick(r, 0, -1, s.view).Pod; got != c.want {
			t.Errorf("%s: picks %d, want %d", c.name, got, c.want)
		}
	}
}

func TestScorersTakeNoNoticeOfWhatWasSentSince(t *testing.T) {
	s := regions(2)
	p := s.policy(t, "weighted")
	s.hear(p)
	s.local(1).KV = 0.01
	for i := range uint64(50) {
		if got := p.Pick(prompt(i+1, 1600, i), 0, -1, s.view).Pod; got != 0 {
			t.Fatalf("request %d goes to %d, though nothing new was scraped", i, got)
		}
		s.local(0).InFlight++
	}
}

func TestScorersForgetPodsThatDied(t *testing.T) {
	s := regions(2)
	p := s.policy(t, "weighted")
	s.local(1).KV = 0.9
	r := prompt(1, 1600, 1)
	p.Pick(r, 0, -1, s.view) // to pod 0
	s.local(0).Failing = true
	p.Pick(r, 0, -1, s.view) // to pod 1, and pod 0 is forgotten
	s.local(0).Failing = false
	s.local(0).KV, s.local(1).KV = 0.5, 0.5
	if got := p.Pick(r, 0, -1, s.view).Pod; got != 1 {
		t.Errorf("picks %d, want 1, which has the prompt", got)
	}
}

func TestScorersHoldAsMuchAsTheServers(t *testing.T) {
	s := regions(2)
	s.local(0).KVTokens = 16 * 60 // 60 blocks; a prompt has 100
	p := s.policy(t, "weighted")
	s.local(1).KV = 0.9
	p.Pick(prompt(1, 1600, 1), 0, -1, s.view)
	known, blocks := p.rule.(*weighted).known.look(p.ask(prompt(2, 1600, 1), s.view))
	if blocks != 100 || known[0] != 60 {
		t.Errorf("%d of %d blocks are known, want 60 of 100", known[0], blocks)
	}
	if _, blocks = p.rule.(*weighted).known.look(p.ask(prompt(3, 100_000, 1), s.view)); blocks != mostBlocks {
		t.Errorf("%d blocks of a long prompt are looked at, want %d", blocks, mostBlocks)
	}
}

func TestScorersOfClusters(t *testing.T) {
	s := regions(2, 2, 2)
	s.view.RTT[1], s.view.RTT[2] = 50e6, 200e6
	p := s.policy(t, "weighted")
	r := prompt(1, 1600, 1)
	if got := p.Route(r, s.view).Cluster; got != 0 {
		t.Errorf("with all idle it goes to %d", got)
	}
	s.local(0).Waiting = 1 // 2 + 3 at home against 4 + 3 × 0.75 there
	if got := p.Route(r, s.view).Cluster; got != 1 {
		t.Errorf("with one waiting at home it goes to %d, want 1", got)
	}
	s.view.Clusters[1].Told.KV = 0.9
	if got := p.Route(r, s.view).Cluster; got != 0 {
		t.Errorf("with cluster 1 nearly full it goes to %d, want 0", got)
	}
}

func TestReasonsForPeople(t *testing.T) {
	for _, name := range []string{"weighted", "aws-gig", "spill", "greedy", "prefix-hash", "bounded-load"} {
		s := regions(2, 2)
		p := s.policy(t, name)
		r := prompt(1, 1600, 1)
		if got := p.Pick(r, 0, -1, s.view).Reason; got != "" {
			t.Errorf("%s: a reason that nobody asked for: %q", name, got)
		}
		s.view.Explain = true
		if got := p.Pick(r, 0, -1, s.view).Reason; strings.TrimSpace(got) == "" || strings.Contains(got, "%!") {
			t.Errorf("%s: the reason is %q", name, got)
		}
	}
}
