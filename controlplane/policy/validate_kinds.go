package policy

import (
	"fmt"
	"strings"

	"anabranch/api/fleet"
)

// Ranges that more than one field shares.
const (
	maxRTTMs  = 60_000
	maxWork   = 1e12
	maxWeight = 1e6
	maxGPUs   = 1_000_000
	maxUSD    = 1e6
	day       = 24 * 3600 * 1000 // ms
)

func (f *finding) region(name string, s *RegionSpec) {
	f.named("spec.zone", s.Zone, fleet.CheckName)
	seen := map[string]bool{}
	for i, u := range s.PeerURLs {
		at := fmt.Sprintf("spec.peerURLs[%d]", i)
		f.web(at, u, "https")
		if seen[u] {
			f.add(at, "appears twice", "keep one of them")
		}
		seen[u] = true
	}
	for _, other := range sortedKeys(s.RTTMs) {
		at := fmt.Sprintf("spec.rttMs[%s]", clip(other))
		f.named(at, other, fleet.CheckName)
		if other == name {
			f.add(at, "is the region itself", "remove it; a region is 0 ms from itself")
		}
		f.between(at, s.RTTMs[other], 0, maxRTTMs)
	}
	if s.QuotaStore != nil {
		f.quotaStore(s.QuotaStore)
	}
}

func (f *finding) model(name string, s *ModelSpec) {
	f.names("spec.aliases", s.Aliases, fleet.CheckModel)
	f.names("spec.adapters", s.Adapters, fleet.CheckModel)
	taken := map[string]string{name: "the model's own name"}
	for _, a := range s.Aliases {
		if at, dup := taken[a]; dup && a == name {
			f.add("spec.aliases", fmt.Sprintf("%q is %s", a, at), "remove it")
		}
		taken[a] = "an alias too"
	}
	for i, a := range s.Adapters {
		if at, dup := taken[a]; dup {
			f.add(fmt.Sprintf("spec.adapters[%d]", i), fmt.Sprintf("%q is %s", a, at), "name each adapter differently from the model and its aliases")
		}
	}
	f.between("spec.outputWeight", s.OutputWeight, 0.01, 1000)
}

func (f *finding) rateCard(s *RateCardSpec) {
	if len(s.GPUs) == 0 && len(s.Models) == 0 && len(s.Egress) == 0 && s.Carbon == nil {
		f.add("spec", "holds no price", "give gpus, models, egress or carbon")
	}
	if len(s.Source) > 1024 {
		f.add("spec.source", fmt.Sprintf("is %d bytes long, the limit is 1024", len(s.Source)), "shorten it")
	}
	seen := map[string]bool{}
	for i, g := range s.GPUs {
		at := fmt.Sprintf("spec.gpus[%d]", i)
		f.named(at+".class", g.Class, fleet.CheckName)
		f.named(at+".region", g.Region, fleet.CheckName)
		f.oneOf(at+".purchase", g.Purchase, purchases)
		f.between(at+".usdPerHour", g.USDPerHour, 0, maxUSD)
		f.goods(at, g.Instance, g.AvailabilityZone)
		f.span(at, g.From, g.Until)
		if key := strings.Join([]string{g.Class, g.Region, g.Purchase, g.Instance, g.AvailabilityZone, g.From}, "/"); seen[key] {
			f.add(at, fmt.Sprintf("class %q in %q as %q appears twice", clip(g.Class), clip(g.Region), clip(g.Purchase)), "keep one price")
		} else {
			seen[key] = true
		}
	}
	models := map[string]bool{}
	for i, m := range s.Models {
		at := fmt.Sprintf("spec.models[%d]", i)
		f.named(at+".model", m.Model, fleet.CheckModel)
		f.between(at+".inputPerMTok", m.InputPerMTok, 0, maxUSD)
		f.between(at+".outputPerMTok", m.OutputPerMTok, 0, maxUSD)
		if m.CachedPerMTok != nil {
			f.between(at+".cachedPerMTok", *m.CachedPerMTok, 0, maxUSD)
		}
		if models[m.Model] {
			f.add(at+".model", fmt.Sprintf("%q appears twice", clip(m.Model)), "keep one price")
		}
		models[m.Model] = true
	}
	f.lanes(s.Egress)
	if s.Carbon != nil {
		f.carbon(s.Carbon)
	}
}
