package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
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

// keep makes the file path of other content: whole and the same when it is read again, or not at all.
func keep(path string, content io.Reader, size int64) error {
	part := path + partSuffix
	err := copied(part, content, size)
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		_ = os.Remove(part) // what went wrong is told already
		return fmt.Errorf("keep %s: %w", path, err)
	}
	return syncFolder(filepath.Dir(path))
}

func copied(part string, content io.Reader, size int64) error {
	f, err := os.OpenFile(part, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	written, back := sha256.New(), sha256.New()
	n, err := io.Copy(io.MultiWriter(f, written), content)
	if err == nil && n != size {
		err = fmt.Errorf("copied %d bytes of %d: %w", n, size, io.ErrUnexpectedEOF)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		_, err = io.Copy(back, io.NewSectionReader(f, 0, size))
	}
	if err == nil && !bytes.Equal(written.Sum(nil), back.Sum(nil)) {
		err = fmt.Errorf("%w: what was read back is not what was written", ErrDamaged)
	}
	return errors.Join(err, f.Close())
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
