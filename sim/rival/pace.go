package rival

import (
	"math"

	"anabranch/sim"
)

// stand is what a pod has to do, as far as somebody knows.
type stand struct {
	options *sim.Options
	ahead   float64 // prompt tokens to be computed before a new request's
	waiting float64 // requests
	running float64
	kv      float64 // share in use
	hold    float64 // seconds that a request holds its place
	slow    float64 // factor
}

// first is how many seconds pass until the first token of a request of which so many of prompt tokens
// are cached, and how many of them are its own prefill. It follows the published roofline of
// [sim.Profile]: prompts are computed in order, in steps of at most MaxBatchTokens tokens with one token
// for each sequence that decodes. Where batch or KV cache are full it waits for others to end.
func (s stand) first(prompt, cached float64) (seconds, work float64) {
	o := s.options
	p := &o.Profile
	own := max(1, prompt-cached)
	per := max(1, batchTokens(o)-s.running)
	context := s.kv * float64(p.KVTokens)
	// Each token attends to half of what its prompt has computed, and to what of it is cached.
	mine := own * (prompt + cached) / 2
	step := func(tokens, attended float64) float64 {
		n := math.Ceil(tokens / per)
		if n == 0 {
			return 0
		}
		return n * p.Step(sim.Load{
			Prefill: int(tokens / n), Decode: int(s.running), Attended: attended / n, Context: int(context),
		}).Seconds()
	}
	// Prompts ahead of it are taken to be as long.
	seconds = step(s.ahead+own, s.ahead*prompt/2+mine)
	work = step(own, mine)
	slots := float64(o.MaxSequences)
	if slots <= 0 {
		slots = 256
	}
	if over := s.running + s.waiting + 1 - slots; over > 0 {
		seconds += over * s.hold / slots
	}
	if size := float64(p.KVTokens); size > 0 {
		// What is computed ahead of it takes room too.
		if lack := s.kv + (s.ahead+prompt)/size - 1; lack > 0 {
			seconds += lack * s.hold
		}
	}
	return seconds * s.slow, work * s.slow
}

// batchTokens is the most tokens of a step, with the engine's default.
func batchTokens(o *sim.Options) float64 {
	if o.MaxBatchTokens <= 0 {
		return 2048
	}
	return float64(o.MaxBatchTokens)
}

// mean is an exponentially weighted one.
type mean struct {
	value float64
	any   bool
}

// add takes a new value at a twentieth.
func (m *mean) add(x float64) {
	if !m.any {
		m.value, m.any = x, true
		return
	}
	m.value += (x - m.value) / 20
}

// or is the mean, or a guess if there is none yet.
func (m *mean) or(guess float64) float64 {
	if m.any {
		return m.value
	}
	return guess
}

// cachedTokens is how many of a prompt's tokens so many cached blocks save: at least the last token is
// computed, and with it its block.
func cachedTokens(prompt, blocks int) float64 {
	return float64(min(blocks, (prompt-1)/sim.BlockSize) * sim.BlockSize)
}
