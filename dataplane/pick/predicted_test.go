package pick

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawCandidates makes some with names of their own, often with equal loads so that there are ties.
func drawCandidates(t *rapid.T) []Candidate {
	return rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) Candidate {
		return Candidate{
			Hash:         rapid.Uint64Min(1).Draw(t, "hash"),
			Freshness:    rapid.SampledFrom([]Freshness{Fresh, Fresh, Fresh, Stale, Absent}).Draw(t, "freshness"),
			Waiting:      float64(rapid.IntRange(0, 3).Draw(t, "waiting")),
			Running:      float64(rapid.IntRange(0, 50).Draw(t, "running")),
			InFlight:     int64(rapid.IntRange(0, 9).Draw(t, "inflight")),
			Backlog:      float64(rapid.IntRange(0, 4).Draw(t, "backlog") * 3000),
			Cached:       int64(rapid.IntRange(0, 4).Draw(t, "cached") * 1000),
			KV:           rapid.SampledFrom([]float64{0, 0.5, 0.9, 1}).Draw(t, "kv"),
			Prefill:      rapid.SampledFrom([]float64{0, 5000, 10_000}).Draw(t, "prefill"),
			Turn:         0.3,
			AdapterState: AdapterState(rapid.IntRange(0, 3).Draw(t, "adapter")),
			Ramp:         rapid.SampledFrom([]float64{0, 1, 0.1, 0.5}).Draw(t, "ramp"),
		}
	}), 1, 200, func(c Candidate) uint64 { return c.Hash }).Draw(t, "candidates")
}

func drawRequest(t *rapid.T) Request {
	return Request{
		PromptTokens: int64(rapid.IntRange(0, 4).Draw(t, "prompt") * 1000),
		PrefixKey:    rapid.Uint64().Draw(t, "key"), Concurrency: int64(rapid.IntRange(0, 6).Draw(t, "threshold")),
	}
}

// The slow and obvious way: sort the fresh by score, keep those within the tie of the first, of them
// the warmest, and any of these is right.
func TestPredictedAgainstTheObviousWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cands, req := drawCandidates(t), drawRequest(t)
		rnd := rapid.Uint64().Draw(t, "rnd")
		got, reason := Best(req, cands, PredictedTTFT, rnd)
		if got < 0 || got >= len(cands) {
			t.Fatalf("chose %d of %d", got, len(cands))
		}
		if reason.Seconds != Predict(req, &cands[got]) || reason.Times.Total() != reason.Seconds || reason.Adapter != cands[got].AdapterState {
			t.Fatalf("says %+v of %+v", reason, cands[got])
		}
		var fresh []int
		for i := range cands {
			if cands[i].Freshness == Fresh {
				fresh = append(fresh, i)
			}
		}
		if len(cands) == 1 || 2*len(fresh) < len(cands) {
			if reason.Why != Only && reason.Why != TwoDraw || reason.RunnerUp != -1 {
				t.Fatalf("compared what can't be: %+v", reason)
			}
			return
		}
		by := func(i int) float64 { return score(req, &cands[i], i, rnd) }
		slices.SortStableFunc(fresh, func(a, b int) int { return int(math.Copysign(1, by(a)-by(b))) })
		limit := max(by(fresh[0])*(1+NearTie), by(fresh[0])+tieFloor)
		near := slices.DeleteFunc(slices.Clone(fresh), func(i int) bool { return by(i) > limit })
		coldest := func(i int) uint8 { return coldness(req, &cands[i]) }
		lowest := coldest(slices.MinFunc(near, func(a, b int) int { return int(coldest(a)) - int(coldest(b)) }))
		right := slices.DeleteFunc(slices.Clone(near), func(i int) bool { return coldest(i) != lowest })
		if !slices.Contains(right, got) {
			t.Fatalf("chose %d, want any of %v", got, right)
		}
		want := Tie
		switch {
		case len(near) == 1:
			want = Least
		case len(right) == 1:
			want = Warmer
		}
		if reason.Why != want {
			t.Fatalf("for %s, want %s", reason.Why, want)
		}
		rest := slices.DeleteFunc(slices.Clone(fresh), func(i int) bool { return i == got })
		if len(rest) == 0 {
			if reason.RunnerUp != -1 {
				t.Fatalf("a runner-up that isn't there: %+v", reason)
			}
			return
		}
		if by(reason.RunnerUp) != by(rest[0]) || reason.RunnerUp == got || reason.RunnerUpSeconds != Predict(req, &cands[reason.RunnerUp]) {
			t.Fatalf("runner-up %d at %v s, want %d", reason.RunnerUp, reason.RunnerUpSeconds, rest[0])
		}
	})
}

