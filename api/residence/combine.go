package residence

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// combination is the rules of two tables as they are combined.
type combination struct {
	here   regions
	models []string // that the table has: rules speak of no others
	out    []*routerpb.Rule
	ids    map[string]bool // of out
}

// split adds what a rule comes to beside each of the newer ones, and by itself; nil: no rule.
func (c *combination) split(o *routerpb.Rule, newer []*routerpb.Rule) {
	for _, n := range newer {
		models, some := c.inBoth(o.GetModels(), n.GetModels())
		match, fit := matches(o.GetMatch(), n.GetMatch())
		if !some || !fit {
			continue // no request fits both
		}
		r := c.from(o, n)
		r.Models, r.Match, r.Residency = models, match, c.here.both(o.GetResidency(), n.GetResidency())
		c.out = append(c.out, r)
		if covers(n, o) {
			return // nothing is left that fits the rule and not the newer one
		}
	}
	if o != nil {
		c.out = append(c.out, c.from(o, nil))
	}
}

// from is a copy of a rule with a name of its own; without a rule it is what requests go by that none fits.
func (c *combination) from(o, n *routerpb.Rule) *routerpb.Rule {
	r, id := &routerpb.Rule{Class: string(fleet.DefaultClass)}, n.GetId()
	if o != nil {
		r, id = proto.CloneOf(o), o.GetId()
		if n != nil && c.ids[id] {
			id += "+" + n.GetId()
		}
	}
	for c.ids[id] {
		id += "+"
	}
	r.Id, c.ids[id] = id, true
	return r
}

// inBoth are the models that both lists name, of which an empty one names all; false: there are none.
func (c *combination) inBoth(a, b []string) ([]string, bool) {
	if len(b) > 0 {
		b = slices.DeleteFunc(slices.Clone(b), func(m string) bool { return !slices.Contains(c.models, m) })
		if len(b) == 0 {
			return nil, false
		}
	}
	return inBoth(a, b)
}

// inBoth are the names that both lists have, of which an empty one has all; false: there are none.
func inBoth(a, b []string) ([]string, bool) {
	switch {
	case len(a) == 0:
		return b, true
	case len(b) == 0:
		return a, true
	}
	out := slices.DeleteFunc(slices.Clone(a), func(s string) bool { return !slices.Contains(b, s) })
	return out, len(out) > 0
}

func alike(a, b []*routerpb.Match) bool {
	return slices.EqualFunc(a, b, func(a, b *routerpb.Match) bool { return proto.Equal(a, b) })
}

// matches fit what fits one of a and one of b, of which an empty list fits all; false: nothing does.
func matches(a, b []*routerpb.Match) ([]*routerpb.Match, bool) {
	switch {
	case len(a) == 0:
		return b, true
	case len(b) == 0 || alike(a, b):
		return a, true
	}
	var out []*routerpb.Match
	for _, x := range a {
		for _, y := range b {
			tenants, some := inBoth(x.GetTenants(), y.GetTenants())
			paths, fit := paths(x.GetPaths(), y.GetPaths())
			if some && fit {
				out = append(out, &routerpb.Match{Tenants: tenants, Paths: paths, Headers: slices.Concat(x.GetHeaders(), y.GetHeaders())})
			}
		}
	}
	return out, len(out) > 0
}

// paths fit what fits one of a and one of b, of which an empty list fits all; false: nothing does.
func paths(a, b []string) ([]string, bool) {
	switch {
	case len(a) == 0:
		return b, true
	case len(b) == 0:
		return a, true
	}
	var out []string
	for _, x := range a {
		for _, y := range b {
			if p, ok := path(x, y); ok && !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	return out, len(out) > 0
}

// path fits what fits both patterns, of which one that ends in "*" is a prefix; false: nothing does.
func path(a, b string) (string, bool) {
	x, open := strings.CutSuffix(a, "*")
	y, wide := strings.CutSuffix(b, "*")
	switch {
	case wide && strings.HasPrefix(x, y):
		return a, true
	case open && strings.HasPrefix(y, x):
		return b, true
	}
	return a, a == b
}
