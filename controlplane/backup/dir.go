package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Dir is a folder as a [Place]: on another disk than the data, or better on another machine. It is
// made when it is missing.
type Dir string

// String is the folder.
func (d Dir) String() string { return string(d) }

// Put writes the file beside its name, syncs it, proves it good by reading it again, and renames it. What
// is no backup by its name is compared with what was to be written. The name may be below folders.
func (d Dir) Put(_ context.Context, name string, archive io.ReadSeeker, size int64) error {
	path := filepath.Join(string(d), filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	d.sweep(filepath.Dir(path))
	if !strings.HasSuffix(name, suffix) {
		return keep(path, archive, size)
	}
	_, err := Save(path, func(w io.Writer) error {
		n, err := io.Copy(w, archive)
		if err == nil && n != size {
			err = fmt.Errorf("copied %d bytes of %d: %w", n, size, io.ErrUnexpectedEOF)
		}
		return err
	})
	return err
}

// sweep removes what crashes have left of copies, once nobody can be writing it any more. What stays
// will be looked at again.
func (d Dir) sweep(folder string) {
	parts, _ := filepath.Glob(filepath.Join(folder, "anabranch-*"+partSuffix)) // the pattern is good
	for _, part := range parts {
		if info, err := os.Stat(part); err == nil && time.Since(info.ModTime()) > 2*timeout {
			_ = os.Remove(part)
		}
	}
}

// Names lists the folder; one that is not there yet is empty.
func (d Dir) Names(context.Context) ([]string, error) {
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// Delete removes a file.
func (d Dir) Delete(_ context.Context, name string) error {
	return os.Remove(filepath.Join(string(d), name))
}