// Routers list endpoints in different orders.
func TestTheOrderOfCandidatesDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cands, req, rnd := drawCandidates(t), drawRequest(t), rapid.Uint64().Draw(t, "rnd")
		other := rapid.Permutation(cands).Draw(t, "permuted")
		for _, mode := range []Mode{PredictedTTFT, LeastOutstanding, PrefixHash} {
			a, reason := Best(req, cands, mode, rnd)
			b, same := Best(req, other, mode, rnd)
			if reason.Why == TwoDraw {
				continue // drawn by place
			}
			if cands[a].Hash != other[b].Hash || reason.Why != same.Why {
				t.Fatalf("%s: %x for %s, and %x for %s", mode, cands[a].Hash, reason.Why, other[b].Hash, same.Why)
			}
			if reason.RunnerUp >= 0 && score(req, &cands[reason.RunnerUp], reason.RunnerUp, rnd) != score(req, &other[same.RunnerUp], same.RunnerUp, rnd) {
				t.Fatalf("%s: runners-up %x and %x", mode, cands[reason.RunnerUp].Hash, other[same.RunnerUp].Hash)
			}
		}
	})
}

func TestMoreLoadMakesNothingMoreAttractive(t *testing.T) {
	more := map[string]func(*Candidate){
		"waiting": func(c *Candidate) { c.Waiting += 2 }, "in flight": func(c *Candidate) { c.InFlight += 3 },
		"backlog": func(c *Candidate) { c.Backlog += 2500 }, "kv": func(c *Candidate) { c.KV = min(c.KV+0.1, 1) },
		"adapter": func(c *Candidate) { c.Adapter += 0.4 }, "slow": func(c *Candidate) { c.Overhead += 0.1 },
		"ramp": func(c *Candidate) { c.Ramp = c.ramp() / 2 }, "uncached": func(c *Candidate) { c.Cached -= min(c.Cached, 1000) },
	}
	rapid.Check(t, func(t *rapid.T) {
		cands, req, rnd := drawCandidates(t), drawRequest(t), rapid.Uint64().Draw(t, "rnd")
		loaded := rapid.IntRange(0, len(cands)-1).Draw(t, "loaded")
		for name, change := range more {
			for _, mode := range allModes {
				before, _ := Best(req, cands, mode, rnd)
				worse := slices.Clone(cands)
				change(&worse[loaded])
				after, reason := Best(req, worse, mode, rnd)
				if before != loaded && after == loaded {
					t.Fatalf("%s: more %s drew the request to it, for %s", mode, name, reason.Why)
				}
			}
		}
	})
}

func TestSlowStart(t *testing.T) {
	back := func(f Freshness) Candidate {
		return with(func(c *Candidate) { c.Ramp, c.Freshness = 0.1, f })
	}
	tests := []struct {
		name  string
		mode  Mode
		cands []Candidate
		want  float64 // share of the first
	}{
		{"a tenth of its part of little traffic", PredictedTTFT, []Candidate{back(Fresh), idle()}, 0.05},
		{"and of that by requests in flight", LeastOutstanding, []Candidate{back(Fresh), idle()}, 0.05},
		{"a tenth of what would all be its", PredictedTTFT, []Candidate{
			back(Fresh), with(func(c *Candidate) { c.Backlog = 8000 }),
		}, 0.1},
		{"all of it where the others are ten times worse", PredictedTTFT, []Candidate{
			back(Fresh), with(func(c *Candidate) { c.Backlog = 12_000 }),
		}, 1},
		{"a tenth where signals are stale", PredictedTTFT, []Candidate{
			back(Stale), with(func(c *Candidate) { c.InFlight, c.Freshness = 8, Stale }),
		}, 0.1},
		{"and there too only so far", PredictedTTFT, []Candidate{
			back(Stale), with(func(c *Candidate) { c.InFlight, c.Freshness = 10, Stale }),
		}, 1},
		{"a ramp that makes no sense is none", PredictedTTFT, []Candidate{
			with(func(c *Candidate) { c.Ramp = -3 }), with(func(c *Candidate) { c.Backlog = 1000 }),
		}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			const n = 4000
			first := 0
			for rnd := range uint64(n) {
				got, reason := Best(Request{PromptTokens: 1000}, tt.cands, tt.mode, mix(rnd))
				if got == 0 {
					first++
				}
				if reason.Seconds > 1.5 {
					t.Fatalf("predicts %v s: what is compared is not what is expected", reason.Seconds)
				}
			}
			if share := float64(first) / n; math.Abs(share-tt.want) > 0.02 {
				t.Errorf("%v of the requests, want %v", share, tt.want)
			}
		})
	}
}

func TestOfNearTiesTheWarmest(t *testing.T) {
	lora := func(s AdapterState) Candidate {
		return with(func(c *Candidate) { c.AdapterState, c.Adapter = s, s.Cost(0.001) })
	}
	tests := []struct {
		name  string
		cands []Candidate
		want  int
		why   Why
	}{
		{"resident before a free slot", []Candidate{lora(FreeSlot), lora(Resident)}, 1, Warmer},
		{"a free slot before an eviction", []Candidate{lora(Evicts), lora(FreeSlot)}, 1, Warmer},
		{"drawn among equals, but not the rest", []Candidate{lora(Evicts), lora(FreeSlot), lora(Evicts)}, 1, Warmer},
		{"where the prompt is being computed", []Candidate{
			idle(), with(func(c *Candidate) { c.Cached, c.Backlog = 999, 1000 }), idle(),
		}, 1, Warmer},
		{"but not for a little of it", []Candidate{
			with(func(c *Candidate) { c.Cached, c.Backlog = 20, 500 }), idle(),
		}, 1, Least},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for rnd := range uint64(20) {
				got, reason := Best(Request{PromptTokens: 1000}, tt.cands, PredictedTTFT, mix(rnd))
				if got != tt.want || reason.Why != tt.why {
					t.Fatalf("chose %d (%s), want %d (%s)", got, reason.Why, tt.want, tt.why)
				}
			}
		})
	}
}

