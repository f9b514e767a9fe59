package store

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// badDisk is a log store that fails or hangs on command.
type badDisk struct {
	raft.LogStore
	mu   sync.Mutex
	fail error
	hang chan struct{} // appends wait until it is closed; nil: they do not
}

func (d *badDisk) state() (hang chan struct{}, fail error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hang, d.fail
}

func (d *badDisk) set(fail error, hang chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail, d.hang = fail, hang
}

func (d *badDisk) StoreLogs(logs []*raft.Log) error {
	hang, fail := d.state()
	if hang != nil {
		<-hang
	}
	if fail != nil {
		return fail
	}
	return d.LogStore.StoreLogs(logs)
}

func (d *badDisk) IsMonotonic() bool { return true }

// withBadDisks gives every node a disk that the test can break.
func withBadDisks(disks *sync.Map) func(*Options) {
	return func(o *Options) {
		d := &badDisk{}
		disks.Store(o.ID, d)
		o.wrapLog = func(l raft.LogStore) raft.LogStore {
			d.LogStore = l
			return d
		}
	}
}

func disk(t *testing.T, disks *sync.Map, n *testNode) *badDisk {
	t.Helper()
	d, ok := disks.Load(n.o.ID)
	if !ok {
		t.Fatalf("%s has no disk", n.o.ID)
	}
	return d.(*badDisk)
}

func TestALeaderWhoseDiskFailsStopsAndAnotherTakesOver(t *testing.T) {
	t.Parallel()
	var disks sync.Map
	c := newTestCluster(t, 3, withBadDisks(&disks))
	c.propose(initCommand("c1"))
	leader := c.leader()
	disk(t, &disks, leader).set(syscall.ENOSPC, nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := leader.Propose(ctx, register("a", "1")); !errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("propose: %v, want unknown outcome", err)
	}
	if err := leader.wait(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("run: %v, want no space", err)
	}
	delete(c.nodes, leader.ID())
	c.propose(register("a", "2"))
}

func TestAFollowerWhoseDiskFailsStops(t *testing.T) {
	t.Parallel()
	var disks sync.Map
	c := newTestCluster(t, 3, withBadDisks(&disks))
	c.propose(initCommand("c1"))
	f := c.followers()[0]
	disk(t, &disks, f).set(syscall.EIO, nil)
	c.propose(register("a", "1"))
	if err := f.wait(); !errors.Is(err, syscall.EIO) {
		t.Errorf("run: %v, want input/output error", err)
	}
	delete(c.nodes, f.ID())
	c.propose(register("a", "2"))
}

func TestALeaderWhoseDiskHangsIsReplaced(t *testing.T) {
	t.Parallel()
	var disks sync.Map
	c := newTestCluster(t, 3, withBadDisks(&disks))
	out := c.propose(initCommand("c1"))
	for _, n := range c.nodes {
		n.caughtUp(out.GetRevision())
	}
	leader := c.leader()
	var term Term
	select {
	case term = <-leader.Terms():
	case <-time.After(patience):
		t.Fatal("no term")
	}
	release := make(chan struct{})
	disk(t, &disks, leader).set(nil, release)
	began := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	unknown := make(chan error, 1)
	go func() {
		_, err := leader.Propose(ctx, register("a", "stuck"))
		unknown <- err
	}()
	eventually(t, "another leader", func() bool {
		for _, n := range c.nodes {
			if n != leader && n.IsLeader() {
				return true
			}
		}
		return false
	})
	t.Logf("hang to new leader: %s", time.Since(began))
	select {
	case <-term.Ctx.Done():
	case <-time.After(patience):
		t.Error("the term of the leader whose disk hangs has not ended")
	}
	if leader.IsLeader() || !leader.Stats().DiskStalled {
		t.Error("the leader whose disk hangs still counts itself")
	}
	if got := told(t, leader.Store); got["disk_stalls_total"] < 1 {
		t.Errorf("%v stalls are told", got["disk_stalls_total"])
	}
	c.propose(register("a", "works")) // to whoever leads by now: two that are left may elect another once more
	if leader.IsLeader() {
		t.Error("the one whose disk hangs leads again")
	}
	cancel()
	if err := <-unknown; !errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("the stuck proposal: %v, want unknown outcome", err)
	}
	disk(t, &disks, leader).set(nil, nil)
	close(release)
	leader.caughtUp(c.propose(register("b", "healed")).GetRevision())
	if got := leader.value("a"); got != "works" {
		t.Errorf("after healing a is %q, want works", got)
	}
}

func TestATermComesBackWhenTheDiskOfALoneNodeRecovers(t *testing.T) {
	t.Parallel()
	var disks sync.Map
	c := newTestCluster(t, 1, func(o *Options) {
		withBadDisks(&disks)(o)
		o.TimeScale = 0.2
	})
	c.propose(initCommand("c1"))
	n := c.leader()
	first := <-n.Terms()
	release := make(chan struct{})
	disk(t, &disks, n).set(nil, release)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = n.Propose(ctx, register("a", "1")) // whatever comes of it
	}()
	<-first.Ctx.Done()
	disk(t, &disks, n).set(nil, nil)
	close(release)
	select {
	case again := <-n.Terms():
		if again.Ctx.Err() != nil {
			t.Error("the new term has ended already")
		}
	case <-time.After(patience):
		t.Fatal("no term after the disk has recovered")
	}
	<-done
}

func TestTooLittleSpaceToStart(t *testing.T) {
	t.Parallel()
	_, err := Open(Options{
		Dir: t.TempDir(), RaftListen: "127.0.0.1:0", MinFreeBytes: 100,
		free: func(string) (uint64, error) { return 99, nil },
	})
	if !errors.Is(err, ErrDiskFull) {
		t.Errorf("open: %v, want disk full", err)
	}
}

func TestANearlyFullDiskMakesTheNodeReadOnlyUntilThereIsSpace(t *testing.T) {
	t.Parallel()
	var free atomic.Uint64
	free.Store(1000)
	c := newTestCluster(t, 1, func(o *Options) {
		o.MinFreeBytes, o.TimeScale = 100, minTimeScale
		o.free = func(string) (uint64, error) { return free.Load(), nil }
	})
	c.propose(initCommand("c1"))
	n := c.leader()
	free.Store(150)
	eventually(t, "read-only", func() bool {
		_, err := n.Propose(t.Context(), register("a", "1"))
		return errors.Is(err, ErrReadOnly)
	})
	if _, err := n.ReadIndex(t.Context()); err != nil {
		t.Errorf("reading: %v", err)
	}
	if s := n.Stats(); !s.ReadOnly || s.FreeDiskBytes != 150 {
		t.Errorf("stats %+v", s)
	}
	free.Store(1000)
	eventually(t, "writable again", func() bool {
		_, err := n.Propose(t.Context(), register("a", "1"))
		return err == nil
	})
}

func TestTheFreeSpaceOfARealFolderIsKnown(t *testing.T) {
	if free, err := freeBytes(t.TempDir()); err != nil || free == 0 {
		t.Errorf("%d bytes, %v", free, err)
	}
	if _, err := freeBytes("/no/such/folder"); err == nil {
		t.Error("a folder that is not there has free space")
	}
}
