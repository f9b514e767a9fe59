package world

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/sim"
)

// Bounds of a spec, so that a slip of the pen doesn't fill the memory.
const (
	maxPods    = 100_000
	maxRouters = 1_000
	maxTokens  = 10_000_000_000 // of a quota: routers count exactly up to seven times as many
)

// Validate says what is wrong with the spec: which field, and what it should be.
func (s *Spec) Validate() error {
	check := checker{spec: s, regions: map[fleet.RegionID]bool{}, clusters: map[fleet.ClusterID]int{}, models: map[fleet.ModelID]bool{}}
	for _, f := range []func() error{
		check.theRegions, check.theModels, check.theClusters, check.theTenants, check.theNetwork, check.theFeeds, check.theTimes,
	} {
		if err := f(); err != nil {
			return err
		}
	}
	for i, e := range s.Events {
		if err := check.event(e); err != nil {
			return fmt.Errorf("events[%d] (%s at %v): %w", i, e.Kind, e.At, err)
		}
	}
	return nil
}

// checker collects the names that later fields may refer to. Clusters have their number of pods.
type checker struct {
	spec     *Spec
	regions  map[fleet.RegionID]bool
	clusters map[fleet.ClusterID]int
	models   map[fleet.ModelID]bool
}

func (c *checker) theRegions() error {
	if len(c.spec.Regions) == 0 {
		return errors.New("regions: there are none, give at least one")
	}
	routers := 0
	for i, r := range c.spec.Regions {
		at := fmt.Sprintf("regions[%d]", i)
		if err := fleet.CheckName(string(r.ID)); err != nil {
			return fmt.Errorf("%s.id %w", at, err)
		}
		if c.regions[r.ID] {
			return fmt.Errorf("%s.id: %s is there twice, rename one", at, r.ID)
		}
		c.regions[r.ID] = true
		if r.Routers < 0 {
			return fmt.Errorf("%s.routers: %d is below 0, leave it 0 for one", at, r.Routers)
		}
		if routers += max(1, r.Routers); routers > maxRouters {
			return fmt.Errorf("%s.routers: more than %d routers in all, have fewer", at, maxRouters)
		}
	}
	return nil
}

func (c *checker) theModels() error {
	if len(c.spec.Models) == 0 {
		return errors.New("models: there are none, give at least one")
	}
	for i, m := range c.spec.Models {
		at := fmt.Sprintf("models[%d]", i)
		if err := fleet.CheckModel(string(m.ID)); err != nil {
			return fmt.Errorf("%s.id %w", at, err)
		}
		if c.models[m.ID] {
			return fmt.Errorf("%s.id: %s is there twice, rename one", at, m.ID)
		}
		c.models[m.ID] = true
		if !(m.OutputWeight >= 0) || math.IsInf(m.OutputWeight, 0) {
			return fmt.Errorf("%s.outputWeight: %v is not a weight, leave it 0 for 3", at, m.OutputWeight)
		}
		if m.FirstToken < 0 || m.InterToken < 0 {
			return fmt.Errorf("%s: the objectives %v and %v must not be below 0", at, m.FirstToken, m.InterToken)
		}
	}
	return nil
}

func (c *checker) theClusters() error {
	if len(c.spec.Clusters) == 0 {
		return errors.New("clusters: there are none, give at least one")
	}
	for i, cl := range c.spec.Clusters {
		at := fmt.Sprintf("clusters[%d]", i)
		if err := fleet.CheckName(string(cl.ID)); err != nil {
			return fmt.Errorf("%s.id %w", at, err)
		}
		if _, ok := c.clusters[cl.ID]; ok {
			return fmt.Errorf("%s.id: %s is there twice, rename one", at, cl.ID)
		}
		if !c.regions[cl.Region] {
			return fmt.Errorf("%s.region: %q is not among regions, add it there", at, cl.Region)
		}
		if !c.models[cl.Model] {
			return fmt.Errorf("%s.model: %q is not among models, add it there", at, cl.Model)
		}
		pods := 0
		for j, p := range cl.Pods {
			if err := c.pods(cl, p); err != nil {
				return fmt.Errorf("%s.pods[%d].%w", at, j, err)
			}
			pods += p.Count
		}
		if pods == 0 || pods > maxPods {
			return fmt.Errorf("%s.pods: %d pods, give 1 to %d", at, pods, maxPods)
		}
		c.clusters[cl.ID] = pods
	}
	return nil
}

func (c *checker) pods(cl Cluster, p Pods) error {
	if p.Count < 0 || p.Count > maxPods {
		return fmt.Errorf("count: %d, give 0 to %d", p.Count, maxPods)
	}
	if p.PriceMicroUSD < 0 {
		return fmt.Errorf("priceMicroUSD: %d is below 0", p.PriceMicroUSD)
	}
	if p.Options.StartUp < 0 {
		return fmt.Errorf("options.startUp: %v is below 0", p.Options.StartUp)
	}
	if p.Options.Profile.Class != "" {
		return nil
	}
	if _, err := sim.Lookup(p.Class, c.spec.profileOf(cl.Model)); err != nil {
		return fmt.Errorf("class: %w", err)
	}
	return nil
}

