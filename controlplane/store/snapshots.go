package store

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// checkSnapshots makes sure that log and snapshots together hold everything that this node ever
// acknowledged. Raft passes over a snapshot that it cannot read and takes the one before, without
// asking whether the log reaches back to that: it would end in a panic, or vote for somebody who
// lacks what this node once had.
func (s *Store) checkSnapshots() error {
	list, err := s.snapshots.List() // newest first; without those whose description is unreadable
	if err != nil {
		return fmt.Errorf("list snapshots: %w", err)
	}
	first, err := s.file.FirstIndex()
	if err != nil {
		return err
	}
	var ends uint64
	var broken error
	for _, snapshot := range list {
		if err := whole(s.snapshots, snapshot.ID); err != nil {
			s.logger.Error("snapshot unreadable", "snapshot", snapshot.ID, "error", err)
			broken = errors.Join(broken, fmt.Errorf("snapshot %s: %w", snapshot.ID, err))
			continue
		}
		ends = snapshot.Index
		s.watch.snapshot(snapshot.Index, snapshot.Size, taken(snapshot.ID))
		break
	}
	switch {
	case ends == 0 && broken != nil:
		return fmt.Errorf("%s has no readable snapshot: %w: %w", s.o.Dir, ErrCorruptSnapshot, broken)
	case first > ends+1:
		return fmt.Errorf("%s: the log begins at %d, and the newest readable snapshot ends at %d: %w: %w",
			s.o.Dir, first, ends, ErrCorruptSnapshot, errors.Join(broken, errors.New("entries between them are gone")))
	case first == 0 && ends == 0 && s.id.ClusterID != "":
		return fmt.Errorf("%s is a member of cluster %s but its log is gone: give the node an empty folder and another id, and let it join: %w",
			s.o.Dir, s.id.ClusterID, ErrForeignFolder)
	}
	return nil
}

// whole opens a snapshot, for which the store of files compares its checksum.
func whole(snapshots raft.SnapshotStore, id string) error {
	_, r, err := snapshots.Open(id)
	if err != nil {
		return err
	}
	return r.Close()
}
