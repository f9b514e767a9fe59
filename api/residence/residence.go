// Package residence keeps an earlier table, that somebody goes back to, from letting requests be served where the newest
// table no longer does. Both planes go back by it: residency is never widened, whatever has failed.
package residence

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
)

// Nowhere is a place of residence that no region is in: what two tables allow together may be nothing.
const Nowhere = "(nowhere)"

// MaxRules bounds the rules of a table that was narrowed.
const MaxRules = 2000

// Narrow gives an earlier table under which a request may be served where both tables would let it: tenants and rules
// have their residency in both, and regions are in the zones where the newest table has them. Nothing else of the newer
// table comes into it. A tenant, a region or a model that only one of them has is judged by that one. An error says that
// the rules of both are too many to be combined. Neither table is changed; where there is nothing to narrow the earlier
// one is returned as it is. A nil newest narrows nothing.
func Narrow(earlier, newest *routerpb.Table) (*routerpb.Table, error) {
	narrowed := proto.CloneOf(earlier)
	zones := map[string]string{}
	for _, r := range newest.GetRegions() {
		zones[r.GetId()] = r.GetZone()
	}
	for _, r := range narrowed.GetRegions() {
		if zone, known := zones[r.GetId()]; known {
			r.Zone = zone
		}
	}
	here := regionsOf(narrowed)
	now := map[string]*routerpb.Tenant{}
	for _, t := range newest.GetTenants() {
		now[t.GetId()] = t
	}
	for _, t := range narrowed.GetTenants() {
		t.Residency = here.both(t.GetResidency(), now[t.GetId()].GetResidency())
	}
	var err error
	if narrowed.Rules, err = here.rules(narrowed, newest.GetRules()); err != nil {
		return nil, err
	}
	if proto.Equal(narrowed, earlier) {
		return earlier, nil
	}
	return narrowed, nil
}

// region is one, and the zone that it is in.
type region struct{ id, zone string }

type regions []region

func regionsOf(t *routerpb.Table) (out regions) {
	for _, r := range t.GetRegions() {
		zone := r.GetZone()
		if zone == "" {
			zone = r.GetId()
		}
		out = append(out, region{r.GetId(), zone})
	}
	return out
}

// allows says whether a region is among places, which are zones or regions. No places: it is.
func (r region) allows(places []string) bool {
	return len(places) == 0 || slices.Contains(places, r.id) || slices.Contains(places, r.zone)
}

// both are the places that are allowed by a and by b.
func (here regions) both(a, b []string) []string {
	switch {
	case len(b) == 0 || slices.Equal(a, b):
		return a
	case len(a) == 0:
		return slices.Clone(b)
	}
	allowed := func(r region) bool { return r.allows(a) && r.allows(b) }
	var out []string
	for _, r := range here {
		// A region may have the name of a zone in which others are that are not allowed: then it is left out, too.
		alone := !slices.ContainsFunc(here, func(x region) bool { return x.zone == r.id && !allowed(x) })
		if allowed(r) && alone {
			out = append(out, r.id)
		}
	}
	if len(out) == 0 {
		return []string{Nowhere}
	}
	return out
}

// rules combines the rules of a table with those of the newest one. A request goes by the first rule that fits it, in
// either table; so each rule is split by which of the newer ones fits too, in the order of both. What is behind the last
// that narrows anything is left out.
func (here regions) rules(t *routerpb.Table, newer []*routerpb.Rule) ([]*routerpb.Rule, error) {
	for len(newer) > 0 && len(newer[len(newer)-1].GetResidency()) == 0 {
		newer = newer[:len(newer)-1]
	}
	if len(newer) == 0 {
		return t.GetRules(), nil
	}
	c := combination{here: here, ids: map[string]bool{}}
	for _, m := range t.GetModels() {
		c.models = append(c.models, m.GetId())
	}
	if c.enough(t.GetRules(), newer) {
		return t.GetRules(), nil
	}
	for _, o := range t.GetRules() {
		c.split(o, newer)
	}
	c.split(nil, newer)
	if len(c.out) > MaxRules {
		return nil, fmt.Errorf("the residency of newer rules would split the table's into %d: at most %d", len(c.out), MaxRules)
	}
	return c.out, nil
}
