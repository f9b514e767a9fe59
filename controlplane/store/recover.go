package store

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"

	"anabranch/api/fleet"
	"anabranch/controlplane/state"
	"anabranch/controlplane/store/boltlog"
)

// Remains is what one node's folder holds when it is looked at without the others.
type Remains struct {
	NodeID fleet.NodeID
	// View is the state with every entry of the log applied, also those of which it is not known
	// whether a majority ever had them.
	View *state.View
	// LastIndex and LastTerm are those of the last entry: of several survivors the one with the
	// higher term, then the higher index, has what any of them has of what was acknowledged. What a
	// majority acknowledged that is lost altogether is gone.
	LastIndex, LastTerm uint64
	// Term is the last one that the node has taken part in.
	Term uint64
	// Members as far as the node knows.
	Members []Peer
}

// Inspect reads a data folder whose node does not run, and changes nothing of what it says. Errors:
// boltlog.ErrCorrupt, state.ErrUnknown, [ErrForeignFolder].
func Inspect(dir string, logger *slog.Logger) (Remains, error) {
	if logger == nil {
		logger = slog.Default()
	}
	r, err := inspect(dir, logger)
	if err != nil {
		return Remains{}, fmt.Errorf("look at what %s holds: %w", dir, err)
	}
	return r, nil
}

func inspect(dir string, logger *slog.Logger) (r Remains, err error) {
	for _, name := range []string{identityFile, logFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return Remains{}, err // before anything makes new files there
		}
	}
	id, err := loadIdentity(dir, "", false)
	if err != nil {
		return Remains{}, err
	}
	file, err := boltlog.Open(boltlog.Options{Path: filepath.Join(dir, logFile)})
	if err != nil {
		return Remains{}, fmt.Errorf("does the node still run? %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(dir, retainedSnapshots, raftLogger(logger))
	if err != nil {
		return Remains{}, fmt.Errorf("open snapshots: %w", err)
	}
	r = Remains{NodeID: id.NodeID}
	if r.Term, err = file.GetUint64([]byte(keyTerm)); err != nil {
		return Remains{}, fmt.Errorf("read term: %w", err)
	}
	var failure error
	m := &machine{views: newViews(), halt: func(err error) { failure = err }}
	if err := r.load(m, snapshots); err != nil {
		return Remains{}, err
	}
	if err := r.replay(m, file, &failure); err != nil {
		return Remains{}, err
	}
	if r.View = m.views.load(); r.View.ClusterID() == "" {
		return Remains{}, errors.New("it holds no state of any cluster: there is nothing to recover")
	}
	return r, nil
}

// load takes the newest snapshot that can be read. With an older one there must be more in the log.
func (r *Remains) load(m *machine, snapshots raft.SnapshotStore) error {
	list, err := snapshots.List()
	if err != nil {
		return fmt.Errorf("list snapshots: %w", err)
	}
	var problems []error
	for _, meta := range list {
		_, source, err := snapshots.Open(meta.ID)
		if err == nil {
			err = errors.Join(m.Restore(source), source.Close())
		}
		if err == nil {
			r.LastIndex, r.LastTerm = meta.Index, meta.Term
			r.Members = peersOf(meta.Configuration)
			return nil
		}
		problems = append(problems, fmt.Errorf("snapshot %s: %w", meta.ID, err))
	}
	return errors.Join(problems...)
}

// replay applies what the log holds after the snapshot. A gap between the two is an error: what was
// in it is lost.
func (r *Remains) replay(m *machine, file *boltlog.Log, failure *error) error {
	first, _ := file.FirstIndex() // never fail: in memory
	last, _ := file.LastIndex()
	if first > r.LastIndex+1 {
		return fmt.Errorf("the log begins at %d, after a snapshot that ends at %d: the entries between are lost", first, r.LastIndex)
	}
	for i := r.LastIndex + 1; i <= last; i++ {
		var l raft.Log
		if err := file.GetLog(i, &l); err != nil {
			return fmt.Errorf("read entry %d: %w", i, err)
		}
		switch l.Type {
		case raft.LogCommand:
			if m.Apply(&l); *failure != nil {
				return *failure
			}
		case raft.LogConfiguration:
			r.Members = peersOf(raft.DecodeConfiguration(l.Data))
		default: // no-ops and barriers say nothing
		}
		r.LastIndex, r.LastTerm = l.Index, l.Term
	}
	return nil
}

func peersOf(c raft.Configuration) []Peer {
	var peers []Peer
	for _, s := range c.Servers {
		peers = append(peers, Peer{ID: fleet.NodeID(s.ID), Address: string(s.Address)})
	}
	return peers
}

// Recover makes a cluster of one node of what its folder holds, when too many of the others are lost
// for ever to form a majority. The node must not run. Address is where others reach its Raft port
// from now on. Everything in its log counts as committed. The old history ends: nodes of it that come
// back are refused, and must join anew with empty folders. The first leader raises the epoch before
// it publishes a table. Errors are those of [Inspect].
//
// It may be repeated if it was cut off.
func Recover(dir, address string, logger *slog.Logger) (Remains, error) {
	if logger == nil {
		logger = slog.Default()
	}
	r, err := Inspect(dir, logger)
	if err != nil {
		return Remains{}, err
	}
	peers := []Peer{{ID: r.NodeID, Address: address}}
	if err := validMembers(dir, r.NodeID, peers); err != nil {
		return Remains{}, fmt.Errorf("recover %s: %w", r.NodeID, err)
	}
	// A higher term and index make this snapshot the newest, whatever else lies there.
	term := max(r.Term, r.LastTerm) + 1
	born := r.View.Reborn(state.Rebirth{Index: r.LastIndex + 1, Lineage: lineage(r.View, peers)})
	err = plant(dir, born, term, peers, logger)
	if err == nil {
		err = saveIdentity(dir, membership{NodeID: r.NodeID, ClusterID: clusterName(born)})
	}
	if err != nil {
		return Remains{}, fmt.Errorf("recover %s: %w", r.NodeID, err)
	}
	logger.Warn("recovered: this node is the only one of its cluster now",
		"node", r.NodeID, "cluster", born.ClusterID(), "index", born.Index(), "term", term, "lineage", born.Lineage())
	return r, nil
}
