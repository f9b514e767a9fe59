package workload

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"anabranch/sim"
)

// SharedPrefix is prompts that begin with one of several long texts and end each in its own way, as
// templates, documents and system prompts make them.
type SharedPrefix struct {
	Traffic Traffic
	// Mix is drawn once for each prefix: caches are not shared between models, nor texts between
	// tenants. Shares of popular prefixes thus weigh on those of tenants.
	Mix Mix
	// Prefixes is how many there are, at most a million. 0: 100.
	Prefixes int
	// Prefix is how long each is, drawn once for each. Zero: 2,000 tokens.
	Prefix Lengths
	// Suffix is what follows, different in every request. Zero: 200 tokens.
	Suffix Lengths
	// Output; zero: 100 tokens.
	Output Lengths
	// Skew is Zipf's exponent: prefix k is asked for in proportion to k^-Skew. 0: all alike; 4 at most.
	Skew float64
	// Renew is when a whole new population takes the place of the old, in order of time.
	Renew []time.Duration
}

// MaxPrefixes bounds populations.
const MaxPrefixes = 1_000_000

func (s SharedPrefix) withDefaults() SharedPrefix {
	if s.Prefixes == 0 {
		s.Prefixes = 100
	}
	s.Prefix = s.Prefix.or(Lengths{Fixed: 2000})
	s.Suffix = s.Suffix.or(Lengths{Fixed: 200})
	s.Output = s.Output.or(Lengths{Fixed: 100})
	return s
}

// Validate names the field that is wrong, and the fix.
func (s SharedPrefix) Validate() error {
	s = s.withDefaults()
	switch {
	case s.Prefixes < 1 || s.Prefixes > MaxPrefixes:
		return fmt.Errorf("prefixes: is %d: set 1 to %d", s.Prefixes, MaxPrefixes)
	case !(s.Skew >= 0 && s.Skew <= 4):
		return fmt.Errorf("skew: is %v: set 0 to 4", s.Skew)
	case !slices.IsSorted(s.Renew):
		return errors.New("renew: is out of order: sort it by time")
	}
	return checkAll(check{"traffic", s.Traffic}, check{"mix", s.Mix},
		check{"prefix", s.Prefix}, check{"suffix", s.Suffix}, check{"output", s.Output})
}

// Source starts it.
func (s SharedPrefix) Source() (Source, error) {
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("shared prefix workload: %w", err)
	}
	s = s.withDefaults()
	p, err := newPopulation(s.Traffic.Seed, s.Mix, s.Prefixes, s.Prefix, s.Skew)
	if err != nil {
		return nil, fmt.Errorf("shared prefix workload: %w", err)
	}
	draw, size := random(s.Traffic.Seed, tagPopular), random(s.Traffic.Seed, tagLengths)
	return newGenerator(s.Traffic, func(r *Request) {
		for p.generation < len(s.Renew) && r.At >= s.Renew[p.generation] {
			p.renew()
		}
		own, output := lengthsOf(size, s.Suffix, s.Output)
		p.begin(draw.Float64(), r)
		r.PromptTokens, r.OutputTokens = min(r.PromptTokens+own, MaxTokens), output
	})
}

// population is texts that prompts begin with.
type population struct {
	seed       uint64
	lengths    Lengths
	wheel      wheel
	popularity weights
	generation int
	texts      map[int]*prefix
}

// prefix is one of them and whose it is.
type prefix struct {
	owner  Request // of which only who asks, and for what, is set
	tokens int
	blocks []uint64
}

func newPopulation(seed uint64, m Mix, n int, lengths Lengths, skew float64) (*population, error) {
	w, err := newWheel("mix", m)
	if err != nil {
		return nil, err
	}
	p := &population{seed: seed, lengths: lengths, wheel: w, texts: map[int]*prefix{}}
	p.popularity, err = cumulate("skew", n, func(i int) float64 { return math.Pow(float64(i+1), -skew) })
	return p, err
}

// renew forgets all texts; those to come are others.
func (p *population) renew() {
	p.generation++
	p.texts = map[int]*prefix{}
}

// begin gives the request the beginning that u falls on: owner, length so far and blocks.
func (p *population) begin(u float64, r *Request) {
	k := p.popularity.at(u)
	text := p.texts[k]
	if text == nil {
		text = p.text(k)
		p.texts[k] = text
	}
	o := &text.owner
	r.Tenant, r.Model, r.Adapter, r.Priority, r.Class = o.Tenant, o.Model, o.Adapter, o.Priority, o.Class
	r.PromptTokens, r.Blocks = text.tokens, text.blocks
}

// text makes text k of the generation.
func (p *population) text(k int) *prefix {
	id := mix(mix(p.seed, tagPrefix), mix(uint64(p.generation), uint64(k)))
	rng := random(id, tagMix)
	text := &prefix{}
	p.wheel.who(rng, &text.owner)
	text.tokens = p.lengths.Quantile(rng.Float64())
	n := text.tokens / sim.BlockSize
	text.blocks = extend(make([]uint64, 0, n), id, n)
	return text
}
