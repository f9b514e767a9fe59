package policy

import (
	"fmt"
	"slices"
	"strings"
)

// order complains of policies that no request can reach, because an earlier one speaks of all that
// they do: the one that is judged, or another on its account.
func (c *check) order(r *Resource, s *TrafficPolicySpec) {
	policies(c.all, func(o *Resource, other *TrafficPolicySpec) {
		if o.Metadata.Name == r.Metadata.Name || other.Class == s.Class && len(s.Match) == 0 && len(other.Match) == 0 {
			return // two of a class without a match are told apart by models, or complained of
		}
		switch earlier := CompareTraffic(o, r) < 0; {
		case earlier && covers(other, s):
			c.add("spec.priority", fmt.Sprintf("policy %q comes first and speaks of all that this one does, so that no request reaches it", o.Metadata.Name),
				"raise the priority above the other's, or narrow the other")
		case !earlier && covers(s, other):
			c.add("spec.priority", fmt.Sprintf("comes before policy %q and speaks of all that it does, so that no request reaches that", o.Metadata.Name),
				"lower the priority, narrow this policy, or delete the other")
		}
	})
}

// covers says whether each request that b speaks of is one that a speaks of. It errs on the side of
// no.
func covers(a, b *TrafficPolicySpec) bool {
	if len(a.Models) > 0 && (len(b.Models) == 0 || !subset(b.Models, a.Models)) {
		return false
	}
	if len(a.Match) == 0 {
		return true
	}
	if len(b.Match) == 0 {
		return false
	}
	for i := range b.Match {
		if !slices.ContainsFunc(a.Match, func(m MatchSpec) bool { return m.covers(&b.Match[i]) }) {
			return false
		}
	}
	return true
}

func (m *MatchSpec) covers(o *MatchSpec) bool {
	if len(m.Tenants) > 0 && (len(o.Tenants) == 0 || !subset(o.Tenants, m.Tenants)) {
		return false
	}
	if len(m.Paths) > 0 {
		wider := func(p string) bool {
			return slices.ContainsFunc(m.Paths, func(q string) bool { return q == p || pathCovers(q, p) })
		}
		if len(o.Paths) == 0 || !all(o.Paths, wider) {
			return false
		}
	}
	return all(m.Headers, func(h HeaderSpec) bool { return slices.ContainsFunc(o.Headers, h.follows) })
}

// pathCovers: the pattern is a prefix that takes in all that the other does.
func pathCovers(pattern, other string) bool {
	prefix, ok := strings.CutSuffix(pattern, "*")
	return ok && strings.HasPrefix(strings.TrimSuffix(other, "*"), prefix)
}

// follows: where the other fits, h does.
func (h HeaderSpec) follows(from HeaderSpec) bool {
	if !strings.EqualFold(h.Name, from.Name) {
		return false
	}
	switch h.Type {
	case HeaderPresent:
		return true
	case HeaderPrefix:
		return from.Type != HeaderPresent && strings.HasPrefix(from.Value, h.Value)
	}
	return from.Type == HeaderExact && from.Value == h.Value
}

func subset(part, whole []string) bool {
	return all(part, func(s string) bool { return slices.Contains(whole, s) })
}

func all[T any](list []T, f func(T) bool) bool {
	return !slices.ContainsFunc(list, func(x T) bool { return !f(x) })
}
