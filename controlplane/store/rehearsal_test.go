package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"anabranch/controlplane/state"
	"anabranch/controlplane/store/boltlog"
)

// rehearsal is three nodes in virtual time, with links and disks that a scene can break. What must
// hold whatever the scene does is looked at in the end: no node stopped by itself unless the scene
// expects it, no term had two leaders, and all nodes have the same log, the same state, and in it
// the last write that was acknowledged.
type rehearsal struct {
	t     *testing.T
	stage *stage
	links *links
	disks sync.Map // by node: *badDisk

	mu    sync.Mutex // guards nodes and lives
	nodes []*Store
	lives []*life
	last  string        // what the register holds
	n     int           // writes so far
	worst time.Duration // of those that had a limit
}

// life is one run of a node.
type life struct {
	end  context.CancelFunc
	done chan struct{}
	err  error // read after done
}

// rehearse plays a scene; adjust may be nil.
func rehearse(t *testing.T, adjust func(*Options), scene func(*testing.T, *rehearsal)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := &rehearsal{t: t, nodes: make([]*Store, 3), lives: make([]*life, 3)}
		r.stage = newStage(t, dir, func(o *Options) {
			withBadDisks(&r.disks)(o)
			if adjust != nil {
				adjust(o)
			}
		})
		r.links = r.stage.links
		for i := range r.nodes {
			r.begin(i)
		}
		mustPropose(t, r.all(), "init")
		r.write()
		scene(t, r)
		r.finish()
	})
}

// begin opens and runs the node at a place, for the first time or again.
func (r *rehearsal) begin(i int) {
	r.t.Helper()
	s := r.stage.open(i)
	ctx, cancel := context.WithCancel(r.t.Context())
	l := &life{end: cancel, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		l.err = s.Run(ctx)
	}()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes[i], r.lives[i] = s, l
}

// all is the nodes as they are now.
func (r *rehearsal) all() []*Store {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*Store(nil), r.nodes...)
}

// place of a node.
func (r *rehearsal) place(s *Store) int {
	for i, p := range r.stage.peers {
		if p.ID == s.ID() {
			return i
		}
	}
	r.t.Fatalf("%s is not of this rehearsal", s.ID())
	return 0
}

// crash ends a node without farewell; the others learn nothing of it. begin starts it again.
func (r *rehearsal) crash(s *Store) {
	l := r.lives[r.place(s)]
	l.end()
	<-l.done
	if l.err != nil {
		r.t.Errorf("%s: %v", s.ID(), l.err)
	}
}

// ended waits until a node has stopped by itself, and says why.
func (r *rehearsal) ended(s *Store) error {
	r.t.Helper()
	l := r.lives[r.place(s)]
	select {
	case <-l.done:
	case <-time.After(time.Minute): // virtual
		r.t.Fatalf("%s goes on", s.ID())
	}
	return l.err
}

func (r *rehearsal) leader() *Store { return waitForLeader(r.all()) }

// others are the nodes but one.
func (r *rehearsal) others(than *Store) []*Store {
	var out []*Store
	for _, s := range r.all() {
		if s != than {
			out = append(out, s)
		}
	}
	return out
}

func (r *rehearsal) disk(s *Store) *badDisk {
	r.t.Helper()
	d, ok := r.disks.Load(s.ID())
	if !ok {
		r.t.Fatalf("%s has no disk", s.ID())
	}
	return d.(*badDisk)
}

// write writes the next value through whoever leads, and returns how long that took and its index.
func (r *rehearsal) write() (took time.Duration, index uint64) {
	r.t.Helper()
	r.n++
	r.last = fmt.Sprint("value ", r.n)
	began := time.Now()
	index = mustPropose(r.t, r.all(), r.last)
	return time.Since(began), index
}

// within fails the test if the next write takes longer.
func (r *rehearsal) within(limit time.Duration) {
	r.t.Helper()
	took, _ := r.write()
	if r.worst = max(r.worst, took); took > limit {
		r.t.Errorf("the next write took %s of virtual time, at most %s are allowed", took, limit)
	}
}

