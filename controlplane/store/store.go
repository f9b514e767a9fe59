// Package store replicates the control plane's state with Raft: it proposes commands, applies them
// through package state, and tells members, leaders and terms. The state is one immutable view
// behind a pointer.
//
// It leaves to others: what commands mean (state), sending them to the leader (forward), planning
// and HTTP.
package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"anabranch/api/fleet"
	"anabranch/controlplane/store/boltlog"
)

const (
	logFile           = "raft.db"
	retainedSnapshots = 3
	// cachedEntries is how many of the newest log entries are kept in memory for followers.
	cachedEntries = 128
	maxPooled     = 3 // idle connections to each other node
)

// Store is one node's part of the replicated state. All methods are safe for concurrent use; those
// that change something need [Store.Run] to be running.
type Store struct {
	o         Options
	id        membership // ClusterID in here is that of the start; the present one is in cluster
	advertise string
	logger    *slog.Logger

	file      *boltlog.Log
	log       *guardedLog
	cache     *raft.LogCache
	snapshots raft.SnapshotStore
	mux       *mux
	views     *views
	machine   *machine

	raft         atomic.Pointer[raft.Raft] // nil before Run and after it
	barrier      atomic.Uint64             // newest term whose barrier has passed here
	ready        atomic.Bool
	readOnly     atomic.Bool
	freeBytes    atomic.Uint64
	transferring atomic.Int64 // since when transfers refuse proposals, Unix nanoseconds; 0: they do not
	cluster      atomic.Pointer[string]
	ran          atomic.Bool

	slots      chan struct{}
	changing   chan struct{} // one slot: changes of the membership come one after the other
	counts     counts
	watch      watch
	terms      chan Term
	operations operations

	strangers strangers
	isolation isolation

	once    sync.Once // guards reason
	reason  error
	halted  chan struct{} // closed when the node must stop
	gone    chan struct{} // closed when Raft has ended
	stopped chan struct{} // closed when Run is about to return
}

// Open opens or creates the data folder and binds the Raft port, but starts nothing: Run does, and
// must be called (even with an ended context) to let go of both. Errors: [ErrForeignFolder],
// [ErrDiskFull], [ErrCorruptSnapshot], boltlog.ErrCorrupt, or of the file system, wrapped.
func Open(o Options) (*Store, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	s := &Store{
		o: o, logger: o.Logger.With("component", "store"), views: newViews(),
		watch: newWatch(), slots: make(chan struct{}, MaxInFlight), changing: make(chan struct{}, 1), terms: make(chan Term),
		halted: make(chan struct{}), stopped: make(chan struct{}), gone: make(chan struct{}),
	}
	s.machine = &machine{views: s.views, halt: s.halt}
	if err := s.openFolder(); err != nil {
		return nil, err
	}
	if err := s.openPort(); err != nil {
		return nil, errors.Join(err, s.file.Close())
	}
	if err := s.bootstrap(); err != nil {
		s.mux.close()
		return nil, errors.Join(err, s.file.Close())
	}
	return s, nil
}

func (s *Store) openFolder() error {
	if err := os.MkdirAll(s.o.Dir, 0o700); err != nil {
		return fmt.Errorf("open data folder: %w", err)
	}
	free, err := s.o.free(s.o.Dir)
	if err != nil {
		return err
	}
	if free < s.o.MinFreeBytes {
		return fmt.Errorf("%s has %d MiB free, %d are needed: %w", s.o.Dir, free>>20, s.o.MinFreeBytes>>20, ErrDiskFull)
	}
	s.freeBytes.Store(free)
	s.readOnly.Store(free < 2*s.o.MinFreeBytes)
	if s.id, err = loadIdentity(s.o.Dir, s.o.ID, len(s.o.Peers) == 0); err != nil {
		return err
	}
	s.cluster.Store(&s.id.ClusterID)
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(s.o.Dir, retainedSnapshots, raftLogger(s.logger))
	if err != nil {
		return fmt.Errorf("open snapshots: %w", err)
	}
	s.snapshots = &watchedSnapshots{SnapshotStore: snapshots, watch: &s.watch}
	if s.file, err = boltlog.Open(boltlog.Options{Path: filepath.Join(s.o.Dir, logFile), NoSync: s.o.noSync}); err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	if err := s.checkSnapshots(); err != nil {
		return errors.Join(err, s.file.Close())
	}
	if err := s.repairLog(); err != nil {
		return errors.Join(err, s.file.Close())
	}
	var logs raft.LogStore = s.file
	if s.o.wrapLog != nil {
		logs = s.o.wrapLog(logs)
	}
	s.log = &guardedLog{LogStore: logs, halt: s.halt, patience: s.o.scaled(stallAfter), ghosts: ghosts{snapshots: snapshots}, appends: s.watch.appends}
	if s.cache, err = raft.NewLogCache(cachedEntries, s.log); err != nil {
		return errors.Join(err, s.file.Close())
	}
	return nil
}

