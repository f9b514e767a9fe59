// Package lastgood keeps the tables that a router has taken on its disk, so that it serves again
// within moments of a start with no control plane in sight. A file is written beside its place,
// synced and renamed, and its folder synced, so a crash leaves the old file or the new one and
// never half of one; a checksum finds what a disk did to it later, and then the next older table
// counts. What a table means is none of its business: the reader says which it accepts.
package lastgood

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
)

// Keep is how many tables are kept, the newest included: enough to go back past a bad afternoon.
const Keep = 10

const (
	prefix    = "table-"
	suffix    = ".anb"
	temporary = ".tmp"
)

// ErrNone says that the folder holds no table that can be used.
var ErrNone = errors.New("no last good table")

// Dir is a folder of tables. One process uses it at a time, one call at a time; only [Dir.Refs] may
// be called at any time.
type Dir struct {
	path string

	trial     []tried // tables that have yet to prove themselves, oldest first
	starts    int     // that found them there
	suspected bool    // they are suspects: not in force
}

// Open makes the folder if it is missing, readable by its owner only (a table holds hashes of API
// keys), and removes what a crash left half written.
func Open(path string) (*Dir, error) {
	if path == "" {
		return nil, errors.New("open last good tables: the folder is not named")
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("open last good tables: %w", err)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("open last good tables: %w", err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), temporary) && (strings.HasPrefix(e.Name(), prefix) || e.Name() == trialName+temporary) {
			if err := os.Remove(filepath.Join(path, e.Name())); err != nil {
				return nil, fmt.Errorf("remove half-written table: %w", err)
			}
		}
	}
	return &Dir{path: path}, nil
}

// Saved is a table found on disk.
type Saved struct {
	Table *routerpb.Table
	// At is when it was saved, by the clock of then.
	At time.Time
	// Skipped are the newer files that could not be used, newest first, each with its reason.
	Skipped []error
}

// Save writes t and drops all but the newest [Keep], and the newest that has proved itself if it is
// not among them. On return without error the table survives a power cut.
func (d *Dir) Save(t *routerpb.Table, now time.Time) error {
	data, err := encode(t, now)
	if err != nil {
		return fmt.Errorf("save table %d: %w", t.GetRef().GetRevision(), err)
	}
	name := filepath.Join(d.path, fileName(t.GetRef()))
	if err := writeSynced(name, data); err != nil {
		return fmt.Errorf("save table %d: %w", t.GetRef().GetRevision(), err)
	}
	return d.prune()
}

// Load returns the newest table that is whole and that accept (nil: any) takes. It returns
// [ErrNone], wrapped with the reasons, if there is none; a missing file is no reason.
func (d *Dir) Load(accept func(*routerpb.Table) error) (Saved, error) {
	names, err := d.names()
	if err != nil {
		return Saved{}, err
	}
	var found Saved
	for _, name := range names {
		t, at, err := read(filepath.Join(d.path, name))
		if err == nil && accept != nil {
			err = accept(t)
		}
		if err != nil {
			found.Skipped = append(found.Skipped, fmt.Errorf("%s: %w", name, err))
			continue
		}
		found.Table, found.At = t, at
		return found, nil
	}
	return found, errors.Join(append([]error{ErrNone}, found.Skipped...)...)
}

// names lists the files, newest table first.
func (d *Dir) names() ([]string, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, fmt.Errorf("list last good tables: %w", err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) && strings.HasSuffix(e.Name(), suffix) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	slices.Reverse(names)
	return names, nil
}

// Refs lists the tables kept, newest first, without those that can't be read.
func (d *Dir) Refs() ([]table.Ref, error) {
	names, err := d.names()
	if err != nil {
		return nil, err
	}
	var refs []table.Ref
	for _, name := range names {
		if ref, err := readRef(filepath.Join(d.path, name)); err == nil {
			refs = append(refs, ref)
		}
	}
	return refs, nil
}

// Find returns the table of a revision. Epoch 0: the newest that there is. It returns [ErrNone] if
// it is not kept.
func (d *Dir) Find(epoch, revision uint64) (Saved, error) {
	names, err := d.names()
	if err != nil {
		return Saved{}, err
	}
	for _, name := range names {
		e, r, ok := numbers(name)
		if !ok || r != revision || epoch != 0 && e != epoch {
			continue
		}
		t, at, err := read(filepath.Join(d.path, name))
		if err != nil {
			return Saved{}, fmt.Errorf("%s: %w", name, err)
		}
		return Saved{Table: t, At: at}, nil
	}
	return Saved{}, ErrNone
}

// Drop removes tables.
func (d *Dir) Drop(refs []table.Ref) error {
	var problems []error
	for _, ref := range refs {
		name := filepath.Join(d.path, fileName(ref.Proto()))
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, fmt.Errorf("drop table: %w", err))
		}
	}
	return errors.Join(problems...)
}

func (d *Dir) prune() error {
	names, err := d.names()
	if err != nil {
		return err
	}
	proved := false
	for i, name := range names {
		if epoch, revision, ok := numbers(name); ok && !d.onTrial(epoch, revision) && !proved {
			proved = true
			continue
		}
		if i < Keep {
			continue
		}
		if err := os.Remove(filepath.Join(d.path, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("drop old table: %w", err)
		}
	}
	return nil
}

// fileName sorts as tables do: by epoch, then by revision.
func fileName(ref *routerpb.TableRef) string {
	return fmt.Sprintf("%s%016x-%016x%s", prefix, ref.GetEpoch(), ref.GetRevision(), suffix)
}

// numbers reads back what fileName wrote.
func numbers(name string) (epoch, revision uint64, ok bool) {
	n, err := fmt.Sscanf(name, prefix+"%016x-%016x"+suffix, &epoch, &revision)
	return epoch, revision, n == 2 && err == nil
}

func writeSynced(name string, data []byte) (err error) {
	f, err := os.OpenFile(name+temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(name + temporary) // best effort: Open removes it as well
		}
	}()
	if _, err = f.Write(data); err != nil {
		_ = f.Close() // the write's error is the one to tell
		return err
	}
	if err = f.Sync(); err != nil {
		_ = f.Close() // the sync's error is the one to tell
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(name+temporary, name); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	err = folder.Sync()
	return errors.Join(err, folder.Close())
}
