package state

import (
	"fmt"
	"strings"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// write is in whose name a resource is written.
type write struct {
	manager string // empty: a person's
	force   bool
}

// own judges whether the writer may change a resource, and puts into next's metadata who has set its
// fields; nil: it may. old is nil for a new one, next for a deletion. Before feature level 3 all fields
// are people's.
func (v *View) own(cmd *statepb.Command, old, next *policy.Resource, by write) *statepb.Outcome {
	if v.FeatureLevel() < 3 {
		return nil
	}
	if by.manager != "" {
		if err := policy.CheckManager(by.manager); err != nil {
			return refuse(CodeInvalid, "manager", err.Error())
		}
	}
	managers, claims := policy.Own(old, next, by.manager, by.force)
	if len(claims) > 0 {
		return refuse(CodeFieldOwned, claims[0].Field, Claims(claims))
	}
	if len(managers) > policy.MaxManagers {
		return refuse(CodeInvalid, "manager", fmt.Sprintf("the resource would have %d managers, the limit is %d", len(managers), policy.MaxManagers))
	}
	if next != nil {
		next.Metadata.Managers, next.Metadata.UpdatedBy = managers, bounded(cmd.GetActor().GetName())
	}
	return nil
}

// Claims says in a sentence who has set the fields that an automation may not change.
func Claims(claims []policy.Claim) string {
	const told = 5
	var b strings.Builder
	for i, c := range claims {
		switch {
		case i == told:
			fmt.Fprintf(&b, " and %d more", len(claims)-told)
			return b.String()
		case i > 0:
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%.200s was set by %s", c.Field, c.Manager)
	}
	return b.String()
}

// remark is what the audit trail says of a write besides the operator's reason.
func remark(p *statepb.Put, by licence) string {
	var all []string
	if to := p.GetRollbackTo(); to != 0 {
		all = append(all, fmt.Sprintf("rollback to revision %d", to))
	}
	if m := p.GetManager(); m != "" {
		all = append(all, "manager "+m)
	}
	if p.GetForce() {
		all = append(all, "forced")
	}
	if c := consent(by); c != "" {
		all = append(all, c)
	}
	return strings.Join(all, ", ")
}

// consent says who has approved a write; empty: nobody had to.
func consent(by licence) string {
	if by.of == nil {
		return ""
	}
	return fmt.Sprintf("proposal %d approved by %s", by.of.GetId(), strings.Join(approvers(by.of), ", "))
}

func managersOf(r *policy.Resource) []*statepb.Manager {
	var all []*statepb.Manager
	for _, m := range r.Metadata.Managers {
		all = append(all, &statepb.Manager{Name: m.Name, Fields: m.Fields})
	}
	return all
}

// ManagersFrom gives the managers of a resource as replicated.
func ManagersFrom(stored []*statepb.Manager) []policy.Manager {
	var all []policy.Manager
	for _, m := range stored {
		all = append(all, policy.Manager{Name: m.GetName(), Fields: m.GetFields()})
	}
	return all
}
