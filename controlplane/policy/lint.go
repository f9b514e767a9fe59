package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"anabranch/costmodel"
)

// Warning is something of a valid resource that its author hardly means, or should know of.
type Warning struct {
	// Resource is where it stands, as in "clusters/us-1".
	Resource string `json:"resource"`
	// Field is a path as in [Problem]; Reason says what is strange, Fix what would be right.
	Field  string `json:"field"`
	Reason string `json:"reason"`
	Fix    string `json:"fix"`
}

// MaxWarnings bounds what [Lint] tells.
const MaxWarnings = 200

// Lint looks through all resources for what is allowed and still hardly meant, in the order of [Kinds]
// and names. Offers are prices that are known beside the rate cards and those that come with the program.
func Lint(all Lookup, offers ...costmodel.Offer) []Warning {
	l := lint{check: check{all: all}, places: map[string]string{}, offers: append(costmodel.ShippedOffers(), offers...)}
	prices := l.tokenPrices()
	for kind, look := range map[Kind]func(*Resource){
		KindRegion: l.region, KindModel: l.model, KindTenant: l.tenant, KindTrafficPolicy: l.traffic,
		KindQuota:     func(r *Resource) { l.quota(r, prices) },
		KindDrillPlan: l.drill,
	} {
		for _, r := range all.List(kind) {
			l.at = Plural(kind) + "/" + r.Metadata.Name
			look(r)
		}
	}
	l.unpriced()
	l.outpriced()
	l.overfull()
	order := map[string]int{}
	for i, k := range Kinds() {
		order[Plural(k)] = i
	}
	slices.SortStableFunc(l.warnings, func(a, b Warning) int {
		kind, _, _ := strings.Cut(a.Resource, "/")
		other, _, _ := strings.Cut(b.Resource, "/")
		if kind != other {
			return order[kind] - order[other]
		}
		return strings.Compare(a.Resource, b.Resource)
	})
	return l.warnings[:min(len(l.warnings), MaxWarnings)]
}

// Brought are the warnings that a change brings: those about the resource itself, and those that were
// not there before. It is never nil.
func Brought(kind Kind, name string, before, after []Warning) []Warning {
	own := Plural(kind) + "/" + name
	out := []Warning{}
	for _, w := range after {
		if w.Resource == own || !slices.Contains(before, w) {
			out = append(out, w)
		}
	}
	return out
}

type lint struct {
	check
	at       string
	places   map[string]string // by residency: what tenants with it can't have
	offers   []costmodel.Offer
	warnings []Warning
}

func (l *lint) warn(field, reason, fix string) {
	l.warnings = append(l.warnings, Warning{l.at, field, reason, fix})
}

// clusters are those that fit, and how many of them are drained.
func (l *lint) clusters(fits func(name string, s *ClusterSpec) bool) (all, drained int) {
	for _, r := range l.all.List(KindCluster) {
		if s := r.Spec.(*ClusterSpec); fits(r.Metadata.Name, s) {
			all++
			if s.Drained {
				drained++
			}
		}
	}
	return all, drained
}

// region: one that others can't enter, or of which nobody knows how far it is.
func (l *lint) region(r *Resource) {
	s := r.Spec.(*RegionSpec)
	regions := l.all.List(KindRegion)
	own, _ := l.clusters(func(_ string, c *ClusterSpec) bool { return c.Region == r.Metadata.Name && c.Type != TypeProvider })
	if own > 0 && len(regions) > 1 && len(s.PeerURLs) == 0 {
		l.warn("spec.peerURLs", "is empty, so that routers of other regions can't send anything here", "name the https addresses of the region's routers, if it shall take what others can't serve")
	}
	var unknown []string
	for _, other := range regions {
		_, here := s.RTTMs[other.Metadata.Name]
		_, there := other.Spec.(*RegionSpec).RTTMs[r.Metadata.Name]
		if other.Metadata.Name > r.Metadata.Name && !here && !there { // told once, of the first of the two
			unknown = append(unknown, other.Metadata.Name)
		}
	}
	if len(unknown) > 0 {
		l.warn("spec.rttMs", fmt.Sprintf("says nothing of %s, and they nothing of this region: it is taken to be %g ms away", some(unknown), DefaultRTTMs), "measure the round trip and write it down")
	}
}

// model: one that nothing serves, or only what is drained.
func (l *lint) model(r *Resource) {
	name := r.Metadata.Name
	all, drained := l.clusters(func(_ string, c *ClusterSpec) bool { return slices.Contains(c.Models, name) })
	switch all {
	case 0:
		l.warn("spec", "no cluster serves the model: requests for it are refused", "add it to the models of a cluster, or delete it")
	case drained:
		l.warn("spec", "all clusters that serve the model are drained", "end the drain of one")
	}
}

