package scenario

import (
	"fmt"
	"strings"
	"time"

	"anabranch/api/fleet"
	"anabranch/sim"
	"anabranch/sim/world"
)

// Fleet is what a document says of regions and clusters.
type Fleet struct {
	Regions  []world.Region
	Clusters []Cluster
	Models   []world.Model
	Tenants  []world.Tenant
	Quotas   []world.Quota
	// RTT by pairs of regions, such as "us-east-1 eu-west-1: 75ms". Pairs of AWS regions that aren't
	// there are as measured; see rtt.go.
	RTT          map[string]time.Duration
	Jitter       float64
	Scrape, Tell world.Feed
	Events       []world.Event
	Timeout      time.Duration
	Warmup       time.Duration
	Duration     time.Duration
}

// Cluster serves one model.
type Cluster struct {
	ID     fleet.ClusterID
	Region fleet.RegionID
	Model  fleet.ModelID
	Pods   []Pods
}

// Pods are equal pods.
type Pods struct {
	// Class of GPU, and how many, such as "h100x8".
	Class string
	Count int
	// Batch is how many requests a pod computes at once, BatchTokens how many new tokens a step takes
	// at most, KVTokens how many its KV cache holds. 0: as in package sim.
	Batch, BatchTokens, KVTokens int
	// Adapters is how many LoRA adapters fit; 0: none.
	Adapters int
	// StartUp is how long it loads before it serves.
	StartUp time.Duration
	// Price in dollars an hour.
	Price float64
	// NoPrefixCache turns its prefix cache off.
	NoPrefixCache bool
}

// spec is the fleet as package world has it.
func (f *Fleet) spec(name string) (*world.Spec, error) {
	s := &world.Spec{
		Name: name, Regions: f.Regions, Models: f.Models, Tenants: f.Tenants, Quotas: f.Quotas,
		RTT: map[[2]fleet.RegionID]time.Duration{}, Jitter: f.Jitter, Scrape: f.Scrape, Tell: f.Tell, Events: f.Events,
		Timeout: f.Timeout, Warmup: f.Warmup, Duration: f.Duration,
	}
	for i, a := range f.Regions {
		for _, b := range f.Regions[i+1:] {
			if rtt, ok := measured(a.ID, b.ID); ok {
				s.RTT[[2]fleet.RegionID{a.ID, b.ID}] = rtt
			}
		}
	}
	for pair, rtt := range f.RTT {
		ids := strings.Fields(pair)
		if len(ids) != 2 {
			return nil, fmt.Errorf("rtt: %q is not two regions with a space between", pair)
		}
		a, b := fleet.RegionID(ids[0]), fleet.RegionID(ids[1])
		delete(s.RTT, [2]fleet.RegionID{b, a})
		s.RTT[[2]fleet.RegionID{a, b}] = rtt
	}
	for i, c := range f.Clusters {
		for j, p := range c.Pods {
			if err := p.validate(); err != nil {
				return nil, fmt.Errorf("clusters[%d].pods[%d].%w", i, j, err)
			}
		}
		s.Clusters = append(s.Clusters, c.world())
	}
	return s, nil
}

// maxPrice is the dearest a pod may be, in dollars an hour, and maxSize the most of what is counted in it.
const (
	maxPrice = 1e6
	maxSize  = 1e9
)

// validate checks what package world takes as it comes, or as not set.
func (p *Pods) validate() error {
	for _, f := range []struct {
		name  string
		value int
	}{{"batch", p.Batch}, {"batchTokens", p.BatchTokens}, {"kvTokens", p.KVTokens}, {"adapters", p.Adapters}} {
		if f.value < 0 || f.value > maxSize {
			return fmt.Errorf("%s: %d is not 0 to %d", f.name, f.value, int(maxSize))
		}
	}
	if p.KVTokens > 0 && p.KVTokens < sim.BlockSize {
		return fmt.Errorf("kvTokens: %d is less than a block of %d", p.KVTokens, sim.BlockSize)
	}
	if !(p.Price >= 0 && p.Price <= maxPrice) {
		return fmt.Errorf("price: %v is not 0 to %d dollars an hour", p.Price, int(maxPrice))
	}
	return nil
}

func (c *Cluster) world() world.Cluster {
	w := world.Cluster{ID: c.ID, Region: c.Region, Model: c.Model}
	for _, p := range c.Pods {
		w.Pods = append(w.Pods, world.Pods{
			Class: p.Class, Count: p.Count, PriceMicroUSD: int64(p.Price * 1e6),
			Options: sim.Options{
				MaxSequences: p.Batch, MaxBatchTokens: p.BatchTokens, Blocks: p.KVTokens / sim.BlockSize,
				MaxAdapters: p.Adapters, StartUp: p.StartUp, NoPrefixCache: p.NoPrefixCache,
			},
		})
	}
	return w
}
