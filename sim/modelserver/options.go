// Package modelserver puts [sim.Engine] behind HTTP with the API, metrics and manners of vLLM, so
// that routers, gateways and tests have a fleet to talk to without a GPU. One [Server] is one
// cluster: all its endpoints, each on a port of its own, and an admin port that injects faults
// and tells which requests went where.
//
// Tokens are four bytes long and say nothing, but everything countable is as in a real server:
// queueing, time to the first token and between tokens, usage, cached tokens, adapters, the end
// of a sequence when its client leaves.
package modelserver

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"anabranch/api/fleet"
	"anabranch/sim"
)

// Options of a server. Cluster, Endpoints and Models are required.
type Options struct {
	// Cluster names the cluster in logs and in the status.
	Cluster fleet.ClusterID
	// Endpoints are the pods.
	Endpoints []Endpoint
	// Models are served by every endpoint, each by an engine of its own, as if the pod had GPUs
	// for each.
	Models []Model
	// Admin is the address for faults and status. Empty: no admin port.
	Admin string
	// TimeScale stretches the engines' time: 0.1 makes the pods ten times faster. 0: 1.
	TimeScale float64
	// StartUp is how long pods load, in engine time, before they are healthy.
	StartUp time.Duration
	// Seed decides which requests a fault with a ratio below 1 hits.
	Seed uint64
	// MaxSequences is the number of batch slots of an engine. 0: the engine's default.
	MaxSequences int
	// MaxAdapters is the number of LoRA slots of a model that has adapters. 0: 4.
	MaxAdapters int
	// MaxModelLen caps prompt and output together, in tokens. 0: 131,072, as published for
	// Llama 3.1; never more than fits the KV cache.
	MaxModelLen int
	// Logger may be nil: nothing is logged.
	Logger *slog.Logger
}

// Endpoint is one pod.
type Endpoint struct {
	ID fleet.EndpointID
	// Listen is its address, e.g. "127.0.0.1:9101"; port 0 takes a free one.
	Listen string
	// Class is the GPU class; see [sim.Lookup].
	Class string
	// KVEvents is where it publishes what its KV caches hold, in ZeroMQ's way, e.g. "127.0.0.1:19101";
	// port 0 takes a free one. Empty: nowhere.
	KVEvents string
}

// Model is one base model with its LoRA adapters.
type Model struct {
	Name     fleet.ModelID
	Adapters []fleet.ModelID
	// Like is the model whose speed it has, for names that [sim.Lookup] does not know. Empty:
	// the name itself.
	Like string
}

func (m Model) profile(class string) (sim.Profile, error) {
	if m.Like != "" {
		return sim.Lookup(class, m.Like)
	}
	return sim.Lookup(class, string(m.Name))
}

func (o Options) withDefaults() Options {
	if o.TimeScale == 0 {
		o.TimeScale = 1
	}
	if o.MaxAdapters <= 0 {
		o.MaxAdapters = 4
	}
	if o.MaxModelLen <= 0 {
		o.MaxModelLen = 131072
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Validate names the first option that cannot work, and what would.
func (o Options) Validate() error {
	if err := fleet.CheckName(string(o.Cluster)); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	if len(o.Endpoints) == 0 {
		return errors.New("endpoints: name at least one")
	}
	if len(o.Models) == 0 {
		return errors.New("models: name at least one")
	}
	if o.TimeScale < 0 || o.TimeScale > 1000 {
		return fmt.Errorf("time scale: %v is not above 0 and at most 1000", o.TimeScale)
	}
	if o.StartUp < 0 {
		return fmt.Errorf("start-up: %v is negative", o.StartUp)
	}
	seen := map[fleet.EndpointID]bool{}
	for i, e := range o.Endpoints {
		if err := fleet.CheckName(string(e.ID)); err != nil {
			return fmt.Errorf("endpoints[%d].id: %w", i, err)
		}
		if seen[e.ID] {
			return fmt.Errorf("endpoints[%d].id: %q is there twice", i, e.ID)
		}
		seen[e.ID] = true
		if e.Listen == "" {
			return fmt.Errorf("endpoints[%d].listen: is empty; 127.0.0.1:0 takes a free port", i)
		}
		for _, m := range o.Models {
			if _, err := m.profile(e.Class); err != nil {
				return fmt.Errorf("endpoints[%d].class: %w", i, err)
			}
		}
	}
	return o.validateModels()
}

func (o Options) validateModels() error {
	names := map[fleet.ModelID]bool{}
	for i, m := range o.Models {
		for _, n := range append([]fleet.ModelID{m.Name}, m.Adapters...) {
			if err := fleet.CheckModel(string(n)); err != nil {
				return fmt.Errorf("models[%d]: %w", i, err)
			}
			if names[n] {
				return fmt.Errorf("models[%d]: %q is there twice", i, n)
			}
			names[n] = true
		}
	}
	return nil
}
