package rival

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"anabranch/sim/workload"
	"anabranch/sim/world"
)

func TestBeginning(t *testing.T) {
	shared := prompt(1, 1600, 7) // 100 blocks of 64 bytes
	for _, c := range []struct {
		name string
		r    workload.Request
		want uint64
	}{
		{"the first length bytes", *shared, shared.Blocks[15]},
		{"all of a shorter prompt", workload.Request{ID: 2, PromptTokens: 160, Blocks: shared.Blocks[:10]}, shared.Blocks[9]},
		{"what no other has within the length", workload.Request{ID: 3, PromptTokens: 1600, Blocks: shared.Blocks[:10]}, world.Mix(3)},
		{"nothing shared", workload.Request{ID: 4, PromptTokens: 1600}, world.Mix(4)},
		{"less than a block", workload.Request{ID: 5, PromptTokens: 3}, world.Mix(5)},
	} {
		if got := beginning(&c.r, 1024); got != c.want {
			t.Errorf("%s: %x, want %x", c.name, got, c.want)
		}
	}
}

// TestRankSharesByWeight: over many keys each candidate is first as often as its weight says, and one
// that leaves moves no keys but its own.
func TestRankSharesByWeight(t *testing.T) {
	weights := []float64{1, 2, 5}
	first := func(key uint64, n int) int {
		best := 0
		for i := range n {
			if rank(key, uint64(i+1), weights[i]) > rank(key, uint64(best+1), weights[best]) {
				best = i
			}
		}
		return best
	}
	counts := make([]int, 3)
	for key := range uint64(16000) {
		all, without := first(world.Mix(key), 3), first(world.Mix(key), 2)
		counts[all]++
		if all != 2 && all != without {
			t.Fatalf("key %d moves from %d to %d though it was not with the one that left", key, all, without)
		}
	}
	for i, want := range []int{2000, 4000, 10000} {
		if !near(counts[i], want, 0.05) {
			t.Errorf("candidate %d is first for %d keys of 16000, want about %d", i, counts[i], want)
		}
	}
}

func TestPrefixHashPlacesByBeginning(t *testing.T) {
	for _, name := range []string{"prefix-hash", "bounded-load"} {
		s := regions(5, 5)
		p := s.policy(t, name, map[string]float64{"prefix-length": 1024})
		clusters, pods := map[int]bool{}, map[int]bool{}
		for i := range uint64(50) {
			// 600 tokens are 37 blocks; the first 16 place it, and the rest is each request's own.
			r := prompt(i+1, 600, 3)
			r.Blocks = r.Blocks[:16]
			clusters[p.Route(r, s.view).Cluster] = true
			pods[p.Pick(r, 0, -1, s.view).Pod] = true
		}
		if len(clusters) != 1 || len(pods) != 1 {
			t.Errorf("%s: one beginning goes to %d clusters and %d pods", name, len(clusters), len(pods))
		}
		if got, at := s.shares(p, 2000); !near(got[0], 1000, 0.1) || len(at) != 5 {
			t.Errorf("%s: many beginnings go to clusters %v and pods %v", name, got, at)
		}
	}
}

func TestPrefixHashSpillsAtTheThreshold(t *testing.T) {
	s := regions(3, 3)
	p := s.policy(t, "prefix-hash", map[string]float64{"concurrency-threshold": 4})
	r := prompt(1, 1600, 1)
	home := p.Pick(r, 0, -1, s.view).Pod
	s.local(home).InFlight = 3
	if got := p.Pick(r, 0, -1, s.view).Pod; got != home {
		t.Errorf("below the threshold it leaves pod %d for %d", home, got)
	}
	s.local(home).InFlight = 4
	second := p.Pick(r, 0, -1, s.view).Pod
	if second == home {
		t.Error("at the threshold it stays")
	}
	for i := range 3 {
		s.local(i).InFlight = 9
	}
	s.local(second).InFlight = 8
	if got := p.Pick(r, 0, -1, s.view).Pod; got != second {
		t.Errorf("with all full it picks %d, want the one with the fewest, %d", got, second)
	}
	here := p.Route(r, s.view).Cluster
	s.view.Clusters[here].InFlight = 12
	if got := p.Route(r, s.view).Cluster; got == here {
		t.Error("a cluster with as many as all of its pods may have keeps its keys")
	}
}

func TestPrefixHashStaysWithTheAdapter(t *testing.T) {
	s := regions(4)
	s.spec.Clusters[0].Pods[0].Options.MaxAdapters = 2
	p := s.policy(t, "prefix-hash")
	for i := range 4 {
		s.local(i).MaxAdapters = 2
	}
	s.local(2).Adapters = []string{"support"}
	for i := range uint64(20) {
		r := prompt(i+1, 1600, i)
		r.Adapter = "support"
		if got := p.Pick(r, 0, -1, s.view).Pod; got != 2 {
			t.Fatalf("picks pod %d, want 2, where the adapter is", got)
		}
	}
}

// TestBoundedLoadKeepsItsBound: whatever the keys, no pod gets more than (1+ε) times the mean, rounded up.
func TestBoundedLoadKeepsItsBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods := rapid.IntRange(1, 8).Draw(t, "pods")
		epsilon := rapid.Float64Range(0.05, 2).Draw(t, "epsilon")
		s := regions(pods)
		made, err := New("bounded-load", Options{Values: map[string]float64{"epsilon": epsilon}})
		if err != nil {
			t.Fatal(err)
		}
		made.Start(s.spec)
		n := rapid.IntRange(1, 60).Draw(t, "requests")
		for i := range n {
			r := prompt(uint64(i+1), 4096, rapid.Uint64Range(0, 3).Draw(t, "topic"))
			pod := made.Pick(r, 0, -1, s.view).Pod
			s.local(pod).InFlight++
			if most := math.Ceil((1 + epsilon) * float64(i+1) / float64(pods)); float64(s.local(pod).InFlight) > most {
				t.Fatalf("pod %d has %d of %d on %d pods, at most %v are allowed", pod, s.local(pod).InFlight, i+1, pods, most)
			}
		}
	})
}

func TestBoundedLoadBoundsClustersByTheirPods(t *testing.T) {
	s := regions(1, 3)
	p := s.policy(t, "bounded-load")
	r := prompt(1, 4096, 1)
	for i := range 80 {
		c := p.Route(r, s.view).Cluster
		s.view.Clusters[c].InFlight++
		share := []float64{0.25, 0.75}[c]
		if most := math.Ceil(1.25 * float64(i+1) * share); float64(s.view.Clusters[c].InFlight) > most {
			t.Fatalf("cluster %d has %d of %d, at most %v are allowed", c, s.view.Clusters[c].InFlight, i+1, most)
		}
	}
}
