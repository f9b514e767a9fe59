package forward

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"anabranch/api/fleet"
	"anabranch/controlplane/forward/nodepb"
	"anabranch/controlplane/store"
)

var (
	// ErrQuorumAtRisk says that a removal would leave too few living voters for a majority: with
	// them the cluster could commit nothing any more, not even the way back.
	ErrQuorumAtRisk = errors.New("the voters that are left and alive would be no majority")
	// ErrNotThere says that the leader could not reach the node that it was to add, or reached
	// another one.
	ErrNotThere = errors.New("the leader does not reach the node at its address")
)

// Add makes the node whose Raft port is at address a member through whichever node leads, as if it
// had asked itself: a non-voter at first, a voter when it has caught up. A member that is known by
// another address gets the new one. The leader calls the node first. It is harmless when repeated.
//
// Errors: [ErrNotThere], store.ErrAddressTaken, store.ErrForeignCluster, [ErrNoLeader],
// [ErrUnknownOutcome], ctx's.
func (f *Forward) Add(ctx context.Context, id fleet.NodeID, address string) error {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	err := f.atLeader(ctx,
		func() error { return f.addHere(ctx, id, address) },
		func(c nodepb.NodeClient) error {
			return call(ctx, func(ctx context.Context, o grpc.CallOption) error {
				_, err := c.Join(ctx, &nodepb.JoinRequest{ClusterId: f.store.View().ClusterID(), NodeId: string(id), RaftAddress: address}, o)
				return err
			})
		})
	if err != nil {
		return fmt.Errorf("add member: %w", err)
	}
	return nil
}

// Remove removes a member through whichever node leads; a leader that is to go hands over first.
// With force fewer than store.MinVoters voters may be left.
//
// Errors: store.ErrNotMember, store.ErrTooFewVoters, [ErrQuorumAtRisk], [ErrNoLeader],
// [ErrUnknownOutcome], ctx's.
func (f *Forward) Remove(ctx context.Context, id fleet.NodeID, force bool) error {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	err := f.atLeader(ctx,
		func() error { return f.removeHere(ctx, id, force) },
		func(c nodepb.NodeClient) error {
			return call(ctx, func(ctx context.Context, o grpc.CallOption) error {
				_, err := c.Remove(ctx, &nodepb.RemoveRequest{ClusterId: f.store.View().ClusterID(), NodeId: string(id), Force: force}, o)
				return err
			})
		})
	if err != nil {
		return fmt.Errorf("remove member: %w", err)
	}
	return nil
}

// Transfer hands leadership to a voter, empty: to the one that is furthest of those that are alive,
// and returns who leads then. Errors: store.ErrNotMember, store.ErrNotVoter, store.ErrNoSuccessor,
// [ErrNoLeader], [ErrUnknownOutcome], ctx's.
func (f *Forward) Transfer(ctx context.Context, to fleet.NodeID) (fleet.NodeID, error) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	from, _ := f.store.Leader()
	err := f.atLeader(ctx,
		func() error { return f.transferHere(ctx, to) },
		func(c nodepb.NodeClient) error {
			return call(ctx, func(ctx context.Context, o grpc.CallOption) error {
				_, err := c.Transfer(ctx, &nodepb.TransferRequest{ClusterId: f.store.View().ClusterID(), To: string(to)}, o)
				return err
			})
		})
	if err != nil {
		return "", fmt.Errorf("transfer leadership: %w", err)
	}
	for { // until this node has heard of the new one
		leader, _ := f.store.Leader()
		if leader != "" && (leader == to || to == "" && leader != from) {
			return leader, nil
		}
		if !pause(ctx, f.o.Interval/50) {
			return "", fmt.Errorf("transfer leadership: wait for the new leader: %w", ctx.Err())
		}
	}
}

// call makes a call that must not be repeated blindly once it has left.
func call(ctx context.Context, do func(context.Context, grpc.CallOption) error) error {
	ctx, sent := withSent(ctx)
	var trailer metadata.MD
	err := do(ctx, grpc.Trailer(&trailer))
	return fromWire(err, trailer, sent.Load())
}

// addHere adds a node if this one leads. It calls the node first: a member that nobody reaches
// would count without ever helping.
func (f *Forward) addHere(ctx context.Context, id fleet.NodeID, address string) error {
	if f.store.IsLeader() {
		for _, m := range f.store.Members() {
			if m.ID == id && m.Address == address {
				return nil
			}
		}
		found, err := f.store.Greet(ctx, address)
		switch {
		case errors.Is(err, store.ErrForeignCluster):
			return fmt.Errorf("add %s at %s: %w", id, address, err)
		case err != nil:
			return fmt.Errorf("add %s at %s: %w: %w", id, address, ErrNotThere, err)
		case found != id:
			return fmt.Errorf("add %s at %s: %s answers there: %w", id, address, found, ErrNotThere)
		}
	}
	return f.store.AddNonvoter(ctx, id, address)
}

// removeHere removes a member if this node leads.
func (f *Forward) removeHere(ctx context.Context, id fleet.NodeID, force bool) error {
	if f.store.IsLeader() && !quorumWithout(f.store.Members(), f.alive(time.Now()), id) {
		return fmt.Errorf("remove %s: %w", id, ErrQuorumAtRisk)
	}
	return f.store.RemoveMember(ctx, id, force)
}

// transferHere hands leadership over if this node leads.
func (f *Forward) transferHere(ctx context.Context, to fleet.NodeID) error {
	if to == "" && f.store.IsLeader() {
		to = furthest(f.store.Members(), f.store.ID(), f.peers.list(time.Now()), f.silence())
	}
	return f.store.TransferLeadership(ctx, to)
}

// silence is how long another node may say nothing and still count as alive.
func (f *Forward) silence() time.Duration { return 3 * f.o.Interval }

// alive are the nodes that have been heard lately, and this one.
func (f *Forward) alive(now time.Time) map[fleet.NodeID]bool {
	alive := map[fleet.NodeID]bool{f.store.ID(): true}
	for _, p := range f.peers.list(now) {
		alive[p.ID] = p.Age <= f.silence()
	}
	return alive
}

// quorumWithout says whether the living voters are a majority of the voters that are left when id
// goes. Whoever does not vote may always go.
func quorumWithout(members []store.Member, alive map[fleet.NodeID]bool, id fleet.NodeID) bool {
	left, living, voted := 0, 0, false
	for _, m := range members {
		switch {
		case !m.Voter:
		case m.ID == id:
			voted = true
		default:
			left++
			if alive[m.ID] {
				living++
			}
		}
	}
	return !voted || 2*living > left || left == 0 // none left: the store says that better
}

// furthest is the voter other than own that has applied most of those heard within silence; empty:
// there is none, leave it to Raft.
func furthest(members []store.Member, own fleet.NodeID, known []PeerStatus, silence time.Duration) fleet.NodeID {
	var best PeerStatus
	for _, p := range known {
		voter := false
		for _, m := range members {
			voter = voter || m.ID == p.ID && m.Voter
		}
		if voter && p.ID != own && p.Age <= silence && (best.ID == "" || p.AppliedIndex > best.AppliedIndex) {
			best = p
		}
	}
	return best.ID
}