// follows waits until a node has all that the others have.
func (r *rehearsal) follows(s *Store, index uint64) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	if err := s.WaitApplied(ctx, index); err != nil {
		r.t.Errorf("%s is at %d of %d: %v; %+v", s.ID(), s.View().Index(), index, err, s.Stats())
	}
}

func (r *rehearsal) finish() {
	r.links.heal()
	for _, s := range r.all() {
		r.disk(s).set(nil, nil)
	}
	_, index := r.write()
	for _, s := range r.all() {
		r.follows(s, index)
		if n, _ := s.View().Node("register"); n.GetVersion() != r.last {
			r.t.Errorf("%s ends with %q, want %q", s.ID(), n.GetVersion(), r.last)
		}
	}
	if !r.t.Failed() {
		if err := sameLogs(r.all(), index); err != nil {
			r.t.Error(err)
		}
	}
	terms, broken := r.links.elections()
	r.t.Logf("%d terms had a leader; the longest wait for a write was %s", terms, r.worst)
	for _, b := range broken {
		r.t.Error(b)
	}
	for i, l := range r.lives {
		l.end()
		<-l.done
		if l.err != nil {
			r.t.Errorf("%s stopped: %v", r.stage.peers[i].ID, l.err)
		}
	}
	<-time.After(20 * time.Second) // virtual: calls to those that have stopped are given up
}

// sameLogs compares entries up to index, as far back as all nodes still have them, and states.
func sameLogs(nodes []*Store, index uint64) error {
	from := uint64(1)
	for _, s := range nodes {
		from = max(from, s.Stats().LogFirst)
	}
	first := nodes[0]
	for _, s := range nodes[1:] {
		for i := from; i <= index; i++ {
			var a, b raft.Log
			if err := errors.Join(first.file.GetLog(i, &a), s.file.GetLog(i, &b)); err != nil {
				return fmt.Errorf("entry %d of %s and %s: %w", i, first.ID(), s.ID(), err)
			}
			if a.Term != b.Term || a.Type != b.Type || !bytes.Equal(a.Data, b.Data) {
				return fmt.Errorf("entry %d: %s has one of term %d, %s another of term %d", i, first.ID(), a.Term, s.ID(), b.Term)
			}
		}
		if a, b := first.View(), s.View(); a.Index() == b.Index() && state.Hash(a) != state.Hash(b) {
			return fmt.Errorf("%s and %s differ in their states at %d", first.ID(), s.ID(), a.Index())
		}
	}
	return nil
}

// What every rehearsal ends with must be able to fail.
func TestARehearsalNoticesTwoLeadersAndLogsThatDiffer(t *testing.T) {
	l := newLinks()
	for _, from := range []raft.ServerAddress{"a", "a", "b"} {
		if err := l.leads(from, 7, 0); err != nil {
			t.Error(err)
		}
	}
	if terms, broken := l.elections(); terms != 1 || len(broken) != 1 {
		t.Errorf("%d terms, %v", terms, broken)
	}
	entry := func(data string) *Store {
		s := &Store{o: Options{}.withDefaults(), views: newViews(), machine: &machine{}}
		s.log = &guardedLog{}
		var err error
		if s.file, err = boltlog.Open(boltlog.Options{Path: filepath.Join(t.TempDir(), logFile), NoSync: true}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.file.Close() })
		if err := s.file.StoreLog(&raft.Log{Index: 1, Term: 1, Data: []byte(data)}); err != nil {
			t.Fatal(err)
		}
		return s
	}
	one, same, other := entry("x"), entry("x"), entry("y")
	if err := sameLogs([]*Store{one, same}, 1); err != nil {
		t.Error(err)
	}
	if sameLogs([]*Store{one, same, other}, 1) == nil || sameLogs([]*Store{one, same}, 2) == nil {
		t.Error("logs that differ, or lack an entry, pass")
	}
}
