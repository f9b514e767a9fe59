package rest

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

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
		r, write := resources{s, kind}, s.writeOf(p, who)
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
