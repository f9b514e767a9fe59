package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"anabranch/controlplane/state"
)

// View returns the state as far as this node has applied it. It never changes; later states are
// new views.
func (s *Store) View() *state.View { return s.views.load() }

// Changed returns a channel that is closed once the state may be newer than after: look again
// then. It is closed already if View().Index() > after.
func (s *Store) Changed(after uint64) <-chan struct{} { return s.views.changed(after) }

// WaitApplied waits until this node has applied the command at index (an outcome's revision, or
// what [Store.ReadIndex] returned). Errors: ctx's, [ErrClosed].
func (s *Store) WaitApplied(ctx context.Context, index uint64) error {
	for s.views.load().Index() < index {
		select {
		case <-s.views.changed(index - 1):
		case <-ctx.Done():
			return ctx.Err()
		case <-s.stopped:
			return ErrClosed
		}
	}
	return nil
}

// Ready says whether this node has, since it started, caught up with a leader once.
func (s *Store) Ready() bool { return s.ready.Load() }

// MarkReady notes that this node has caught up: whoever forwards reads calls it after the first
// strong read that passed. A node that leads notes it by itself.
func (s *Store) MarkReady() { s.ready.Store(true) }

// ReadIndex returns the index of the last command that a reader must have applied to see
// everything acknowledged before the call. This node must lead. It has applied that far itself
// when it returns.
//
// Asking the others whether this node still leads is not enough: a new leader may not have applied
// what its predecessor acknowledged, and may be in a later term than the one that it asked about.
func (s *Store) ReadIndex(ctx context.Context) (uint64, error) {
	r, err := s.leading()
	if err != nil {
		return 0, err
	}
	term := r.CurrentTerm()
	if s.barrier.Load() != term && !s.o.hasty { // once per term
		if err := s.await(ctx, func() raft.Future { return r.Barrier(queueTimeout) }); err != nil {
			return 0, s.readError(err)
		}
		if r.CurrentTerm() != term {
			return 0, s.notLeader()
		}
		s.barrier.Store(term)
	}
	commit := r.CommitIndex()
	if err := s.await(ctx, func() raft.Future { return r.VerifyLeader() }); err != nil {
		return 0, s.readError(err)
	}
	if r.CurrentTerm() != term || r.State() != raft.Leader {
		return 0, s.notLeader()
	}
	index, err := s.lastCommand(commit)
	if err != nil {
		return 0, err
	}
	return index, s.WaitApplied(ctx, index)
}

// lastCommand returns the index of the last entry up to commit that the state machine sees. Raft's
// own entries (no-ops, barriers, memberships) never reach it, so that its index would never become
// theirs.
func (s *Store) lastCommand(commit uint64) (uint64, error) {
	var l raft.Log
	for i := commit; i > s.views.load().Index(); i-- {
		err := s.cache.GetLog(i, &l)
		if errors.Is(err, raft.ErrLogNotFound) {
			break // in a snapshot, and so applied
		}
		if err != nil {
			return 0, fmt.Errorf("find the last command: %w", err)
		}
		if l.Type == raft.LogCommand {
			return i, nil
		}
	}
	return min(commit, s.views.load().Index()), nil
}

// readError sorts Raft's errors; a read can always be tried again.
func (s *Store) readError(err error) error {
	for _, lost := range []error{raft.ErrNotLeader, raft.ErrLeadershipLost, raft.ErrLeadershipTransferInProgress} {
		if errors.Is(err, lost) {
			return s.notLeader()
		}
	}
	if errors.Is(err, raft.ErrEnqueueTimeout) {
		return ErrBusy
	}
	return err
}
