package store

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"anabranch/api/fleet"
)

// MaxIsolation bounds how long a node may cut itself off.
const MaxIsolation = 20 * time.Second

// errIsolated is what peers are spared of while this node is isolated.
var errIsolated = errors.New("isolated: a drill of the control plane is under way")

// ErrIsolation says that this node can't be isolated now.
var ErrIsolation = errors.New("the leader can't be isolated")

// isolation is until when this node sends nothing to its peers. It ends by the clock alone, so that nobody has to be
// there to end it.
type isolation struct{ until atomic.Int64 } // Unix ns

func (i *isolation) on() bool { return time.Now().UnixNano() < i.until.Load() }

// Isolate makes this node, which leads, send nothing to its peers for a time, at most [MaxIsolation]: they elect
// another leader, and this one steps down once its lease has run out. Writes that it takes meanwhile end without being
// known. It is refused, with [ErrIsolation], unless all other voters answer, which healthy says of each, and have a quorum
// without it.
func (s *Store) Isolate(d time.Duration, healthy func(fleet.NodeID) bool) error {
	if d <= 0 || d > MaxIsolation {
		return fmt.Errorf("%w: for %s, the limit is %s", ErrIsolation, d, MaxIsolation)
	}
	if !s.IsLeader() {
		return fmt.Errorf("%w: this node does not lead", ErrIsolation)
	}
	voters, down := 0, 0
	for _, m := range s.Members() {
		if !m.Voter {
			continue
		}
		voters++
		if m.ID != s.ID() && !healthy(m.ID) {
			down++
		}
	}
	switch {
	case down > 0:
		return fmt.Errorf("%w: %d of %d voters do not answer", ErrIsolation, down, voters)
	case voters-1 < voters/2+1:
		return fmt.Errorf("%w: %d voters have no quorum without it", ErrIsolation, voters)
	}
	s.isolation.until.Store(time.Now().Add(d).UnixNano())
	s.logger.Warn("this node sends its peers nothing for a drill", "for", d)
	return nil
}
