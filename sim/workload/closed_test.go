package workload

import (
	"slices"
	"testing"
	"time"

	"anabranch/api/fleet"
)

// start starts a workload.
func start(t testing.TB, spec Spec) Peeker {
	t.Helper()
	s, err := spec.Source()
	if err != nil {
		t.Fatal(err)
	}
	return s.(Peeker)
}

func TestAClosedLoopHasNoMoreInFlightThanClients(t *testing.T) {
	s := start(t, SharedPrefix{Traffic: Traffic{Seed: 1, Arrivals: Arrivals{Clients: 21}}})
	var flying []Request
	for {
		r, ok := s.Next()
		if !ok {
			break
		}
		flying = append(flying, r)
	}
	if len(flying) != 21 || s.Ended() {
		t.Fatalf("%d requests without an answer, ended %v; want 21 and not", len(flying), s.Ended())
	}
	s.Done(flying[3].ID, 5*time.Second, false)
	s.Done(flying[3].ID, 6*time.Second, true) // twice: of no effect
	s.Done(4711, 6*time.Second, true)         // unknown: of no effect
	if r, ok := s.Next(); !ok || r.At != 5*time.Second {
		t.Errorf("after an answer at 5s comes %v, %v", r.At, ok)
	}
	if r, ok := s.Next(); ok {
		t.Errorf("one answer brought two requests, the other at %v", r.At)
	}
}

func TestClientsThinkAndRampUp(t *testing.T) {
	s := start(t, Uniform{Traffic: Traffic{
		Arrivals: Arrivals{Clients: 4, Think: Delays{Fixed: 10 * time.Second}, Ramp: 4 * time.Second}, Requests: 6,
	}})
	var at []time.Duration
	for range 4 {
		r, _ := s.Next()
		at = append(at, r.At)
	}
	for i, want := range []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second} {
		if at[i] != want {
			t.Errorf("client %d starts at %v, want %v", i, at[i], want)
		}
	}
	s.Done(2, 7*time.Second, true)
	s.Done(1, 6*time.Second, true)
	for _, want := range []time.Duration{16 * time.Second, 17 * time.Second} {
		if r, ok := s.Next(); !ok || r.At != want {
			t.Errorf("a client asks again at %v, %v, want %v", r.At, ok, want)
		}
	}
	if !s.Ended() {
		t.Error("not ended after all requests")
	}
	s.Done(3, 8*time.Second, true)
	if _, ok := s.Next(); ok {
		t.Error("more than the wanted requests")
	}
}

func TestThoughtsOfOneClientDontDependOnOthers(t *testing.T) {
	spec := Uniform{Traffic: Traffic{Seed: 5, Arrivals: Arrivals{Clients: 3, Think: Delays{Mean: time.Minute}}}}
	again := func(order ...uint64) (out []time.Duration) {
		s := start(t, spec)
		for range 3 {
			s.Next()
		}
		for _, id := range order {
			s.Done(id, time.Hour, true)
		}
		for range 3 {
			r, _ := s.Next()
			out = append(out, r.At)
		}
		return out
	}
	a, b := again(1, 2, 3), again(3, 1, 2)
	if !slices.Equal(a, b) || a[0] <= time.Hour || a[0] == a[2] {
		t.Errorf("clients ask again at %v, and at %v if they are told in another order", a, b)
	}
}

func TestClientsAreDealtOutByWeight(t *testing.T) {
	s := start(t, Uniform{Traffic: Traffic{
		Arrivals: Arrivals{Clients: 100},
		Regions:  []Origin{{Region: "us", Weight: 5}, {Region: "eu", Weight: 3}, {Region: "ap", Weight: 2}},
	}})
	counts := map[fleet.RegionID]int{}
	for range 100 {
		r, _ := s.Next()
		counts[r.Region]++
	}
	if counts["us"] != 50 || counts["eu"] != 30 || counts["ap"] != 20 {
		t.Errorf("clients by region: %v", counts)
	}
}

func TestAClosedLoopEndsWithItsDuration(t *testing.T) {
	s := start(t, Uniform{Traffic: Traffic{Arrivals: Arrivals{Clients: 2}, Duration: 10 * time.Second}})
	s.Next()
	s.Next()
	s.Done(1, 9*time.Second, true)
	if r, ok := s.Next(); !ok || r.At != 9*time.Second {
		t.Fatalf("a request within the duration: %v, %v", r.At, ok)
	}
	s.Done(2, 10*time.Second, true)
	if s.Ended() {
		t.Fatal("ended with a request in flight")
	}
	s.Done(3, 11*time.Second, true)
	if _, ok := s.Next(); ok || !s.Ended() {
		t.Error("requests after the duration")
	}
}

// TestOrderIsKeptForWhoDoesntPeek is a consumer that always holds one request in hand.
func TestOrderIsKeptForWhoDoesntPeek(t *testing.T) {
	s := start(t, Sessions{Traffic: Traffic{Seed: 2, Arrivals: Arrivals{Rate: 0.2}}, Think: Delays{Mean: time.Second}})
	last := time.Duration(0)
	for range 500 {
		r, ok := s.Next()
		if !ok {
			t.Fatal("an open loop gives nothing")
		}
		if r.At < last {
			t.Fatalf("a request at %v after one at %v", r.At, last)
		}
		last = r.At
		s.Done(r.ID, r.At-time.Second, true)
	}
}
