package policy

import (
	"fmt"
	"strings"
)

// family is what the package knows of a kind beyond its spec's fields.
type family struct {
	kind   Kind
	plural string
	spec   func() any
}

// families in the order in which they may be created: what is referred to comes first.
var families = []family{
	{KindRegion, "regions", func() any { return new(RegionSpec) }},
	{KindModel, "models", func() any { return new(ModelSpec) }},
	{KindCluster, "clusters", func() any { return new(ClusterSpec) }},
	{KindTenant, "tenants", func() any { return new(TenantSpec) }},
	{KindTrafficPolicy, "policies", func() any { return new(TrafficPolicySpec) }},
	{KindQuota, "quotas", func() any { return new(QuotaSpec) }},
	{KindRateCard, "ratecards", func() any { return new(RateCardSpec) }},
	{KindSafetyRule, "safetyrules", func() any { return new(SafetyRuleSpec) }},
	{KindDrillPlan, "drillplans", func() any { return new(DrillPlanSpec) }},
}

// Kinds gives every kind, in an order in which a fleet can be created: a kind comes after the kinds
// that it refers to.
func Kinds() []Kind {
	kinds := make([]Kind, len(families))
	for i, f := range families {
		kinds[i] = f.kind
	}
	return kinds
}

// Plural is the kind's name in URLs, e.g. "policies"; empty for an unknown kind.
func Plural(k Kind) string {
	for _, f := range families {
		if f.kind == k {
			return f.plural
		}
	}
	return ""
}

// KindOf finds the kind of a URL's plural; false: there is none.
func KindOf(plural string) (Kind, bool) {
	for _, f := range families {
		if f.plural == plural {
			return f.kind, true
		}
	}
	return "", false
}

// NewSpec gives a pointer to an empty spec of the kind; nil for an unknown kind.
func NewSpec(k Kind) any {
	for _, f := range families {
		if f.kind == k {
			return f.spec()
		}
	}
	return nil
}

func kindFix(wrong string) string {
	names := make([]string, len(families))
	for i, f := range families {
		names[i] = string(f.kind)
	}
	legal := strings.Join(names, ", ")
	if near := nearest(wrong, names); near != "" {
		return fmt.Sprintf("did you mean %q? legal: %s", near, legal)
	}
	return "use one of " + legal
}
