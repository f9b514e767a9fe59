package backup

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"anabranch/controlplane/state"
)

// partSuffix marks a file that is being written.
const partSuffix = ".part"

// Save makes the file path of what write writes: whole and proved good, or not at all. It is
// written beside path, synced, read back as [Read] does, and renamed; what stood at path is
// replaced. Nobody but its owner may read it: it holds hashes of tokens.
func Save(path string, write func(io.Writer) error) (Meta, error) {
	m, _, err := save(path, write)
	return m, err
}

// save is Save, and gives the state that was read back.
func save(path string, write func(io.Writer) error) (Meta, *state.View, error) {
	part := path + partSuffix
	m, v, err := fill(part, write)
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		_ = os.Remove(part) // what went wrong is told already
		return Meta{}, nil, fmt.Errorf("save %s: %w", path, err)
	}
	return m, v, syncFolder(filepath.Dir(path))
}

func fill(part string, write func(io.Writer) error) (Meta, *state.View, error) {
	f, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return Meta{}, nil, err
	}
	buffered := bufio.NewWriterSize(f, 1<<20)
	err = write(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return Meta{}, nil, err
	}
	return Load(part)
}

// Load reads an archive from a file, and proves it good.
func Load(path string) (Meta, *state.View, error) {
	f, err := os.Open(path)
	if err != nil {
		return Meta{}, nil, err
	}
	defer func() { _ = f.Close() }() // only read
	return Read(bufio.NewReaderSize(f, 1<<20))
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}