func (c *checker) theTenants() error {
	seen := map[fleet.TenantID]bool{}
	zones := map[string]bool{}
	for _, r := range c.spec.Regions {
		zones[string(r.ID)], zones[r.Zone] = true, true
	}
	for i, t := range c.spec.Tenants {
		at := fmt.Sprintf("tenants[%d]", i)
		if err := fleet.CheckName(string(t.ID)); err != nil {
			return fmt.Errorf("%s.id %w", at, err)
		}
		if seen[t.ID] {
			return fmt.Errorf("%s.id: %s is there twice, rename one", at, t.ID)
		}
		seen[t.ID] = true
		for _, z := range t.Residency {
			if z == "" || !zones[z] {
				return fmt.Errorf("%s.residency: %q is neither a zone nor a region, name one that is", at, z)
			}
		}
	}
	for i, q := range c.spec.Quotas {
		at := fmt.Sprintf("quotas[%d]", i)
		switch {
		case !seen[q.Tenant]:
			return fmt.Errorf("%s.tenant: %q is not among tenants, add it there", at, q.Tenant)
		case q.Tokens <= 0 || q.Tokens > maxTokens:
			return fmt.Errorf("%s.tokens: %d a minute, give more than 0 and at most %d", at, q.Tokens, int64(maxTokens))
		case q.Burst < 0 || q.Burst > maxTokens:
			return fmt.Errorf("%s.burst: %d, give at most %d, or leave it 0 for a minute's tokens", at, q.Burst, int64(maxTokens))
		}
	}
	return nil
}

func (c *checker) theNetwork() error {
	pairs := slices.SortedFunc(maps.Keys(c.spec.RTT), func(a, b [2]fleet.RegionID) int { return slices.Compare(a[:], b[:]) })
	for _, pair := range pairs {
		d := c.spec.RTT[pair]
		for _, r := range pair {
			if !c.regions[r] {
				return fmt.Errorf("rtt: %q is not among regions, add it there", r)
			}
		}
		if d <= 0 || d > time.Minute {
			return fmt.Errorf("rtt between %s and %s: %v, give more than 0 and at most a minute", pair[0], pair[1], d)
		}
		if other, ok := c.spec.RTT[[2]fleet.RegionID{pair[1], pair[0]}]; ok && other != d {
			return fmt.Errorf("rtt between %s and %s: %v one way round and %v the other, give one", pair[0], pair[1], d, other)
		}
	}
	if !(c.spec.Jitter >= 0 && c.spec.Jitter <= 10) {
		return fmt.Errorf("jitter: %v, give 0 to 10 times the way", c.spec.Jitter)
	}
	return nil
}

func (c *checker) theFeeds() error {
	for _, f := range []struct {
		name string
		feed Feed
	}{{"scrape", c.spec.Scrape}, {"tell", c.spec.Tell}} {
		switch {
		case f.feed.Interval < 0 || f.feed.Interval > 0 && f.feed.Interval < time.Millisecond:
			return fmt.Errorf("%s.interval: %v, give at least 1 ms, or 0 for the default", f.name, f.feed.Interval)
		case f.feed.Delay < 0:
			return fmt.Errorf("%s.delay: %v is below 0", f.name, f.feed.Delay)
		case !(f.feed.Loss >= 0 && f.feed.Loss <= 1):
			return fmt.Errorf("%s.loss: %v, give a probability of 0 to 1", f.name, f.feed.Loss)
		}
	}
	return nil
}

func (c *checker) theTimes() error {
	s := c.spec
	switch {
	case s.Timeout < 0:
		return fmt.Errorf("timeout: %v is below 0, leave it 0 for a minute", s.Timeout)
	case s.Warmup < 0:
		return fmt.Errorf("warmup: %v is below 0", s.Warmup)
	case s.Duration < 0:
		return fmt.Errorf("duration: %v is below 0, leave it 0 to run until the workload ends", s.Duration)
	case s.Duration > 0 && s.Warmup >= s.Duration:
		return fmt.Errorf("warmup: %v is no less than the duration %v, shorten it", s.Warmup, s.Duration)
	}
	return nil
}

// places says what an event of each kind is about.
var places = map[Kind]struct{ region, cluster bool }{
	PodLoss: {cluster: true}, HalfPods: {cluster: true}, Lost: {region: true, cluster: true}, Hang: {cluster: true},
	Slow: {cluster: true}, Price: {region: true, cluster: true}, Blackout: {region: true, cluster: true},
	NoLeader: {}, NoQuotas: {}, ScaleOut: {cluster: true}, ScaleIn: {cluster: true}, Partition: {region: true},
}

func (c *checker) event(e Event) error {
	place, ok := places[e.Kind]
	if !ok {
		return errors.New("kind: there is no such kind of event")
	}
	if e.At < 0 || e.For < 0 {
		return fmt.Errorf("at %v for %v: must not be below 0", e.At, e.For)
	}
	if e.Region != "" && (!place.region || !c.regions[e.Region]) {
		return fmt.Errorf("region: %q is not one that it can be about", e.Region)
	}
	pods, known := c.clusters[e.Cluster]
	if e.Cluster != "" && (!place.cluster || !known) {
		return fmt.Errorf("cluster: %q is not one that it can be about", e.Cluster)
	}
	if (place.region || place.cluster) && (e.Region == "") == (e.Cluster == "") {
		return errors.New("region, cluster: name what it is about, and one only")
	}
	switch e.Kind {
	case PodLoss:
		if e.Pod < 0 || e.Pod >= pods {
			return fmt.Errorf("pod: %d, give 0 to %d", e.Pod, pods-1)
		}
	case Slow:
		if e.Pod < -1 || e.Pod >= pods {
			return fmt.Errorf("pod: %d, give 0 to %d, or -1 for all", e.Pod, pods-1)
		}
	case ScaleOut, ScaleIn:
		if e.Count < 0 || e.Count > maxPods {
			return fmt.Errorf("count: %d, give 1 to %d", e.Count, maxPods)
		}
	}
	if (e.Kind == Slow || e.Kind == Price) && !(e.Factor > 0 && e.Factor <= MaxFactor) {
		return fmt.Errorf("factor: %v, give more than 0 and at most %d", e.Factor, MaxFactor)
	}
	return nil
}
