package policy

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"anabranch/api/fleet"
)

// Bounds of rules, so that judging a request by them stays cheap.
const (
	maxPriority    = 1_000_000
	maxMatches     = 32  // of a policy
	maxOfMatch     = 256 // tenants, paths or headers of a match
	maxArms        = 16
	maxHeaderBytes = 256 // of a name or value
	maxPathBytes   = 256
)

func (f *finding) traffic(s *TrafficPolicySpec) {
	f.named("spec.class", s.Class, fleet.CheckName)
	f.names("spec.models", s.Models, fleet.CheckModel)
	f.between("spec.priority", float64(s.Priority), -maxPriority, maxPriority)
	f.most("spec.match", len(s.Match), maxMatches)
	for i := range s.Match {
		f.match(fmt.Sprintf("spec.match[%d]", i), &s.Match[i])
	}
	if s.Rewrite != nil {
		f.named("spec.rewrite.model", s.Rewrite.Model, fleet.CheckModel)
	}
	f.names("spec.clusters", s.Clusters, fleet.CheckName)
	f.names("spec.residency", s.Residency, fleet.CheckName)
	f.split(s)
	if s.Shadow != nil {
		f.shadow(s)
	}
	f.premium(s.MaxPremium)
	seen, least := map[string]bool{}, 0.0
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
		f.least(at+".minShare", s, w)
		least += w.MinShare
	}
	if least > 1+1e-9 {
		f.add("spec.regions", fmt.Sprintf("minShare of all regions is %g together", least), "let them sum to 1 at most")
	}
	f.between("spec.ttftObjectiveMs", s.TTFTObjectiveMs, 1, day)
	f.objective(s)
	f.oneOf("spec.spill", s.Spill, spills)
	if s.Survive != "" {
		f.oneOf("spec.survive", s.Survive, survivals)
	}
	f.oneOf("spec.pickMode", s.PickMode, pickModes)
	f.between("spec.prefixLength", float64(s.PrefixLength), 1024, 65536)
	f.between("spec.concurrencyThreshold", float64(s.ConcurrencyThreshold), 1, 1024)
	f.times(s)
	if s.Hedge != nil {
		f.between("spec.hedge.maxSharePercent", s.Hedge.MaxSharePercent, 0.01, 50)
		f.between("spec.hedge.maxSaturation", s.Hedge.MaxSaturation, 0.01, 1)
		f.between("spec.hedge.afterMs", float64(s.Hedge.AfterMs), 0, day)
	}
	if s.Brownout != nil {
		f.brownout(s.Brownout)
	}
	if s.Failover != nil {
		f.failover(s.Failover)
	}
}

// least checks what a region is to get at least.
func (f *finding) least(at string, s *TrafficPolicySpec, w RegionWish) {
	f.between(at, w.MinShare, 0, 1)
	switch {
	case !(w.MinShare > 0):
	case w.MaxShare != nil && w.MinShare > *w.MaxShare:
		f.add(at, fmt.Sprintf("%g is more than maxShare %g", w.MinShare, *w.MaxShare), "raise maxShare, or lower minShare")
	case w.Weight != nil && *w.Weight == 0:
		f.add(at, "the region has weight 0", "give it a weight, or leave minShare out")
	case s.Spill == SpillNever:
		f.add(at, "spill never keeps all traffic where it is", "leave out one of the two")
	}
}

func (f *finding) premium(p *PremiumSpec) {
	if p == nil {
		return
	}
	if p.LatencyMs != nil {
		f.between("spec.maxPremium.latencyMs", *p.LatencyMs, 0, day)
	}
	if p.USDPerMTok != nil {
		f.between("spec.maxPremium.usdPerMTok", *p.USDPerMTok, 0, maxUSD)
	}
}

