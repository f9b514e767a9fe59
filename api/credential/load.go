package credential

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// maxFile bounds a file in bytes: many times a chain of certificates.
const maxFile = 64 << 10

// racy is how long after a change a file may change again without its time telling: the coarsest
// clock of a file system in use (FAT) counts in steps of two seconds.
const racy = 2 * time.Second

// stamp is what tells that a file has changed.
type stamp struct {
	path string
	info fs.FileInfo
}

// reader reads the files of one credential and notes what they were.
type reader struct {
	s       *Store
	files   []stamp
	settled bool
	now     time.Time
	content hash.Hash // of all that was read, in order
}

// load reads a credential. What it returns is complete: a credential or an error.
func (s *Store) load(spec *Spec, now time.Time) *loaded {
	r := &reader{s: s, settled: true, now: now, content: sha256.New()}
	c, err := r.read(spec)
	if err != nil {
		return &loaded{err: err}
	}
	c.now = s.now
	r.content.Sum(c.digest[:0])
	return &loaded{credential: c, files: r.files, settled: r.settled}
}

// Secret reads one line that is named by a file or a variable, under the same rules as credentials. Its
// errors don't tell it.
func (s *Store) Secret(file, env string) (string, error) {
	r := &reader{s: s, now: s.now(), content: sha256.New()}
	return r.token(&Spec{Type: Bearer, File: file, Env: env})
}

func (r *reader) read(spec *Spec) (*Credential, error) {
	switch spec.Type {
	case Bearer:
		token, err := r.token(spec)
		if err != nil {
			return nil, err
		}
		return &Credential{bearer: "Bearer " + token}, nil
	case MTLS:
		return r.certificate(spec)
	case SigV4:
		keys, err := r.keys(spec)
		if err != nil {
			return nil, err
		}
		return &Credential{signer: &signer{keys: keys, region: spec.Region, service: spec.Service}}, nil
	}
	return nil, fmt.Errorf("type %q is not known to this build", spec.Type)
}

func (r *reader) token(spec *Spec) (string, error) {
	if spec.Env != "" {
		token, err := r.variable(spec.Env)
		if err == nil && !oneLine(token) {
			err = fmt.Errorf("variable %s does not hold one line", spec.Env)
		}
		return token, err
	}
	text, err := r.file("token", spec.File, true)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if token == "" || !oneLine(token) {
		return "", fmt.Errorf("token %s does not hold one line", spec.File)
	}
	return token, nil
}

// oneLine says whether a value can stand in a header.
func oneLine(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// variable reads an environment variable. The environment of a process does not change, so that one
// that was found is not looked at again.
func (r *reader) variable(name string) (string, error) {
	if r.s.variable != nil && !r.s.variable(name) {
		return "", fmt.Errorf("variable %s is none of those that may be read", name)
	}
	value := strings.TrimSpace(os.Getenv(name))
	if value == "" {
		return "", fmt.Errorf("variable %s is not set", name)
	}
	_, _ = io.WriteString(r.content, value+"\x00") // a hash takes everything
	return value, nil
}

// file reads one file; what says what it holds. One that holds a secret should be its owner's alone.
func (r *reader) file(what, path string, secret bool) ([]byte, error) {
	if path == "" {
		return nil, fmt.Errorf("no file is named for the %s", what)
	}
	folder, err := r.s.open(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	defer folder.close()
	info, err := folder.stat()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	if err := fit(path, info); err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	f, err := folder.file()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil { // of what is read, should it have been replaced
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = tooLarge(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	if secret && info.Mode().Perm()&0o077 != 0 {
		r.s.warn(path, info.Mode().Perm())
	}
	r.files = append(r.files, stamp{path, info})
	if r.now.Sub(info.ModTime()) < racy {
		r.settled = false
	}
	_, _ = r.content.Write(text) // a hash takes everything
	_, _ = r.content.Write([]byte{0})
	return text, nil
}

func fit(path string, info fs.FileInfo) error {
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	case info.Size() > maxFile:
		return tooLarge(path)
	}
	return nil
}

func tooLarge(path string) error {
	return fmt.Errorf("%s is larger than %d bytes", path, maxFile)
}

// warn tells once that others can read a secret.
func (s *Store) warn(path string, mode fs.FileMode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.warned[path] {
		s.warned[path] = true
		s.log.Warn("a secret can be read by others than its owner: take their permissions away", "file", path, "mode", mode.String())
	}
}

// unchanged says whether files are what they were.
func (s *Store) unchanged(files []stamp) bool {
	for _, f := range files {
		at, err := s.open(f.path)
		if err != nil {
			return false
		}
		info, err := at.stat()
		at.close()
		if err != nil || !os.SameFile(info, f.info) || info.Size() != f.info.Size() || !info.ModTime().Equal(f.info.ModTime()) {
			return false
		}
	}
	return true
}

// location is a file that was found to be where files may lie.
type location struct {
	root *os.Root // nil: anywhere
	name string
}

// open finds a path. With a folder given, nothing outside of it is reached, not even by a link.
func (s *Store) open(path string) (location, error) {
	if s.dir == "" {
		return location{name: path}, nil
	}
	name := path
	if filepath.IsAbs(path) {
		base, err := filepath.Abs(s.dir)
		if err != nil {
			return location{}, err
		}
		if name, err = filepath.Rel(base, path); err != nil {
			return location{}, err
		}
	}
	if !filepath.IsLocal(name) {
		return location{}, fmt.Errorf("%s is not below %s", path, s.dir)
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return location{}, err
	}
	return location{root, name}, nil
}

func (l location) stat() (fs.FileInfo, error) {
	if l.root == nil {
		return os.Stat(l.name)
	}
	info, err := l.root.Stat(l.name)
	return info, l.named(err)
}

func (l location) file() (*os.File, error) {
	if l.root == nil {
		return os.Open(l.name)
	}
	f, err := l.root.Open(l.name)
	return f, l.named(err)
}

// named gives an error about a name below the folder its whole path.
func (l location) named(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: p.Op, Path: filepath.Join(l.root.Name(), l.name), Err: p.Err}
	}
	return err
}

func (l location) close() {
	if l.root != nil {
		_ = l.root.Close() // it was only read from
	}
}
