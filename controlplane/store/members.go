package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"anabranch/api/fleet"
)

// Member is one node of the cluster.
type Member struct {
	ID      fleet.NodeID
	Address string // of its Raft port
	Voter   bool   // false: it receives everything but does not count
	Leader  bool   // as far as this node knows
}

// ID returns this node's id.
func (s *Store) ID() fleet.NodeID { return s.id.NodeID }

// Address returns how others reach this node's Raft port.
func (s *Store) Address() string { return s.advertise }

// Leader returns the leader that this node knows of, both empty for none. A leader whose disk
// hangs does not count itself.
func (s *Store) Leader() (id fleet.NodeID, address string) {
	r := s.raft.Load()
	if r == nil {
		return "", ""
	}
	at, who := r.LeaderWithID()
	if fleet.NodeID(who) == s.id.NodeID && (s.log.stalled() || r.State() != raft.Leader) {
		return "", ""
	}
	return fleet.NodeID(who), string(at)
}

// IsLeader says whether this node leads and its disk works. Another node may have been elected
// already: for certainty there is [Store.ReadIndex].
func (s *Store) IsLeader() bool {
	_, err := s.leading()
	return err == nil
}

// Members returns the members as this node knows them, in the order of the configuration; none
// before Run.
func (s *Store) Members() []Member {
	r := s.raft.Load()
	if r == nil {
		return nil
	}
	leader, _ := s.Leader()
	f := r.GetConfiguration() // answers at once, from memory
	if f.Error() != nil {
		return nil
	}
	var members []Member
	for _, server := range f.Configuration().Servers {
		id := fleet.NodeID(server.ID)
		members = append(members, Member{
			ID:      id,
			Address: string(server.Address),
			Voter:   server.Suffrage == raft.Voter,
			Leader:  id == leader,
		})
	}
	return members
}

// Snapshot writes a snapshot now; nothing new to write is no error.
func (s *Store) Snapshot(ctx context.Context) error {
	r := s.raft.Load()
	if r == nil {
		return ErrClosed
	}
	err := s.await(ctx, func() raft.Future { return r.Snapshot() })
	if err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return fmt.Errorf("write snapshot: %w", err)
	}
	return nil
}

// Stats is a glance at the node, for metrics and health pages; taking it never waits for Raft.
type Stats struct {
	State         string // Follower, Candidate, Leader or Shutdown; empty before Run
	Term          uint64
	CommitIndex   uint64 // of Raft, its own entries included
	AppliedIndex  uint64 // the last command applied here
	LogFirst      uint64
	LogLast       uint64
	SinceContact  time.Duration // since this node heard of the leader; 0 on the leader
	ReadOnly      bool
	DiskStalled   bool
	FreeDiskBytes uint64
	// Member says whether this node is a member as far as it knows, Voter whether it counts.
	Member, Voter bool
	// Voters is how many there are.
	Voters int
	// Changes counts changes of the membership that this node has committed as leader, by what they
	// did; Transfers those of leadership that it has given away or tried to, by how they ended.
	Changes   map[Change]uint64
	Transfers map[TransferEnd]uint64
	// ComparedIndex is the newest checkpoint whose hashes this node found to be those of its own
	// state; 0: none since it started.
	ComparedIndex uint64
}

// Stats takes a glance.
func (s *Store) Stats() Stats {
	stats := Stats{
		AppliedIndex:  s.views.load().Index(),
		ReadOnly:      s.readOnly.Load(),
		DiskStalled:   s.log.stalled(),
		FreeDiskBytes: s.freeBytes.Load(),
		ComparedIndex: s.machine.marks.compared.Load(),
		Changes:       s.counts.changed(),
		Transfers:     s.counts.transferred(),
	}
	for _, m := range s.Members() {
		if m.Voter {
			stats.Voters++
		}
		if m.ID == s.id.NodeID {
			stats.Member, stats.Voter = true, m.Voter
		}
	}
	stats.LogFirst, _ = s.file.FirstIndex() // never fail: in memory
	stats.LogLast, _ = s.file.LastIndex()
	if r := s.raft.Load(); r != nil {
		stats.State, stats.Term, stats.CommitIndex = r.State().String(), r.CurrentTerm(), r.CommitIndex()
		if at := r.LastContact(); r.State() != raft.Leader && !at.IsZero() {
			stats.SinceContact = time.Since(at)
		}
	}
	return stats
}
