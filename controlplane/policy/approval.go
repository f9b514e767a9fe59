package policy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"anabranch/api/fleet"
)

// Bounds of an approval.
const (
	// MaxApprovals is how many people a rule may ask for.
	MaxApprovals = 5
	// MinExpiry and MaxExpiry bound how long a proposal may wait.
	MinExpiry = time.Minute
	MaxExpiry = 30 * 24 * time.Hour
)

// ApprovalSpec makes writes of some resources proposals, which hold only once other people have approved
// them. What is protected is judged by the rules before a write. While any rule has one, safety rules
// themselves are protected too, so that nobody can switch that off alone.
type ApprovalSpec struct {
	// Kinds that are protected, at least one.
	Kinds []Kind `json:"kinds"`
	// Names narrows that to resources of these names. Empty: all.
	Names []string `json:"names,omitempty"`
	// Regions narrows it to regions of these names, and to clusters that stand there, or would; with it
	// Kinds may have no others. Empty: all.
	Regions []string `json:"regions,omitempty"`
	// Approvals is how many people other than the proposer have to approve, 1 to 5, default 1.
	Approvals int `json:"approvals,omitempty"`
	// ExpiresAfterSeconds is how long a proposal waits for them, from 60 to 2,592,000, default 86,400.
	ExpiresAfterSeconds int `json:"expiresAfterSeconds,omitempty"`
}

func (a *ApprovalSpec) defaults() {
	fill(&a.Approvals, DefaultApprovals)
	fill(&a.ExpiresAfterSeconds, DefaultProposalExpiry)
}

// approval judges one; the kinds that have regions are those that [ApprovalSpec.Regions] can mean.
func (f *finding) approval(a *ApprovalSpec) {
	const at = "spec.approval."
	if len(a.Kinds) == 0 {
		f.add(at+"kinds", "is empty", "name the kinds that need approval, such as [SafetyRule, Region]")
	}
	for i, k := range a.Kinds {
		field := fmt.Sprintf("%skinds[%d]", at, i)
		switch {
		case Plural(k) == "":
			f.add(field, fmt.Sprintf("%.40q is no kind", k), kindFix(string(k)))
		case slices.Contains(a.Kinds[:i], k):
			f.add(field, fmt.Sprintf("%s stands there twice", k), "leave it out")
		case len(a.Regions) > 0 && k != KindRegion && k != KindCluster:
			f.add(field, fmt.Sprintf("%s has no region, and the rule is for some regions only", k), "write a rule of its own for it, without regions")
		}
	}
	f.names(at+"names", a.Names, fleet.CheckModel)
	f.names(at+"regions", a.Regions, fleet.CheckName)
	f.between(at+"approvals", float64(a.Approvals), 1, MaxApprovals)
	f.between(at+"expiresAfterSeconds", float64(a.ExpiresAfterSeconds), MinExpiry.Seconds(), MaxExpiry.Seconds())
}

// protects says whether a write of a resource from old to next, either of which may be nil, is one that the
// rule is for.
func (a *ApprovalSpec) protects(kind Kind, name string, old, next *Resource) bool {
	if !slices.Contains(a.Kinds, kind) || len(a.Names) > 0 && !slices.Contains(a.Names, name) {
		return false
	}
	if len(a.Regions) == 0 {
		return true
	}
	return slices.ContainsFunc([]*Resource{old, next}, func(r *Resource) bool { return r != nil && slices.Contains(a.Regions, regionOf(r)) })
}

// regionOf is the region that a resource is, or stands in; empty: it does neither.
func regionOf(r *Resource) string {
	if s, ok := r.Spec.(*ClusterSpec); ok {
		return s.Region
	}
	if r.Kind == KindRegion {
		return r.Metadata.Name
	}
	return ""
}

// Approval is what all safety rules together ask of one write.
type Approval struct {
	// Needed is how many people other than the proposer have to approve it; 0: none, it holds at once.
	Needed int
	// Expires is how long it waits for them.
	Expires time.Duration
}

// ApprovalOf says what the rules ask of a write of a resource from old to next; nil: it is not there before,
// or after. Of several rules that protect it the strictest holds: the most people, and the shortest wait.
func ApprovalOf(all interface{ List(k Kind) []*Resource }, kind Kind, name string, old, next *Resource) Approval {
	var out Approval
	for _, res := range all.List(KindSafetyRule) {
		s, ok := res.Spec.(*SafetyRuleSpec)
		if !ok || s.Approval == nil || kind != KindSafetyRule && !s.Approval.protects(kind, name, old, next) {
			continue
		}
		wait := time.Duration(s.Approval.ExpiresAfterSeconds) * time.Second
		out.Expires = min(cmp.Or(out.Expires, wait), wait)
		out.Needed = max(out.Needed, s.Approval.Approvals)
	}
	return out
}
