package store

import (
	"errors"
	"testing"

	"github.com/hashicorp/raft"
)

// logAfterSnapshot makes a log with the entries from..to (0, 0: none) and a snapshot that ends at
// index with term 7 (index 0: none).
func logAfterSnapshot(t *testing.T, from, to, index uint64) *guardedLog {
	t.Helper()
	snapshots := raft.NewInmemSnapshotStore()
	if index > 0 {
		sink, err := snapshots.Create(raft.SnapshotVersionMax, index, 7, raft.Configuration{}, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := sink.Close(); err != nil {
			t.Fatal(err)
		}
	}
	g := &guardedLog{
		LogStore: raft.NewInmemStore(), ghosts: ghosts{snapshots: snapshots},
		halt: func(err error) { t.Logf("halt: %v", err) },
	}
	for i := from; i <= to && i > 0; i++ {
		if err := g.StoreLog(&raft.Log{Index: i, Term: 5, Type: raft.LogCommand}); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

func TestTheEntryThatASnapshotEndsWithIsKnown(t *testing.T) {
	for _, c := range []struct {
		name            string
		from, to, index uint64
		ask             uint64
		term            uint64 // 0: not found
	}{
		{"log begins after it", 45, 46, 44, 44, 7},
		{"log is empty", 0, 0, 44, 44, 7},
		{"log holds it", 40, 46, 44, 44, 5},
		{"before it", 45, 46, 44, 43, 0},
		{"after the log", 45, 46, 44, 47, 0},
		{"log begins later", 46, 47, 44, 44, 0},
		{"no snapshot", 45, 46, 0, 44, 0},
		{"the very first entry", 2, 3, 1, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l raft.Log
			err := logAfterSnapshot(t, c.from, c.to, c.index).GetLog(c.ask, &l)
			if c.term == 0 {
				if !errors.Is(err, raft.ErrLogNotFound) {
					t.Errorf("%+v, %v, want not found", l, err)
				}
				return
			}
			if err != nil || l.Term != c.term || l.Index != c.ask {
				t.Errorf("%+v, %v, want term %d", l, err, c.term)
			}
		})
	}
}

func TestEntriesClearedForASnapshotConflictWithEverythingUntilTheyAreReplaced(t *testing.T) {
	g := logAfterSnapshot(t, 40, 60, 44)
	if err := g.DeleteRange(40, 60); err != nil {
		t.Fatal(err)
	}
	var l raft.Log
	for _, i := range []uint64{45, 60} {
		if err := g.GetLog(i, &l); err != nil || l.Term != 0 || l.Index != i {
			t.Errorf("entry %d: %+v, %v, want term 0", i, l, err)
		}
	}
	if err := g.GetLog(61, &l); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("entry 61: %v, want not found", err)
	}
	// What Raft does on a conflict at 45.
	if err := g.DeleteRange(45, 60); err != nil {
		t.Fatal(err)
	}
	if err := g.StoreLog(&raft.Log{Index: 45, Term: 9}); err != nil {
		t.Fatal(err)
	}
	if err := g.GetLog(46, &l); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("entry 46 after the end: %v, want not found", err)
	}
	if err := g.GetLog(45, &l); err != nil || l.Term != 9 {
		t.Errorf("entry 45: %+v, %v, want term 9", l, err)
	}
}

func TestAppendingBehindClearedEntriesStopsTheNode(t *testing.T) {
	g := logAfterSnapshot(t, 40, 60, 44)
	var reason error
	g.halt = func(err error) { reason = err }
	if err := g.DeleteRange(40, 60); err != nil {
		t.Fatal(err)
	}
	if err := g.StoreLog(&raft.Log{Index: 61, Term: 9}); err == nil || reason == nil {
		t.Errorf("append: %v, halted with %v, want both", err, reason)
	}
}

func TestOrdinaryTruncationLeavesNoGhosts(t *testing.T) {
	for name, cut := range map[string][2]uint64{"oldest": {40, 50}, "newest": {50, 60}} {
		g := logAfterSnapshot(t, 40, 60, 44)
		if err := g.DeleteRange(cut[0], cut[1]); err != nil {
			t.Fatal(err)
		}
		if err := g.GetLog(cut[1], new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) {
			t.Errorf("%s: %v, want not found", name, err)
		}
	}
	g := logAfterSnapshot(t, 40, 60, 60)
	if err := g.DeleteRange(40, 60); err != nil {
		t.Fatal(err)
	}
	if err := g.GetLog(59, new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("all of it is in the snapshot: %v, want not found", err)
	}
}
