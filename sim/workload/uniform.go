package workload

import (
	"errors"
	"fmt"
)

// Uniform is steady traffic of prompts that share nothing: the control in which no routing by prefix
// can win.
type Uniform struct {
	Traffic Traffic
	Mix     Mix
	// Prompt and Output are lengths. Zero: 512 and 128 tokens.
	Prompt, Output Lengths
}

func (u Uniform) withDefaults() Uniform {
	u.Prompt = u.Prompt.or(Lengths{Fixed: 512})
	u.Output = u.Output.or(Lengths{Fixed: 128})
	return u
}

// Validate names the field that is wrong, and the fix.
func (u Uniform) Validate() error {
	u = u.withDefaults()
	return checkAll(check{"traffic", u.Traffic}, check{"mix", u.Mix}, check{"prompt", u.Prompt}, check{"output", u.Output})
}

// Source starts it.
func (u Uniform) Source() (Source, error) {
	if err := u.Validate(); err != nil {
		return nil, fmt.Errorf("uniform workload: %w", err)
	}
	u = u.withDefaults()
	w, err := newWheel("mix", u.Mix)
	if err != nil {
		return nil, fmt.Errorf("uniform workload: %w", err)
	}
	who, size := random(u.Traffic.Seed, tagMix), random(u.Traffic.Seed, tagLengths)
	return newGenerator(u.Traffic, func(r *Request) {
		w.who(who, r)
		r.PromptTokens, r.OutputTokens = lengthsOf(size, u.Prompt, u.Output)
	})
}

// Bursty is traffic of unshared prompts that comes unevenly: each region in bursts of its own.
// Arrivals without Burst and Process swing between 20 s bursts and 40 s silences at a tenth of their
// rate; with a Process of Gamma or Weibull alone, unevenness is that of the process.
type Bursty Uniform

func (b Bursty) uniform() Uniform {
	if a := &b.Traffic.Arrivals; a.Clients == 0 && a.Process == "" && a.Burst == (Burst{}) {
		a.Burst = Burst{On: 20e9, Off: 40e9, Quiet: 0.1}
	}
	return Uniform(b)
}

// Validate names the field that is wrong, and the fix.
func (b Bursty) Validate() error {
	if b.Traffic.Arrivals.Clients > 0 {
		return errors.New("traffic: arrivals: clients: is set: bursts are of open loops, use Rate")
	}
	return b.uniform().Validate()
}

// Source starts it.
func (b Bursty) Source() (Source, error) {
	if err := b.Validate(); err != nil {
		return nil, fmt.Errorf("bursty workload: %w", err)
	}
	return b.uniform().Source()
}
