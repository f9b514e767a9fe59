package workload

import (
	"fmt"
	"time"
)

// Agentic is tasks of agents: many quick turns over one large system prompt with its tools, each
// adding the output of a tool to a growing prompt. It is [Sessions] with other defaults: one system
// prompt of 12,000 tokens, 5 to 30 turns, tools that take 1.5 s (P99 10 s) and add 600 tokens (P99
// 6,000), answers of 80 tokens (P99 500), and up to 128,000 tokens of context.
type Agentic Sessions

func (a Agentic) sessions() Sessions {
	s := Sessions(a)
	if s.Systems == 0 {
		s.Systems = 1
	}
	s.System = s.System.or(Lengths{Fixed: 12_000})
	s.Turns = s.Turns.or(Lengths{Min: 5, Max: 30})
	s.User = s.User.or(Lengths{Mean: 600, P99: 6000})
	s.Output = s.Output.or(Lengths{Mean: 80, P99: 500})
	if s.Think == (Delays{}) {
		s.Think = Delays{Mean: 1500 * time.Millisecond, P99: 10 * time.Second}
	}
	if s.MaxContext == 0 {
		s.MaxContext = 128_000
	}
	return s
}

// Validate names the field that is wrong, and the fix.
func (a Agentic) Validate() error { return a.sessions().Validate() }

// Source starts it.
func (a Agentic) Source() (Source, error) {
	s, err := a.sessions().Source()
	if err != nil {
		return nil, fmt.Errorf("agentic workload: %w", err)
	}
	return s, nil
}