func (f *finding) times(s *TrafficPolicySpec) {
	f.between("spec.requestTimeoutMs", float64(s.RequestTimeoutMs), 100, day)
	f.between("spec.firstByteFloorMs", float64(s.FirstByteFloorMs), 10, day)
	if s.FirstByteFloorMs > s.RequestTimeoutMs {
		f.add("spec.firstByteFloorMs", fmt.Sprintf("%d is longer than requestTimeoutMs %d", s.FirstByteFloorMs, s.RequestTimeoutMs), "make it shorter")
	}
	f.between("spec.firstByteDeadlineMs", float64(s.FirstByteDeadlineMs), 10, day)
	if s.FirstByteDeadlineMs < s.FirstByteFloorMs {
		f.add("spec.firstByteDeadlineMs", fmt.Sprintf("%d is shorter than firstByteFloorMs %d", s.FirstByteDeadlineMs, s.FirstByteFloorMs), "make it at least as long")
	}
	if s.StallMs != 0 {
		f.between("spec.stallMs", float64(s.StallMs), 100, day)
	}
	if s.QueueMs < -1 || s.QueueMs > day {
		f.add("spec.queueMs", fmt.Sprintf("%d is out of range", s.QueueMs), fmt.Sprintf("give a number from 1 to %d, or -1 for no waiting", int64(day)))
	}
}

// most bounds the length of a list.
func (f *finding) most(field string, n, limit int) {
	if n > limit {
		f.add(field, fmt.Sprintf("holds %d entries, the limit is %d", n, limit), "remove some")
	}
}

func (f *finding) match(at string, m *MatchSpec) {
	if len(m.Tenants)+len(m.Paths)+len(m.Headers) == 0 {
		f.add(at, "fits every request", "name tenants, paths or headers, or leave match out")
	}
	f.most(at+".tenants", len(m.Tenants), maxOfMatch)
	f.most(at+".paths", len(m.Paths), maxOfMatch)
	f.most(at+".headers", len(m.Headers), maxOfMatch)
	f.names(at+".tenants", m.Tenants, fleet.CheckName)
	for i, p := range m.Paths {
		field := fmt.Sprintf("%s.paths[%d]", at, i)
		switch {
		case !pathPattern.MatchString(p) || len(p) > maxPathBytes:
			f.add(field, "is not a path", fmt.Sprintf("begin with '/', use at most %d printable bytes without '?' and '#', and '*' only at the end", maxPathBytes))
		case slices.Contains(m.Paths[:i], p):
			f.add(field, fmt.Sprintf("%q appears twice", clip(p)), "keep one of them")
		}
	}
	seen := map[string]bool{}
	for i := range m.Headers {
		f.header(fmt.Sprintf("%s.headers[%d]", at, i), &m.Headers[i], seen)
	}
}

