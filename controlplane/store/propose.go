package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// queueTimeout bounds how long a proposal waits for Raft to take it.
const queueTimeout = 5 * time.Second

// Propose commits a command through this node, which must lead, and waits until it has been
// applied here. The outcome tells what Apply thought of it. Errors that are not
// [ErrUnknownOutcome] mean that it certainly was not proposed: [ErrNotLeader], [ErrReadOnly],
// [ErrTooLarge], [ErrBusy], [ErrClosed], [ErrTooNew], or ctx's. The format is stamped here, whatever
// cmd says; cmd itself is not changed.
func (s *Store) Propose(ctx context.Context, cmd *statepb.Command) (*statepb.Outcome, error) {
	began := time.Now()
	out, err := s.propose(ctx, cmd)
	s.watch.proposed(err, time.Since(began))
	return out, err
}

func (s *Store) propose(ctx context.Context, cmd *statepb.Command) (*statepb.Outcome, error) {
	cmd, err := formatted(cmd, s.views.load().FeatureLevel())
	if err != nil {
		return nil, err
	}
	data, err := pack(cmd)
	if err != nil {
		return nil, err
	}
	r, err := s.leading()
	if err != nil {
		return nil, err
	}
	if s.readOnly.Load() {
		return nil, ErrReadOnly
	}
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var future raft.ApplyFuture
	err = s.await(ctx, func() raft.Future {
		defer func() { <-s.slots }()
		future = r.Apply(data, queueTimeout)
		// The slot is taken until the end, even if the proposer has left.
		_ = future.Error() // read again by await
		return future
	})
	if err != nil {
		return nil, s.proposalError(err)
	}
	s.transferring.Store(0)
	result, ok := future.Response().(applied)
	if !ok || result.err != nil {
		return nil, fmt.Errorf("%w: committed, but this node has stopped applying", ErrUnknownOutcome)
	}
	return result.outcome, nil
}

// formatted gives a command the oldest format that it can do with, and refuses it if the feature level
// does not allow that. The command that raises the level comes before it.
func formatted(cmd *statepb.Command, level uint32) (*statepb.Command, error) {
	needs := state.FormatOf(cmd)
	if needs > level && !cmd.GetIgnorable() && cmd.GetSetFeatureLevel() == nil {
		return nil, fmt.Errorf("command of format %d while some voters apply only up to %d: %w", needs, level, ErrTooNew)
	}
	if cmd.GetFormat() != needs {
		cmd = proto.CloneOf(cmd)
		cmd.Format = needs
	}
	return cmd, nil
}

// proposalError sorts Raft's errors into certain and unknown ones.
func (s *Store) proposalError(err error) error {
	switch {
	case errors.Is(err, ErrClosed):
		return err
	case errors.Is(err, raft.ErrNotLeader):
		return s.notLeader()
	case errors.Is(err, raft.ErrLeadershipTransferInProgress):
		s.watchTransfer()
		return ErrNotLeader{}
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return ErrBusy
	}
	return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
}

// leading returns Raft if this node leads and its disk works.
func (s *Store) leading() (*raft.Raft, error) {
	r := s.raft.Load()
	if r == nil {
		return nil, ErrClosed
	}
	if r.State() != raft.Leader || s.log.stalled() {
		return nil, s.notLeader()
	}
	return r, nil
}

func (s *Store) notLeader() error {
	id, address := s.Leader()
	if id == s.id.NodeID {
		return ErrNotLeader{}
	}
	return ErrNotLeader{ID: id, Address: address}
}

// operations counts what waits for Raft, so that the store can let it finish before it stops.
type operations struct {
	mu      sync.Mutex // guards closing, and Add against Wait
	closing bool
	running sync.WaitGroup
}

func (o *operations) begin() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closing {
		return false
	}
	o.running.Add(1)
	return true
}

// drain refuses new ones and waits for those that run, at most for limit.
func (o *operations) drain(limit time.Duration) {
	o.mu.Lock()
	o.closing = true
	o.mu.Unlock()
	within(limit, o.running.Wait)
}

// within does something that cannot be interrupted, and says whether it was done within limit. If
// not, it goes on alone.
func within(limit time.Duration, do func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// abandon has a future end with Raft. hashicorp/raft v1.8 forgets those of entries that were committed and not
// applied yet when it is shut down without being drained: a process that is killed takes their waiters along,
// but a test that plays one would leave them behind. Nil outside of tests.
var abandon func(f raft.Future, gone chan struct{})

// await starts something with Raft and waits for it until ctx ends. Raft's futures cannot be
// abandoned, so the waiting is left to a goroutine that the store waits for when it stops.
func (s *Store) await(ctx context.Context, start func() raft.Future) error {
	if !s.operations.begin() {
		return ErrClosed
	}
	done := make(chan error, 1)
	go func() {
		defer s.operations.running.Done()
		future := start()
		if abandon != nil {
			abandon(future, s.gone)
		}
		done <- future.Error()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
