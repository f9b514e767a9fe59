package rest

import (
	"encoding/json"

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
	return !hides(scope, view, policy.Ref{Kind: kind, Name: e.GetName()}) && (kind != policy.KindQuota || seesChanges(scope, view, e))
}

// seesChanges says whether a scope shows what an entry tells of the values of a quota: it may have been
// another tenant's. Where its history does not reach back as far as the entry nobody knows, and it is not
// shown.
func seesChanges(scope access.Scope, view *state.View, e *statepb.AuditEntry) bool {
	if len(e.GetChanges()) == 0 {
		return true
	}
	for _, c := range e.GetChanges() { // also of what is only proposed
		for _, value := range []string{c.GetFrom(), c.GetTo()} {
			if tenant := tenantIn(c.GetField(), value); tenant != "" && !scope.Seen(tenant) {
				return false
			}
		}
	}
	for _, r := range view.History(policy.KindQuota, e.GetName()) { // newest first, down to what the entry changed
		if r.GetRevision() > e.GetIndex() {
			continue
		}
		if r.GetAction() != state.ActionDelete {
			was, err := policy.FromCanonical(policy.KindQuota, e.GetName(), r.GetDoc())
			if err != nil || !scope.Sees(was) {
				return false
			}
		}
		if r.GetRevision() < e.GetIndex() || r.GetAction() == actionCreate {
			return true
		}
	}
	return false
}

// tenantIn is the tenant that a changed field of a quota names, as JSON; empty: none.
func tenantIn(field, value string) string {
	var of struct {
		Tenant string `json:"tenant"`
	}
	into := any(&of)
	if field == "spec.tenant" {
		into = &of.Tenant
	} else if field != "spec" {
		return ""
	}
	_ = json.Unmarshal([]byte(value), into) // what is empty names none
	return of.Tenant
}
