package policy

import (
	"fmt"
	"regexp"

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
}

func (f *finding) cluster(s *ClusterSpec) {
	f.named("spec.region", s.Region, fleet.CheckName)
	f.oneOf("spec.type", s.Type, clusterTypes)
	if len(s.Models) == 0 {
		f.add("spec.models", "is empty", "name at least one base model")
	}
	f.names("spec.models", s.Models, fleet.CheckModel)
	if s.Type == TypeGateway {
		f.gateway(s)
	} else {
		f.endpoints(s)
	}
	if s.Auth != nil {
		f.auth(s.Auth)
	}
	seen := map[string]bool{}
	for i, g := range s.GPUs {
		at := fmt.Sprintf("spec.gpus[%d]", i)
		f.named(at+".class", g.Class, fleet.CheckName)
		f.between(at+".count", float64(g.Count), 1, maxGPUs)
		f.oneOf(at+".purchase", g.Purchase, purchases)
		if key := g.Class + "/" + g.Purchase; seen[key] {
			f.add(at, fmt.Sprintf("class %q as %q appears twice", g.Class, g.Purchase), "add the counts up")
		} else {
			seen[key] = true
		}
	}
	f.between("spec.priorWork", s.PriorWork, 0, maxWork)
}

func (f *finding) gateway(s *ClusterSpec) {
	f.web("spec.gatewayURL", s.GatewayURL, "http", "https")
	f.web("spec.metricsURL", s.MetricsURL, "http", "https")
	if len(s.Endpoints) > 0 {
		f.add("spec.endpoints", "belongs to type endpoints", "remove it: the gateway picks the pod")
	}
}

func (f *finding) endpoints(s *ClusterSpec) {
	if len(s.Endpoints) == 0 {
		f.add("spec.endpoints", "is empty", "give at least one endpoint, or type gateway with gatewayURL and metricsURL")
	}
	if s.GatewayURL != "" {
		f.add("spec.gatewayURL", "belongs to type gateway", "remove it, or set type: gateway")
	}
	if s.MetricsURL != "" {
		f.add("spec.metricsURL", "belongs to type gateway", "remove it, or set type: gateway")
	}
	ids, urls := map[string]int{}, map[string]int{}
	for i, e := range s.Endpoints {
		at := fmt.Sprintf("spec.endpoints[%d]", i)
		f.named(at+".id", e.ID, fleet.CheckName)
		f.web(at+".url", e.URL, "http", "https")
		f.named(at+".class", e.Class, fleet.CheckName)
		if first, dup := ids[e.ID]; dup && e.ID != "" {
			f.add(at+".id", fmt.Sprintf("%q is already endpoints[%d]", clip(e.ID), first), "give every endpoint an id of its own")
		} else {
			ids[e.ID] = i
		}
		if first, dup := urls[e.URL]; dup && e.URL != "" {
			f.add(at+".url", fmt.Sprintf("is already the address of endpoints[%d]", first), "list each model server once")
		} else {
			urls[e.URL] = i
		}
	}
}

func (f *finding) auth(a *AuthSpec) {
	f.oneOf("spec.auth.type", a.Type, authTypes)
	if (a.File == "") == (a.Env == "") {
		f.add("spec.auth", "must name exactly one of file and env", "say where the router finds the secret")
	}
	if a.Env != "" && !variable.MatchString(a.Env) {
		f.add("spec.auth.env", "is not the name of a variable", "use letters, digits and '_'")
	}
	if a.File != "" && (a.File[0] != '/' || len(a.File) > 1024) {
		f.add("spec.auth.file", "is not an absolute path of at most 1024 bytes", "give the path from /")
	}
}

