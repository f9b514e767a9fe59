// Package boltlog keeps a Raft log and Raft's few stable values (term, vote) in one bbolt file. It
// implements raft.LogStore, raft.StableStore and raft.MonotonicLogStore of hashicorp/raft.
//
// It leaves to others: caching of recent entries (raft.LogCache), and what to do when the disk
// fails (package store).
package boltlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
)

const (
	// deleteChunk is how many entries one transaction deletes at most, so that a long truncation
	// never holds the write lock for long.
	deleteChunk = 1024
	// lockTimeout is how long Open waits for another process to let go of the file.
	lockTimeout = time.Second
)

var (
	logsBucket   = []byte("logs")
	stableBucket = []byte("stable")
)

// Options says where the log is. Only Path is required.
type Options struct {
	// Path of the file; its folder must exist.
	Path string
	// NoSync leaves out fsync. A crash of the machine may then lose acknowledged entries, so it
	// is for tests and benchmarks only.
	NoSync bool
}

// Log is an open log file. It is safe for concurrent use; appends and deletions are serialised by
// bbolt.
type Log struct {
	db *bbolt.DB

	mu          sync.RWMutex // guards first and last
	first, last uint64       // 0, 0: empty

	saved   int64         // by the rewrite at start
	deleted atomic.Uint64 // entries
	chunks  atomic.Uint64 // transactions that deleted them
}

// Stats is what has become of the file.
type Stats struct {
	// Bytes is the size of the file up to its last used page, FreeBytes how much of that is empty pages
	// that appends will use.
	Bytes, FreeBytes int64
	// CompactedBytes is by how much the file was shortened when it was opened; 0: it was not.
	CompactedBytes int64
	// Deleted counts entries deleted since the file was opened, and DeleteChunks the transactions for that.
	Deleted, DeleteChunks uint64
}

// used is the size of the file up to its last used page; 0 once it is closed.
func (l *Log) used() (bytes int64) {
	_ = l.db.View(func(tx *bbolt.Tx) error { // fails only on a file that was closed
		bytes = tx.Size()
		return nil
	})
	return bytes
}

// Stats takes a glance; it does not wait for appends, which may hang.
func (l *Log) Stats() Stats {
	return Stats{
		Bytes: l.used(), FreeBytes: int64(l.db.Stats().FreeAlloc), CompactedBytes: l.saved,
		Deleted: l.deleted.Load(), DeleteChunks: l.chunks.Load(),
	}
}

var (
	_ raft.LogStore          = (*Log)(nil)
	_ raft.StableStore       = (*Log)(nil)
	_ raft.MonotonicLogStore = (*Log)(nil)
)

// Open opens or creates the log, checks every frame in it, and rewrites the file if it is mostly
// empty pages. Errors: wrapping [ErrCorrupt] if the content cannot be trusted; a time-out after
// one second if another process has the file open.
func Open(o Options) (*Log, error) {
	db, live, err := openChecked(o)
	if err != nil {
		return nil, err
	}
	rewrite := wasteful(db.file, live.bytes)
	if rewrite {
		if db.DB, err = compact(db.DB, o); err != nil {
			return nil, err
		}
	}
	l := &Log{db: db.DB, first: live.first, last: live.last}
	if rewrite {
		l.saved = max(0, db.file-l.used())
	}
	return l, nil
}

// Close closes the file. Other calls must have returned.
func (l *Log) Close() error { return l.db.Close() }

// IsMonotonic says that the log never has holes.
func (l *Log) IsMonotonic() bool { return true }

// FirstIndex returns the index of the oldest entry, 0 for none.
func (l *Log) FirstIndex() (uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.first, nil
}

// LastIndex returns the index of the newest entry, 0 for none.
func (l *Log) LastIndex() (uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.last, nil
}

// GetLog fills log with the entry at index: raft.ErrLogNotFound if there is none, an error that
// wraps [ErrCorrupt] if it cannot be trusted.
func (l *Log) GetLog(index uint64, log *raft.Log) error {
	return l.db.View(func(tx *bbolt.Tx) error {
		frame := tx.Bucket(logsBucket).Get(key(index))
		if frame == nil {
			return raft.ErrLogNotFound
		}
		return readFrame(frame, index, log)
	})
}

// StoreLog appends one entry, as [Log.StoreLogs].
func (l *Log) StoreLog(log *raft.Log) error { return l.StoreLogs([]*raft.Log{log}) }

// StoreLogs appends entries in one synced transaction: all or none. They must follow each other
// and the newest entry without a gap; an empty log takes any first index but 0.
func (l *Log) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	_, last := l.bounds()
	if logs[0].Index == 0 {
		return errors.New("append entry 0: indexes start at 1")
	}
	for i, log := range logs {
		want := last + 1
		if i == 0 && last == 0 {
			want = log.Index
		}
		if log.Index != want {
			return fmt.Errorf("append entry %d: the log ends at %d", log.Index, last)
		}
		last = log.Index
	}
	err := l.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(logsBucket)
		b.FillPercent = 1 // keys only grow, so a half-full page would stay half full
		for _, log := range logs {
			// bbolt keeps the value until the commit: a buffer cannot be shared.
			frame := appendFrame(make([]byte, 0, headerSize+len(log.Data)+len(log.Extensions)), log)
			if err := b.Put(key(log.Index), frame); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("append entries %d to %d: %w", logs[0].Index, last, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == 0 {
		l.first = logs[0].Index
	}
	l.last = last
	return nil
}

// DeleteRange deletes the entries from low to high, both included, at one end of the log (or all
// of it): a range in the middle would leave a hole and is refused. It works in chunks, the oldest
// end forwards and the newest end backwards, so that a crash in between leaves a shorter log
// without holes, and one that still starts where it started unless that was to go.
func (l *Log) DeleteRange(low, high uint64) error {
	first, last := l.bounds()
	low, high = max(low, first), min(high, last)
	switch {
	case first == 0 || low > high:
		return nil
	case low > first && high < last:
		return fmt.Errorf("delete entries %d to %d: inside %d to %d, which would leave a hole", low, high, first, last)
	}
	for backwards := high == last; low <= high; {
		from, to := low, min(high, low+deleteChunk-1)
		if backwards {
			from, to = max(low, high-min(high, deleteChunk-1)), high
		}
		if err := l.deleteChunk(from, to); err != nil {
			return fmt.Errorf("delete entries %d to %d: %w", from, to, err)
		}
		l.shrink(from, to)
		l.deleted.Add(to - from + 1)
		l.chunks.Add(1)
		if backwards {
			high = from - 1
		} else {
			low = to + 1
		}
	}
	return nil
}

func (l *Log) deleteChunk(from, to uint64) error {
	return l.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(logsBucket)
		for i := from; i <= to; i++ {
			if err := b.Delete(key(i)); err != nil {
				return err
			}
		}
		return nil
	})
}

// shrink forgets the entries from..to, which are at one end.
func (l *Log) shrink(from, to uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case from <= l.first && to >= l.last:
		l.first, l.last = 0, 0
	case from <= l.first:
		l.first = to + 1
	default:
		l.last = from - 1
	}
}

func (l *Log) bounds() (first, last uint64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.first, l.last
}

func key(index uint64) []byte { return binary.BigEndian.AppendUint64(nil, index) }

func openFile(path string, noSync, readOnly bool) (*bbolt.DB, error) {
	return bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout: lockTimeout,
		// Written at every commit, the list of free pages costs megabytes per append after a long
		// log was truncated; without it the list is rebuilt when the file is opened.
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
		NoSync:         noSync,
		ReadOnly:       readOnly,
	})
}
