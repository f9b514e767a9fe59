package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// A checkpoint is taken when this many commands have been applied since the last one, or any and this
// much time has passed.
const (
	checkpointEntries = 1000
	checkpointAge     = time.Minute
)

// ErrDiverged says that this node's state is not the leader's. Its folder can't be trusted any more:
// give the node an empty one and let it join anew.
var ErrDiverged = errors.New("the state of this node differs from the leader's")

// mark is a state that was kept to be hashed, once.
type mark struct {
	view *state.View
	sums func() []*statepb.Sum
}

// marks is what a node knows of checkpoints. Two commands make one: the first makes every node keep
// its state as of that command, a pointer; the second carries the leader's hashes of it. So no node
// needs to stand still, however many commands come between.
type marks struct {
	kept     atomic.Pointer[mark]
	last     atomic.Uint64 // index of the newest command that carried hashes
	compared atomic.Uint64 // index of the newest state that was found to be the same
}

// met looks at a command whose effect is view.
func (m *marks) met(view *state.View, cmd *statepb.Command) error {
	c := cmd.GetCheckpoint()
	if c == nil {
		return nil
	}
	if len(c.GetSums()) == 0 {
		m.kept.Store(&mark{view: view, sums: sync.OnceValue(func() []*statepb.Sum { return state.Sums(view) })})
		return nil
	}
	m.last.Store(view.Index())
	kept := m.kept.Load()
	if kept == nil || kept.view.Index() != c.GetIndex() || c.GetSchema() != state.Schema() {
		return nil // restored from a snapshot since, or of another build: nothing to compare
	}
	if parts := state.Differing(kept.sums(), c.GetSums()); len(parts) > 0 {
		return fmt.Errorf("checkpoint of index %d, in %s: %w", c.GetIndex(), strings.Join(parts, ", "), ErrDiverged)
	}
	m.compared.Store(c.GetIndex())
	return nil
}

// due says whether a checkpoint should be taken, applied commands after the last one and some time
// after it.
func due(applied uint64, age, limit time.Duration) bool {
	return applied >= checkpointEntries || applied > 0 && age >= limit
}

// takeCheckpoints takes them while this node leads and every voter knows what they are.
func (s *Store) takeCheckpoints(ctx context.Context) {
	look := time.NewTicker(s.o.scaled(2 * heartbeat))
	defer look.Stop()
	last, since := uint64(0), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		if now := s.machine.marks.last.Load(); now != last {
			last, since = now, time.Now()
		}
		view := s.views.load()
		if view.FeatureLevel() < 2 || !s.IsLeader() || !due(view.Index()-min(last, view.Index()), time.Since(since), s.o.scaled(checkpointAge)) {
			continue
		}
		if err := s.takeCheckpoint(ctx); err != nil {
			s.logger.Info("no checkpoint taken", "error", err)
		}
	}
}

// takeCheckpoint makes all nodes keep their state, and tells them the hashes of this node's.
func (s *Store) takeCheckpoint(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, queueTimeout)
	defer cancel()
	propose := func(c *statepb.Checkpoint) (*statepb.Outcome, error) {
		return s.Propose(ctx, &statepb.Command{
			Ignorable: true, AtUnixMs: time.Now().UnixMilli(),
			Actor: &statepb.Actor{Name: "system/store", Role: "admin"},
			Op:    &statepb.Command_Checkpoint{Checkpoint: c},
		})
	}
	out, err := propose(&statepb.Checkpoint{})
	if err != nil {
		return err
	}
	kept := s.machine.marks.kept.Load()
	if kept == nil || kept.view.Index() != out.GetRevision() {
		return errors.New("another leader is taking one")
	}
	_, err = propose(&statepb.Checkpoint{Index: out.GetRevision(), Schema: state.Schema(), Sums: kept.sums()})
	return err
}