func TestAdapterCosts(t *testing.T) {
	for s, want := range map[AdapterState]float64{NoAdapter: 0, Resident: 0, FreeSlot: 0.5, Evicts: 1, 99: 0} {
		if got := s.Cost(0.5); got != want {
			t.Errorf("%s: %v s, want %v s", s, got, want)
		}
	}
	if AdapterState(99).String() != "unknown" || Evicts.String() == "unknown" {
		t.Error("names")
	}
}

// Whatever the fresh ones' load, a stale or absent one gets nothing while half are fresh, and the
// worse of two where fewer are.
func TestAStaleOneIsNotPreferredForLookingIdle(t *testing.T) {
	busy := with(func(c *Candidate) { c.Running, c.InFlight, c.Backlog = 20, 6, 50_000 })
	for _, f := range []Freshness{Stale, Absent} {
		looksIdle := with(func(c *Candidate) { c.Freshness = f })
		for rnd := range uint64(200) {
			if got, _ := Best(Request{PromptTokens: 2000}, []Candidate{looksIdle, busy}, PredictedTTFT, mix(rnd)); got == 0 {
				t.Fatalf("one of two: it was chosen for looking idle (%d)", f)
			}
			cands := []Candidate{looksIdle, looksIdle, busy}
			got, reason := Best(Request{PromptTokens: 2000}, cands, PredictedTTFT, mix(rnd))
			if reason.Why != TwoDraw {
				t.Fatalf("two of three: %s", reason.Why)
			}
			i := draw(mix(rnd), 3)
			j := (i + 1 + draw(mix(mix(rnd)), 2)) % 3
			if (i == 2 || j == 2) && got != 2 {
				t.Fatalf("drawn with a fresh one it was chosen for looking idle (%d)", f)
			}
		}
	}
}

func TestPredictionsThatAreNoNumbers(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	bad := []Candidate{
		with(func(c *Candidate) { c.Overhead = nan }), with(func(c *Candidate) { c.Backlog = inf }),
		with(func(c *Candidate) { c.KV = nan }), with(func(c *Candidate) { c.Waiting, c.Turn = inf, nan }),
	}
	for rnd := range uint64(50) {
		if got, _ := Best(Request{}, bad[:2], PredictedTTFT, mix(rnd)); got < 0 {
			t.Fatal("nothing chosen")
		}
		got, reason := Best(Request{}, append(slices.Clone(bad[:2]), idle()), PredictedTTFT, mix(rnd))
		if got != 2 || reason.Why != Least {
			t.Fatalf("chose %d (%s) before the only one that has a time", got, reason.Why)
		}
	}
}

func TestOfNearTiesTheCalmerOfTwoDrawn(t *testing.T) {
	at := func(hash uint64, running, prefill float64) Candidate {
		return Candidate{Hash: hash, Freshness: Fresh, Running: running, Prefill: prefill}
	}
	req := Request{PromptTokens: 1000}
	chosen := func(cands ...Candidate) []int {
		counts := make([]int, len(cands))
		for rnd := range uint64(3000) {
			i, reason := Best(req, cands, PredictedTTFT, mix(rnd))
			if reason.Why != Tie {
				t.Fatalf("%+v", reason)
			}
			counts[i]++
		}
		return counts
	}
	for name, tt := range map[string]struct {
		cands []Candidate
		right func([]int) bool
	}{
		"of two the calmer": {[]Candidate{at(1, 20, 9000), at(2, 3, 9000)}, func(n []int) bool { return n[0] == 0 }},
		"equal ones by the draw": {
			[]Candidate{at(1, 5, 9000), at(2, 5, 9000)},
			func(n []int) bool { return min(n[0], n[1]) > 1300 },
		},
		"of three the busiest never, and the calmest not always": {
			[]Candidate{at(1, 20, 9000), at(2, 3, 9000), at(3, 10, 9000)},
			func(n []int) bool { return n[0] == 0 && n[1] > 1800 && n[2] > 800 },
		},
		"kinds of other speed by the draw": {
			[]Candidate{at(1, 20, 9000), at(2, 3, 9001)},
			func(n []int) bool { return min(n[0], n[1]) > 1300 },
		},
	} {
		if n := chosen(tt.cands...); !tt.right(n) {
			t.Errorf("%s: %v", name, n)
		}
	}
}
