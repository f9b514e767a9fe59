package store

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/hashicorp/raft"

	"anabranch/api/fleet"
)

const (
	// MaxEntryBytes is the largest command as it stands in the log, large ones compressed: larger ones would hold up heartbeats behind them.
	MaxEntryBytes = 512 << 10
	// MaxInFlight is how many proposals may wait for their commit at once.
	MaxInFlight = 256
	// MinVoters is how many voters removals leave at least: two cannot lose one.
	MinVoters = 3
	// DefaultMinFreeBytes is the default of Options.MinFreeBytes.
	DefaultMinFreeBytes = 64 << 20
)

// Election timing before scaling. With 500 ms a killed leader is replaced in about 1 s; 150 ms
// flaps on busy machines.
const (
	heartbeat   = 500 * time.Millisecond
	lease       = 250 * time.Millisecond
	settleTimes = 3 // timeouts are this much longer until a leader has been seen
	stallAfter  = 2 * time.Second
	rpcTimeout  = 3 * time.Second
	// appendEntries is how many entries share a sync and a message. Twice what Raft would take makes
	// 256 writers about 15 % faster; more makes no difference.
	appendEntries = 128
	// minTimeScale makes the lease 5 ms, the least that hashicorp/raft allows.
	minTimeScale = 0.02
)

// Peer is a member of the list that a new cluster starts from.
type Peer struct {
	ID      fleet.NodeID
	Address string // host:port of its Raft port, as others reach it
}

// Options says who this node is. Dir, and one of RaftListen, Listener or Transport, are required.
type Options struct {
	// Dir is the data folder, created if missing. It belongs to one node of one cluster for ever.
	Dir string
	// ID names this node; empty: a UUID, made once and kept in Dir. Peers needs it set.
	ID fleet.NodeID
	// RaftListen is where the Raft port listens, host:port.
	RaftListen string
	// Listener replaces RaftListen by a listener that is already bound; Run closes it.
	Listener net.Listener
	// RaftAdvertise is how others reach the Raft port; empty: this node's address in Peers, else the
	// address that it listens on, which must then name a host.
	RaftAdvertise string
	// Peers is the same list on every node that a new cluster starts from, this node included.
	// It matters only while Dir is empty; empty here too, the node waits to be added by others.
	Peers []Peer
	// TLS gives certificate, RootCAs and ClientCAs for mutual TLS between nodes, and is asked at each
	// handshake, at either end, so that they may change; the peer must have a node's certificate (see
	// NodeOf). Nil: plain TCP, for tests.
	TLS func() *tls.Config
	// TimeScale multiplies election timing and the guards'; 0.02 to 100, 0: 1.
	TimeScale float64
	// MinFreeBytes is the free disk space needed to start; below twice this the node takes no
	// writes. 0: DefaultMinFreeBytes.
	MinFreeBytes uint64
	// SnapshotThreshold is the number of entries between snapshots; 0: 8,192.
	SnapshotThreshold uint64
	// TrailingLogs is the number of entries kept after a snapshot for followers that are a little
	// behind; 0: 10,240. It should be far above MaxInFlight.
	TrailingLogs uint64
	// SnapshotInterval is how often the threshold is looked at; 0: 30 s.
	SnapshotInterval time.Duration
	// Transport replaces the Raft traffic on the Raft port; tests only. It must support pre-vote.
	Transport raft.Transport
	// Logger; nil: slog.Default().
	Logger *slog.Logger

	wrapLog func(raft.LogStore) raft.LogStore // tests: a disk that fails on command
	free    func(dir string) (uint64, error)  // tests: free bytes; nil: ask the file system
	abrupt  bool                              // tests: stop without handing over leadership
	noSync  bool                              // tests: no fsync, for when nothing but this process ends
	hasty   bool                              // tests: read without a barrier per term, which is wrong
}

