package access

import (
	"testing"

	"anabranch/controlplane/policy"
)

func TestNobodyBoundByLimitsChoosesWhoseTheyAre(t *testing.T) {
	const (
		own    = `Tenant acme {organization: acme}`
		plain  = `Tenant acme {tier: top}`
		joined = `Tenant acme {organization: group}`
		other  = `Tenant acme {organization: group, tier: top}`
	)
	for _, tt := range []struct{ from, to, out string }{
		{plain, own, ""},
		{own, plain, ""},
		{"", own, ""},
		{"", joined, "spec.organization"},
		{plain, joined, "spec.organization"},
		{joined, plain, "spec.organization"},
		{joined, other, ""},
		{joined, "", "spec.organization"},
		{plain, "", ""},
	} {
		check(t, "tenants acme", tt.from, tt.to, tt.out)
		check(t, "", tt.from, tt.to, "")
	}
}

func TestNoScopeMovesTheStoreOfAllQuotas(t *testing.T) {
	const (
		none  = `Region eu {}`
		store = `Region eu {quotaStore: {addresses: ["a:1"], passwordEnv: P}}`
		same  = `Region eu {rttMs: {us: 5}, quotaStore: {addresses: ["a:1"], passwordEnv: P}}`
		moved = `Region eu {quotaStore: {addresses: ["b:1"], passwordEnv: P}}`
	)
	for _, tt := range []struct{ from, to, out string }{
		{"", none, ""},
		{"", store, "spec.quotaStore"},
		{none, store, "spec.quotaStore"},
		{store, moved, "spec.quotaStore"},
		{store, same, ""},
		{store, none, "spec.quotaStore"},
		{store, "", "spec.quotaStore"},
		{none, "", ""},
	} {
		check(t, "regions eu", tt.from, tt.to, tt.out)
		check(t, "", tt.from, tt.to, "")
	}
}

func check(t *testing.T, bound, from, to, out string) {
	t.Helper()
	read := func(text string) *policy.Resource {
		if text == "" {
			return nil
		}
		return document(t, text)
	}
	problems := scope(bound).Within(read(from), read(to))
	switch {
	case out == "" && len(problems) > 0:
		t.Errorf("%q to %q: %v", from, to, problems)
	case out != "" && (len(problems) != 1 || problems[0].Field != out || problems[0].Fix == ""):
		t.Errorf("%q to %q: %v, want %q", from, to, problems, out)
	}
}

func TestAnOrganisationsQuotaIsSeenByWhoSeesAllTenants(t *testing.T) {
	quota := document(t, `Quota q {organization: acme, limits: [{kind: requests, perMinute: 1}]}`)
	if scope("tenants acme").Sees(quota) || !scope("regions eu").Sees(quota) {
		t.Error("a quota of several tenants is shown to one, or hidden from who sees all")
	}
}
