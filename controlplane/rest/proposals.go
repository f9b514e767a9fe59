package rest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
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
	if scope.Everything() {
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

func (s *Server) listProposals(c echo.Context) error {
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
	view, err := s.view(c)
	if err != nil {
		return err
	}
	p, err := proposalIn(c, view)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, s.whole(view, p))
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

// decidable finds the proposal of a path that the caller may decide.
func (s *Server) decidable(c echo.Context) (*state.View, *statepb.Proposal, error) {
	if reason := c.Request().Header.Get(headerReason); len(reason) > maxReason {
		return nil, nil, newProblem(codeInvalidRequest, fmt.Sprintf("%s is %d bytes long, the limit is %d.", headerReason, len(reason), maxReason))
	}
	if err := s.barrier(c.Request().Context()); err != nil {
		return nil, nil, err
	}
	view := s.o.View()
	id, _ := strconv.ParseUint(c.Param("id"), 10, 64) // 0 is none
	p := view.Proposal(id)
	if p == nil {
		_, err := proposalIn(c, view)
		return nil, nil, err
	}
	kind, name := state.ProposalOf(p)
	r := resources{s, kind}
	if scope := identity(c).Scope; !scope.Covers(kind) {
		s.recordDenied(c, codeOutOfScope)
		return nil, nil, problemUnscoped(scope)
	}
	if scope := identity(c).Scope; !seesProposal(scope, view, p) { // the problem itself would tell of it
		s.recordDenied(c, codeOutOfScope)
		return nil, nil, problemUnscoped(scope)
	}
	was, next := documents(view, p)
	if err := r.inScope(c, name, was, next); err != nil {
		return nil, nil, err
	}
	return view, p, nil
}

func (s *Server) approveProposal(c echo.Context) error {
	var in ApproveOrder
	if err := strictJSON(c, &in); err != nil {
		return err
	}
	view, p, err := s.decidable(c)
	if err != nil {
		return err
	}
	sum, err := hex.DecodeString(in.SHA256)
	if err != nil || len(sum) == 0 {
		return problemDocument([]policy.Problem{{Field: "sha256", Reason: fmt.Sprintf("%.80q is not the hash of a proposal", in.SHA256), Fix: "send the sha256 of the proposal that you have looked at"}})
	}
	who := actor(c)
	if state.ProposalState(p, s.o.Now()) == state.ProposalPending {
		// What is not changed by others' word is judged again, as of now.
		kind, _ := state.ProposalOf(p)
		r, write := resources{s, kind}, &statepb.Command{AtUnixMs: s.o.Now().UnixMilli(), Actor: who}
		if d := p.GetDelete(); d != nil {
			write.Op = &statepb.Command_Delete{Delete: d}
		} else {
			write.Op = &statepb.Command_Put{Put: p.GetPut()}
		}
		if err := r.fits(view, write); err != nil {
			return err
		}
		if _, err := r.moderate(c, view, write, false); err != nil {
			return err
		}
	}
	now, err := s.decide(c, who, &statepb.DecideProposal{Id: p.GetId(), Verdict: state.VerdictApprove, Sha256: sum})
	if err != nil || now == nil {
		return err
	}
	return c.JSON(http.StatusOK, now)
}

func (s *Server) rejectProposal(c echo.Context) error {
	_, p, err := s.decidable(c)
	if err != nil {
		return err
	}
	if strings.TrimSpace(c.Request().Header.Get(headerReason)) == "" {
		return newProblem(codeInvalidRequest, "Say why, for whoever proposed it: send it as "+headerReason+".")
	}
	now, err := s.decide(c, actor(c), &statepb.DecideProposal{Id: p.GetId(), Verdict: state.VerdictReject})
	if err != nil || now == nil {
		return err
	}
	return c.JSON(http.StatusOK, now)
}

func (s *Server) withdrawProposal(c echo.Context) error {
	_, p, err := s.decidable(c)
	if err != nil {
		return err
	}
	now, err := s.decide(c, actor(c), &statepb.DecideProposal{Id: p.GetId(), Verdict: state.VerdictWithdraw})
	if err != nil || now == nil {
		return err
	}
	return c.JSON(http.StatusOK, now)
}

// decide commits a decision and tells of the proposal as it is then. Nil and no error: it was decided
// before, and has been answered again.
func (s *Server) decide(c echo.Context, who *statepb.Actor, d *statepb.DecideProposal) (*Proposal, error) {
	cmd := &statepb.Command{AtUnixMs: s.o.Now().UnixMilli(), Actor: who, Once: once(c), Op: &statepb.Command_DecideProposal{DecideProposal: d}}
	cmd.Format = state.FormatOf(cmd)
	out, err := s.o.Propose(c.Request().Context(), cmd)
	if err != nil {
		return nil, fmt.Errorf("%s proposal %d: %w", d.GetVerdict(), d.GetId(), err)
	}
	if a := out.GetAnswer(); a != nil { // the first one came through while this one was on its way
		return nil, s.answerAgain(c, a)
	}
	if p := problemOfDecision(out); p != nil {
		return nil, p
	}
	s.o.Logger.Info("proposal decided", slog.Uint64("proposal", d.GetId()), slog.String("verdict", d.GetVerdict()),
		slog.String("actor", who.GetName()), slog.String("request_id", requestID(c)))
	view := s.o.View()
	p := view.Proposal(d.GetId())
	if p == nil {
		return nil, newProblem(codeNotFound, fmt.Sprintf("Proposal %d is decided, and not remembered any more.", d.GetId()))
	}
	now := s.whole(view, p)
	return &now, nil
}

// problemOfDecision is what a refused decision means to the caller; nil: it was done.
func problemOfDecision(out *statepb.Outcome) *Problem {
	switch out.GetCode() {
	case state.CodeDecided:
		return newProblem(codeNotPending, out.GetMessage()+": there is nothing to decide any more.")
	case state.CodeChanged:
		return newProblem(codeProposalChanged, "The hash "+out.GetMessage()+". Look at it again, and send its sha256.")
	case state.CodeOwnProposal:
		return newProblem(codeOwnProposal, out.GetMessage()+": somebody else has to approve it.")
	case state.CodeNotProposer:
		return newProblem(codeNotProposer, out.GetMessage()+". Who has the right to approve may reject it.")
	}
	return problemOfOutcome(out)
}

// decidedAgain answers a write with a key that made a proposal, or decided one, with the proposal as it is
// now.
func (s *Server) decidedAgain(c echo.Context, a *statepb.Answer) error {
	id, err := strconv.ParseUint(a.GetName(), 10, 64)
	if err != nil {
		return fmt.Errorf("answer again: %w", err)
	}
	if a.GetCreated() {
		return s.proposed(c, id)
	}
	view := s.o.View()
	p := view.Proposal(id)
	if p == nil {
		return newProblem(codeNotFound, fmt.Sprintf("Proposal %d is decided, and not remembered any more.", id))
	}
	return c.JSON(http.StatusOK, s.whole(view, p))
}
