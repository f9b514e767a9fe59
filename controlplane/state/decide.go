package state

import (
	"bytes"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// The verdicts of a DecideProposal.
const (
	VerdictApprove  = "approve"
	VerdictReject   = "reject"
	VerdictWithdraw = "withdraw"
)

// decide is what somebody says to a proposal that is pending.
func (v *View) decide(cmd *statepb.Command, d *statepb.DecideProposal) *statepb.Outcome {
	at, found := v.proposalAt(d.GetId())
	if !found {
		return refuse(CodeNotFound, "id", fmt.Sprintf("there is no proposal %d, or it is not remembered any more", d.GetId()))
	}
	p := v.proposals[at]
	switch {
	case p.GetState() != ProposalPending:
		return refuse(CodeDecided, "id", fmt.Sprintf("proposal %d is %s", p.GetId(), p.GetState()))
	case overdue(p, cmd.GetAtUnixMs()):
		return refuse(CodeDecided, "id", fmt.Sprintf("proposal %d has expired", p.GetId()))
	}
	switch d.GetVerdict() {
	case VerdictApprove:
		return v.approve(cmd, at, d.GetSha256())
	case VerdictReject:
		return v.dismiss(cmd, at, ProposalRejected, ActionReject)
	case VerdictWithdraw:
		if !samePerson(cmd.GetActor(), p.GetProposer()) {
			return refuse(CodeNotProposer, "id", fmt.Sprintf("proposal %d is %s's", p.GetId(), p.GetProposer().GetName()))
		}
		return v.dismiss(cmd, at, ProposalWithdrawn, ActionWithdraw)
	}
	return refuse(CodeInvalid, "verdict", fmt.Sprintf("is %.40q, none of %s, %s and %s", d.GetVerdict(), VerdictApprove, VerdictReject, VerdictWithdraw))
}

// dismiss ends a proposal without what it would have done.
func (v *View) dismiss(cmd *statepb.Command, at int, state, action string) *statepb.Outcome {
	p := v.proposals[at]
	kind, name := ProposalOf(p)
	v.setProposal(at, v.ended(cmd, p, state))
	v.record(cmd, entry{action: action, kind: string(kind), name: name, reason: ofProposal(p, "by "+p.GetProposer().GetName())})
	v.forgetProposals(cmd.GetAtUnixMs())
	return &statepb.Outcome{Proposal: p.GetId()}
}

// approve counts one more person; the last that is needed makes the proposal hold, in the same command and
// judged as any write. If that is refused nothing has happened, and the proposal waits on.
func (v *View) approve(cmd *statepb.Command, at int, seen []byte) *statepb.Outcome {
	p := v.proposals[at]
	switch {
	case !bytes.Equal(p.GetSha256(), seen):
		return refuse(CodeChanged, "sha256", fmt.Sprintf("is not of proposal %d", p.GetId()))
	case samePerson(cmd.GetActor(), p.GetProposer()):
		return refuse(CodeOwnProposal, "id", fmt.Sprintf("proposal %d is %s's own", p.GetId(), cmd.GetActor().GetName()))
	case slices.ContainsFunc(p.GetApprovals(), func(a *statepb.Approval) bool { return samePerson(a.GetActor(), cmd.GetActor()) }):
		return &statepb.Outcome{Proposal: p.GetId()}
	}
	next := proto.CloneOf(p)
	next.Revision = v.index
	next.Approvals = append(next.GetApprovals(), &statepb.Approval{Actor: cmd.GetActor(), AtUnixMs: cmd.GetAtUnixMs()})
	next.Needed = max(p.GetNeeded(), v.neededNow(p))
	kind, name := ProposalOf(p)
	v.record(cmd, entry{
		action: ActionApprove, kind: string(kind), name: name,
		reason: ofProposal(p, fmt.Sprintf("by %s, %d of %d", p.GetProposer().GetName(), len(next.GetApprovals()), next.GetNeeded())),
	})
	if len(next.GetApprovals()) < int(next.GetNeeded()) {
		v.setProposal(at, next)
		return &statepb.Outcome{Proposal: p.GetId()}
	}
	next = v.ended(cmd, next, ProposalApplied)
	next.AppliedRevision = v.index
	v.setProposal(at, next)
	// The author is who proposed it.
	write := &statepb.Command{Format: cmd.GetFormat(), AtUnixMs: cmd.GetAtUnixMs(), Actor: p.GetProposer()}
	var out *statepb.Outcome
	if d := p.GetDelete(); d != nil {
		out = v.delete(write, d, licence{of: next})
	} else {
		out = v.put(write, p.GetPut(), licence{of: next})
	}
	if out.GetCode() != "" {
		return out
	}
	v.forgetProposals(cmd.GetAtUnixMs())
	return &statepb.Outcome{Proposal: p.GetId()}
}

// neededNow is how many people the rules in force ask for: they may have become stricter since.
func (v *View) neededNow(p *statepb.Proposal) uint32 {
	kind, name := ProposalOf(p)
	old, _ := v.Get(kind, name)
	var next *policy.Resource
	if put := p.GetPut(); put != nil {
		next, _ = policy.FromCanonical(kind, name, put.GetDoc()) // the write itself says what is wrong with it
	}
	return uint32(policy.ApprovalOf(v, kind, name, old, next).Needed) //nolint:gosec // a few people
}

// approvers names who have approved a proposal.
func approvers(p *statepb.Proposal) []string {
	var names []string
	for _, a := range p.GetApprovals() {
		names = append(names, a.GetActor().GetName())
	}
	return names
}
