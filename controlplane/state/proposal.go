package state

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/controlplane/access"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// Bounds of proposals.
const (
	// MaxPending is how many may wait, MaxPendingOf how many of one proposer, and MaxPendingBytes what
	// their documents may have together.
	MaxPending      = 1000
	MaxPendingOf    = 100
	MaxPendingBytes = 8 << 20
	// MaxEnded, EndedFor and MaxEndedBytes bound those that are remembered once they have ended. Beyond
	// them the ones that ended first go.
	MaxEnded      = 1000
	EndedFor      = 30 * 24 * time.Hour
	MaxEndedBytes = 8 << 20
)

// The states of a proposal.
const (
	ProposalPending   = "pending"
	ProposalApplied   = "applied"
	ProposalRejected  = "rejected"
	ProposalWithdrawn = "withdrawn"
	ProposalStale     = "stale" // the resource has changed since
	ProposalExpired   = "expired"
)

// KindProposal stands for proposals in answers: they are no resources.
const KindProposal = "Proposal"

// Actions of proposals in the audit trail.
const (
	ActionPropose  = "propose"
	ActionApprove  = "approve"
	ActionReject   = "reject"
	ActionWithdraw = "withdraw"
	ActionStale    = "stale"
	ActionExpire   = "expire"
)

// licence says why a write of something protected may hold.
type licence struct {
	of     *statepb.Proposal // others have approved it; nil: nobody has
	waived bool              // nothing is asked, since it holds for those only who look ahead
}

// Proposals gives those that are remembered, oldest first.
func (v *View) Proposals() []*statepb.Proposal { return v.proposals }

// ProposalsForgotten is the revision of the newest change of a proposal that is not remembered any more; 0:
// all are.
func (v *View) ProposalsForgotten() uint64 { return v.forgotten }

// Proposal finds one by its id; nil: there is none, or it is not remembered any more.
func (v *View) Proposal(id uint64) *statepb.Proposal {
	if at, ok := v.proposalAt(id); ok {
		return v.proposals[at]
	}
	return nil
}

func (v *View) proposalAt(id uint64) (int, bool) {
	return slices.BinarySearchFunc(v.proposals, id, func(p *statepb.Proposal, id uint64) int { return cmp.Compare(p.GetId(), id) })
}

// ProposalState is the state of a proposal as of a time: one that has waited too long has expired, also
// before that is replicated.
func ProposalState(p *statepb.Proposal, at time.Time) string {
	if overdue(p, at.UnixMilli()) {
		return ProposalExpired
	}
	return p.GetState()
}

func overdue(p *statepb.Proposal, atUnixMs int64) bool {
	return p.GetState() == ProposalPending && p.GetExpiresUnixMs() <= atUnixMs
}

// Overdue says whether any proposal has waited too long, which an ExpireProposals would end.
func (v *View) Overdue(at time.Time) bool {
	return slices.ContainsFunc(v.proposals, func(p *statepb.Proposal) bool { return overdue(p, at.UnixMilli()) })
}

// ProposalOf names the resource that a proposal is about.
func ProposalOf(p *statepb.Proposal) (policy.Kind, string) {
	if d := p.GetDelete(); d != nil {
		return policy.Kind(d.GetKind()), d.GetName()
	}
	return policy.Kind(p.GetPut().GetKind()), p.GetPut().GetName()
}

// ProposalBase is the revision that a proposal was made from; 0: there was no such resource.
func ProposalBase(p *statepb.Proposal) uint64 {
	if d := p.GetDelete(); d != nil {
		return d.GetIfRevision()
	}
	return p.GetPut().GetIfRevision()
}

// refer decides whether a write from old to next holds at once: nil. What is protected becomes a proposal, as
// proposed gives it, or, where the glass is broken, does not have to.
func (v *View) refer(cmd *statepb.Command, old, next *policy.Resource, glass string, by licence, proposed func() *statepb.Proposal) *statepb.Outcome {
	if v.FeatureLevel() < 3 || by.of != nil || by.waived {
		return nil
	}
	of := cmp.Or(next, old)
	kind, name := of.Kind, of.Metadata.Name
	if glass != "" {
		return v.breakGlass(cmd, kind, name, glass)
	}
	asked := policy.ApprovalOf(v, kind, name, old, next)
	if asked.Needed == 0 {
		return nil
	}
	return v.submit(cmd, proposed(), asked, old)
}

// proposedPut is a put as it could be proposed: over the revision that is there.
func proposedPut(p *statepb.Put, rev *statepb.Revision, old *policy.Resource) *statepb.Proposal {
	put := proto.CloneOf(p)
	put.AnyRevision, put.IfRevision = false, 0
	if old != nil {
		put.IfRevision = old.Metadata.Revision
	}
	return &statepb.Proposal{Action: rev.GetAction(), Op: &statepb.Proposal_Put{Put: put}}
}

