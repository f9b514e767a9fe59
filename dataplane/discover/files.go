package discover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"anabranch/dataplane/table"
)

// MaxFile bounds a file of endpoints, in bytes.
const MaxFile = 1 << 20

// settles is the share of a period after which a changed file must still be the same to count, so
// that one that is being written in place isn't taken by half.
const settles = 10

// files finds endpoints in a file that it reads again and again. Reading is what works with every way
// of replacing a file: in place, by rename, by the links that Kubernetes swaps, on a network drive.
type files struct {
	dir    string // absolute, or empty: anywhere
	period time.Duration
}

// Watch implements [Finder].
func (f *files) Watch(ctx context.Context, spec table.Discovery, found func([]table.Endpoint, error)) error {
	var (
		taken, seen []byte // what the list is made of; what was read last
		list        []table.Endpoint
		problem     error
	)
	for {
		pause := f.period
		text, err := f.read(spec.Name)
		switch {
		case err != nil:
			seen = nil
			found(nil, fmt.Errorf("read discovery file %s: %w", spec.Name, err))
		case taken != nil && bytes.Equal(text, taken):
			seen = text
			found(list, problem)
		case seen == nil || !bytes.Equal(text, seen):
			seen, pause = text, f.period/settles
		default:
			taken = text
			if list, problem = Parse(text); problem != nil {
				problem = fmt.Errorf("read discovery file %s: %w", spec.Name, problem)
			}
			found(list, problem)
		}
		if !rest(ctx, pause) {
			return nil
		}
	}
}

// read returns what is in the file, never nil without an error.
func (f *files) read(name string) ([]byte, error) {
	file, err := f.open(name)
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is not a regular file")
	}
	text, err := io.ReadAll(io.LimitReader(file, MaxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > MaxFile {
		return nil, fmt.Errorf("is larger than %d bytes", MaxFile)
	}
	return text, nil
}

// open opens a file for reading, below the folder if there is one. Links may lead anywhere within
// the folder and nowhere else.
func (f *files) open(name string) (*os.File, error) {
	// Without O_NONBLOCK a pipe without a writer would hold us for ever.
	const how = os.O_RDONLY | syscall.O_NONBLOCK
	if !filepath.IsAbs(name) {
		return nil, errors.New("is not an absolute path")
	}
	if f.dir == "" {
		return os.OpenFile(name, how, 0)
	}
	below, err := filepath.Rel(f.dir, name)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return nil, fmt.Errorf("open discovery folder: %w", err)
	}
	defer func() { _ = root.Close() }() // nothing was written
	return root.OpenFile(below, how, 0)
}