// repairLog finishes what a crash interrupted: after installing a leader's snapshot Raft clears
// the log. Entries left below the snapshot would be in the way of the next append.
func (s *Store) repairLog() error {
	list, err := s.snapshots.List()
	if err != nil {
		return fmt.Errorf("list snapshots: %w", err)
	}
	last, err := s.file.LastIndex()
	if err != nil || len(list) == 0 || last == 0 || last >= list[0].Index {
		return err
	}
	s.logger.Warn("clear a log that ends before the snapshot", "last", last, "snapshot", list[0].Index)
	return s.file.DeleteRange(0, last)
}

func (s *Store) openPort() error {
	listener := s.o.Listener
	if listener == nil && s.o.RaftListen != "" {
		var c net.ListenConfig
		l, err := c.Listen(context.Background(), "tcp", s.o.RaftListen)
		if err != nil {
			return fmt.Errorf("open Raft port: %w", err)
		}
		listener = l
	}
	var err error
	if s.advertise, err = s.o.advertise(listener); err != nil {
		return errors.Join(err, listener.Close())
	}
	s.mux = newMux(listener, s.o.TLS, s.advertise, s.logger)
	s.mux.own = s.hello
	s.mux.met, s.mux.refused = s.meet, s.turnedAway
	s.mux.knows = func(id fleet.NodeID) bool {
		_, known := s.views.load().Node(string(id))
		return known
	}
	return nil
}

// bootstrap writes the list of peers into an empty folder as the first members.
func (s *Store) bootstrap() error {
	some, err := raft.HasExistingState(s.cache, s.file, s.snapshots)
	if err != nil {
		return fmt.Errorf("look for state: %w", err)
	}
	if some {
		return nil
	}
	if s.id.Joined || len(s.o.Peers) == 0 {
		return nil
	}
	var members raft.Configuration
	for _, p := range s.o.Peers {
		members.Servers = append(members.Servers, raft.Server{
			Suffrage: raft.Voter, ID: raft.ServerID(p.ID), Address: raft.ServerAddress(p.Address),
		})
	}
	err = raft.BootstrapCluster(s.o.raftConfig(s.id.NodeID), s.cache, s.file, s.snapshots, nil, members)
	if err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	s.logger.Info("bootstrapped", "members", len(s.o.Peers))
	return nil
}

// halt makes Run stop and return err. The first error counts.
func (s *Store) halt(err error) {
	s.once.Do(func() {
		s.reason = err
		s.logger.Error("this node must stop", "error", err)
		close(s.halted)
	})
}

// NodeListener hands out connections to the Raft port that are meant for the nodes' gRPC service,
// after TLS and hello.
func (s *Store) NodeListener() net.Listener { return s.mux.node }

// Greet says hello to the node whose Raft port is at address and returns its id: that it is there,
// and of this cluster or of none yet. Errors: [ErrForeignCluster], or of the network, wrapped.
func (s *Store) Greet(ctx context.Context, address string) (fleet.NodeID, error) {
	c, err := s.mux.reach(ctx, kindHello, address)
	if err != nil {
		return "", err
	}
	_ = c.Close() // all has been said
	return c.peer.Node, nil
}

// DialNode connects to the gRPC service of the node whose Raft port is at address.
func (s *Store) DialNode(ctx context.Context, address string) (net.Conn, error) {
	return s.mux.dial(ctx, kindNode, address)
}
