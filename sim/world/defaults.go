package world

import (
	"maps"
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/sim"
)

// WithDefaults is the spec with what is 0 or empty filled in: routers, zones, intervals, the time-out,
// the objectives and weights of models, counts of events, and profiles and names of pods' classes. It
// shares nothing with the original that a run changes. The spec must be valid.
func (s *Spec) WithDefaults() *Spec {
	d := *s
	d.Regions = slices.Clone(s.Regions)
	for i := range d.Regions {
		r := &d.Regions[i]
		r.Routers = max(1, r.Routers)
		if r.Zone == "" {
			r.Zone = string(r.ID)
		}
	}
	d.Models = slices.Clone(s.Models)
	for i := range d.Models {
		m := &d.Models[i]
		if m.Profile == "" {
			m.Profile = string(m.ID)
		}
		if m.OutputWeight == 0 {
			m.OutputWeight = 3
		}
		m.FirstToken = or(m.FirstToken, 2*time.Second)
		m.InterToken = or(m.InterToken, 100*time.Millisecond)
	}
	d.Clusters = slices.Clone(s.Clusters)
	for i := range d.Clusters {
		c := &d.Clusters[i]
		c.Pods = slices.Clone(c.Pods)
		for j := range c.Pods {
			p := &c.Pods[j]
			if p.Options.Profile.Class == "" {
				// Validate has seen that it is there.
				p.Options.Profile, _ = sim.Lookup(p.Class, d.profileOf(c.Model))
			}
			if p.Class == "" {
				p.Class = p.Options.Profile.Class
			}
		}
	}
	d.Events = slices.Clone(s.Events)
	for i := range d.Events {
		d.Events[i].Count = max(1, d.Events[i].Count)
	}
	d.RTT = maps.Clone(s.RTT)
	d.Scrape.Interval = or(s.Scrape.Interval, 50*time.Millisecond)
	d.Tell.Interval = or(s.Tell.Interval, time.Second)
	d.Timeout = or(s.Timeout, time.Minute)
	return &d
}

func or(d, other time.Duration) time.Duration {
	if d == 0 {
		return other
	}
	return d
}

// profileOf is the name of a model for [sim.Lookup].
func (s *Spec) profileOf(id fleet.ModelID) string {
	for _, m := range s.Models {
		if m.ID == id && m.Profile != "" {
			return m.Profile
		}
	}
	return string(id)
}

// Between is the round trip between two regions, [LocalRTT] within one.
func (s *Spec) Between(a, b fleet.RegionID) time.Duration {
	if a == b {
		return LocalRTT
	}
	if d, ok := s.RTT[[2]fleet.RegionID{a, b}]; ok {
		return d
	}
	if d, ok := s.RTT[[2]fleet.RegionID{b, a}]; ok {
		return d
	}
	return DefaultRTT
}

// RegionOf is the place of the region of a cluster, which is given by its own place; -1: there is none.
func (s *Spec) RegionOf(cluster int) int {
	return slices.IndexFunc(s.Regions, func(r Region) bool { return r.ID == s.Clusters[cluster].Region })
}

// May says whether a tenant with this residency may be served in a region, by its place.
func (s *Spec) May(residency []string, region int) bool {
	r := s.Regions[region]
	zone := r.Zone
	if zone == "" {
		zone = string(r.ID)
	}
	return len(residency) == 0 || slices.Contains(residency, zone) || slices.Contains(residency, string(r.ID))
}
