package pick

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

var allModes = []Mode{PredictedTTFT, RoundRobin, Random, LeastOutstanding, PrefixHash}

// idle is a fresh candidate with nothing to do, at 10,000 tokens per second.
func idle() Candidate {
	return Candidate{Freshness: Fresh, Prefill: 10_000, Overhead: 0.02, Turn: 0.5}
}

func with(change func(*Candidate)) Candidate {
	c := idle()
	change(&c)
	return c
}

func TestBestByPrediction(t *testing.T) {
	req := Request{PromptTokens: 4000}
	tests := []struct {
		name  string
		cands []Candidate
		want  int
		why   Why
	}{
		{"no candidate", nil, -1, None},
		{"one candidate, however bad", []Candidate{with(func(c *Candidate) { c.Waiting = 500 })}, 0, Only},
		{"the one without a queue", []Candidate{with(func(c *Candidate) { c.Waiting = 3 }), idle()}, 1, Least},
		{"the faster GPU", []Candidate{idle(), with(func(c *Candidate) { c.Prefill = 30_000 })}, 1, Least},
		{"the one with the prompt cached", []Candidate{idle(), with(func(c *Candidate) { c.Cached = 3000 })}, 1, Least},
		{"not the cached one if its queue costs more", []Candidate{idle(), with(func(c *Candidate) { c.Cached, c.Waiting = 3000, 2 })}, 0, Least},
		{"the one with the adapter loaded", []Candidate{with(func(c *Candidate) { c.Adapter = 0.5 }), idle()}, 1, Least},
		{"not the one about to run out of memory", []Candidate{with(func(c *Candidate) { c.KV = 0.97 }), idle()}, 1, Least},
		{"own dispatches count before any scrape shows them", []Candidate{with(func(c *Candidate) { c.Backlog = 8000 }), idle()}, 1, Least},
		{"one waiting against none isn't as bad as fifty", []Candidate{
			with(func(c *Candidate) { c.Waiting, c.Turn = 1, 0.01 }), with(func(c *Candidate) { c.Prefill = 5000 }),
		}, 0, Least},
		{"a stale one is left out while most are fresh", []Candidate{
			with(func(c *Candidate) { c.Freshness, c.Cached = Stale, 4000 }), idle(), with(func(c *Candidate) { c.Waiting = 1 }),
		}, 1, Least},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for rnd := range uint64(20) {
				got, reason := Best(req, tt.cands, PredictedTTFT, mix(rnd))
				if got != tt.want || reason.Why != tt.why {
					t.Fatalf("chose %d (%s), want %d (%s)", got, reason.Why, tt.want, tt.why)
				}
			}
		})
	}
}

func TestNearTiesAreDrawn(t *testing.T) {
	cands := []Candidate{idle(), with(func(c *Candidate) { c.Prefill = 9800 }), with(func(c *Candidate) { c.Prefill = 8000 })}
	var hits [3]int
	for i := range 1000 {
		got, reason := Best(Request{PromptTokens: 4000}, cands, PredictedTTFT, mix(uint64(i)))
		if reason.Why != Tie {
			t.Fatalf("chosen for %s", reason.Why)
		}
		hits[got]++
	}
	if hits[0] < 400 || hits[1] < 400 || hits[2] != 0 {
		t.Errorf("draws %v: want the first two alike, never the third, which is 20 %% slower", hits)
	}
}

// All signals stale: the least of old numbers would send everything to one place.
func TestStaleSignalsAreNotCompared(t *testing.T) {
	cands := make([]Candidate, 4)
	for i := range cands {
		cands[i] = with(func(c *Candidate) { c.Freshness, c.Waiting, c.InFlight = Stale, 9, 1 })
	}
	cands[2].Waiting, cands[2].Freshness = 0, Absent // looks idle, has been dead for a minute
	var hits [4]int
	for i := range 4000 {
		got, reason := Best(Request{}, cands, PredictedTTFT, mix(uint64(i)))
		if reason.Why != TwoDraw {
			t.Fatalf("chosen for %s", reason.Why)
		}
		hits[got]++
	}
	for i, n := range hits {
		if n < 800 || n > 1200 {
			t.Errorf("candidate %d got %d of 4000", i, n)
		}
	}
	cands[1].InFlight = 50
	for i := range 1000 {
		if got, _ := Best(Request{}, cands, PredictedTTFT, mix(uint64(i))); got == 1 {
			t.Fatal("the busiest by own count was chosen, and it loses to any other it is drawn with")
		}
	}
}

// A burst must spread at once although no scrape has seen it: each dispatch adds to the backlog.
func TestBurstSpreads(t *testing.T) {
	cands := []Candidate{idle(), idle(), idle()}
	var hits [3]int
	for i := range 60 {
		got, _ := Best(Request{PromptTokens: 1000}, cands, PredictedTTFT, mix(uint64(i)))
		hits[got]++
		cands[got].Backlog += 1000
		cands[got].InFlight++
	}
	for i, n := range hits {
		if n < 18 || n > 22 {
			t.Errorf("candidate %d got %d of 60: %v", i, n, hits)
		}
	}
}

