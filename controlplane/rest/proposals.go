package rest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/access"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// Proposal is a write of something protected, which holds once others have approved it.
type Proposal struct {
	ID string `json:"id"`
	// State is pending, applied, rejected, withdrawn, stale (the resource has changed since) or expired.
	State string `json:"state"`
	// Action is create, update, rollback or delete, of the resource that Kind and Name tell.
	Action string      `json:"action"`
	Kind   policy.Kind `json:"kind"`
	Name   string      `json:"name"`
	// Proposer made it, in the name of Manager: human, or an automation.
	Proposer  Person    `json:"proposer"`
	Manager   string    `json:"manager"`
	Reason    string    `json:"reason"`
	RequestID string    `json:"requestId"`
	CreatedAt time.Time `json:"createdAt"`
	ExpiresAt time.Time `json:"expiresAt"`
	// BaseRevision is the one that it was made from; 0: the resource is to be created.
	BaseRevision uint64 `json:"baseRevision"`
	// RollbackTo is the revision whose content a rollback brings back.
	RollbackTo uint64 `json:"rollbackTo,omitempty"`
	// SHA256 is of all that is to be approved, and DocumentSHA256 of the document as it would be stored.
	SHA256         string `json:"sha256"`
	DocumentSHA256 string `json:"documentSha256,omitempty"`
	// ApprovalsNeeded is how many others have to approve it, Approvals who has.
	ApprovalsNeeded int        `json:"approvalsNeeded"`
	Approvals       []Approval `json:"approvals"`
	// EndedAt, EndedBy and EndReason are absent while it is pending, or has expired and nobody has noted it.
	EndedAt   time.Time `json:"endedAt,omitzero"`
	EndedBy   string    `json:"endedBy,omitempty"`
	EndReason string    `json:"endReason,omitempty"`
	// AppliedRevision is the revision that it became.
	AppliedRevision uint64 `json:"appliedRevision,omitempty"`
	// Revision is of its last change.
	Revision uint64 `json:"revision"`
	// Resource is what would be; absent of a deletion. Diff is how that differs from the base, as far as that
	// is kept. Both are told of one proposal only, not in lists.
	Resource *policy.Resource `json:"resource,omitempty"`
	Diff     []policy.Change  `json:"diff,omitempty"`
	// Lint and Simulation are what a dry run of it would tell now; only with ?simulate=true, while it is
	// pending and nothing stands in its way.
	Lint       []policy.Warning `json:"lint,omitempty"`
	Simulation *Simulation      `json:"simulation,omitempty"`
}

// Person is somebody, and how they were known.
type Person struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	Role string `json:"role"`
}

// Approval is one person's word for a proposal.
type Approval struct {
	Person
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
}

// ApproveOrder says what was seen of a proposal that is approved.
type ApproveOrder struct {
	SHA256 string `json:"sha256"`
}

func (s *Server) proposalRoutes(e *echo.Echo) {
	e.GET("/v1/proposals", s.proposals, s.may(read, filtered))
	e.GET("/v1/proposals/:id", s.getProposal, s.may(read, filtered), timed)
	e.DELETE("/v1/proposals/:id", s.withdrawProposal, s.may(write, within), timed, s.keyed)
	e.POST("/v1/proposals/:id/approve", s.approveProposal, s.may(approve, within), timed, s.keyed)
	e.POST("/v1/proposals/:id/reject", s.rejectProposal, s.may(approve, within), timed, s.keyed)
}

