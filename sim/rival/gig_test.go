package rival

import (
	"math"
	"testing"
	"time"
)

func weights(kv, queue, near, errors float64) map[string]float64 {
	return map[string]float64{kvHeadroom: kv, queueDepth: queue, regionProximity: near, errorRate: errors}
}

func TestGigTakesTheLargestWeightedSum(t *testing.T) {
	for _, c := range []struct {
		name    string
		weights map[string]float64
		kv      [3]float64
		waiting [3]int
		errors  [3]float64
		want    int
	}{
		{"KV headroom alone", weights(1, 0, 0, 0), [3]float64{0.5, 0.6, 0.4}, [3]int{}, [3]float64{}, 2},
		{"queues alone", weights(0, 1, 0, 0), [3]float64{}, [3]int{3, 2, 4}, [3]float64{}, 1},
		{"nearness alone", weights(0, 0, 1, 0), [3]float64{0.7, 0, 0}, [3]int{4, 0, 0}, [3]float64{}, 0},
		{"errors alone", weights(0, 0, 0, 1), [3]float64{}, [3]int{}, [3]float64{0.2, 0, 0.1}, 1},
		// 0.25 × (0.9 + 1/2 + 1 + 1), (1 + 1 + 0.5 + 1), (1 + 1 + 0 + 1)
		{"the mean of all four", weights(0.25, 0.25, 0.25, 0.25), [3]float64{0.1, 0, 0}, [3]int{2, 0, 0}, [3]float64{}, 1},
	} {
		s := regions(2, 2, 2)
		s.view.RTT[1], s.view.RTT[2] = 100*time.Millisecond, 200*time.Millisecond
		p := s.policy(t, "aws-gig", c.weights)
		s.hear(p)
		for i := range 3 {
			told := &s.view.Clusters[i].Told
			told.KV, told.Waiting, told.Errors = c.kv[i], c.waiting[i], c.errors[i]
		}
		for i := range 2 {
			s.local(i).KV = c.kv[0]
		}
		s.local(0).Waiting = c.waiting[0]
		if got := p.Route(prompt(1, 1000, 1), s.view).Cluster; got != c.want {
			t.Errorf("%s: goes to %d, want %d", c.name, got, c.want)
		}
	}
}

func TestGigPassesOverTheOverloaded(t *testing.T) {
	s := regions(2, 2)
	p := s.policy(t, "aws-gig", weights(0, 0, 1, 0))
	r := prompt(1, 1000, 1)
	s.local(0).Waiting, s.local(1).Waiting = 5, 4
	if got := p.Route(r, s.view).Cluster; got != 0 {
		t.Errorf("with 4.5 waiting for a pod it goes to %d, want 0", got)
	}
	s.local(1).Waiting = 5
	if got := p.Route(r, s.view).Cluster; got != 1 {
		t.Errorf("with 5 waiting for a pod it goes to %d, want 1", got)
	}
	s.view.Clusters[1].Told.KV = 0.8
	if got := p.Route(r, s.view).Cluster; got != 0 {
		t.Errorf("with both overloaded it goes to %d, want the best by score", got)
	}
	s.local(0).Waiting, s.local(1).Waiting, s.local(0).KV, s.local(1).KV = 0, 0, 0.9, 0.8
	s.view.Clusters[1].Told.KV = 0.79
	if got := p.Route(r, s.view).Cluster; got != 1 {
		t.Errorf("with its KV cache 85 %% full it goes to %d, want 1", got)
	}
}

func TestGigCountsItsOwnIfTold(t *testing.T) {
	for own, want := range map[float64]int{0: 20, 1: 10} {
		s := regions(2, 2)
		v := weights(0, 1, 0, 0)
		v[countOwn] = own
		p := s.policy(t, "aws-gig", v)
		s.hear(p)
		s.local(0).Waiting, s.local(1).Waiting = 3, 4
		got := 0
		for i := range uint64(20) {
			if p.Route(prompt(i+1, 1000, i), s.view).Cluster == 1 {
				got++
				s.view.Clusters[1].InFlight++
			} else {
				s.view.Clusters[0].InFlight++
				s.local(int(i%2)).InFlight++
			}
		}
		// It counts: cluster 1 takes seven until queues are equal, and then every other one.
		if own == 1 && (got <= want || got >= 16) || own == 0 && got != want {
			t.Errorf("count-own %v: the other cluster got %d of 20", own, got)
		}
	}
}

func TestTier1BelowGig(t *testing.T) {
	r := prompt(1, 4096, 1)
	for number, want := range map[float64]string{0: "weighted", 1: "prefix-hash", 2: "least-outstanding"} {
		s := regions(4)
		for i := range 4 {
			s.local(i).Waiting, s.local(i).InFlight = (i+1)%4, (i+3)%4
		}
		gig := s.policy(t, "aws-gig", map[string]float64{tier1: number})
		other := s.policy(t, want)
		if a, b := gig.Pick(r, 0, -1, s.view).Pod, other.Pick(r, 0, -1, s.view).Pod; a != b {
			t.Errorf("tier-1 %v picks %d, %s picks %d", number, a, want, b)
		}
	}
}

func TestSpillStaysUntilSaturated(t *testing.T) {
	s := regions(2, 2, 2)
	s.view.RTT[1], s.view.RTT[2] = 200*time.Millisecond, 100*time.Millisecond
	p := s.policy(t, "spill")
	s.hear(p)
	r := prompt(1, 1000, 1)
	for _, c := range []struct {
		name       string
		home, far  int // requests waiting in clusters 0 and 2; 1 has none
		kv         float64
		sent, want int
	}{
		{"below the threshold", 9, 0, 0, 0, 0},
		{"at the threshold, to the nearest", 10, 0, 0, 0, 2},
		{"by KV use", 0, 0, 0.8, 0, 2},
		{"by what was sent since the last word", 4, 0, 0, 6, 2},
		{"to the next nearest", 10, 10, 0, 0, 1},
	} {
		s.local(0).Waiting, s.local(1).Waiting = c.home/2, c.home-c.home/2
		s.local(0).KV, s.local(1).KV = c.kv, c.kv
		s.local(0).InFlight = c.sent
		s.view.Clusters[2].Told.Waiting = c.far
		if got := p.Route(r, s.view).Cluster; got != c.want {
			t.Errorf("%s: goes to %d, want %d", c.name, got, c.want)
		}
	}
	s.local(0).Waiting, s.local(1).Waiting, s.local(0).InFlight = 20, 20, 0
	s.view.Clusters[1].Told.Waiting, s.view.Clusters[2].Told.Waiting = 30, 50
	if got := p.Route(r, s.view).Cluster; got != 1 {
		t.Errorf("with all saturated it goes to %d, want 1, the least so", got)
	}
}

func TestNearness(t *testing.T) {
	s := regions(1, 1, 1)
	s.view.RTT[1], s.view.RTT[2] = 50*time.Millisecond, 200*time.Millisecond
	q := s.policy(t, "random").ask(prompt(1, 10, 1), s.view)
	for c, want := range []float64{1, 0.75, 0} {
		if got := q.nearness(c); math.Abs(got-want) > 1e-9 {
			t.Errorf("cluster %d is near by %v, want %v", c, got, want)
		}
	}
	if got := q.rtt(1); got != 51*time.Millisecond {
		t.Errorf("round trip to cluster 1 is %v", got)
	}
}
