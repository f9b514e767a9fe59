package rest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// watchProposals tells of those that are pending, and of each whenever it changes, without their content.
// An id is a revision up to which all has been told, so that a watch can be resumed.
func (s *Server) watchProposals(c echo.Context) error {
	at, err := lastEventID(c)
	if err != nil {
		return err
	}
	if at != nil {
		if err := s.proposalsKnown(c.Request().Context(), *at); err != nil {
			return err
		}
	}
	st, closed, err := s.openStream(c)
	if err != nil {
		return err
	}
	defer closed()
	view := s.o.View()
	told, err := s.tellProposals(c, st, view, at)
	heartbeat := time.NewTicker(s.o.Heartbeat)
	defer heartbeat.Stop()
	for err == nil {
		select {
		case <-s.o.Changed(view.Index()):
			if s.lapsed(c) {
				return nil
			}
			view = s.o.View()
			told, err = s.tellProposals(c, st, view, &told)
		case <-heartbeat.C:
			if s.lapsed(c) {
				return nil
			}
			err = st.heartbeat(told)
		case <-c.Request().Context().Done():
			return nil
		case <-s.draining:
			return nil
		}
	}
	return nil // the client left, or reads too slowly
}

// proposalsKnown is an error if what became of proposals after a revision is forgotten in part, or if there
// has not been such a revision.
func (s *Server) proposalsKnown(ctx context.Context, after uint64) error {
	view := s.o.View()
	if after > view.Index() {
		if err := s.barrier(ctx); err != nil {
			return err
		}
		view = s.o.View()
	}
	if after > view.Index() || after < view.ProposalsForgotten() {
		return newProblem(codeGone, fmt.Sprintf("Proposals that ended up to revision %d are forgotten. List them, and watch without Last-Event-ID.", view.ProposalsForgotten()))
	}
	return nil
}

// tellProposals tells what has changed after a revision, or what is pending if there is none, and says up
// to which revision all has been told. Events of one command have its revision as id only at the last.
func (s *Server) tellProposals(c echo.Context, st eventSink, view *state.View, after *uint64) (uint64, error) {
	scope := identity(c).Scope
	var news []*statepb.Proposal
	for _, p := range view.Proposals() {
		fresh := after == nil && state.ProposalState(p, s.o.Now()) == state.ProposalPending || after != nil && p.GetRevision() > *after
		if fresh && seesProposal(scope, view, p) {
			news = append(news, p)
		}
	}
	slices.SortStableFunc(news, func(a, b *statepb.Proposal) int { return cmp.Compare(a.GetRevision(), b.GetRevision()) })
	var id uint64
	if after != nil {
		id = *after
	}
	for i, p := range news {
		if i+1 == len(news) || news[i+1].GetRevision() != p.GetRevision() {
			id = p.GetRevision()
		}
		data, err := json.Marshal(s.proposal(p))
		if err != nil {
			return 0, fmt.Errorf("watch proposals: %w", err)
		}
		if err := st.event(id, "proposal", data); err != nil {
			return 0, err
		}
	}
	return view.Index(), nil
}