// proposal tells of one without its content.
func (s *Server) proposal(p *statepb.Proposal) Proposal {
	kind, name := state.ProposalOf(p)
	put, a := p.GetPut(), p.GetProposer()
	out := Proposal{
		ID: strconv.FormatUint(p.GetId(), 10), State: state.ProposalState(p, s.o.Now()), Action: p.GetAction(), Kind: kind, Name: name,
		Proposer: person(a), Manager: put.GetManager() + p.GetDelete().GetManager(), Reason: a.GetReason(), RequestID: a.GetRequestId(),
		CreatedAt: time.UnixMilli(p.GetAtUnixMs()).UTC(), ExpiresAt: time.UnixMilli(p.GetExpiresUnixMs()).UTC(),
		BaseRevision: state.ProposalBase(p), RollbackTo: put.GetRollbackTo(), SHA256: hex.EncodeToString(p.GetSha256()),
		ApprovalsNeeded: int(p.GetNeeded()), Approvals: []Approval{}, AppliedRevision: p.GetAppliedRevision(), Revision: p.GetRevision(),
	}
	if out.Manager == "" {
		out.Manager = policy.Human
	}
	if put != nil {
		out.DocumentSHA256 = documentSum(put.GetDoc())
	}
	for _, w := range p.GetApprovals() {
		out.Approvals = append(out.Approvals, Approval{person(w.GetActor()), time.UnixMilli(w.GetAtUnixMs()).UTC(), w.GetActor().GetReason()})
	}
	if p.GetEndedUnixMs() != 0 {
		out.EndedAt, out.EndedBy, out.EndReason = time.UnixMilli(p.GetEndedUnixMs()).UTC(), p.GetEndedBy().GetName(), p.GetEndedBy().GetReason()
	}
	return out
}

func documentSum(doc []byte) string {
	sum := sha256.Sum256(doc)
	return hex.EncodeToString(sum[:])
}

func person(a *statepb.Actor) Person {
	return Person{Name: a.GetName(), Kind: a.GetKind(), Role: a.GetRole()}
}

// whole tells of one with its content.
func (s *Server) whole(view *state.View, p *statepb.Proposal) Proposal {
	out := s.proposal(p)
	was, next := documents(view, p)
	out.Resource = next
	if was != nil || out.BaseRevision == 0 {
		out.Diff = policy.Diff(was, next)
	}
	return out
}

// documents gives the resource that a proposal was made from and the one that it would leave; nil: there is
// none, or it is not kept.
func documents(view *state.View, p *statepb.Proposal) (was, next *policy.Resource) {
	kind, name := state.ProposalOf(p)
	if base := state.ProposalBase(p); base != 0 {
		if now, ok := view.Get(kind, name); ok && now.Metadata.Revision == base {
			was = now
		} else if then, ok := view.Was(kind, name, base); ok {
			was = then
		}
	}
	if put := p.GetPut(); put != nil {
		next, _ = policy.FromCanonical(kind, name, put.GetDoc()) // it was read when it was proposed
	}
	return was, next
}

// seesProposal says whether a scope shows a proposal: both what it was made from and what it would leave.
func seesProposal(scope access.Scope, view *state.View, p *statepb.Proposal) bool {
	if len(scope.Tenants) == 0 { // as with resources
		return true
	}
	kind, name := state.ProposalOf(p)
	was, next := documents(view, p)
	if was == nil && next == nil { // a deletion of what is forgotten
		next = &policy.Resource{Kind: kind, Metadata: policy.Metadata{Name: name}, Spec: policy.NewSpec(kind)}
	}
	return (was == nil || scope.Sees(was)) && (next == nil || scope.Sees(next))
}

// proposals lists those that are remembered, newest first, or streams them as they change.
func (s *Server) proposals(c echo.Context) error {
	if yes, err := flag(c, "watch"); err != nil {
		return err
	} else if yes {
		if err := refuseFilter(c, "state", "kind", "proposer"); err != nil {
			return err
		}
		return s.watchProposals(c)
	}
	return timed(s.listProposals)(c)
}

// proposalTexts are the parameters that are compared as they are.
var proposalTexts = map[string]func(Proposal) string{
	"state":    func(p Proposal) string { return p.State },
	"kind":     func(p Proposal) string { return string(p.Kind) },
	"proposer": func(p Proposal) string { return p.Proposer.Name },
}

// proposalStates are all that a proposal can be in.
var proposalStates = []string{
	state.ProposalPending, state.ProposalApplied, state.ProposalRejected, state.ProposalWithdrawn, state.ProposalStale, state.ProposalExpired,
}

