package forward

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"anabranch/api/fleet"
	"anabranch/controlplane/forward/nodepb"
	"anabranch/controlplane/store"
)

// maxAddress bounds an address in bytes: a host name of 253 and a port.
const maxAddress = 260

// service answers the other nodes. It only ever asks the local store, so that a call is never
// passed on.
type service struct {
	nodepb.UnimplementedNodeServer
	f *Forward
}

// sameCluster refuses callers of another cluster; a node that does not know its cluster yet is
// let in.
func (s *service) sameCluster(theirs string) error {
	if own := s.f.store.View().ClusterID(); own != "" && theirs != "" && own != theirs {
		return fmt.Errorf("caller is of cluster %s, this is %s: %w", theirs, own, store.ErrForeignCluster)
	}
	return nil
}

// Propose commits a command if this node leads.
func (s *service) Propose(ctx context.Context, r *nodepb.ProposeRequest) (*nodepb.ProposeReply, error) {
	if err := s.sameCluster(r.GetClusterId()); err != nil {
		return nil, toWire(ctx, err)
	}
	if r.GetCommand() == nil {
		return nil, status.Error(codes.InvalidArgument, "command is missing")
	}
	outcome, err := s.f.store.Propose(ctx, r.GetCommand())
	if err != nil {
		return nil, toWire(ctx, err)
	}
	return &nodepb.ProposeReply{Outcome: outcome}, nil
}

// ReadIndex gives the index of a strong read if this node leads.
func (s *service) ReadIndex(ctx context.Context, r *nodepb.ReadIndexRequest) (*nodepb.ReadIndexReply, error) {
	if err := s.sameCluster(r.GetClusterId()); err != nil {
		return nil, toWire(ctx, err)
	}
	index, err := s.f.store.ReadIndex(ctx)
	if err != nil {
		return nil, toWire(ctx, err)
	}
	return &nodepb.ReadIndexReply{Index: index}, nil
}

// Join adds the caller as a non-voter if this node leads; it becomes a voter when it has caught
// up. A member that is known by another address gets the new one.
func (s *service) Join(ctx context.Context, r *nodepb.JoinRequest) (*nodepb.JoinReply, error) {
	if err := s.sameCluster(r.GetClusterId()); err != nil {
		return nil, toWire(ctx, err)
	}
	if err := fleet.CheckName(r.GetNodeId()); err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "node id %v", err)
	}
	if r.GetRaftAddress() == "" || len(r.GetRaftAddress()) > maxAddress {
		return nil, status.Errorf(codes.InvalidArgument, "raft address is empty or longer than %d bytes", maxAddress)
	}
	if err := s.f.addHere(ctx, fleet.NodeID(r.GetNodeId()), r.GetRaftAddress()); err != nil {
		return nil, toWire(ctx, err)
	}
	return &nodepb.JoinReply{LeaderId: string(s.f.store.ID())}, nil
}

// Remove removes a member if this node leads.
func (s *service) Remove(ctx context.Context, r *nodepb.RemoveRequest) (*nodepb.RemoveReply, error) {
	if err := s.sameCluster(r.GetClusterId()); err != nil {
		return nil, toWire(ctx, err)
	}
	if err := s.f.removeHere(ctx, fleet.NodeID(r.GetNodeId()), r.GetForce()); err != nil {
		return nil, toWire(ctx, err)
	}
	return &nodepb.RemoveReply{}, nil
}

// Transfer hands leadership over if this node leads.
func (s *service) Transfer(ctx context.Context, r *nodepb.TransferRequest) (*nodepb.TransferReply, error) {
	if err := s.sameCluster(r.GetClusterId()); err != nil {
		return nil, toWire(ctx, err)
	}
	if err := s.f.transferHere(ctx, fleet.NodeID(r.GetTo())); err != nil {
		return nil, toWire(ctx, err)
	}
	return &nodepb.TransferReply{}, nil
}

// Exchange takes what the caller's routers reported.
func (s *service) Exchange(_ context.Context, r *nodepb.ExchangeRequest) (*nodepb.ExchangeReply, error) {
	if err := fleet.CheckName(r.GetNodeId()); err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "node id %v", err)
	}
	s.f.peers.heard(fleet.NodeID(r.GetNodeId()), r.GetAppliedIndex(), r.GetFeatureLevel())
	if s.f.o.Exchange != nil {
		s.f.o.Exchange(r)
	}
	s.f.mergeOrders(fleet.NodeID(r.GetNodeId()), r.GetSignedOrders())
	return &nodepb.ExchangeReply{
		NodeId: string(s.f.store.ID()), AppliedIndex: s.f.store.View().Index(), FeatureLevel: s.f.o.format,
		Stranger:     !slices.ContainsFunc(s.f.store.Members(), func(m store.Member) bool { return string(m.ID) == r.GetNodeId() }),
		SignedOrders: s.f.signedOrders(),
	}, nil
}
