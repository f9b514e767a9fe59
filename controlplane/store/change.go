package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"anabranch/api/fleet"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// Change is what a change of the membership did.
type Change string

// What changes do: a node came as a non-voter, has another address, became a voter, went.
const (
	ChangeAdd     Change = "add"
	ChangeMove    Change = "move"
	ChangePromote Change = "promote"
	ChangeRemove  Change = "remove"
)

// Changes lists them all.
func Changes() []Change { return []Change{ChangeAdd, ChangeMove, ChangePromote, ChangeRemove} }

// counts are what Stats tells of changes since the start.
type counts struct {
	changes   [4]atomic.Uint64 // in the order of Changes
	transfers [2]atomic.Uint64 // in the order of TransferEnds
}

func (c *counts) changed() map[Change]uint64 {
	all := map[Change]uint64{}
	for i, what := range Changes() {
		all[what] = c.changes[i].Load()
	}
	return all
}

func (c *counts) transferred() map[TransferEnd]uint64 {
	all := map[TransferEnd]uint64{}
	for i, end := range TransferEnds() {
		all[end] = c.transfers[i].Load()
	}
	return all
}

// AddNonvoter adds a node that receives everything but does not count yet, or changes the address
// of a member; a member that is known there already stays as it is. This node must lead.
// [ErrAddressTaken] if another member has the address.
func (s *Store) AddNonvoter(ctx context.Context, id fleet.NodeID, address string) error {
	return s.change(ctx, fmt.Sprintf("add %s at %s", id, address), func(members []Member) (Change, start, error) {
		what := ChangeAdd
		for _, m := range members {
			switch {
			case m.ID == id && m.Address == address:
				return "", nil, nil
			case m.ID == id:
				what = ChangeMove
			case m.Address == address:
				return "", nil, fmt.Errorf("that is the address of %s: %w", m.ID, ErrAddressTaken)
			}
		}
		return what, func(r *raft.Raft, limit time.Duration) raft.Future {
			return r.AddNonvoter(raft.ServerID(id), raft.ServerAddress(address), 0, limit)
		}, nil
	})
}

// AddVoter makes a node a voter. Add it as a non-voter first and wait until it has caught up: a
// voter that lags behind counts for majorities that it cannot help to form. A voter stays one.
// [ErrNotMember] if the node was not added or has been removed meanwhile.
func (s *Store) AddVoter(ctx context.Context, id fleet.NodeID) error {
	return s.change(ctx, fmt.Sprintf("make %s a voter", id), func(members []Member) (Change, start, error) {
		at := find(members, id)
		if at < 0 {
			return "", nil, ErrNotMember
		}
		if members[at].Voter {
			return "", nil, nil
		}
		return ChangePromote, func(r *raft.Raft, limit time.Duration) raft.Future {
			return r.AddVoter(raft.ServerID(id), raft.ServerAddress(members[at].Address), 0, limit)
		}, nil
	})
}

// RemoveMember removes a node. [ErrNotMember] if it is none; [ErrTooFewVoters] if fewer than
// [MinVoters] voters would be left, or with force none. A leader that is to remove itself hands
// leadership over first and returns [ErrNotLeader]: ask the next one.
func (s *Store) RemoveMember(ctx context.Context, id fleet.NodeID, force bool) error {
	least := MinVoters
	if force {
		least = 1
	}
	own := false
	err := s.change(ctx, fmt.Sprintf("remove %s", id), func(members []Member) (Change, start, error) {
		at := find(members, id)
		if at < 0 {
			return "", nil, ErrNotMember
		}
		if members[at].Voter && voters(members)-1 < least {
			return "", nil, fmt.Errorf("%d voters would be left, %d are needed: %w", voters(members)-1, least, ErrTooFewVoters)
		}
		if own = id == s.id.NodeID; own {
			return "", nil, nil
		}
		return ChangeRemove, func(r *raft.Raft, limit time.Duration) raft.Future {
			return r.RemoveServer(raft.ServerID(id), 0, limit)
		}, nil
	})
	if err != nil || !own {
		return err
	}
	if err := s.TransferLeadership(ctx, ""); err != nil {
		return fmt.Errorf("remove %s: %w", id, err)
	}
	return fmt.Errorf("remove %s: %w", id, s.notLeader())
}

func find(members []Member, id fleet.NodeID) int {
	return slices.IndexFunc(members, func(m Member) bool { return m.ID == id })
}

func voters(members []Member) int {
	n := 0
	for _, m := range members {
		if m.Voter {
			n++
		}
	}
	return n
}

// start begins a change with Raft, which queues it for at most limit.
type start func(r *raft.Raft, limit time.Duration) raft.Future

// change changes the membership, one change at a time: judge sees the members that the change will
// meet, and returns no start if there is nothing to do. It commits a no-op afterwards: until the
// next command after a change Raft takes no snapshot.
func (s *Store) change(ctx context.Context, what string, judge func([]Member) (Change, start, error)) error {
	select {
	case s.changing <- struct{}{}:
		defer func() { <-s.changing }()
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
	r, err := s.leading()
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	change, start, err := judge(s.Members())
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if start == nil {
		return nil
	}
	if err := s.await(ctx, func() raft.Future { return start(r, queueTimeout) }); err != nil {
		return fmt.Errorf("%s: %w", what, s.proposalError(err))
	}
	s.counts.changes[slices.Index(Changes(), change)].Add(1)
	s.logger.Info("membership changed", "change", what)
	noop := &statepb.Command{
		Format:    state.Format,
		Ignorable: true,
		AtUnixMs:  time.Now().UnixMilli(),
		Actor:     &statepb.Actor{Name: "system/store", Reason: what},
		Op:        &statepb.Command_Noop{Noop: &statepb.Noop{}},
	}
	if _, err := s.Propose(ctx, noop); err != nil && !errors.As(err, new(ErrNotLeader)) {
		s.logger.Warn("no-op after a change of membership", "error", err)
	}
	return nil
}
