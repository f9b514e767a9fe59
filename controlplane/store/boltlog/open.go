package boltlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

const (
	// compactFactor is how many times larger than its content the file may be at start.
	compactFactor = 4
	// compactFloor is the size in bytes below which a file is not worth rewriting.
	compactFloor = 4 << 20
	// compactTx is how many bytes one transaction of a rewrite holds.
	compactTx = 4 << 20
	// entryOverhead is what bbolt adds to an entry, in bytes: element header and key.
	entryOverhead = 24
)

// database is an open file and its size in bytes.
type database struct {
	*bbolt.DB
	file int64
}

// content is what a scan found: the range of entries and about how many bytes they need.
type content struct {
	first, last uint64
	bytes       int64
}

// openChecked checks the file, if there is one, and opens it.
func openChecked(o Options) (db database, live content, err error) {
	if err := os.Remove(compactPath(o.Path)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return db, live, fmt.Errorf("remove an unfinished rewrite: %w", err)
	}
	info, err := os.Stat(o.Path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return db, live, fmt.Errorf("open log: %w", err)
	case info.Size() > 0:
		db.file = info.Size()
		if live, err = inspect(o.Path, info.Size()); err != nil {
			return db, live, fmt.Errorf("open %s: %w", o.Path, err)
		}
	}
	if db.DB, err = openFile(o.Path, o.NoSync, false); err != nil {
		return db, live, fmt.Errorf("open %s: %w", o.Path, err)
	}
	if err := createBuckets(db.DB); err != nil {
		return db, live, errors.Join(fmt.Errorf("open %s: %w", o.Path, err), db.Close())
	}
	return db, live, nil
}

// inspect scans a file of size bytes without writing to it. Opened for writing, bbolt looks for
// free pages at once, and a file that is too short ends the process there.
func inspect(path string, size int64) (live content, err error) {
	// bbolt panics on pages that make no sense, and reading past the end of a file faults.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			// The file stays open: after a panic inside bbolt its locks may be held, and closing
			// would wait for them. The process is about to stop.
			err = fmt.Errorf("%v: %w", r, ErrCorrupt)
		}
	}()
	db, err := openFile(path, false, true)
	if err != nil {
		return content{}, corruption(err)
	}
	err = db.View(func(tx *bbolt.Tx) error {
		if tx.Size() > size {
			return fmt.Errorf("%d bytes long, it was %d: %w", size, tx.Size(), ErrCorrupt)
		}
		live, err = scan(tx)
		return err
	})
	return live, errors.Join(err, db.Close())
}

// corruption marks bbolt's complaints about content, as opposed to locks and permissions.
func corruption(err error) error {
	for _, c := range []error{bolterrors.ErrInvalid, bolterrors.ErrChecksum, bolterrors.ErrVersionMismatch} {
		if errors.Is(err, c) {
			return fmt.Errorf("%w: %w", err, ErrCorrupt)
		}
	}
	return err
}

func createBuckets(db *bbolt.DB) error {
	err := db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{logsBucket, stableBucket} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("create buckets: %w", err)
	}
	return nil
}

// scan checks all frames and values.
func scan(tx *bbolt.Tx) (content, error) {
	var live content
	var log raft.Log
	logs, stable := tx.Bucket(logsBucket), tx.Bucket(stableBucket)
	if logs == nil || stable == nil {
		return live, nil // made, but not used yet
	}
	c := logs.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if len(k) != 8 {
			return live, fmt.Errorf("key of %d bytes: %w", len(k), ErrCorrupt)
		}
		index := binary.BigEndian.Uint64(k)
		if live.last != 0 && index != live.last+1 {
			return live, fmt.Errorf("entry %d follows %d: %w", index, live.last, ErrCorrupt)
		}
		if err := readFrame(v, index, &log); err != nil {
			return live, err
		}
		if live.first == 0 {
			live.first = index
		}
		live.last = index
		live.bytes += int64(len(v)) + entryOverhead
	}
	return live, stable.ForEach(func(k, v []byte) error {
		_, err := openValue(k, v)
		return err
	})
}

// wasteful says whether a file of size bytes with live bytes of content is worth a rewrite.
func wasteful(size, live int64) bool {
	return size > compactFloor && size > compactFactor*live
}

func compactPath(path string) string { return path + ".compact" }

// compact rewrites the file without its empty pages and returns the new one, open. The old file
// is replaced in one step: a crash leaves one of the two.
func compact(src *bbolt.DB, o Options) (*bbolt.DB, error) {
	path := compactPath(o.Path)
	dst, err := openFile(path, true, false) // synced once, at the end
	if err != nil {
		return nil, errors.Join(fmt.Errorf("rewrite log: %w", err), src.Close())
	}
	err = bbolt.Compact(dst, src, compactTx)
	if err == nil {
		err = dst.Sync()
	}
	if err = errors.Join(err, dst.Close(), src.Close()); err != nil {
		return nil, fmt.Errorf("rewrite log: %w", err)
	}
	if err := os.Rename(path, o.Path); err != nil {
		return nil, fmt.Errorf("rewrite log: %w", err)
	}
	if err := syncDir(filepath.Dir(o.Path)); err != nil {
		return nil, fmt.Errorf("rewrite log: %w", err)
	}
	return openFile(o.Path, o.NoSync, false)
}

// syncDir makes a rename in dir survive a crash.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
