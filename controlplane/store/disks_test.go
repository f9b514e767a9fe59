package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"anabranch/controlplane/store/boltlog"
)

// snapshotsOf lists the folders of a node's snapshots, newest first.
func snapshotsOf(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "snapshots", "*-*"))
	if err != nil || len(list) == 0 {
		t.Fatalf("snapshots %v, %v", list, err)
	}
	slices.SortFunc(list, func(a, b string) int { return strings.Compare(b, a) })
	return list
}

// spoil changes one byte in the middle of a file.
func spoil(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 0x40
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// aged is a stopped single node with three snapshots, between which there were ten commands each, and
// the index of its last command. trailing is how many entries before a snapshot its log keeps.
func aged(t *testing.T, trailing uint64) (n *testNode, last uint64) {
	t.Helper()
	c := newTestCluster(t, 1, func(o *Options) { o.TrailingLogs, o.TimeScale = trailing, 0.2 })
	c.propose(initCommand("c1"))
	n = c.leader()
	for i := range 3 {
		for j := range 10 {
			last = c.propose(register("a", fmt.Sprint(10*i+j))).GetRevision()
		}
		if err := n.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	return n, last
}

func TestASnapshotThatCannotBeReadIsDoneWithoutOrRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		trailing uint64
		harm     func(t *testing.T, dir string)
		want     error // nil: it recovers by an older snapshot and the log
	}{
		{"newest, and the log reaches back", 1000, func(t *testing.T, dir string) {
			spoil(t, filepath.Join(snapshotsOf(t, dir)[0], "state.bin"))
		}, nil},
		{"description of the newest, and the log reaches back", 1000, func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(snapshotsOf(t, dir)[0], "meta.json"), 10); err != nil {
				t.Fatal(err)
			}
		}, nil},
		{"newest, and the log does not reach back", 2, func(t *testing.T, dir string) {
			spoil(t, filepath.Join(snapshotsOf(t, dir)[0], "state.bin"))
		}, ErrCorruptSnapshot},
		{"description of the newest, and the log does not reach back", 2, func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(snapshotsOf(t, dir)[0], "meta.json"), 10); err != nil {
				t.Fatal(err)
			}
		}, ErrCorruptSnapshot},
		{"all", 1000, func(t *testing.T, dir string) {
			for _, s := range snapshotsOf(t, dir) {
				spoil(t, filepath.Join(s, "state.bin"))
			}
		}, ErrCorruptSnapshot},
		{"all are gone", 2, func(t *testing.T, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, "snapshots")); err != nil {
				t.Fatal(err)
			}
		}, ErrCorruptSnapshot},
		{"an older one", 2, func(t *testing.T, dir string) {
			spoil(t, filepath.Join(snapshotsOf(t, dir)[1], "state.bin"))
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n, last := aged(t, c.trailing)
			c.harm(t, n.o.Dir)
			if c.want != nil {
				if _, err := Open(n.o); !errors.Is(err, c.want) || !strings.Contains(err.Error(), n.o.Dir) {
					t.Errorf("got %v, want %v of %s", err, c.want, n.o.Dir)
				}
				return
			}
			n.restart()
			n.caughtUp(last)
			if got := n.value("a"); got != "29" {
				t.Errorf("a is %q, want 29", got)
			}
		})
	}
}

// A whole snapshot that this build cannot read is no reason to go back to an older one.
func TestASnapshotOfALaterBuildStopsTheNode(t *testing.T) {
	l := newLone()
	if err := l.Restore(later{}); err == nil || l.reason == nil {
		t.Errorf("restored with %v, halted with %v", err, l.reason)
	}
	running := newLone()
	running.started.Store(true)
	if err := running.Restore(later{}); err == nil || running.reason != nil {
		t.Errorf("restored with %v, halted with %v: what a peer sends must not stop a node", err, running.reason)
	}
}

// later is a snapshot that cannot be decoded.
type later struct{}

func (later) Read([]byte) (int, error) { return 0, errors.New("of format 999") }
func (later) Close() error             { return nil }

