package rest

import (
	"encoding/json"
	"fmt"
	"slices"

	"anabranch/api/routerpb"
	"anabranch/controlplane/access"
)

// seesRecord says whether a scope shows a router's record of a request, which is its tenant's.
func seesRecord(scope access.Scope, record []byte) bool {
	if len(scope.Tenants) == 0 {
		return true
	}
	var r struct {
		Tenant string `json:"tenant"`
	}
	return json.Unmarshal(record, &r) == nil && scope.Seen(r.Tenant)
}

// narrow keeps a filter within a scope: without tenants it gets those of the scope, and those that it
// names must be among them.
func narrow(f *routerpb.DecisionFilter, scope access.Scope) error {
	for _, tenant := range f.GetTenants() {
		if !scope.Seen(tenant) {
			return newProblem(codeOutOfScope, fmt.Sprintf("The token's scope is %.256s, without tenant %.128q.", scope, tenant))
		}
	}
	if len(f.GetTenants()) == 0 {
		f.Tenants = slices.Clone(scope.Tenants)
	}
	return nil
}