// Equal prompts stay together until waiting there costs more than computing elsewhere.
func TestBurstOfEqualPromptsOverflows(t *testing.T) {
	cands := []Candidate{idle(), idle(), idle()}
	var hits [3]int
	for i := range 60 {
		got, _ := Best(Request{PromptTokens: 8000}, cands, PredictedTTFT, mix(uint64(i)))
		hits[got]++
		cands[got].Backlog += float64(8000 - cands[got].Cached)
		cands[got].Cached = 7900
	}
	if used := min(hits[0], hits[1], hits[2]); used == 60 {
		t.Errorf("all went to one: %v", hits)
	}
	if most := max(hits[0], hits[1], hits[2]); most < 20 {
		t.Errorf("spread as if caches didn't matter: %v", hits)
	}
}

func TestOtherModes(t *testing.T) {
	cands := []Candidate{idle(), idle(), idle()}
	cands[0].InFlight, cands[1].InFlight, cands[2].InFlight = 4, 2, 2
	t.Run("round-robin follows the counter", func(t *testing.T) {
		for i := range 9 {
			if got, r := Best(Request{}, cands, RoundRobin, uint64(i)); got != i%3 || r.Why != Turned {
				t.Errorf("turn %d went to %d (%s)", i, got, r.Why)
			}
		}
	})
	t.Run("random is even", func(t *testing.T) {
		var hits [3]int
		for i := range 3000 {
			got, _ := Best(Request{}, cands, Random, mix(uint64(i)))
			hits[got]++
		}
		for i, n := range hits {
			if n < 900 || n > 1100 {
				t.Errorf("candidate %d got %d of 3000", i, n)
			}
		}
	})
	t.Run("least-outstanding draws among the fewest", func(t *testing.T) {
		var hits [3]int
		for i := range 1000 {
			got, r := Best(Request{}, cands, LeastOutstanding, mix(uint64(i)))
			if r.Why != Fewest {
				t.Fatalf("chosen for %s", r.Why)
			}
			hits[got]++
		}
		if hits[0] != 0 || hits[1] < 400 || hits[2] < 400 {
			t.Errorf("draws %v", hits)
		}
	})
}

func TestModeNames(t *testing.T) {
	for _, m := range allModes {
		if got, ok := ModeOf(m.String()); !ok || got != m {
			t.Errorf("%s reads as %s, %v", m, got, ok)
		}
	}
	if m, ok := ModeOf(""); !ok || m != PredictedTTFT {
		t.Errorf("no name reads as %s, %v", m, ok)
	}
	if _, ok := ModeOf("prefix"); ok {
		t.Error("a mode that doesn't exist was read")
	}
	if Mode(99).String() != "unknown" || Why(99).String() != "unknown" || Tie.String() == "" {
		t.Error("names")
	}
}

func TestPredictIsInSeconds(t *testing.T) {
	req := Request{PromptTokens: 5000}
	tests := []struct {
		name string
		c    Candidate
		want float64
	}{
		{"idle: overhead and prefill", idle(), 0.02 + 0.5},
		{"half cached", with(func(c *Candidate) { c.Cached = 2500 }), 0.02 + 0.25},
		{"all cached, and more", with(func(c *Candidate) { c.Cached = 9000 }), 0.02},
		{"prompts ahead", with(func(c *Candidate) { c.Backlog = 10_000 }), 1 + 0.02 + 0.5},
		{"a queue for places", with(func(c *Candidate) { c.Waiting = 4 }), 2 + 0.02 + 0.5},
		{"the longer of both waits", with(func(c *Candidate) { c.Waiting, c.Backlog = 4, 10_000 }), 2 + 0.02 + 0.5},
		{"an adapter to load", with(func(c *Candidate) { c.Adapter = 0.7 }), 0.7 + 0.02 + 0.5},
		{"KV at the limit where it begins to matter", with(func(c *Candidate) { c.KV = 0.85 }), 0.02 + 0.5},
		{"KV full", with(func(c *Candidate) { c.KV = 1 }), 2 + 0.02 + 0.5},
		{"a rate that isn't known", with(func(c *Candidate) { c.Prefill = 0 }), 0.02 + 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Predict(req, &tt.c); math.Abs(got-tt.want) > 1e-9 {
				t.Errorf("%v s, want %v s", got, tt.want)
			}
		})
	}
}

func TestBestDoesNotAllocate(t *testing.T) {
	for _, mode := range allModes {
		for _, size := range []int{2, 100, 1000} {
			cands := bench(size)
			if n := testing.AllocsPerRun(50, func() { Best(Request{PromptTokens: 1000, Concurrency: 4}, cands, mode, 12345) }); n != 0 {
				t.Errorf("%s among %d: %v allocations", mode, size, n)
			}
		}
	}
}

func bench(n int) []Candidate {
	rnd := rand.New(rand.NewPCG(1, 2))
	cands := make([]Candidate, n)
	for i := range cands {
		cands[i] = with(func(c *Candidate) {
			c.Waiting, c.Running, c.KV = float64(rnd.IntN(3)), float64(rnd.IntN(100)), rnd.Float64()
			c.Backlog, c.Cached = float64(rnd.IntN(9000)), int64(rnd.IntN(2000))
			c.Hash, c.InFlight = rnd.Uint64(), int64(rnd.IntN(8))
		})
	}
	return cands
}

func BenchmarkBest(b *testing.B) {
	for _, mode := range allModes {
		for _, n := range []int{10, 100, 1000, 10_000} {
			b.Run(fmt.Sprint(mode, "/", n), func(b *testing.B) {
				cands := bench(n)
				b.ReportAllocs()
				rnd := uint64(1)
				for b.Loop() {
					rnd = mix(rnd)
					Best(Request{PromptTokens: 2000, PrefixKey: rnd, Concurrency: 4}, cands, mode, rnd)
				}
			})
		}
	}
}