// Validate says which field is wrong and how to put it right.
func (o Options) Validate() error {
	var errs []error
	if o.Dir == "" {
		errs = append(errs, errors.New("option Dir is empty: name a folder for the data"))
	}
	if o.RaftListen == "" && o.Listener == nil && o.Transport == nil {
		errs = append(errs, errors.New("option RaftListen is empty: name an address such as :7120"))
	}
	if o.ID != "" {
		if err := fleet.CheckName(string(o.ID)); err != nil {
			errs = append(errs, fmt.Errorf("option ID %w", err))
		}
	}
	if o.TimeScale != 0 && (o.TimeScale < minTimeScale || o.TimeScale > 100) {
		errs = append(errs, fmt.Errorf("option TimeScale is %v: use 0 for 1, or %v to 100", o.TimeScale, minTimeScale))
	}
	if o.Transport != nil {
		if _, ok := o.Transport.(raft.WithPreVote); !ok {
			errs = append(errs, errors.New("option Transport cannot pre-vote: implement raft.WithPreVote"))
		}
	}
	return errors.Join(append(errs, o.validatePeers())...)
}

func (o Options) validatePeers() error {
	if len(o.Peers) == 0 {
		return nil
	}
	ids, addresses := map[fleet.NodeID]bool{}, map[string]bool{}
	for _, p := range o.Peers {
		switch {
		case p.ID == "" || p.Address == "":
			return fmt.Errorf("option Peers: %q at %q: both id and address are needed", p.ID, p.Address)
		case ids[p.ID]:
			return fmt.Errorf("option Peers: %s is listed twice", p.ID)
		case addresses[p.Address]:
			return fmt.Errorf("option Peers: address %s is listed twice", p.Address)
		}
		ids[p.ID], addresses[p.Address] = true, true
	}
	if !ids[o.ID] {
		return fmt.Errorf("option Peers does not list this node (ID %q): the same list, all nodes included, goes to every node", o.ID)
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.TimeScale == 0 {
		o.TimeScale = 1
	}
	if o.MinFreeBytes == 0 {
		o.MinFreeBytes = DefaultMinFreeBytes
	}
	if o.SnapshotThreshold == 0 {
		o.SnapshotThreshold = 8192
	}
	if o.TrailingLogs == 0 {
		o.TrailingLogs = 10240
	}
	if o.SnapshotInterval == 0 {
		o.SnapshotInterval = 30 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.free == nil {
		o.free = freeBytes
	}
	return o
}

func (o Options) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * o.TimeScale)
}

// advertise says how others reach this node.
func (o Options) advertise(l net.Listener) (string, error) {
	if o.RaftAdvertise != "" {
		return o.RaftAdvertise, nil
	}
	for _, p := range o.Peers {
		if p.ID == o.ID {
			return p.Address, nil
		}
	}
	if o.Transport != nil {
		return string(o.Transport.LocalAddr()), nil
	}
	if a, ok := l.Addr().(*net.TCPAddr); ok && a.IP.IsUnspecified() {
		return "", fmt.Errorf("option RaftAdvertise is empty, and %s names no host: say how other nodes reach this one", a)
	}
	return l.Addr().String(), nil
}

// raftConfig gives the timing for the time after a leader has been seen.
func (o Options) raftConfig(id fleet.NodeID) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(id)
	c.HeartbeatTimeout = o.scaled(heartbeat)
	c.ElectionTimeout = o.scaled(heartbeat)
	c.LeaderLeaseTimeout = o.scaled(lease)
	// Followers learn of an isolated commit with the next append: this is the delay of a table.
	c.CommitTimeout = 10 * time.Millisecond
	c.MaxAppendEntries = appendEntries
	c.SnapshotThreshold = o.SnapshotThreshold
	c.SnapshotInterval = o.SnapshotInterval
	c.TrailingLogs = o.TrailingLogs
	c.ShutdownOnRemove = false
	c.PreVoteDisabled = false
	c.RestoreCommittedLogs = false
	c.BatchApplyCh = false
	c.NoLegacyTelemetry = true
	return c
}
