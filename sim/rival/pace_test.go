package rival

import (
	"math"
	"testing"
	"time"

	"anabranch/sim"

	"pgregory.net/rapid"
)

// TestPaceIsMonotonic: more to do takes no less time, and more that is cached no more.
func TestPaceIsMonotonic(t *testing.T) {
	profile, err := sim.Lookup("a100-80", model)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := stand{
			options: &sim.Options{Profile: profile, MaxSequences: rapid.IntRange(1, 300).Draw(t, "slots")},
			ahead:   rapid.Float64Range(0, 1e5).Draw(t, "ahead"), waiting: rapid.Float64Range(0, 100).Draw(t, "waiting"),
			running: rapid.Float64Range(0, 300).Draw(t, "running"), kv: rapid.Float64Range(0, 1).Draw(t, "kv"),
			hold: rapid.Float64Range(0, 30).Draw(t, "hold"), slow: rapid.Float64Range(1, 20).Draw(t, "slow"),
		}
		tokens := float64(rapid.IntRange(1, 50_000).Draw(t, "prompt"))
		cached := float64(rapid.IntRange(0, int(tokens)-1).Draw(t, "cached"))
		base, work := s.first(tokens, cached)
		if !(work > 0 && base >= work-1e-9) || math.IsInf(base, 0) || math.IsNaN(base) {
			t.Fatalf("%v seconds, of them %v its own", base, work)
		}
		// Steps are counted whole, so that a little more to do can fall into fewer, fuller ones.
		const slack = 1.02
		for name, more := range map[string]func(*stand){
			"ahead":   func(s *stand) { s.ahead += 5000 },
			"waiting": func(s *stand) { s.waiting += 10 },
			"kv":      func(s *stand) { s.kv = min(1, s.kv+0.3) },
			"slow":    func(s *stand) { s.slow *= 2 },
		} {
			other := s
			more(&other)
			if x, _ := other.first(tokens, cached); x*slack < base {
				t.Fatalf("with more %s it takes %v, without %v", name, x, base)
			}
		}
		if x, _ := s.first(tokens, 0); x*slack < base {
			t.Fatalf("without cached tokens it takes %v, with %v of %v %v", x, cached, tokens, base)
		}
	})
}

// TestPaceFollowsTheEngine on pods that also decode, for prompts of any length and with part of them
// cached: it is within a fifth, and a step.
func TestPaceFollowsTheEngine(t *testing.T) {
	profile := h100(t)
	rapid.Check(t, func(t *rapid.T) {
		e := sim.New(sim.Options{Profile: profile})
		running := rapid.IntRange(0, 40).Draw(t, "running")
		submit := func(at time.Duration, r sim.Request) {
			if err := e.Submit(at, r); err != nil {
				t.Fatal(err)
			}
		}
		for i := range running {
			submit(0, sim.Request{ID: uint64(i + 1), PromptTokens: 200, OutputTokens: 5000})
		}
		tokens := rapid.IntRange(100, 12_000).Draw(t, "prompt")
		shared := prompt(1, tokens, 5)
		warm := rapid.IntRange(0, tokens/sim.BlockSize).Draw(t, "warm blocks")
		if warm > 0 {
			submit(0, sim.Request{ID: 1001, PromptTokens: warm * sim.BlockSize, Blocks: shared.Blocks[:warm], OutputTokens: 1})
		}
		now := 10 * time.Second
		e.Advance(now)
		submit(now, sim.Request{ID: 1002, PromptTokens: tokens, Blocks: shared.Blocks, OutputTokens: 10})
		stats := e.Stats()
		var took float64
		for _, event := range e.Advance(now + time.Minute) {
			if event.Kind == sim.First && event.ID == 1002 {
				took = (event.At - now).Seconds()
			}
		}
		s := stand{options: &sim.Options{Profile: profile}, running: float64(running), kv: stats.KVUsage(), hold: 5, slow: 1}
		got, _ := s.first(float64(tokens), cachedTokens(tokens, warm))
		step := profile.Step(sim.Load{Decode: running, Context: stats.BlocksUsed * sim.BlockSize}).Seconds()
		if math.Abs(got-took) > 0.2*took+step {
			t.Fatalf("%d tokens, %d blocks warm, beside %d: predicted %v, the engine takes %v", tokens, warm, running, got, took)
		}
	})
}

func TestCachedTokens(t *testing.T) {
	for _, c := range []struct {
		prompt, blocks int
		want           float64
	}{{1600, 0, 0}, {1600, 10, 160}, {1600, 100, 1584}, {1601, 100, 1600}, {1600, 400, 1584}, {1, 5, 0}, {16, 1, 0}, {17, 1, 16}} {
		if got := cachedTokens(c.prompt, c.blocks); got != c.want {
			t.Errorf("%d blocks of a prompt of %d tokens save %v, want %v", c.blocks, c.prompt, got, c.want)
		}
	}
}

func TestMean(t *testing.T) {
	var m mean
	if m.or(7) != 7 {
		t.Error("without values the guess is not taken")
	}
	m.add(10)
	m.add(30)
	if got := m.or(7); got != 11 {
		t.Errorf("10 and a twentieth of the way to 30 is %v, want 11", got)
	}
	for range 500 {
		m.add(30)
	}
	if math.Abs(m.or(7)-30) > 1e-6 {
		t.Errorf("after many of 30 it is %v", m.or(7))
	}
}
