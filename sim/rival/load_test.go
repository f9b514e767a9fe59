package rival

import (
	"math"
	"testing"
	"time"

	"anabranch/sim/world"
)

func TestLoadOfOwnPods(t *testing.T) {
	s := regions(4, 2)
	p := s.policy(t, "random")
	s.local(0).InFlight, s.local(1).InFlight = 5, 1
	s.hear(p)
	*s.local(0) = world.PodView{Known: true, At: 1, Waiting: 2, Running: 3, KV: 0.4, Slots: 256, InFlight: 8}
	*s.local(1) = world.PodView{Known: true, At: 1, Waiting: 1, Running: 7, KV: 0.2, Slots: 128, InFlight: 0}
	s.local(2).Failing, s.local(2).Waiting = true, 99
	s.local(3).Known, s.local(3).Waiting = false, 99
	s.view.Clusters[0].Told.PrefixHits, s.view.Clusters[0].Told.Errors = 0.5, 0.1
	q := p.ask(prompt(1, 100, 1), s.view)
	want := load{waiting: 3, running: 10, kv: 0.3, ready: 2, slots: 384, hits: 0.5, errors: 0.1}
	if got := q.load(0, false); !same(got, want) {
		t.Errorf("as scraped: %+v, want %+v", got, want)
	}
	want.waiting = 6 // three were sent to the first since, and one of the second's has ended
	if got := q.load(0, true); !same(got, want) {
		t.Errorf("with its own: %+v, want %+v", got, want)
	}
	if got := q.capacity(0); got != 2 {
		t.Errorf("capacity %v, want 2", got)
	}
}

func same(a, b load) bool {
	const little = 1e-9
	alike := func(x, y float64) bool { return x-y < little && y-x < little }
	return alike(a.waiting, b.waiting) && alike(a.running, b.running) && alike(a.kv, b.kv) && alike(a.ready, b.ready) &&
		alike(a.slots, b.slots) && alike(a.hits, b.hits) && alike(a.errors, b.errors)
}

func TestLoadAsTold(t *testing.T) {
	s := regions(1, 3)
	p := s.policy(t, "random")
	there := &s.view.Clusters[1]
	there.InFlight = 4
	s.hear(p)
	there.InFlight = 6
	there.Told = world.Told{At: 1, Waiting: 6, Running: 20, KV: 0.7, Ready: 2, Pods: 3, Slots: 512}
	q := p.ask(prompt(1, 100, 1), s.view)
	want := load{waiting: 6, running: 20, kv: 0.7, ready: 2, slots: 512}
	if got := q.load(1, false); !same(got, want) {
		t.Errorf("as told: %+v, want %+v", got, want)
	}
	want.waiting = 8
	if got := q.load(1, true); !same(got, want) {
		t.Errorf("with its own: %+v, want %+v", got, want)
	}
	if got := q.load(1, true).saturation(); math.Abs(got-0.875) > 1e-9 {
		t.Errorf("saturation is %v, want 0.7 of 0.8", got)
	}
	if got := q.capacity(1); got != 2 {
		t.Errorf("capacity %v, want the two that are ready", got)
	}
	there.Told = world.Told{}
	if got := q.capacity(1); got != 3 {
		t.Errorf("capacity %v of a cluster that has told nothing, want the three of the spec", got)
	}
	if got := q.load(1, false); got.ready != 3 || got.waiting != 0 {
		t.Errorf("load of a cluster that has told nothing: %+v", got)
	}
	there.Told = world.Told{At: 1}
	if got := q.load(1, false); got.ready != 1 {
		t.Errorf("%v pods are ready of a cluster without any, want 1 to divide by", got.ready)
	}
}

func TestEndedRequestsDoNotCountAsNegative(t *testing.T) {
	s := regions(1)
	p := s.policy(t, "random")
	s.local(0).InFlight = 5
	s.hear(p)
	s.local(0).InFlight = 2
	if got := p.ask(prompt(1, 100, 1), s.view).since(0, 0); got != 0 {
		t.Errorf("%v were sent since, want 0", got)
	}
}

func TestTiesAreDrawnEvenly(t *testing.T) {
	s := regions(1)
	q := s.policy(t, "random").ask(prompt(1, 100, 1), s.view)
	counts := map[int]int{}
	for range 9000 {
		counts[q.least([]int{10, 11, 12, 13}, func(c int) float64 { return float64(c / 13) })]++
	}
	for c := 10; c < 13; c++ {
		if !near(counts[c], 3000, 0.1) {
			t.Errorf("%d of 9000 go to %d, want about 3000", counts[c], c)
		}
	}
	if counts[13] != 0 {
		t.Error("the dearest is taken")
	}
}

func TestDrawFollowsCapacityAsItChanges(t *testing.T) {
	s := regions(4, 4)
	p := s.policy(t, "random")
	s.hear(p)
	s.view.Clusters[1].Told.Ready = 1
	if got, _ := s.shares(p, 5000); !near(got[1], 1000, 0.12) {
		t.Errorf("the cluster with one pod left of four gets %d of 5000, want about 1000", got[1])
	}
	for i := 1; i < 4; i++ {
		s.local(i).Failing = true
	}
	if got, _ := s.shares(p, 5000); !near(got[1], 2500, 0.1) {
		t.Errorf("with one pod left on both sides it gets %d of 5000", got[1])
	}
}

func TestDistances(t *testing.T) {
	s := regions(1, 1, 1)
	s.view.RTT = []time.Duration{0, 30 * time.Millisecond}
	q := s.policy(t, "random").ask(prompt(1, 10, 1), s.view)
	for c, want := range []time.Duration{world.LocalRTT, 30*time.Millisecond + world.LocalRTT, world.DefaultRTT} {
		if got := q.rtt(c); got != want {
			t.Errorf("round trip to cluster %d is %v, want %v", c, got, want)
		}
	}
	s.view.RTT = []time.Duration{0, 0, 0}
	if got := q.nearness(1); got != 1 {
		t.Errorf("without distances a region is near by %v, want 1", got)
	}
}
