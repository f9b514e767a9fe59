package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"anabranch/api/fleet"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
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

// AddNonvoter adds a node that receives everything but does not count yet, or changes the address
// of a member. This node must lead.
func (s *Store) AddNonvoter(ctx context.Context, id fleet.NodeID, address string) error {
	return s.change(ctx, fmt.Sprintf("add %s at %s", id, address), func(r *raft.Raft, limit time.Duration) raft.Future {
		return r.AddNonvoter(raft.ServerID(id), raft.ServerAddress(address), 0, limit)
	})
}

// AddVoter makes a node a voter. Add it as a non-voter first and wait until it has caught up: a
// voter that lags behind counts for majorities that it cannot help to form.
func (s *Store) AddVoter(ctx context.Context, id fleet.NodeID, address string) error {
	return s.change(ctx, fmt.Sprintf("make %s a voter", id), func(r *raft.Raft, limit time.Duration) raft.Future {
		return r.AddVoter(raft.ServerID(id), raft.ServerAddress(address), 0, limit)
	})
}

// RemoveMember removes a node; [ErrTooFewVoters] if fewer than [MinVoters] voters would be left.
func (s *Store) RemoveMember(ctx context.Context, id fleet.NodeID) error {
	voters, voter := 0, false
	for _, m := range s.Members() {
		if m.Voter {
			voters++
			voter = voter || m.ID == id
		}
	}
	if voter && voters <= MinVoters {
		return fmt.Errorf("remove %s: %w", id, ErrTooFewVoters)
	}
	return s.change(ctx, fmt.Sprintf("remove %s", id), func(r *raft.Raft, limit time.Duration) raft.Future {
		return r.RemoveServer(raft.ServerID(id), 0, limit)
	})
}

// change changes the membership, and commits a no-op: until the next command after a change Raft
// takes no snapshot.
func (s *Store) change(ctx context.Context, what string, start func(*raft.Raft, time.Duration) raft.Future) error {
	r, err := s.leading()
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if err := s.await(ctx, func() raft.Future { return start(r, queueTimeout) }); err != nil {
		return fmt.Errorf("%s: %w", what, s.proposalError(err))
	}
	s.logger.Info("membership changed", "change", what)
	noop := &statepb.Command{
		Format:    state.Format,
		Ignorable: true,
		AtUnixMs:  time.Now().UnixMilli(),
		Actor:     &statepb.Actor{Name: "system/store", Reason: what},
		Op:        &statepb.Command_Noop{Noop: &statepb.Noop{}},
	}
	if _, err := s.Propose(ctx, noop); err != nil {
		s.logger.Warn("no-op after a change of membership", "error", err)
	}
	return nil
}

// TransferLeadership hands leadership to the member that is furthest. Writes are refused for as
// long as it takes, at most about one election timeout.
func (s *Store) TransferLeadership(ctx context.Context) error {
	r, err := s.leading()
	if err != nil {
		return fmt.Errorf("transfer leadership: %w", err)
	}
	if err := s.await(ctx, r.LeadershipTransfer); err != nil {
		return fmt.Errorf("transfer leadership: %w", err)
	}
	return nil
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
}

// Stats takes a glance.
func (s *Store) Stats() Stats {
	stats := Stats{
		AppliedIndex:  s.views.load().Index(),
		ReadOnly:      s.readOnly.Load(),
		DiskStalled:   s.log.stalled(),
		FreeDiskBytes: s.freeBytes.Load(),
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
