package table

import (
	"math/bits"

	"anabranch/api/fleet"
)

// index finds the rules that a request may fit, so that most of them are not looked at one by one: a
// set of rules, by their place in the order, for each thing that they want.
type index struct {
	rules []*Rule // in the order of trying
	// Rules that name a model, and those that name none.
	models   map[fleet.ModelID]set
	anyModel set
	// Rules of which some match names a tenant, and those with a match that names none.
	tenants   map[fleet.TenantID]set
	anyTenant set
	// Rules of which some match wants a header before others, and those with a match that wants
	// none.
	headers   []headerSet
	anyHeader set
}

type headerSet struct {
	name  string
	rules set
}

// maxHeaders is how many names of headers are told apart; rules that want others are looked at.
const maxHeaders = 64

// set of places in the order of rules. A bit beyond its end is not set.
type set []uint64

func (s set) word(i int) uint64 {
	if i < len(s) {
		return s[i]
	}
	return 0
}

func (s set) with(i int) set {
	for len(s) <= i/64 {
		s = append(s, 0)
	}
	s[i/64] |= 1 << (i % 64)
	return s
}

// add puts a rule last.
func (x *index) add(r *Rule) {
	i := len(x.rules)
	x.rules = append(x.rules, r)
	for _, m := range r.Models {
		x.models[m] = x.models[m].with(i)
	}
	if len(r.Models) == 0 {
		x.anyModel = x.anyModel.with(i)
	}
	if len(r.Match) == 0 {
		x.anyTenant, x.anyHeader = x.anyTenant.with(i), x.anyHeader.with(i)
	}
	for _, m := range r.Match {
		for _, t := range m.Tenants {
			x.tenants[t] = x.tenants[t].with(i)
		}
		if len(m.Tenants) == 0 {
			x.anyTenant = x.anyTenant.with(i)
		}
		if of := x.header(m.Headers); of != nil {
			of.rules = of.rules.with(i)
		} else {
			x.anyHeader = x.anyHeader.with(i)
		}
	}
}

// header is the set for the first of the headers that a match wants; nil: it wants none, or there are
// too many to tell apart.
func (x *index) header(wanted []HeaderMatch) *headerSet {
	if len(wanted) == 0 {
		return nil
	}
	for i := range x.headers {
		if x.headers[i].name == wanted[0].Name {
			return &x.headers[i]
		}
	}
	if len(x.headers) == maxHeaders {
		return nil
	}
	x.headers = append(x.headers, headerSet{name: wanted[0].Name})
	return &x.headers[len(x.headers)-1]
}

// first is the first rule that fits. A nil tenant fits no rule for particular ones.
func (x *index) first(model fleet.ModelID, tenant *Tenant, path string, header map[string][]string) *Rule {
	if len(x.rules) == 0 {
		return nil
	}
	forModel := x.models[model]
	var forTenant set
	if tenant != nil {
		forTenant = x.tenants[tenant.ID]
	}
	var present uint64
	for i := range x.headers {
		if len(header[x.headers[i].name]) > 0 {
			present |= 1 << i
		}
	}
	for w := range (len(x.rules) + 63) / 64 {
		may := (forModel.word(w) | x.anyModel.word(w)) & (forTenant.word(w) | x.anyTenant.word(w))
		if may == 0 {
			continue
		}
		byHeader := x.anyHeader.word(w)
		for p := present; p != 0; p &= p - 1 {
			byHeader |= x.headers[bits.TrailingZeros64(p)].rules.word(w)
		}
		for may &= byHeader; may != 0; may &= may - 1 {
			if r := x.rules[w*64+bits.TrailingZeros64(may)]; r.fits(tenant, path, header) {
				return r
			}
		}
	}
	return nil
}
