package rest

import (
	"anabranch/controlplane/access"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// seesEntry says whether a scope shows an entry of the audit trail. What is a tenant's shows only to
// those who may see that tenant: a quota that is gone, whose tenant nobody knows any more, to none
// whose scope leaves tenants out; nor do tokens, whose names tell who is given what, and refusals, which
// say what was in the way: it may be anybody's.
func seesEntry(scope access.Scope, view *state.View, e *statepb.AuditEntry) bool {
	if len(scope.Tenants) == 0 {
		return true
	}
	kind := policy.Kind(e.GetKind())
	switch {
	case kind == state.KindToken, e.GetAction() == actionRefused:
		return false
	case policy.Plural(kind) == "":
		return true
	}
	return !hides(scope, view, policy.Ref{Kind: kind, Name: e.GetName()})
}