var (
	pathPattern = regexp.MustCompile(`^/[!"$-)+->@-~]*\*?$`)
	headerName  = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	// unmatchable are headers that carry secrets, which no policy may hold, or that are no field by
	// the time rules are tried.
	unmatchable = []string{"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "host", "content-length", "transfer-encoding", "connection"}
)

func (f *finding) header(at string, h *HeaderSpec, seen map[string]bool) {
	name := strings.ToLower(h.Name)
	switch {
	case !headerName.MatchString(h.Name) || len(h.Name) > maxHeaderBytes:
		f.add(at+".name", "is not the name of a header", "give a name such as x-team")
	case slices.Contains(unmatchable, name):
		f.add(at+".name", fmt.Sprintf("%q carries a secret or is no field of the request", name), "match by tenant, path or another header")
	case seen[name]:
		f.add(at+".name", fmt.Sprintf("%q appears twice", name), "keep one of them; give several matches where any may fit")
	}
	seen[name] = true
	f.oneOf(at+".type", h.Type, headerTypes)
	switch {
	case h.Type == HeaderPresent && h.Value != "":
		f.add(at+".value", "is not looked at with type present", "remove it, or use exact or prefix")
	case h.Type != HeaderPresent && h.Value == "":
		f.add(at+".value", "is missing", "give a value, or use type present")
	case len(h.Value) > maxHeaderBytes || strings.ContainsFunc(h.Value, control):
		f.add(at+".value", "is too long or holds control characters", fmt.Sprintf("use at most %d printable bytes", maxHeaderBytes))
	}
}

func (f *finding) split(s *TrafficPolicySpec) {
	if len(s.Split) == 0 {
		return
	}
	f.most("spec.split", len(s.Split), maxArms)
	if len(s.Split) == 1 {
		f.add("spec.split", "has one arm", "give two or more, or use rewrite and clusters")
	}
	names := map[string]bool{}
	sum := 0.0
	for i, a := range s.Split {
		at := fmt.Sprintf("spec.split[%d]", i)
		f.named(at+".name", a.Name, fleet.CheckName)
		if names[a.Name] && a.Name != "" {
			f.add(at+".name", fmt.Sprintf("%q appears twice", clip(a.Name)), "give every arm a name of its own")
		}
		names[a.Name] = true
		f.between(at+".weight", a.Weight, 0, maxWeight)
		sum += a.Weight
		if a.Model != "" {
			f.named(at+".model", a.Model, fleet.CheckModel)
		}
		f.names(at+".clusters", a.Clusters, fleet.CheckName)
		for j, c := range a.Clusters {
			if len(s.Clusters) > 0 && !slices.Contains(s.Clusters, c) {
				f.add(fmt.Sprintf("%s.clusters[%d]", at, j), fmt.Sprintf("%q is not among spec.clusters", clip(c)), "add it there, or remove it: an arm does not widen a pin")
			}
		}
	}
	if !(sum > 0) {
		f.add("spec.split", "has no weight", "give at least one arm a weight above 0")
	}
}

func (f *finding) shadow(s *TrafficPolicySpec) {
	const at = "spec.shadow"
	f.between(at+".percent", s.Shadow.Percent, 0.001, 100)
	if s.Shadow.Model != "" {
		f.named(at+".model", s.Shadow.Model, fleet.CheckModel)
	}
	f.names(at+".clusters", s.Shadow.Clusters, fleet.CheckName)
	elsewhere := len(s.Shadow.Clusters) > 0 && !sameSet(s.Shadow.Clusters, s.Clusters)
	if elsewhere || s.Shadow.Model != "" && !s.asks(s.Shadow.Model) {
		return
	}
	field := at + ".model"
	if s.Shadow.Model == "" {
		field = at
	}
	f.add(field, "copies requests to where they go anyway", "name another model, or clusters that the requests don't go to")
}

// asks says whether requests of the policy are known to end up asking for a model.
func (s *TrafficPolicySpec) asks(model string) bool {
	if s.Rewrite != nil || len(s.Models) == 0 {
		return slices.Contains(s.Wanted(""), model)
	}
	return slices.ContainsFunc(s.Models, func(m string) bool { return slices.Contains(s.Wanted(m), model) })
}

func sameSet(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(slices.Compact(a), slices.Compact(b))
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
	f.judgement(s)
	if s.ReprobeMaxMs < s.ReprobeMs {
		f.add(at+"reprobeMaxMs", fmt.Sprintf("%d is less than reprobeMs %d", s.ReprobeMaxMs, s.ReprobeMs), "make it at least as long")
	}
}

// brownout checks the numbers of a brown-out, and against each other.
func (f *finding) brownout(b *BrownoutSpec) {
	f.between("spec.brownout.enterAt", b.EnterAt, 0.1, 10)
	f.between("spec.brownout.leaveAt", b.LeaveAt, 0.05, 10)
	f.between("spec.brownout.enterMs", float64(b.EnterMs), 1000, 3_600_000)
	f.between("spec.brownout.leaveMs", float64(b.LeaveMs), 1000, day)
	f.between("spec.brownout.batchCeiling", b.BatchCeiling, 0.01, 0.6)
	f.between("spec.brownout.batchTokens", float64(b.BatchTokens), 1, 1<<31)
	f.between("spec.brownout.floorPercent", b.FloorPercent, 0.1, 100)
	if b.LeaveAt >= b.EnterAt {
		f.add("spec.brownout.leaveAt", fmt.Sprintf("is %g, not below enterAt, %g", b.LeaveAt, b.EnterAt), "give less")
	}
	if b.LeaveMs < b.EnterMs {
		f.add("spec.brownout.leaveMs", fmt.Sprintf("is %d, less than enterMs, %d", b.LeaveMs, b.EnterMs), "give as much at least")
	}
	for _, tenant := range slices.Sorted(maps.Keys(b.Weights)) {
		f.between("spec.brownout.weights."+tenant, b.Weights[tenant], 0.001, 1000)
	}
}
