package access

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"anabranch/controlplane/policy"
)

// Within says what of a change is out of scope, or nothing: the document as it is and as it is to be
// must both be within. Either may be nil: it is created, or deleted. Specs have their defaults filled
// in.
func (s Scope) Within(old, next *policy.Resource) []policy.Problem {
	if s.Everything() {
		return nil
	}
	if next != nil {
		if problems := append(s.judge(next), entrusts(old, next)...); len(problems) > 0 {
			return problems
		}
	}
	if problems := append(joins(old, next), stores(old, next)...); len(problems) > 0 {
		return problems
	}
	if old == nil {
		return nil
	}
	problems := s.judge(old)
	for i := range problems {
		problems[i].Reason = "as it is now: " + problems[i].Reason
	}
	return problems
}

// Shares says that a TrafficPolicy of a caller who is bound to tenants would have its class with another
// policy that is not within the scope, or nothing: the objectives of a class hold for all who ask in it.
func (s Scope) Shares(next *policy.Resource, others []*policy.Resource) []policy.Problem {
	spec, ok := next.Spec.(*policy.TrafficPolicySpec)
	if !ok || len(s.Tenants) == 0 {
		return nil
	}
	for _, r := range others {
		other, ok := r.Spec.(*policy.TrafficPolicySpec)
		if ok && r.Metadata.Name != next.Metadata.Name && other.Class == spec.Class && len(s.judge(r)) > 0 {
			return []policy.Problem{{
				Field: "spec.class", Reason: fmt.Sprintf("%.128q is the class of the policy %q too, which is out of the token's scope", spec.Class, r.Metadata.Name),
				Fix: "give the policy another name, after which its class is called",
			}}
		}
	}
	return nil
}

// Claims says that a Tenant of a caller who is bound to tenants would take tokens of an issuer that another
// tenant has too, which is not within the scope, in a way that it does not yet; or nothing. Tokens that more
// than one tenant would take are taken for none, so that this could lock the other's clients out. Nor may
// such a caller have routers look for keys at themselves, as addresses without TLS do.
func (s Scope) Claims(old, next *policy.Resource, tenants []*policy.Resource) []policy.Problem {
	spec, ok := next.Spec.(*policy.TenantSpec)
	if !ok || len(s.Tenants) == 0 {
		return nil
	}
	var before []policy.JWTSpec
	if old != nil {
		if was, ok := old.Spec.(*policy.TenantSpec); ok {
			before = was.JWT
		}
	}
	var problems []policy.Problem
	for i, j := range spec.JWT {
		if slices.ContainsFunc(before, func(b policy.JWTSpec) bool { return reflect.DeepEqual(b, j) }) {
			continue
		}
		if strings.HasPrefix(j.JWKSURL, "http:") {
			problems = append(problems, policy.Problem{
				Field: fmt.Sprintf("spec.jwt[%d].jwksURL", i), Reason: "would have routers ask what listens on their own machines, which no scope allows",
				Fix: "use https, or give the keys as jwks",
			})
		}
		if slices.ContainsFunc(tenants, func(t *policy.Resource) bool { return !s.Sees(t) && has(t, j.Issuer) }) {
			problems = append(problems, policy.Problem{
				Field: fmt.Sprintf("spec.jwt[%d].issuer", i), Reason: "is the issuer of tokens of a tenant that is out of the token's scope",
				Fix: "let somebody whose token's scope is everything write how the tokens are told apart",
			})
		}
	}
	return problems
}

// has says whether a tenant takes tokens of an issuer.
func has(t *policy.Resource, issuer string) bool {
	spec, ok := t.Spec.(*policy.TenantSpec)
	return ok && slices.ContainsFunc(spec.JWT, func(j policy.JWTSpec) bool { return j.Issuer == issuer })
}

// Covers says whether resources of a kind can be in scope at all.
func (s Scope) Covers(kind policy.Kind) bool {
	rule := rules[kind]
	return rule.named != "" || rule.parts != nil || s.Everything()
}

// Reaches says whether a scope of these bounds can cover any document of a kind: where it does not, every change
// of the kind is refused.
func (s Scope) Reaches(kind policy.Kind) bool {
	bounded := func(d dimension) bool { return len(d.of(s)) > 0 }
	rule := rules[kind]
	return s.Everything() || !slices.ContainsFunc(rule.all, bounded) && slices.ContainsFunc(rule.names, bounded)
}

// Names says what is wrong with the name alone, before anything is looked up by it: who may not touch
// a tenant is not told whether there is one.
func (s Scope) Names(kind policy.Kind, name string) []policy.Problem {
	if of := rules[kind].named; of != "" && !s.Everything() {
		return s.judgePart(named(of, name))
	}
	return nil
}

// judge says what of one document is out of a scope that bounds something.
func (s Scope) judge(r *policy.Resource) []policy.Problem {
	parts := rules[r.Kind].about(r)
	if len(parts) == 0 {
		return []policy.Problem{{Field: "spec", Reason: "is about nothing that a scope can name", Fix: "use a token whose scope is everything"}}
	}
	var problems []policy.Problem
	for _, p := range parts {
		problems = append(problems, s.judgePart(p)...)
	}
	return problems
}

func (s Scope) judgePart(p part) []policy.Problem {
	var problems []policy.Problem
	spoken := false
	for _, say := range p.says {
		allowed := say.of.of(s)
		if len(allowed) == 0 {
			continue
		}
		spoken = true
		fix := fmt.Sprintf("name only %s of the token's scope: %s", say.of, listed(allowed))
		if say.all != "" {
			problems = append(problems, policy.Problem{Field: say.all, Reason: fmt.Sprintf("is about all %s", say.of), Fix: fix})
			continue
		}
		for _, n := range say.names {
			if !slices.Contains(allowed, n.name) {
				problems = append(problems, policy.Problem{Field: n.field, Reason: fmt.Sprintf("%.128q is not among the %s of the token's scope", n.name, say.of), Fix: fix})
			}
		}
	}
	if !spoken {
		problems = append(problems, policy.Problem{
			Field: p.field, Reason: fmt.Sprintf("is about none of what the token's scope bounds (%s)", strings.Join(s.bounded(), ", ")),
			Fix: "use a token whose scope is everything, or bounds this",
		})
	}
	return problems
}

// bounded lists what the scope bounds.
func (s Scope) bounded() []string {
	var out []string
	for _, d := range dimensions {
		if len(d.of(s)) > 0 {
			out = append(out, string(d))
		}
	}
	return out
}