func proposedDelete(d *statepb.Delete, old *policy.Resource) *statepb.Proposal {
	gone := proto.CloneOf(d)
	gone.IfRevision = old.Metadata.Revision
	return &statepb.Proposal{Action: ActionDelete, Op: &statepb.Proposal_Delete{Delete: gone}}
}

// submit makes a write that others have to approve.
func (v *View) submit(cmd *statepb.Command, p *statepb.Proposal, asked policy.Approval, old *policy.Resource) *statepb.Outcome {
	if out := v.roomFor(cmd, p); out != nil {
		return out
	}
	p.Id, p.Revision, p.State, p.Proposer = v.index, v.index, ProposalPending, cmd.GetActor()
	p.AtUnixMs, p.ExpiresUnixMs = cmd.GetAtUnixMs(), cmd.GetAtUnixMs()+asked.Expires.Milliseconds()
	p.Needed = uint32(asked.Needed) //nolint:gosec // a few people
	p.Sha256 = proposalSum(p)
	v.proposals = append(slices.Clone(v.proposals), p)
	v.forgetProposals(cmd.GetAtUnixMs())
	kind, name := ProposalOf(p)
	e := entry{action: ActionPropose, kind: string(kind), name: name, after: p.GetPut().GetDoc(), reason: ofProposal(p, p.GetAction())}
	if old != nil {
		s := v.shelf(kind)
		if at, ok := s.find(name); ok {
			e.before = s.docs[at]
		}
	}
	v.record(cmd, e)
	return &statepb.Outcome{Proposal: p.GetId()}
}

// ofProposal is what the audit trail says of an act on a proposal.
func ofProposal(p *statepb.Proposal, what string) string {
	return fmt.Sprintf("proposal %d: %s", p.GetId(), what)
}

// roomFor says that too many wait; nil: one more may.
func (v *View) roomFor(cmd *statepb.Command, p *statepb.Proposal) *statepb.Outcome {
	pending, his, size := 0, 0, len(p.GetPut().GetDoc())
	for _, o := range v.proposals {
		if o.GetState() != ProposalPending || overdue(o, cmd.GetAtUnixMs()) {
			continue
		}
		pending++
		size += len(o.GetPut().GetDoc())
		if samePerson(o.GetProposer(), cmd.GetActor()) {
			his++
		}
	}
	switch {
	case pending >= MaxPending || size > MaxPendingBytes:
		return refuse(CodeTooMany, "", fmt.Sprintf("%d proposals wait already, as many as there may be: decide some", pending))
	case his >= MaxPendingOf:
		return refuse(CodeTooMany, "", fmt.Sprintf("%d proposals of %s wait already, as many as there may be of one: withdraw some", his, cmd.GetActor().GetName()))
	}
	return nil
}

// samePerson says whether two may be one person. Names are compared and nothing else: who has a token and an
// account of the OpenID provider by the same name is taken for one.
func samePerson(a, b *statepb.Actor) bool { return bareName(a) == bareName(b) }

func bareName(a *statepb.Actor) string {
	if a.GetKind() == string(access.KindOIDC) {
		return strings.TrimPrefix(a.GetName(), access.OIDCPrefix)
	}
	return a.GetName()
}

// proposalSum is of all that is to be approved: what is written, over what, and in whose name.
func proposalSum(p *statepb.Proposal) []byte {
	h := sha256.New()
	kind, name := ProposalOf(p)
	put := p.GetPut()
	manager, force := put.GetManager(), put.GetForce()
	if d := p.GetDelete(); d != nil {
		manager, force = d.GetManager(), d.GetForce()
	}
	for _, s := range []string{p.GetAction(), string(kind), name, string(put.GetDoc()), manager, strconv.FormatBool(force)} {
		text(h, s)
	}
	number(h, ProposalBase(p))
	number(h, put.GetRollbackTo())
	return h.Sum(nil)
}

// setProposal replaces one; at is where it stands.
func (v *View) setProposal(at int, p *statepb.Proposal) {
	v.proposals = slices.Clone(v.proposals)
	v.proposals[at] = p
}

// ended is a proposal as somebody, or something, has ended it.
func (v *View) ended(cmd *statepb.Command, p *statepb.Proposal, state string) *statepb.Proposal {
	next := proto.CloneOf(p)
	next.Revision, next.State, next.EndedUnixMs, next.EndedBy = v.index, state, cmd.GetAtUnixMs(), cmd.GetActor()
	return next
}

// outdate ends the proposals about a resource that has just changed: they were made from another revision.
func (v *View) outdate(cmd *statepb.Command, kind policy.Kind, name string) {
	v.endAll(cmd, ProposalStale, ActionStale, func(p *statepb.Proposal) bool {
		k, n := ProposalOf(p)
		return p.GetState() == ProposalPending && k == kind && n == name
	}, func(p *statepb.Proposal) string { return fmt.Sprintf("it was made from revision %d", ProposalBase(p)) })
}