// However much of its end the log has lost, the node says so instead of starting with less than it has
// acknowledged; the others go on.
func TestANodeWithATornLogIsRefusedAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, 3, nil)
	c.propose(initCommand("c1"))
	var acknowledged uint64
	for i := range 200 {
		acknowledged = c.propose(register("a", fmt.Sprint(i))).GetRevision()
	}
	f, refused := c.followers()[0], false
	f.caughtUp(acknowledged)
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(f.o.Dir, logFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, keep := range []int{len(text) - 1, len(text) * 3 / 4, len(text) / 2, len(text) / 8, 100} {
		if err := os.WriteFile(path, text[:keep], 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(f.o)
		if err == nil { // what is gone was not in use
			if last, err := s.file.LastIndex(); err != nil || last < acknowledged {
				t.Errorf("%d of %d bytes left: it starts with %d of %d entries", keep, len(text), last, acknowledged)
			}
			if err := s.Run(ended(t)); err != nil {
				t.Error(err)
			}
		} else if !errors.Is(err, boltlog.ErrCorrupt) || !strings.Contains(err.Error(), path) {
			t.Errorf("%d of %d bytes left: %v, want corrupt, naming the file", keep, len(text), err)
		}
		refused = refused || err != nil
	}
	if !refused {
		t.Error("not even an eighth of the file is too little")
	}
	c.propose(register("a", "without it"))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	f.restart()
	f.caughtUp(c.propose(register("a", "with it")).GetRevision())
}

// ended is a context that has ended.
func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// mount puts a file system of some bytes at a new folder; false where that is not allowed.
func mount(t *testing.T, size int) (dir string, ok bool) {
	t.Helper()
	dir = t.TempDir()
	command := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d", size), "tmpfs", dir)
	if text, err := command.CombinedOutput(); err != nil {
		t.Logf("no file system of its own here, so errors are made up: %v %s", err, text)
		return dir, false
	}
	t.Cleanup(func() {
		if text, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("unmount: %v %s", err, text)
		}
	})
	return dir, true
}

// The leader's disk is filled to the last byte. It stops with a clear reason, the others go on, and
// with room again it follows.
func TestAFullDiskStopsTheLeaderAndNothingIsLost(t *testing.T) {
	t.Parallel()
	var disks sync.Map
	small, mounted := mount(t, 6<<20)
	c := newTestCluster(t, 3, func(o *Options) {
		withBadDisks(&disks)(o)
		if o.MinFreeBytes = 1; o.ID == "n1" {
			o.Dir = filepath.Join(small, "n1")
		}
	})
	c.propose(initCommand("c1"))
	victim := c.nodes["n1"]
	for c.leader() != victim {
		if err := c.leader().TransferLeadership(t.Context(), "n1"); err != nil {
			t.Logf("transfer: %v", err)
		}
		<-victim.Changed(c.propose(register("b", "x")).GetRevision() - 1)
	}
	acknowledged := c.propose(register("a", "before")).GetRevision()
	filler := filepath.Join(small, "filler")
	if mounted {
		fill(t, filler)
	} else {
		disk(t, &disks, victim).set(syscall.ENOSPC, nil)
	}
	for i := 0; victim.running() && i < 20_000; i++ { // it has some pages of its own left
		c.propose(register("a", strings.Repeat("x", 200)+fmt.Sprint(i)))
	}
	if err := victim.wait(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("it ended with %v, want no space left", err)
	}
	c.propose(register("a", "after"))
	if mounted {
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
	}
	disk(t, &disks, victim).set(nil, nil)
	victim.restart()
	victim.caughtUp(c.propose(register("b", "again")).GetRevision())
	if got := victim.value("a"); got != "after" || victim.View().Index() < acknowledged {
		t.Errorf("a is %q at %d, want after", got, victim.View().Index())
	}
}

// fill writes until there is no space left.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 64 << 10; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestAReadOnlyDiskIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	small, mounted := mount(t, 6<<20)
	o := Options{
		Dir: filepath.Join(small, "n1"), ID: "n1", RaftListen: "127.0.0.1:0", MinFreeBytes: 1,
		Logger: slog.New(slog.DiscardHandler),
	}
	n := &testNode{t: t, o: o}
	n.start(o)
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	want := syscall.EROFS.Error()
	if mounted {
		if text, err := exec.Command("mount", "-o", "remount,ro", small).CombinedOutput(); err != nil {
			t.Fatalf("remount: %v %s", err, text)
		}
	} else {
		// Whoever may not mount is not root either, and bound by permissions.
		want = os.ErrPermission.Error()
		for _, path := range []string{filepath.Join(o.Dir, logFile), o.Dir} {
			if err := os.Chmod(path, 0o500); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() { _ = os.Chmod(o.Dir, 0o700) })
	}
	// hashicorp/raft, which looks first, keeps only the words of the error.
	if _, err := Open(o); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), o.Dir) {
		t.Errorf("got %v, want %s of %s", err, want, o.Dir)
	}
}
