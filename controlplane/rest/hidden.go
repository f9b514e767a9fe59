package rest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/access"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
)

// hides says whether a scope keeps a resource from its holder. What is not there is hidden if it would
// belong to a tenant that is.
func hides(scope access.Scope, view *state.View, of policy.Ref) bool {
	if len(scope.Tenants) == 0 || of.Kind == "" {
		return false
	}
	if r, ok := view.Get(of.Kind, of.Name); ok {
		return !scope.Sees(r)
	}
	return !scope.Sees(&policy.Resource{Kind: of.Kind, Metadata: policy.Metadata{Name: of.Name}, Spec: policy.NewSpec(of.Kind)})
}

// tellable are problems without the names of what the caller's scope hides.
func tellable(c echo.Context, view *state.View, problems []policy.Problem) []policy.Problem {
	scope := identity(c).Scope
	var out []policy.Problem
	for _, p := range problems {
		if hides(scope, view, p.Other) {
			p.Fix = "look at what the token's scope shows, or ask somebody who may see more"
			if strings.Contains(p.Reason, strconv.Quote(p.Other.Name)) {
				p.Reason = "is in the way of something that the token's scope does not show"
			}
			p.Other = policy.Ref{}
		}
		out = append(out, p)
	}
	return out
}

// notHidden refuses to touch what the caller's scope hides, without a word on what that is. Its name is
// taken, which whoever may create something can find out.
func (r resources) notHidden(c echo.Context, name string, old *policy.Resource) error {
	if old == nil || identity(c).Scope.Sees(old) {
		return nil
	}
	r.recordDenied(c, codeOutOfScope)
	reason := fmt.Sprintf("%.128q is the name of something that the token's scope does not show", name)
	return newProblem(codeOutOfScope, "metadata.name "+reason, policy.Problem{Field: "metadata.name", Reason: reason, Fix: "take another name"})
}

// warnings are those that do not speak of what the caller's scope hides.
func warnings(c echo.Context, view *state.View, all []policy.Warning) []policy.Warning {
	scope := identity(c).Scope
	out := []policy.Warning{}
	for _, w := range all {
		plural, name, _ := strings.Cut(w.Resource, "/")
		if kind := kindOfPlural(plural); !hides(scope, view, policy.Ref{Kind: kind, Name: name}) {
			out = append(out, w)
		}
	}
	return out
}

func kindOfPlural(plural string) policy.Kind {
	for _, k := range policy.Kinds() {
		if policy.Plural(k) == plural {
			return k
		}
	}
	return ""
}