var (
	variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	sha256ex = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

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

func (f *finding) tenant(s *TenantSpec) {
	f.oneOf("spec.tier", s.Tier, Tiers())
	f.names("spec.residency", s.Residency, fleet.CheckName)
	ids, sums := map[string]bool{}, map[string]bool{}
	for i, k := range s.APIKeys {
		at := fmt.Sprintf("spec.apiKeys[%d]", i)
		f.named(at+".id", k.ID, fleet.CheckName)
		if ids[k.ID] && k.ID != "" {
			f.add(at+".id", fmt.Sprintf("%q appears twice", clip(k.ID)), "give every key an id of its own")
		}
		ids[k.ID] = true
		switch {
		case !sha256ex.MatchString(k.SHA256):
			// What stands here may be the key itself: it is not repeated.
			f.add(at+".sha256", "is not 64 lower-case hexadecimal digits", "give the SHA-256 of the key: printf %s KEY | sha256sum")
		case sums[k.SHA256]:
			f.add(at+".sha256", "appears twice", "keep one of them")
		}
		sums[k.SHA256] = true
	}
}

func (f *finding) policy(s *TrafficPolicySpec) {
	f.named("spec.class", s.Class, fleet.CheckName)
	f.names("spec.models", s.Models, fleet.CheckModel)
	seen := map[string]bool{}
	for i, w := range s.Regions {
		at := fmt.Sprintf("spec.regions[%d]", i)
		f.named(at+".region", w.Region, fleet.CheckName)
		if seen[w.Region] {
			f.add(at+".region", fmt.Sprintf("%q appears twice", clip(w.Region)), "keep one of them")
		}
		seen[w.Region] = true
		if w.Weight != nil {
			f.between(at+".weight", *w.Weight, 0, maxWeight)
		}
		if w.MaxShare != nil {
			f.between(at+".maxShare", *w.MaxShare, 0, 1)
		}
	}
	f.between("spec.ttftObjectiveMs", s.TTFTObjectiveMs, 1, day)
	f.between("spec.costPreference", s.CostPreference, 0, 1)
	f.oneOf("spec.spill", s.Spill, spills)
	f.oneOf("spec.pickMode", s.PickMode, pickModes)
	f.between("spec.requestTimeoutMs", float64(s.RequestTimeoutMs), 100, day)
	f.between("spec.firstByteFloorMs", float64(s.FirstByteFloorMs), 10, day)
	if s.FirstByteFloorMs > s.RequestTimeoutMs {
		f.add("spec.firstByteFloorMs", fmt.Sprintf("%d is longer than requestTimeoutMs %d", s.FirstByteFloorMs, s.RequestTimeoutMs), "make it shorter")
	}
	if s.Failover != nil {
		f.failover(s.Failover)
	}
}

func (f *finding) failover(s *FailoverSpec) {
	const at = "spec.failover."
	f.between(at+"timeScale", s.TimeScale, 0.001, 1)
	f.between(at+"confirmMs", float64(s.ConfirmMs), 100, day)
	f.between(at+"coolDownMs", float64(s.CoolDownMs), 100, day)
	f.between(at+"recoveryMs", float64(s.RecoveryMs), 100, day)
	f.between(at+"rampStepMs", float64(s.RampStepMs), 100, day)
	f.between(at+"connectFailures", float64(s.ConnectFailures), 1, 1000)
	f.between(at+"failureRatio", s.FailureRatio, 0.001, 1)
	f.between(at+"minRequests", float64(s.MinRequests), 1, 1_000_000)
	f.between(at+"windowMs", float64(s.WindowMs), 100, 600_000)
	f.between(at+"reprobeMs", float64(s.ReprobeMs), 10, day)
	f.between(at+"reprobeMaxMs", float64(s.ReprobeMaxMs), 10, day)
	if s.ReprobeMaxMs < s.ReprobeMs {
		f.add(at+"reprobeMaxMs", fmt.Sprintf("%d is less than reprobeMs %d", s.ReprobeMaxMs, s.ReprobeMs), "make it at least as long")
	}
}

func (f *finding) quota(s *QuotaSpec) {
	f.named("spec.tenant", s.Tenant, fleet.CheckName)
	if s.Model != "" {
		f.named("spec.model", s.Model, fleet.CheckModel)
	}
	if len(s.Limits) == 0 {
		f.add("spec.limits", "is empty", "give at least one limit")
	}
	seen := map[string]bool{}
	for i, l := range s.Limits {
		at := fmt.Sprintf("spec.limits[%d]", i)
		f.oneOf(at+".kind", l.Kind, limitKinds)
		if seen[l.Kind] {
			f.add(at+".kind", fmt.Sprintf("%q appears twice", clip(l.Kind)), "keep one of them")
		}
		seen[l.Kind] = true
		f.between(at+".perMinute", float64(l.PerMinute), 1, MaxPerMinute)
		f.between(at+".burst", float64(l.Burst), 0, MaxPerMinute)
	}
	f.oneOf("spec.degraded", s.Degraded, degradeds)
}

// MaxPerMinute bounds a limit and its burst, in units, so that the bucket arithmetic in integer
// microseconds stays within 2^53.
const MaxPerMinute = 150_000_000

func (f *finding) rateCard(s *RateCardSpec) {
	if len(s.GPUs) == 0 && len(s.Models) == 0 {
		f.add("spec", "holds no price", "give gpus or models")
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
		if key := g.Class + "/" + g.Region + "/" + g.Purchase; seen[key] {
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
		if models[m.Model] {
			f.add(at+".model", fmt.Sprintf("%q appears twice", clip(m.Model)), "keep one price")
		}
		models[m.Model] = true
	}
}
