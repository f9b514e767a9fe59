package access

import (
	"fmt"
	"slices"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
)

// MaxNames bounds each list of a scope.
const MaxNames = 100

// Scope narrows what a caller may touch. An empty list is no bound, so the zero value is everything;
// but a scope that bounds anything gives no power over what is about none of what it bounds: a token
// for one tenant changes no region.
type Scope struct {
	Regions []string `json:"regions,omitempty"`
	Tenants []string `json:"tenants,omitempty"`
	Models  []string `json:"models,omitempty"`
}

// Everything says that nothing is bounded.
func (s Scope) Everything() bool {
	return len(s.Regions) == 0 && len(s.Tenants) == 0 && len(s.Models) == 0
}

// Seen says whether the caller may know of a tenant. Regions, models and what serves them are seen by
// everybody who may read; what is a tenant's only by those whose scope does not leave it out.
func (s Scope) Seen(tenant string) bool {
	return len(s.Tenants) == 0 || slices.Contains(s.Tenants, tenant)
}

// Sees says whether the caller may know of a resource: of a kind that belongs to tenants if its tenant
// is [Scope.Seen], of one that the table of kinds does not know if the scope leaves no tenant out.
func (s Scope) Sees(r *policy.Resource) bool {
	rule, known := rules[r.Kind]
	switch {
	case len(s.Tenants) == 0:
		return true
	case !known:
		return false
	case rule.tenant == nil:
		return true
	}
	return s.Seen(rule.tenant(r))
}

// Validate says what is wrong with a scope; fields start with at.
func (s Scope) Validate(at string) []policy.Problem {
	var problems []policy.Problem
	for _, d := range dimensions {
		names, field := d.of(s), at+"."+string(d)
		if len(names) > MaxNames {
			problems = append(problems, policy.Problem{Field: field, Reason: fmt.Sprintf("has %d names, the limit is %d", len(names), MaxNames), Fix: "leave it empty for all, or make several tokens"})
			continue
		}
		check := fleet.CheckName
		if d == models {
			check = fleet.CheckModel
		}
		for i, name := range names {
			one := fmt.Sprintf("%s[%d]", field, i)
			if err := check(name); err != nil {
				problems = append(problems, policy.Problem{Field: one, Reason: err.Error(), Fix: "write the name of one of the " + string(d)})
			} else if slices.Contains(names[:i], name) {
				problems = append(problems, policy.Problem{Field: one, Reason: fmt.Sprintf("%q stands there twice", name), Fix: "leave it out"})
			}
		}
	}
	return problems
}

// dimension is one list of a scope.
type dimension string

const (
	regions dimension = "regions"
	tenants dimension = "tenants"
	models  dimension = "models"
)

var dimensions = []dimension{regions, tenants, models}

func (d dimension) of(s Scope) []string {
	switch d {
	case regions:
		return s.Regions
	case tenants:
		return s.Tenants
	}
	return s.Models
}

// String lists what is bounded, such as "tenants acme; models a, b"; "everything" if nothing is.
func (s Scope) String() string {
	text := ""
	for _, d := range dimensions {
		if names := d.of(s); len(names) > 0 {
			if text != "" {
				text += "; "
			}
			text += string(d) + " " + listed(names)
		}
	}
	if text == "" {
		return "everything"
	}
	return text
}

// listed writes names down, the first few of many.
func listed(names []string) string {
	const most = 5
	text := ""
	for i, name := range names {
		if i == most {
			return fmt.Sprintf("%s and %d more", text, len(names)-most)
		}
		if i > 0 {
			text += ", "
		}
		text += name
	}
	return text
}
