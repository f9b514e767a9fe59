// Package shift says what load does to those that take it over: how much more work it is while their caches are
// cold, how much they have room for, and how fast a place that is new to it may get more. All of it are pure
// functions of values; who divides the load, and by which rules, is the planner's.
package shift

import (
	"math"
	"time"
)

const (
	// Ceiling is the part of what it can do that a place is to use at most once it has taken over what another lost.
	Ceiling = 0.9
	// WarmAfter is how long a place must work at full load to have warm caches.
	WarmAfter = 30 * time.Second
	// FirstPart of its capacity is what a place gets, beside what it has, of work that it has done little of yet.
	FirstPart = 0.05
	// Doubling is how long a place would take to do what it has done lately, of that much more. So what it gets grows by
	// work that it does, e-fold at full load in each Doubling: from a FirstPart to 80 % in some 28 s. That is about what it
	// takes to fill a cache, of 400,000 tokens from prompts of 13,000 tokens a second say.
	Doubling = 10 * time.Second
)

// mostHit bounds what a cache is believed to save: beyond it a factor would say more of the measurement.
const mostHit = 0.95

// Cold is what is known of the prefix caches of a model where its requests are served now. Those of other
// clusters don't know the sessions that would move there.
type Cold struct {
	// Prefill is the part, 0..1, that prompts have in the work while caches are warm.
	Prefill float64 `json:"prefill"`
	// Hit is the part, 0..1, of prompts' tokens that is found in caches.
	Hit float64 `json:"hit"`
}

// Unmeasured stands for caches that nobody has measured: 30 % of warm work is prefill, and 70 % of it is saved,
// which makes moved work 1.7 times as much. Traces of conversations with ideal caches find 37 to 64 % of
// blocks again; to think too much of it is safe here.
var Unmeasured = Cold{Prefill: 0.3, Hit: 0.7}

// LeastInput is how many tokens of prompts say something of caches.
const LeastInput = 100_000

// Measured tells of caches what the use of tokens tells: what part of prompts they knew, and what part of the work was left
// of prompts by that. Reading a cache is no work, and a token of output is as much work as so many of a prompt. False: too
// little was used to tell.
func Measured(input, cached, output int64, outputWeight float64) (c Cold, known bool) {
	if input < LeastInput {
		return Cold{}, false
	}
	cached = min(max(cached, 0), input)
	prefill := float64(input - cached)
	c.Hit = float64(cached) / float64(input)
	if all := prefill + outputWeight*float64(output); all > 0 {
		c.Prefill = prefill / all
	}
	return c, true
}

// Factor is how many times as much work a request is where no cache knows its prompt as where caches are warm:
// (1-f) + f/(1-h), f being Prefill and h Hit. It is 1 at least, and 20 at most. What is no number counts as 0.
func (c Cold) Factor() float64 {
	f, h := clip01(c.Prefill), min(clip01(c.Hit), mostHit)
	return 1 - f + f/(1-h)
}

// FactorAfter is the factor so long after the work moved: caches have filled by [WarmAfter], evenly. Before it moved,
// which a clock that was set back may say, they are cold.
func (c Cold) FactorAfter(moved time.Duration) float64 {
	left := 1 - min(max(moved.Seconds(), 0)/WarmAfter.Seconds(), 1)
	return 1 + (c.Factor()-1)*left
}

// clip01 is x within 0 and 1; what is no number is 0.
func clip01(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return min(max(x, 0), 1)
}

// Safe is the load, as a part of what regions can do, at which any one of so many alike can be lost while the
// others stay below [Ceiling], work that moves counting factor times as much: 0.9 / (1 + c/(N-1)). Of three
// regions it is 60 % with a factor of 1, and 49 % with 1.7. A single one has nobody to take over: 0.
func Safe(factor float64, regions int) float64 {
	if regions < 2 {
		return 0
	}
	return Ceiling / (1 + atLeast1(factor)/float64(regions-1))
}

// Headroom is how much moved work, as it is where caches are warm, a place of a capacity can take beside its load:
// up to the ceiling, a part of the capacity, each unit of it counting factor times. It is never below 0.
func Headroom(capacity, load, ceiling, factor float64) float64 {
	return max(capacity*ceiling-load, 0) / atLeast1(factor)
}

// Share is a share of some work with what is new of it counted factor times: warm is the share that caches know.
func Share(share, warm, factor float64) float64 {
	return share + max(share-max(warm, 0), 0)*(atLeast1(factor)-1)
}

// atLeast1 is a factor; what is no number is 1.
func atLeast1(factor float64) float64 {
	if math.IsNaN(factor) {
		return 1
	}
	return max(factor, 1)
}

// More is how much work a second a place of a capacity may get at most of what its caches hardly know, given the work
// that it lately did of it.
func More(capacity, served float64) float64 { return FirstPart*capacity + served/Doubling.Seconds() }

// Warmth is how warm the caches of a place of a capacity are for some work, 0..1, by how much it lately did of it.
func Warmth(capacity, served float64) float64 {
	if !(capacity > 0) {
		return 0
	}
	return clip01(served / (WarmAfter.Seconds() * capacity))
}
