package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"anabranch/api/fleet"
)

// TransferEnd is how a transfer of leadership ended.
type TransferEnd string

// How transfers end: another node leads, or this one still does.
const (
	TransferDone   TransferEnd = "done"
	TransferFailed TransferEnd = "failed"
)

// TransferEnds lists them all.
func TransferEnds() []TransferEnd { return []TransferEnd{TransferDone, TransferFailed} }

// stuckAfter is how long, before scaling, a transfer may refuse writes before the node stops: the
// transfer itself gives up after one election timeout.
const stuckAfter = 20 * heartbeat

// TransferLeadership hands leadership to a voter; empty: to the one that is furthest. Writes are
// refused for as long as it takes, at most about one election timeout. Nothing is done if to leads
// already. Errors: [ErrNotLeader], [ErrNotMember], [ErrNotVoter], [ErrNoSuccessor], ctx's.
func (s *Store) TransferLeadership(ctx context.Context, to fleet.NodeID) error {
	r, err := s.leading()
	if err != nil {
		return fmt.Errorf("transfer leadership: %w", err)
	}
	members, chosen := s.Members(), Member{}
	switch at := find(members, to); {
	case to == "" && voters(members) < 2:
		return fmt.Errorf("transfer leadership: there is no other voter: %w", ErrNoSuccessor)
	case to == "":
	case at < 0:
		return fmt.Errorf("transfer leadership to %s: %w", to, ErrNotMember)
	case !members[at].Voter:
		return fmt.Errorf("transfer leadership to %s: %w", to, ErrNotVoter)
	case to == s.id.NodeID:
		return nil
	default:
		chosen = members[at]
	}
	earlier := s.transferring.Swap(0)
	err = s.await(ctx, func() raft.Future { return transferTo(r, chosen) })
	if errors.Is(err, raft.ErrLeadershipTransferInProgress) && earlier != 0 {
		s.transferring.Store(earlier) // it was not begun: the one before has still not ended
	}
	switch {
	case err == nil:
		s.counts.transfers[0].Add(1)
		s.logger.Info("leadership handed over", "to", to)
		return nil
	case errors.Is(err, ErrClosed), ctx.Err() != nil:
		return fmt.Errorf("transfer leadership: %w", err)
	case errors.Is(err, raft.ErrNotLeader):
		return fmt.Errorf("transfer leadership: %w", s.notLeader())
	}
	s.counts.transfers[1].Add(1)
	return fmt.Errorf("transfer leadership: %w: %w", ErrNoSuccessor, err)
}

// transferTo begins a transfer to a member, the zero one for Raft's choice.
func transferTo(r *raft.Raft, to Member) raft.Future {
	if to.ID == "" {
		return r.LeadershipTransfer()
	}
	return r.LeadershipTransferToServer(raft.ServerID(to.ID), raft.ServerAddress(to.Address))
}

// handOver makes another node lead if this one does, so that nobody waits for an election when it
// stops. Raft's own choice may be a node that is gone, so the other voters come after it.
func (s *Store) handOver(r *raft.Raft) {
	deadline := time.Now().Add(stopTimeout)
	within(stopTimeout, func() {
		for _, to := range s.successors() {
			err := s.handTo(r, to, deadline)
			if err == nil {
				s.seeElected(r)
				return
			}
			s.logger.Info("leadership was not handed over", "to", to.ID, "error", err)
		}
	})
}

// seeElected stays for a moment until another node leads: Raft steps down as soon as it hears of the
// candidate's term, and this node's vote may be the one that the candidate still needs.
func (s *Store) seeElected(r *raft.Raft) {
	look := time.NewTicker(s.o.scaled(heartbeat / 50))
	defer look.Stop()
	for range 100 {
		if _, id := r.LeaderWithID(); id != "" && fleet.NodeID(id) != s.id.NodeID {
			return
		}
		<-look.C
	}
}

// handTo hands leadership to a member, the zero one for Raft's choice. Raft refuses for a moment
// after a transfer that has failed.
func (s *Store) handTo(r *raft.Raft, to Member, deadline time.Time) error {
	again := time.NewTicker(s.o.scaled(heartbeat / 50))
	defer again.Stop()
	for {
		if r.State() != raft.Leader {
			return nil
		}
		err := transferTo(r, to).Error()
		if err == nil {
			s.counts.transfers[0].Add(1)
			return nil
		}
		if !errors.Is(err, raft.ErrLeadershipTransferInProgress) || time.Now().After(deadline) {
			s.counts.transfers[1].Add(1)
			return err
		}
		<-again.C
	}
}

// successors are those to hand leadership to in turn: the first, without a name, is Raft's choice.
func (s *Store) successors() []Member {
	others := slices.DeleteFunc(s.Members(), func(m Member) bool { return !m.Voter || m.ID == s.id.NodeID })
	if len(others) == 0 {
		return nil
	}
	return append([]Member{{}}, others...)
}

// watchTransfer stops a node that refuses writes because of a transfer of leadership that never
// ends: nothing else would. It is called for each refusal.
func (s *Store) watchTransfer() {
	now := time.Now().UnixNano()
	if !s.transferring.CompareAndSwap(0, now) && now-s.transferring.Load() > int64(s.o.scaled(stuckAfter)) {
		s.halt(errors.New("a transfer of leadership does not end"))
	}
}
