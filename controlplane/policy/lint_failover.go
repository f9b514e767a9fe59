package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// LintFailover warns of residency holes and of failover that nothing can be reached by: places that hold no cluster,
// tenants and policies that the loss of one region, or a drain, leaves nowhere, wishes that other rules exclude.
// now is for pins, which end. It tells of what is allowed by the resources alone; whether there is room is the plan's.
// In the order of [Kinds] and names.
func LintFailover(all Lookup, now time.Time) []Warning {
	l := newReach(all, now)
	type hole struct {
		loss     string
		policies []string
	}
	holes := map[string]hole{} // by residency, which many tenants share
	for _, r := range all.List(KindTenant) {
		l.at = Plural(KindTenant) + "/" + r.Metadata.Name
		places := r.Spec.(*TenantSpec).Residency
		l.empty(places)
		key := strings.Join(places, " ")
		h, known := holes[key]
		if !known {
			h = hole{l.loss(places), l.apart(places)}
			holes[key] = h
		}
		if len(h.policies) > 0 {
			l.warn("spec.residency", fmt.Sprintf("shares no place with the residency of policy %s: the tenant gets 503 for what it speaks of", some(h.policies)), "allow a place that the policy allows, or write a policy with a match for the tenant")
		}
		if h.loss != "" {
			l.warn("spec.residency", h.loss, "allow another region, or let a cluster serve it in another one that is allowed")
		}
	}
	for _, r := range all.List(KindTrafficPolicy) {
		l.at = Plural(KindTrafficPolicy) + "/" + r.Metadata.Name
		s := r.Spec.(*TrafficPolicySpec)
		l.empty(s.Residency)
		l.wishes(s)
		l.failover(s)
	}
	return l.warnings[:min(len(l.warnings), MaxWarnings)]
}

func newReach(all Lookup, now time.Time) *reach {
	l := &reach{lint: lint{check: check{all: all}}, now: now, servers: map[string][]site{}, regions: map[string]bool{}}
	for _, r := range all.List(KindCluster) {
		s := site{r.Metadata.Name, r.Spec.(*ClusterSpec), ""}
		s.idle = l.idle(s.spec)
		l.regions[s.spec.Region] = true
		for _, m := range s.spec.Models {
			l.servers[m] = append(l.servers[m], s)
		}
	}
	return l
}

// site is a cluster, and why it takes no requests now; empty: it does.
type site struct {
	name string
	spec *ClusterSpec
	idle string
}

type reach struct {
	lint
	now     time.Time
	servers map[string][]site // by model
	regions map[string]bool   // with clusters
}

func (l *reach) idle(s *ClusterSpec) string {
	switch {
	case s.Drained:
		return "is drained"
	case s.Pin != nil && s.Pin.Share() == 0 && l.now.Before(s.Pin.Ends()):
		return "is pinned to 0 %"
	}
	return ""
}

// empty: places in which no cluster stands, where others do.
func (l *reach) empty(places []string) {
	held := func(place string) bool {
		for _, region := range sortedKeys(l.regions) {
			if l.within([]string{place}, region) {
				return true
			}
		}
		return false
	}
	if !slices.ContainsFunc(places, held) {
		return // nothing is left at all, which is told by what it means
	}
	for i, place := range places {
		if !held(place) {
			l.warn(fmt.Sprintf("spec.residency[%d]", i), fmt.Sprintf("no cluster stands in %s: it is no place to go to", place), "put a cluster there, or remove it")
		}
	}
}

// loss says what the loss of one region would leave no place among some; empty: nothing. Where they are any,
// it is told of the policies.
func (l *reach) loss(places []string) string {
	if len(places) == 0 || len(l.regions) < 2 {
		return ""
	}
	only := map[string][]string{} // models that one region alone serves
	for _, m := range sortedKeys(l.servers) {
		here := map[string]bool{}
		for _, s := range l.servers[m] {
			if s.idle == "" && l.within(places, s.spec.Region) {
				here[s.spec.Region] = true
			}
		}
		if len(here) == 1 {
			for _, region := range sortedKeys(here) {
				only[region] = append(only[region], m)
			}
		}
	}
	var parts []string
	for _, region := range sortedKeys(only) {
		parts = append(parts, fmt.Sprintf("without %s no cluster that it allows serves %s", region, some(only[region])))
	}
	return strings.Join(parts, "; ")
}

