package residence

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
)

// enough says for sure that no request goes by the rules of a table where the newer ones would not let it, so that there is
// nothing to combine: what has been narrowed by some rules is not split by them again and again.
func (c *combination) enough(rules, newer []*routerpb.Rule) bool {
	for i := range len(rules) + 1 {
		var o *routerpb.Rule // nil, after the last: requests that none fits
		if i < len(rules) {
			o = rules[i]
		}
		for j, n := range newer {
			if c.here.within(o.GetResidency(), n.GetResidency()) {
				continue
			}
			models, some := c.inBoth(o.GetModels(), n.GetModels())
			match, fit := matches(o.GetMatch(), n.GetMatch())
			both := &routerpb.Rule{Models: models, Match: match}
			first := func(r *routerpb.Rule) bool { return covers(r, both) }
			if some && fit && !slices.ContainsFunc(rules[:i], first) && !slices.ContainsFunc(newer[:j], first) {
				return false // some request may go by these two, and the newer one is narrower
			}
		}
	}
	return true
}

// within says whether places allow no region that others don't.
func (here regions) within(places, others []string) bool {
	return !slices.ContainsFunc(here, func(r region) bool { return r.allows(places) && !r.allows(others) })
}

// covers says for sure that what fits a rule fits the newer one, too.
func covers(n, o *routerpb.Rule) bool {
	models := len(n.GetModels()) == 0 || len(o.GetModels()) > 0 && !slices.ContainsFunc(o.GetModels(), func(m string) bool { return !slices.Contains(n.GetModels(), m) })
	if !models || len(n.GetMatch()) == 0 {
		return models
	}
	return len(o.GetMatch()) > 0 && !slices.ContainsFunc(o.GetMatch(), func(x *routerpb.Match) bool {
		return !slices.ContainsFunc(n.GetMatch(), func(y *routerpb.Match) bool { return implies(x, y) })
	})
}

// implies says for sure that what fits one entry of a match fits another.
func implies(x, y *routerpb.Match) bool {
	tenants := len(y.GetTenants()) == 0 || len(x.GetTenants()) > 0 && !slices.ContainsFunc(x.GetTenants(), func(t string) bool { return !slices.Contains(y.GetTenants(), t) })
	under := len(y.GetPaths()) == 0 || len(x.GetPaths()) > 0 && !slices.ContainsFunc(x.GetPaths(), func(p string) bool {
		return !slices.ContainsFunc(y.GetPaths(), func(q string) bool {
			narrower, fit := path(p, q)
			return fit && narrower == p
		})
	})
	return tenants && under && !slices.ContainsFunc(y.GetHeaders(), func(h *routerpb.HeaderMatch) bool {
		return !slices.ContainsFunc(x.GetHeaders(), func(o *routerpb.HeaderMatch) bool { return proto.Equal(h, o) })
	})
}
