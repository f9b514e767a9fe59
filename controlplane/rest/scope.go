package rest

import (
	"anabranch/controlplane/access"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// seesEntry says whether a scope shows an entry of the audit trail. What is a tenant's shows only to
// those who may see that tenant: a quota that is gone, whose tenant nobody knows any more, to none
// whose scope leaves tenants out; nor do tokens, whose names tell who is given what.
func seesEntry(scope access.Scope, view *state.View, e *statepb.AuditEntry) bool {
	if len(scope.Tenants) == 0 {
		return true
	}
	kind := policy.Kind(e.GetKind())
	switch {
	case kind == policy.KindTenant:
		return scope.Seen(e.GetName())
	case kind == state.KindToken:
		return false
	case policy.Plural(kind) == "":
		return true
	}
	if r, ok := view.Get(kind, e.GetName()); ok {
		return scope.Sees(r)
	}
	return scope.Sees(&policy.Resource{Kind: kind, Metadata: policy.Metadata{Name: e.GetName()}, Spec: policy.NewSpec(kind)})
}