// wishes for regions that other rules of the policy exclude.
func (l *reach) wishes(s *TrafficPolicySpec) {
	for i, w := range s.Regions {
		if !l.regions[w.Region] || w.Weight != nil && *w.Weight <= 0 || w.MaxShare != nil && *w.MaxShare <= 0 {
			continue
		}
		at := fmt.Sprintf("spec.regions[%d]", i)
		if !l.within(s.Residency, w.Region) {
			l.warn(at, w.Region+" is outside of spec.residency: it gets nothing", "remove it, or allow it there")
			continue
		}
		pinned, _ := l.clusters(func(name string, c *ClusterSpec) bool {
			return c.Region == w.Region && slices.Contains(s.Clusters, name)
		})
		if len(s.Clusters) > 0 && pinned == 0 {
			l.warn(at, fmt.Sprintf("no cluster of %s is among spec.clusters: it gets nothing", w.Region), "remove it, or name a cluster of it")
		}
	}
}

// apart are the policies for all tenants that share no place with some, so that whoever may go to these alone is refused.
// It is told of the tenants: not everybody who sees a policy may know them.
func (l *reach) apart(places []string) (names []string) {
	if len(places) == 0 {
		return nil
	}
	policies(l.all, func(r *Resource, s *TrafficPolicySpec) {
		if len(s.Residency) == 0 || len(s.Match) > 0 {
			return
		}
		for _, region := range sortedKeys(l.regions) {
			if l.within(places, region) && l.within(s.Residency, region) {
				return
			}
		}
		names = append(names, r.Metadata.Name)
	})
	return names
}

// failover: regions whose requests nothing could take over, and ways on which all that is left is out of use.
func (l *reach) failover(s *TrafficPolicySpec) {
	if len(l.regions) < 2 {
		return
	}
	type finding struct{ field, reason string }
	models := map[finding][]string{}
	var order []finding
	note := func(f finding, model string) {
		if _, known := models[f]; !known {
			order = append(order, f)
		}
		if !slices.Contains(models[f], model) {
			models[f] = append(models[f], model)
		}
	}
	for _, w := range l.ways(s) {
		if w.field == "spec.shadow" {
			continue // nobody waits for copies
		}
		asked := sortedKeys(l.servers)
		if base, _ := l.base(w.model); w.model != "" {
			asked = []string{base}
		}
		for _, m := range asked {
			if at := l.nowhere(w, m); at != "" {
				note(finding{l.blamed(w, s), "%s is served by nothing now: " + at}, m)
				continue
			}
			for _, region := range sortedKeys(l.regions) {
				if why, stuck := l.stuck(w, m, region); stuck {
					note(finding{l.blamed(w, s), "without " + region + " nothing takes %s over: " + why}, m)
				}
			}
		}
	}
	for _, f := range order {
		l.warn(f.field, fmt.Sprintf(f.reason, some(models[f])), "let a cluster of another region take it")
	}
}

// blamed is the field that decides of a way; without one the policy is as open as can be.
func (l *reach) blamed(w way, s *TrafficPolicySpec) string {
	if w.field == "spec.residency" && len(s.Residency) == 0 {
		return "spec"
	}
	return w.field
}

// barred says why a way does not lead to a cluster; empty: it does.
func (l *reach) barred(w way, s site) string {
	switch {
	case len(w.pin.clusters) > 0 && !slices.Contains(w.pin.clusters, s.name):
		return "is not among " + w.pin.field
	case !l.within(w.residency[0], s.spec.Region):
		return "is outside of spec.residency"
	case slices.ContainsFunc(w.residency, func(places []string) bool { return !l.within(places, s.spec.Region) }):
		return "is outside of its tenants' residency"
	}
	return s.idle
}

// nowhere says what is out of use if nothing on a way serves a model now, and something could; else nothing.
func (l *reach) nowhere(w way, model string) string {
	var idle []string
	for _, s := range l.servers[model] {
		switch l.barred(w, s) {
		case "":
			return ""
		case s.idle:
			idle = append(idle, s.name+" "+s.idle)
		}
	}
	return some(idle)
}

// stuck says whether a region serves a model on a way and no other could take it over, and why not.
func (l *reach) stuck(w way, model, region string) (string, bool) {
	serves := false
	var why []string
	for _, s := range l.servers[model] {
		barred := l.barred(w, s)
		switch {
		case s.spec.Region == region:
			serves = serves || barred == ""
		case barred != "":
			why = append(why, s.name+" "+barred)
		case !l.open(s.spec):
			why = append(why, fmt.Sprintf("%s can't be entered, as %s has no peerURLs", s.name, s.spec.Region))
		default:
			return "", false
		}
	}
	if len(why) == 0 {
		return "no other region serves it", serves
	}
	return some(why), serves
}

// open: routers of other regions can send requests there.
func (l *reach) open(s *ClusterSpec) bool {
	if s.Type == TypeProvider {
		return true // every router calls it by itself
	}
	r, ok := l.all.Get(KindRegion, s.Region)
	return ok && len(r.Spec.(*RegionSpec).PeerURLs) > 0
}
