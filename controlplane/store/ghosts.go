package store

import (
	"fmt"
	"sync"

	"github.com/hashicorp/raft"
)

// ghosts answers for entries that are not in the log though Raft asks for them after a snapshot.
// hashicorp/raft v1.8 gets two cases wrong with a log that has no holes, and each would leave a
// follower behind for ever, being sent the same snapshot again and again:
//
//   - The log begins right after the snapshot, and the leader asks whether the entry that the
//     snapshot ends with matches. Raft looks for it in the log only.
//   - A log with entries beyond the snapshot, which conflicted, was cleared after the snapshot had
//     been installed. Raft still takes the last of them for the end of its log.
//
// In the first case the answer is an entry with the snapshot's term. In the second it is one of
// term 0, which conflicts with whatever the leader sends, so that Raft replaces it.
type ghosts struct {
	snapshots raft.SnapshotStore

	mu       sync.Mutex // guards from and to
	from, to uint64     // what Raft believes to have; 0, 0: nothing
}

// deleted is told after entries up to high were deleted from logs.
func (g *ghosts) deleted(logs raft.LogStore, high uint64) error {
	if last, err := logs.LastIndex(); err != nil || last != 0 {
		return err
	}
	snapshot, err := g.newest()
	if err != nil || snapshot == nil || high <= snapshot.Index {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.to == 0 { // else it is Raft that deletes the ghosts
		g.from, g.to = snapshot.Index+1, high
	}
	return nil
}

// appended is told before entries are appended: after that Raft knows where its log ends. If it
// appends beyond the ghosts instead of over them it believes in them, as a leader might, and has
// to be started again.
func (g *ghosts) appended(logs []*raft.Log) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.to != 0 && len(logs) > 0 && logs[0].Index > g.from {
		return fmt.Errorf("entry %d follows %d, which was cleared for a snapshot: start this node again", logs[0].Index, g.from-1)
	}
	g.from, g.to = 0, 0
	return nil
}

// get answers for an entry that is not in logs.
func (g *ghosts) get(logs raft.LogStore, index uint64, l *raft.Log) error {
	g.mu.Lock()
	from, to := g.from, g.to
	g.mu.Unlock()
	if from <= index && index <= to {
		*l = raft.Log{Index: index, Type: raft.LogNoop}
		return nil
	}
	first, err := logs.FirstIndex()
	if err != nil {
		return err
	}
	// Not for the very first entry, which a leader sends without looking at one before it.
	if index <= 1 || first != 0 && first != index+1 {
		return raft.ErrLogNotFound
	}
	snapshot, err := g.newest()
	if err != nil {
		return err
	}
	if snapshot == nil || snapshot.Index != index {
		return raft.ErrLogNotFound
	}
	*l = raft.Log{Index: index, Term: snapshot.Term, Type: raft.LogNoop}
	return nil
}

func (g *ghosts) newest() (*raft.SnapshotMeta, error) {
	list, err := g.snapshots.List()
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	if len(list) == 0 {
		return nil, nil //nolint:nilnil // no snapshot is no error
	}
	return list[0], nil
}
