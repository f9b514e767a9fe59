package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Launcher starts children from one operating system thread of its own. Linux sends the signal that
// follows a parent's death when the thread that forked ends, not the process; a goroutine may
// change threads and threads may end, so all children come from one that stays.
type Launcher struct {
	work  chan func()
	ended chan struct{}
	waits sync.WaitGroup
}

// errEnded answers a start after the launcher's Run has returned.
var errEnded = errors.New("launcher has ended")

// NewLauncher returns a launcher that works while [Launcher.Run] does.
func NewLauncher() *Launcher {
	return &Launcher{work: make(chan func()), ended: make(chan struct{})}
}

// Run serves starts until ctx ends, then waits for every child to be gone: stop them first, or they
// die with the thread.
func (l *Launcher) Run(ctx context.Context) error {
	runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
	defer close(l.ended)
	if err := Seal(); err != nil {
		return err
	}
	for {
		select {
		case f := <-l.work:
			f()
		case <-ctx.Done():
			l.waits.Wait()
			return nil
		}
	}
}

// run has f called on the launcher's thread.
func (l *Launcher) run(f func() error) error {
	result := make(chan error, 1)
	select {
	case l.work <- func() { result <- f() }:
		return <-result
	case <-l.ended:
		return errEnded
	}
}

// Seal keeps every descriptor above standard error from being inherited by programs started from now
// on. Go opens its own that way; what this process was itself started with, such as the pipe of a
// script that waits for its end, would otherwise be held open by every child.
func Seal() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("seal descriptors: %w", err)
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}

// Tail returns the last lines of a log, at most n of them and 64 KiB; empty when there is nothing.
func Tail(log string, n int) string {
	f, err := os.Open(filepath.Clean(log))
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // only read
	const most = 64 << 10
	if info, err := f.Stat(); err == nil && info.Size() > most {
		if _, err := f.Seek(-most, io.SeekEnd); err != nil {
			return ""
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