// expire ends the proposals that have waited too long.
func (v *View) expire(cmd *statepb.Command) *statepb.Outcome {
	v.endAll(cmd, ProposalExpired, ActionExpire, func(p *statepb.Proposal) bool {
		return overdue(p, cmd.GetAtUnixMs())
	}, func(p *statepb.Proposal) string { return "by " + p.GetProposer().GetName() })
	return &statepb.Outcome{}
}

// withdrawOf ends the proposals of a token that is revoked: nobody stands for them any more.
func (v *View) withdrawOf(cmd *statepb.Command, token string) {
	v.endAll(cmd, ProposalWithdrawn, ActionWithdraw, func(p *statepb.Proposal) bool {
		by := p.GetProposer()
		return p.GetState() == ProposalPending && by.GetName() == token && by.GetKind() == string(access.KindToken)
	}, func(*statepb.Proposal) string { return "the token " + token + " is revoked" })
}

// endAll ends those for which which says so; the audit trail tells why.
func (v *View) endAll(cmd *statepb.Command, state, action string, which func(*statepb.Proposal) bool, why func(*statepb.Proposal) string) {
	var all []*statepb.Proposal // nil: none was ended yet
	for at, p := range v.proposals {
		if !which(p) {
			continue
		}
		if all == nil {
			all = slices.Clone(v.proposals)
		}
		all[at] = v.ended(cmd, p, state)
		kind, name := ProposalOf(p)
		v.record(cmd, entry{action: action, kind: string(kind), name: name, reason: ofProposal(p, why(p))})
	}
	if all != nil {
		v.proposals = all
		v.forgetProposals(cmd.GetAtUnixMs())
	}
}

// forgetProposals drops those that have ended beyond the bounds, the first of them first.
func (v *View) forgetProposals(atUnixMs int64) {
	var ended []*statepb.Proposal
	for _, p := range v.proposals {
		if p.GetState() != ProposalPending {
			ended = append(ended, p)
		}
	}
	slices.SortStableFunc(ended, func(a, b *statepb.Proposal) int { return cmp.Compare(b.GetRevision(), a.GetRevision()) })
	gone, size := map[uint64]bool{}, 0
	forgotten := v.forgotten
	for i, p := range ended { // newest first
		if size += len(p.GetPut().GetDoc()); i >= MaxEnded || size > MaxEndedBytes || p.GetEndedUnixMs()+EndedFor.Milliseconds() <= atUnixMs {
			gone[p.GetId()] = true
			forgotten = max(forgotten, p.GetRevision())
		}
	}
	if len(gone) > 0 {
		v.forgotten = forgotten
		v.proposals = slices.DeleteFunc(slices.Clone(v.proposals), func(p *statepb.Proposal) bool { return gone[p.GetId()] })
	}
}

// proposalsProto is what a snapshot holds; nil: there is nothing.
func (v *View) proposalsProto() *statepb.Proposals {
	if len(v.proposals) == 0 && len(v.broken) == 0 && v.forgotten == 0 {
		return nil
	}
	return &statepb.Proposals{Proposals: v.proposals, Broken: v.broken, Forgotten: v.forgotten}
}

// restoreProposals takes those of a snapshot over.
func (v *View) restoreProposals(s *statepb.Proposals) error {
	for i, p := range s.GetProposals() {
		kind, _ := ProposalOf(p)
		switch {
		case policy.Plural(kind) == "":
			return fmt.Errorf("proposal %d: kind %q: %w", p.GetId(), kind, ErrUnknown)
		case i > 0 && s.GetProposals()[i-1].GetId() >= p.GetId():
			return errors.New("proposals are out of order")
		case !bytes.Equal(p.GetSha256(), proposalSum(p)):
			return fmt.Errorf("proposal %d is not what was proposed", p.GetId())
		}
	}
	v.proposals, v.broken, v.forgotten = s.GetProposals(), s.GetBroken(), s.GetForgotten()
	return nil
}

// sumProposals hashes what tells proposals apart: their content was compared when it was new.
func (v *View) sumProposals(h interface{ Write(b []byte) (int, error) }) {
	var b []byte
	for _, p := range v.proposals {
		b = binary.BigEndian.AppendUint64(b, p.GetId())
		b = binary.BigEndian.AppendUint64(b, p.GetRevision())
		b = binary.BigEndian.AppendUint64(b, uint64(len(p.GetApprovals())))
		b = append(append(b, p.GetState()...), 0)
		b = append(b, p.GetSha256()...)
	}
	for _, g := range v.broken {
		b = binary.BigEndian.AppendUint64(b, g.GetRevision())
	}
	if v.forgotten > 0 {
		b = binary.BigEndian.AppendUint64(b, v.forgotten)
	}
	_, _ = h.Write(b) // a hash never fails
}
