package store

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// machine is Raft's state machine: it applies commands to the view. Raft calls it from one
// goroutine.
type machine struct {
	views *views
	halt  func(error)
	// stopped after an entry that this node cannot apply: whatever follows must not be applied
	// either, or the node would silently differ from the others.
	stopped bool
	// started says that Raft has taken the snapshot that it starts from, if there is one.
	started atomic.Bool
	marks   marks
}

// applied is what a proposer gets back.
type applied struct {
	outcome *statepb.Outcome
	err     error
}

var errHalted = errors.New("this node has stopped applying")

// Apply applies one committed entry.
func (m *machine) Apply(l *raft.Log) any {
	if m.stopped {
		return applied{err: errHalted}
	}
	cmd, err := unpack(l.Data)
	if err == nil {
		var view *state.View
		var outcome *statepb.Outcome
		if view, outcome, err = state.Apply(m.views.load(), l.Index, cmd); err == nil {
			err = m.marks.met(view, cmd)
		}
		if err == nil {
			m.views.set(view)
			return applied{outcome: outcome}
		}
	}
	m.stopped = true
	m.halt(fmt.Errorf("apply entry %d: %w", l.Index, err))
	return applied{err: errHalted}
}

// Snapshot takes the current view, which never changes again.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	if m.stopped {
		return nil, errHalted
	}
	return frozen{m.views.load()}, nil
}

// Restore replaces the state by that of a snapshot.
func (m *machine) Restore(r io.ReadCloser) error {
	view, err := state.Decode(r)
	if err != nil {
		err = fmt.Errorf("restore snapshot: %w", err)
		if !m.started.Load() {
			// It is whole, so this build cannot read it. Raft would take an older one.
			m.halt(err)
		}
		return err
	}
	if now := m.views.load().Index(); view.Index() < now {
		// Whoever sent it took this node for further behind than it is. Going back would undo
		// what was acknowledged.
		return fmt.Errorf("restore snapshot: it ends at %d, the state here at %d", view.Index(), now)
	}
	m.views.set(view)
	return nil
}

// frozen is a snapshot being written.
type frozen struct{ view *state.View }

// Persist writes the state and closes the sink, or cancels it.
func (f frozen) Persist(sink raft.SnapshotSink) error {
	if err := state.Encode(f.view, sink); err != nil {
		return errors.Join(fmt.Errorf("write snapshot at %d: %w", f.view.Index(), err), sink.Cancel())
	}
	return sink.Close()
}

// Release has nothing to let go of.
func (f frozen) Release() {}
