package workload

import (
	"errors"
	"fmt"
)

// Batch is jobs of many long prompts at low priority. Traffic says when jobs come.
type Batch struct {
	Traffic Traffic
	// Mix; without Priorities: -10, the batch tier's.
	Mix Mix
	// Size is how many requests a job has, all at once. Zero: 50.
	Size Lengths
	// Prompt and Output are lengths. Zero: mean 6,000, P99 20,000 tokens, and mean 400, P99 1,500.
	Prompt, Output Lengths
}

func (b Batch) withDefaults() Batch {
	if len(b.Mix.Priorities) == 0 {
		b.Mix.Priorities = []Share[int32]{{Value: batch}}
	}
	b.Size = b.Size.or(Lengths{Fixed: 50})
	b.Prompt = b.Prompt.or(Lengths{Mean: 6000, P99: 20_000})
	b.Output = b.Output.or(Lengths{Mean: 400, P99: 1500})
	return b
}

// Validate names the field that is wrong, and the fix.
func (b Batch) Validate() error {
	b = b.withDefaults()
	if b.Traffic.Arrivals.Clients > 0 {
		return errors.New("traffic: arrivals: clients: is set: jobs come in an open loop, use Rate")
	}
	return checkAll(check{"traffic", b.Traffic}, check{"mix", b.Mix}, check{"size", b.Size},
		check{"prompt", b.Prompt}, check{"output", b.Output})
}

// Source starts it.
func (b Batch) Source() (Source, error) {
	if err := b.Validate(); err != nil {
		return nil, fmt.Errorf("batch workload: %w", err)
	}
	b = b.withDefaults()
	w, err := newWheel("mix", b.Mix)
	if err != nil {
		return nil, fmt.Errorf("batch workload: %w", err)
	}
	seed := b.Traffic.Seed
	jobs, who, size := random(seed, tagSession), random(seed, tagMix), random(seed, tagLengths)
	var (
		job   Request // what all of a job have in common
		paced *jobPace
	)
	g, err := newGenerator(b.Traffic, func(r *Request) {
		if paced.begins {
			w.who(who, &job)
		}
		r.Tenant, r.Model, r.Adapter, r.Priority, r.Class = job.Tenant, job.Model, job.Adapter, job.Priority, job.Class
		r.PromptTokens, r.OutputTokens = lengthsOf(size, b.Prompt, b.Output)
	})
	if err != nil {
		return nil, fmt.Errorf("batch workload: %w", err)
	}
	paced = &jobPace{pace: g.pace, size: func() int { return b.Size.Quantile(jobs.Float64()) }}
	g.pace = paced
	return g, nil
}

// jobPace repeats each arrival of another pace.
type jobPace struct {
	pace
	size   func() int
	left   int  // of the job that peek shows; 0: its size is not drawn yet
	begins bool // what was popped last is the first of its job
}

func (j *jobPace) pop() {
	j.begins = j.left == 0
	if j.begins {
		j.left = j.size()
	}
	if j.left--; j.left == 0 {
		j.pace.pop()
	}
}