// tenant: one that may be served nowhere, or some models nowhere.
func (l *lint) tenant(r *Resource) {
	residency := r.Spec.(*TenantSpec).Residency
	if len(residency) == 0 {
		return
	}
	key := strings.Join(residency, " ")
	what, known := l.places[key]
	if !known { // many tenants have the same
		what = l.homeless(residency)
		l.places[key] = what
	}
	if what != "" {
		l.warn("spec.residency", what, "let a cluster there serve it, or allow another place")
	}
}

// homeless says what those who may be served in some places only can't have; empty: they have all.
func (l *lint) homeless(places []string) string {
	served, here := map[string]bool{}, map[string]bool{}
	for _, c := range l.all.List(KindCluster) {
		spec := c.Spec.(*ClusterSpec)
		takes := !spec.Drained && l.within(places, spec.Region)
		for _, m := range spec.Models {
			served[m] = true
			here[m] = here[m] || takes
		}
	}
	var missing []string
	for _, m := range sortedKeys(served) {
		if !here[m] {
			missing = append(missing, m)
		}
	}
	switch len(missing) {
	case 0:
		return ""
	case len(served):
		return fmt.Sprintf("no cluster in %s takes requests: the tenant can't be served", some(places))
	}
	return fmt.Sprintf("no cluster in %s serves %s: the tenant gets 503 for that", some(places), some(missing))
}

func (l *lint) traffic(r *Resource) {
	s := r.Spec.(*TrafficPolicySpec)
	for i := range s.Match {
		for j := range s.Match {
			// Of two that are equal the second is the one that does nothing.
			if i != j && s.Match[j].covers(&s.Match[i]) && (j < i || !s.Match[i].covers(&s.Match[j])) {
				l.warn(fmt.Sprintf("spec.match[%d]", i), fmt.Sprintf("all that it fits, spec.match[%d] fits too: it never decides", j), "remove it, or narrow the other")
				break
			}
		}
	}
	for _, p := range s.pins() {
		if all, drained := l.clusters(func(name string, _ *ClusterSpec) bool { return slices.Contains(p.clusters, name) }); all > 0 && all == drained {
			l.warn(p.field, "all that it names is drained: "+some(p.clusters), "name a cluster that takes requests, or end the drain")
		}
	}
	for i, w := range s.Regions {
		if w.Weight != nil && *w.Weight <= 0 || w.MaxShare != nil && *w.MaxShare <= 0 {
			continue
		}
		all, drained := l.clusters(func(_ string, c *ClusterSpec) bool {
			return c.Region == w.Region && (len(s.Models) == 0 || slices.ContainsFunc(s.Models, func(m string) bool { return slices.Contains(c.Models, m) }))
		})
		at := fmt.Sprintf("spec.regions[%d]", i)
		switch all {
		case 0:
			l.warn(at, fmt.Sprintf("no cluster in %s serves what the policy speaks of", w.Region), "remove it, or put a cluster there")
		case drained:
			l.warn(at, fmt.Sprintf("all clusters in %s are drained: it gets nothing", w.Region), "end the drain of one")
		}
	}
	for i, a := range s.Split {
		if a.Weight <= 0 {
			l.warn(fmt.Sprintf("spec.split[%d].weight", i), "is 0: the arm gets nothing", "give it a weight, or remove it")
		}
	}
}

// unpriced: clusters whose cost nobody has written down, where money plays a part.
func (l *lint) unpriced() {
	cares := ""
	policies(l.all, func(r *Resource, s *TrafficPolicySpec) {
		if s.CostPreference > 0 && cares == "" {
			cares = r.Metadata.Name
		}
	})
	if cares == "" {
		return
	}
	models := l.tokenPrices()
	offers := l.offers
	for _, r := range l.all.List(KindRateCard) {
		offers = append(offers, r.Spec.(*RateCardSpec).Offers()...)
	}
	for i := range offers { // whenever they hold
		offers[i].From, offers[i].Until = time.Time{}, time.Time{}
	}
	book := costmodel.NewBook(time.Time{}, offers)
	for _, r := range l.all.List(KindCluster) {
		s := r.Spec.(*ClusterSpec)
		l.at = Plural(KindCluster) + "/" + r.Metadata.Name
		var missing []string
		for _, m := range s.Models {
			if s.Type == TypeProvider && !models[m] {
				missing = append(missing, "tokens of "+m)
			}
		}
		for _, g := range s.Bought() {
			if book.ClusterHour(s.Region, []costmodel.GPUs{g}).Unpriced {
				missing = append(missing, string(g.Purchase)+" "+g.Class)
			}
		}
		if len(missing) > 0 {
			l.warn("spec", fmt.Sprintf("nobody knows a price for %s in %s, and policy %q goes by cost", some(missing), s.Region, cares), "write the price into a rate card")
		}
	}
}

// some names the first few of a list.
func some(names []string) string {
	const few = 4
	if len(names) > few {
		return strings.Join(names[:few], ", ") + fmt.Sprintf(" and %d more", len(names)-few)
	}
	return strings.Join(names, ", ")
}
