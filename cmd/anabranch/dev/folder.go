package dev

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"anabranch/dataplane/override"
)

// FolderName is where the demonstration keeps its state, below the current folder.
const FolderName = ".anabranch"

// Folder is the state folder. Everything in it is the user's only (0700 and 0600).
type Folder string

func (f Folder) path(parts ...string) string {
	return filepath.Join(append([]string{string(f)}, parts...)...)
}

// RecordPath is dev.json; see [Record].
func (f Folder) RecordPath() string { return f.path("dev.json") }

// Log is the log file of one process.
func (f Folder) Log(name string) string { return f.path("logs", name+".log") }

func (f Folder) data(name string) string { return f.path("data", name) }
func (f Folder) pki(name string) string  { return f.path("pki", name) }
func (f Folder) tokens() string          { return f.path("tokens.json") }
func (f Folder) socket() string          { return f.path("dev.sock") }
func (f Folder) lock() string            { return f.path("dev.lock") }

// Orders is the socket where the router of a region takes emergency orders, see
// `anabranch-router order`.
func (f Folder) Orders(region string) string {
	return filepath.Join(f.data(routerID(region)), override.SocketName)
}

// make creates the folders.
func (f Folder) make() error {
	for _, dir := range []string{f.path(), f.path("logs"), f.path("data"), f.path("pki")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make state folder: %w", err)
		}
	}
	return nil
}

// writeFile replaces a file whole, or not at all: a reader sees the old or the new one.
func writeFile(path string, content []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = tmp.Write(content)
	if err == nil {
		err = tmp.Sync()
	}
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(tmp.Name())))
	}
	return nil
}

func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return writeFile(path, append(b, '\n'))
}

// ErrRunning says that a supervisor works on the folder already; ErrNotRunning that none does.
var (
	ErrRunning    = errors.New("anabranch dev is already running here")
	ErrNotRunning = errors.New("anabranch dev is not running here; start it with `anabranch dev`")
)

// hold takes the folder for this process. The kernel ends the lock with the process, however it
// ends, and knows who holds it, so nothing stale is left to clear away or to be believed. It is a
// lock of the process: no other descriptor of the file may be opened and closed meanwhile.
func (f Folder) hold() (release func() error, err error) {
	file, err := os.OpenFile(f.lock(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock state folder: %w", err)
	}
	err = syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK})
	if err == nil {
		return file.Close, nil
	}
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		pid, _ := holder(file) // 0 when it has just gone
		err = fmt.Errorf("%w (pid %d); see `anabranch dev status`, or end it with `anabranch dev stop`", ErrRunning, pid)
	}
	return nil, errors.Join(err, file.Close())
}

// Holder returns the pid of the supervisor that holds the folder, or [ErrNotRunning]. It is believed
// only if it is the dev command of a program: nothing else is ever signalled.
func (f Folder) Holder() (int, error) {
	file, err := os.OpenFile(f.lock(), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return 0, ErrNotRunning
	}
	if err != nil {
		return 0, fmt.Errorf("read lock of state folder: %w", err)
	}
	defer func() { _ = file.Close() }() // nothing was written
	pid, err := holder(file)
	if err != nil {
		return 0, err
	}
	cmdline, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return 0, ErrNotRunning
	}
	if !slices.Contains(strings.Split(string(cmdline), "\x00"), "dev") {
		return 0, fmt.Errorf("%w: process %d, which holds %s, is another program", ErrNotRunning, pid, f.lock())
	}
	return pid, nil
}

func holder(file *os.File) (int, error) {
	lock := syscall.Flock_t{Type: syscall.F_WRLCK}
	if err := syscall.FcntlFlock(file.Fd(), syscall.F_GETLK, &lock); err != nil {
		return 0, fmt.Errorf("read lock of state folder: %w", err)
	}
	if lock.Type == syscall.F_UNLCK || lock.Pid <= 1 {
		return 0, ErrNotRunning
	}
	return int(lock.Pid), nil
}

// certificateMargin is how long before its end the authority is made anew.
const certificateMargin = 30 * 24 * time.Hour
