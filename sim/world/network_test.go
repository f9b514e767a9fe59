package world

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/sim/workload"
)

// A way takes no less than half a round trip and no more than the jitter allows, and what is sent first
// arrives first.
func TestWaysJitterAndKeepTheirOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := three(1)
		s.Jitter = rapid.Float64Range(0, 2).Draw(t, "jitter")
		w := newWorld(s.WithDefaults(), newList(), &turns{}, Options{Seed: rapid.Uint64().Draw(t, "seed")})
		a := w.pool.newAttempt(w.pool.newRequest(workload.Request{ID: 1}))
		a.home = Attempt{Number: 1, Router: 0, Cluster: rapid.IntRange(1, 2).Draw(t, "cluster")}
		half := s.Between(s.Regions[0].ID, s.Regions[a.home.Cluster].ID) / 2
		if got := w.across(a); got != half {
			t.Fatalf("across takes %v, want %v", got, half)
		}
		longest := half + time.Duration(s.Jitter*float64(half))
		var last, latest [ways]time.Duration
		for range rapid.IntRange(1, 40).Draw(t, "messages") {
			w.now += time.Duration(rapid.IntRange(0, 20).Draw(t, "gap")) * ms
			which := rapid.IntRange(0, ways-1).Draw(t, "way")
			at := w.way(a, which, half)
			latest[which] = max(latest[which], w.now+longest)
			if at < w.now+half || at > latest[which] || at < last[which] {
				t.Fatalf("sent at %v it arrives at %v, the one before at %v, half a round trip is %v", w.now, at, last[which], half)
			}
			last[which] = at
		}
	})
}

func TestRequestsSpreadOverRouters(t *testing.T) {
	t.Parallel()
	s := three(1)
	s.Regions[0].Routers, s.Regions[1].Routers = 4, 4
	var routed, picked [12]int
	p := &turns{}
	p.route = func(_ *workload.Request, v *View) (Route, bool) { routed[v.Router]++; return Route{Cluster: 1}, true }
	p.pick = func(_ *workload.Request, _, _ int, v *View) (Pick, bool) {
		picked[v.Router]++
		return Pick{Pod: 0}, true
	}
	var requests []workload.Request
	for i := range 400 {
		requests = append(requests, ask(uint64(i+1), time.Duration(i)*10*ms, 1))
	}
	play(t, s, p, requests...)
	for i := range 4 {
		if routed[i] < 70 || routed[i] > 130 || picked[4+i] < 70 || picked[4+i] > 130 {
			t.Errorf("routed by %v, picked by %v", routed, picked)
		}
	}
	if routed[4]+routed[8]+picked[0]+picked[8] != 0 {
		t.Errorf("routers of other regions had to do with it: %v, %v", routed, picked)
	}
}

// Routers know nothing of each other's requests, not even within a region.
func TestRoutersKnowTheirOwnRequestsOnly(t *testing.T) {
	t.Parallel()
	s := three(1)
	s.Regions[0].Routers = 2
	most := [2]int{}
	p := &turns{local: true}
	p.tick = func(v *View) {
		if v.Router < 2 {
			most[v.Router] = max(most[v.Router], v.Clusters[0].InFlight)
			if v.Clusters[0].Pods[0].InFlight != v.Clusters[0].InFlight {
				t.Errorf("%d at the only pod, %d at its cluster", v.Clusters[0].Pods[0].InFlight, v.Clusters[0].InFlight)
			}
		}
	}
	var requests []workload.Request
	for i := range 40 {
		requests = append(requests, ask(uint64(i+1), 0, 200))
	}
	play(t, s, p, requests...)
	if most[0]+most[1] != 40 || most[0] < 10 || most[1] < 10 {
		t.Errorf("two routers had %v of 40 requests under way", most)
	}
}

// Specs with odd numbers are refused, or played to the end: nothing panics and nothing goes on for ever.
func TestOddSpecsAreRefusedOrPlayed(t *testing.T) {
	t.Parallel()
	durations := []time.Duration{-1, 0, 1, ms, time.Hour}
	rapid.Check(t, func(t *rapid.T) {
		s, requests := draw(t)
		for range rapid.IntRange(1, 4).Draw(t, "oddities") {
			d := rapid.SampledFrom(durations).Draw(t, "duration")
			n := rapid.IntRange(-1, 3).Draw(t, "number")
			switch rapid.IntRange(0, 13).Draw(t, "field") {
			case 0:
				s.Scrape.Interval, s.Tell.Interval = d, d
			case 1:
				s.Scrape.Delay, s.Tell.Delay = d, d
			case 2:
				s.Timeout = d
			case 3:
				s.Warmup = d
			case 4:
				s.Duration = d
			case 5:
				s.Regions[1].Skew = d
			case 6:
				s.Regions[1].Routers = n
			case 7:
				s.Clusters[1].Pods[0].Count = n
			case 8:
				s.Clusters[1].Pods[0].Options.MaxSequences = n
			case 9:
				s.Clusters[1].Pods[0].Options.StartUp = d
			case 10:
				s.Jitter = float64(n)
			case 11:
				s.Clusters = s.Clusters[:max(0, min(n, len(s.Clusters)))]
			case 12:
				s.Scrape.Loss = float64(n)
			case 13:
				requests[0].PromptTokens, requests[0].OutputTokens = n, n
			}
			if len(s.Clusters) < 3 {
				break
			}
		}
		source := newList(requests...)
		r, err := Run(t.Context(), s, source, whims(t), Options{Seed: 1})
		switch invalid := s.Validate(); {
		case (err != nil) != (invalid != nil):
			t.Fatalf("run: %v, validate: %v", err, invalid)
		case err == nil && s.Duration == 0 && len(source.done) != len(requests):
			t.Fatalf("%d of %d ended", len(source.done), len(requests))
		case err == nil && len(r.Records) > len(requests):
			t.Fatalf("%d records of %d requests", len(r.Records), len(requests))
		}
	})
}