func (s *Server) listProposals(c echo.Context) error {
	if text := c.QueryParam("state"); text != "" && !slices.Contains(proposalStates, text) {
		return newProblem(codeInvalidRequest, fmt.Sprintf("state is %.40q; use one of %s.", text, strings.Join(proposalStates, ", ")))
	}
	if text := c.QueryParam("kind"); text != "" && policy.Plural(policy.Kind(text)) == "" {
		return newProblem(codeInvalidRequest, fmt.Sprintf("kind is %.40q, which there is not; write it as in documents, such as Region.", text))
	}
	limit, err := limitOf(c)
	if err != nil {
		return err
	}
	from, err := sameList(c, "state", "kind", "name", "proposer")
	if err != nil {
		return err
	}
	view, err := s.view(c)
	if err != nil {
		return err
	}
	scope, name := identity(c).Scope, pattern(c.QueryParam("name"))
	page := List[Proposal]{Items: []Proposal{}}
	for _, p := range slices.Backward(view.Proposals()) {
		if from.Before != 0 && p.GetId() >= from.Before || !seesProposal(scope, view, p) {
			continue
		}
		told, fits := s.proposal(p), true
		for parameter, of := range proposalTexts {
			want := c.QueryParam(parameter)
			fits = fits && (want == "" || of(told) == want)
		}
		if !fits || !name.fits(told.Name) {
			continue
		}
		if n := len(page.Items); n == limit {
			last, _ := strconv.ParseUint(page.Items[n-1].ID, 10, 64) // it is one of ours
			page.NextCursor = cursor{Of: from.Of, Before: last}.String()
			break
		}
		page.Items = append(page.Items, told)
	}
	return c.JSON(http.StatusOK, page)
}

func (s *Server) getProposal(c echo.Context) error {
	simulate, err := flag(c, "simulate")
	if err != nil {
		return err
	}
	view, err := s.view(c)
	if err != nil {
		return err
	}
	p, err := proposalIn(c, view)
	if err != nil {
		return err
	}
	told := s.whole(view, p)
	if simulate && told.State == state.ProposalPending {
		s.foresee(c, view, p, &told)
	}
	return c.JSON(http.StatusOK, told)
}

// foresee tells of a proposal what a dry run of it would.
func (s *Server) foresee(c echo.Context, view *state.View, p *statepb.Proposal, told *Proposal) {
	next, out := state.Rehearse(view, s.writeOf(p, p.GetProposer()))
	if out.GetCode() != "" {
		return // whoever approves it is told
	}
	signals := s.o.Signals.Snapshot(s.o.Now())
	told.Lint = warnings(c, next, policy.Brought(told.Kind, told.Name, lint(view, signals), lint(next, signals)))
	told.Simulation = s.outlook(c, view, next, signals)
}

// writeOf is the write that a proposal would be, by somebody and as of now.
func (s *Server) writeOf(p *statepb.Proposal, who *statepb.Actor) *statepb.Command {
	cmd := &statepb.Command{AtUnixMs: s.o.Now().UnixMilli(), Actor: who}
	if d := p.GetDelete(); d != nil {
		cmd.Op = &statepb.Command_Delete{Delete: d}
	} else {
		cmd.Op = &statepb.Command_Put{Put: p.GetPut()}
	}
	return cmd
}

// proposalIn finds the proposal of a path, as far as the caller's scope shows it.
func proposalIn(c echo.Context, view *state.View) (*statepb.Proposal, error) {
	id, err := strconv.ParseUint(c.Param("id"), 10, 64)
	if p := view.Proposal(id); err == nil && p != nil && seesProposal(identity(c).Scope, view, p) {
		return p, nil
	}
	return nil, newProblem(codeNotFound, fmt.Sprintf("No proposal %.40q is remembered; GET /v1/proposals lists them.", c.Param("id")))
}

// proposed answers a write that has become a proposal.
func (s *Server) proposed(c echo.Context, id uint64) error {
	view := s.o.View()
	p := view.Proposal(id)
	if p == nil {
		return newProblem(codeNotFound, fmt.Sprintf("The change was proposed as %d, and is not remembered any more.", id))
	}
	c.Response().Header().Set("Location", "/v1/proposals/"+strconv.FormatUint(id, 10))
	return c.JSON(http.StatusAccepted, s.whole(view, p))
}
