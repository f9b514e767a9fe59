package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"

	"anabranch/api/fleet"
	"anabranch/controlplane/state"
	"anabranch/controlplane/store/boltlog"
)

const (
	snapshotFolder = "snapshots"
	// keyTerm is where Raft keeps its term.
	keyTerm = "CurrentTerm"
	// snapshotVersion is the version of snapshots in which Raft keeps memberships.
	snapshotVersion = 1
)

// Seed is a state that a new cluster starts with. All fields but Logger and ClusterID are required.
type Seed struct {
	// Dir is the data folder, created if missing. It must hold no data of a node.
	Dir string
	// ID is the node whose folder it is; Peers are the first members, this node among them. Each of
	// them must get the same state and the same list, then they start as ever, in any order.
	ID    fleet.NodeID
	Peers []Peer
	// View is the state, of a backup.
	View *state.View
	// ClusterID is the identity of the new cluster; empty: that of View, whose routers then follow it.
	ClusterID string
	// Logger; nil: slog.Default().
	Logger *slog.Logger
}

// Plant makes the data folder of a node whose cluster starts with a state of before: a restore. The
// state is marked such that its first leader raises the epoch before it publishes a table, and the
// history such that nodes of the old one, should they come back, are refused. Errors: [ErrNotEmpty].
func Plant(s Seed) error {
	if err := s.validate(); err != nil {
		return fmt.Errorf("plant a state: %w", err)
	}
	if s.Logger == nil {
		s.Logger = slog.Default()
	}
	if name, err := occupied(s.Dir); err != nil || name != "" {
		return fmt.Errorf("plant a state: %w", errors.Join(err, foundIn(s.Dir, name)))
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return fmt.Errorf("plant a state: %w", err)
	}
	born := s.View.Reborn(state.Rebirth{
		Index: s.View.Index() + 1, ClusterID: s.ClusterID, Lineage: lineage(s.View, s.Peers),
	})
	// The identity comes first: what is left of a planting that was cut off belongs to a cluster
	// without a log, which no node starts with.
	err := saveIdentity(s.Dir, membership{NodeID: s.ID, ClusterID: clusterName(born)})
	if err == nil {
		err = plant(s.Dir, born, 1, s.Peers, s.Logger)
	}
	if err != nil {
		return fmt.Errorf("plant a state: %w", err)
	}
	return nil
}

func (s Seed) validate() error {
	switch {
	case s.Dir == "":
		return errors.New("the data folder has no name")
	case s.View == nil || s.View.ClusterID() == "":
		return errors.New("the state is that of no cluster")
	case len(s.Peers) == 0:
		return errors.New("no peers: list this node at least, as id=host:port")
	}
	return validMembers(s.Dir, s.ID, s.Peers)
}

// validMembers checks what a node will start with, before anything is written.
func validMembers(dir string, id fleet.NodeID, peers []Peer) error {
	errs := []error{Options{Dir: dir, ID: id, RaftListen: ":0", Peers: peers}.Validate()}
	for _, p := range peers {
		if host, _, err := net.SplitHostPort(p.Address); err != nil || host == "" {
			errs = append(errs, fmt.Errorf("address %q of %s is not host:port, as others reach it", p.Address, p.ID))
		}
	}
	return errors.Join(errs...)
}

// occupied names what there is of a node's data in a folder; empty: nothing.
func occupied(dir string) (string, error) {
	for _, name := range dataFiles() {
		_, err := os.Lstat(filepath.Join(dir, name))
		if err == nil {
			return name, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
	}
	return "", nil
}

func dataFiles() []string { return []string{identityFile, logFile, snapshotFolder} }

func foundIn(dir, name string) error {
	if name == "" {
		return nil
	}
	return fmt.Errorf("%s holds %s: %w", dir, name, ErrNotEmpty)
}

// Clear moves a node's data out of the way, into a folder of the name given beside it in dir, which
// must not exist. Nothing to move is no error, and makes no folder. The node must not run.
func Clear(dir, aside string) error {
	name, err := occupied(dir)
	if err != nil || name == "" {
		return err
	}
	target := filepath.Join(dir, aside)
	if err := os.Mkdir(target, 0o700); err != nil {
		return fmt.Errorf("move data aside: %w", err)
	}
	if err := unlocked(dir); err != nil {
		return errors.Join(fmt.Errorf("move data aside: %w", err), os.Remove(target))
	}
	for _, name := range dataFiles() {
		if err := os.Rename(filepath.Join(dir, name), filepath.Join(target, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("move data aside: %w", err)
		}
	}
	return nil
}

// unlocked fails while a node runs on the folder. A log that can't be trusted is locked by nobody.
func unlocked(dir string) error {
	path := filepath.Join(dir, logFile)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	log, err := boltlog.Open(boltlog.Options{Path: path})
	if errors.Is(err, boltlog.ErrCorrupt) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("does the node still run? %w", err)
	}
	return log.Close()
}

// plant writes a state as the newest snapshot, from which Raft goes on in the term given, with peers
// as the only members and nothing in its log.
func plant(dir string, born *state.View, term uint64, peers []Peer, logger *slog.Logger) error {
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(dir, retainedSnapshots, raftLogger(logger))
	if err != nil {
		return fmt.Errorf("open snapshots: %w", err)
	}
	_, addresses := raft.NewInmemTransport("") // encodes addresses, nothing else
	sink, err := snapshots.Create(snapshotVersion, born.Index(), term, configuration(peers), born.Index(), addresses)
	if err != nil {
		return fmt.Errorf("create snapshot: %w", err)
	}
	if err := (frozen{born}).Persist(sink); err != nil {
		return err
	}
	file, err := boltlog.Open(boltlog.Options{Path: filepath.Join(dir, logFile)})
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	return errors.Join(settleLog(file, term), file.Close())
}

// settleLog sets the term and takes all entries out: the snapshot holds them.
func settleLog(file *boltlog.Log, term uint64) error {
	if err := file.SetUint64([]byte(keyTerm), term); err != nil {
		return fmt.Errorf("set term: %w", err)
	}
	last, err := file.LastIndex()
	if err != nil || last == 0 {
		return err
	}
	return file.DeleteRange(0, last)
}

func configuration(peers []Peer) raft.Configuration {
	var c raft.Configuration
	for _, p := range peers {
		c.Servers = append(c.Servers, raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(p.ID), Address: raft.ServerAddress(p.Address)})
	}
	return c
}

// lineage is the same for all nodes that start with the same state and peers, and never that of the
// history which the state comes from.
func lineage(v *state.View, peers []Peer) string {
	h := sha256.New()
	sum := state.Hash(v)
	h.Write(sum[:])
	_, _ = io.WriteString(h, listDigest(peers)) // a hash takes everything
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// clusterName is what nodes call their cluster among themselves: its id and, of one that was restored
// or recovered, its lineage. Nodes that were lost and come back still call it by the name of before,
// and are refused: they would outvote those that went on without them.
func clusterName(v *state.View) string {
	if v.Lineage() == "" {
		return v.ClusterID()
	}
	return v.ClusterID() + "@" + v.Lineage()
}
