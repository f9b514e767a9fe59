package forward

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/forward/nodepb"
	"anabranch/controlplane/inquiry"
	"anabranch/controlplane/store"
)

// Desk is an [inquiry.Desk].
type Desk interface {
	Explain(ctx context.Context, router fleet.RouterID, request string) (inquiry.Explanation, error)
	Inspect(ctx context.Context, router fleet.RouterID, cluster fleet.ClusterID, most uint32) (inquiry.Inspection, error)
	Follow(ctx context.Context, filter *routerpb.DecisionFilter, perSecond uint32, tell func(inquiry.News) error) error
}

var (
	_ Desk          = (*inquiry.Desk)(nil)
	_ inquiry.Nodes = Inquiries{}
)

// Inquiries ask the desks of other nodes.
type Inquiries struct{ *Forward }

// Others are the ids of the other members.
func (f Inquiries) Others() []fleet.NodeID {
	var ids []fleet.NodeID
	for _, m := range f.others() {
		ids = append(ids, m.ID)
	}
	return ids
}

// at is the client for a member.
func (f Inquiries) at(node fleet.NodeID) (nodepb.NodeClient, error) {
	for _, m := range f.store.Members() {
		if m.ID == node {
			return f.clients.to(m.Address)
		}
	}
	return nil, store.ErrNotMember
}

// deadlineSlack is how much sooner the other end of a call may find its deadline over.
const deadlineSlack = 10 * time.Millisecond

// Explain asks a router that is connected to another node. Errors: those of the desk there, and others if
// the node can't be asked.
func (f Inquiries) Explain(ctx context.Context, node fleet.NodeID, router fleet.RouterID, request string) (inquiry.Explanation, error) {
	client, err := f.at(node)
	if err != nil {
		return inquiry.Explanation{}, err
	}
	var trailer metadata.MD
	reply, err := client.Explain(ctx, &nodepb.ExplainRequest{
		ClusterId: f.store.View().ClusterID(), RouterId: string(router), RequestId: request,
	}, grpc.Trailer(&trailer))
	if err != nil {
		return inquiry.Explanation{}, unanswered(ctx, err, trailer)
	}
	e := reply.GetExplained()
	out := inquiry.Explanation{
		Node: node, Router: router, Region: fleet.RegionID(reply.GetRegion()),
		Record: e.GetRecord(), Most: int(e.GetRememberedMost()),
	}
	if at := e.GetOldestUnixMs(); at > 0 {
		out.Oldest = time.UnixMilli(at)
	}
	return out, nil
}

// Inspect asks a router that is connected to another node. Errors as of Explain; a node that does not know the
// question yet is one that can't be asked.
func (f Inquiries) Inspect(ctx context.Context, node fleet.NodeID, router fleet.RouterID, cluster fleet.ClusterID, most uint32) (inquiry.Inspection, error) {
	client, err := f.at(node)
	if err != nil {
		return inquiry.Inspection{}, err
	}
	var trailer metadata.MD
	reply, err := client.Inspect(ctx, &nodepb.InspectRequest{
		ClusterId: f.store.View().ClusterID(), RouterId: string(router), Cluster: string(cluster), Most: most,
	}, grpc.Trailer(&trailer))
	if err != nil {
		return inquiry.Inspection{}, unanswered(ctx, err, trailer)
	}
	return inquiry.Inspection{Node: node, Router: router, Region: fleet.RegionID(reply.GetRegion()), Sight: reply.GetInspected()}, nil
}

// unanswered is why another node gave no answer. It knows the same deadline, and may be the first to find that it
// is over.
func unanswered(ctx context.Context, err error, trailer metadata.MD) error {
	if by, ok := ctx.Deadline(); ok && !time.Now().Before(by.Add(-deadlineSlack)) {
		return context.DeadlineExceeded
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fromWire(err, trailer, false)
}

// Follow tells what the routers connected to another node decide, until ctx or the stream ends.
func (f Inquiries) Follow(ctx context.Context, node fleet.NodeID, filter *routerpb.DecisionFilter, perSecond uint32, tell func(inquiry.News) error) error {
	client, err := f.at(node)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.Decisions(ctx, &nodepb.DecisionsRequest{
		ClusterId: f.store.View().ClusterID(), Filter: filter, RatePerS: perSecond,
	})
	if err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		switch {
		case ctx.Err() != nil, errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fromWire(err, stream.Trailer(), false)
		}
		n := inquiry.News{
			Node: node, Router: fleet.RouterID(m.GetRouterId()), Region: fleet.RegionID(m.GetRegion()),
			Records: m.GetRecords(), Dropped: m.GetDropped(),
			Standing: inquiry.Standing{Following: int(m.GetFollowing())},
		}
		for _, id := range m.GetUnable() {
			n.Standing.Unable = append(n.Standing.Unable, fleet.RouterID(id))
		}
		if err := tell(n); err != nil {
			return err
		}
	}
}

// Explain asks a router that is connected to this node.
func (s *service) Explain(ctx context.Context, r *nodepb.ExplainRequest) (*nodepb.ExplainReply, error) {
	if err := s.sameCluster(r.GetClusterId()); err != nil {
		return nil, toWire(ctx, err)
	}
	if s.f.o.Desk == nil {
		return nil, toWire(ctx, inquiry.ErrNotConnected)
	}
	e, err := s.f.o.Desk.Explain(ctx, fleet.RouterID(r.GetRouterId()), r.GetRequestId())
	if err != nil {
		return nil, toWire(ctx, err)
	}
	reply := &nodepb.ExplainReply{Region: string(e.Region), Explained: &routerpb.Explained{
		Record: e.Record, RememberedMost: uint32(max(0, e.Most)),
	}}
	if !e.Oldest.IsZero() {
		reply.Explained.OldestUnixMs = e.Oldest.UnixMilli()
	}
	return reply, nil
}

// Inspect asks a router that is connected to this node.
func (s *service) Inspect(ctx context.Context, r *nodepb.InspectRequest) (*nodepb.InspectReply, error) {
	if err := s.sameCluster(r.GetClusterId()); err != nil {
		return nil, toWire(ctx, err)
	}
	if s.f.o.Desk == nil {
		return nil, toWire(ctx, inquiry.ErrNotConnected)
	}
	got, err := s.f.o.Desk.Inspect(ctx, fleet.RouterID(r.GetRouterId()), fleet.ClusterID(r.GetCluster()), r.GetMost())
	if err != nil {
		return nil, toWire(ctx, err)
	}
	return &nodepb.InspectReply{Region: string(got.Region), Inspected: got.Sight}, nil
}

// Decisions follows the routers that are connected to this node until the caller goes or this node
// stops.
func (s *service) Decisions(r *nodepb.DecisionsRequest, stream grpc.ServerStreamingServer[nodepb.DecisionsReply]) error {
	ctx := stream.Context()
	if err := s.sameCluster(r.GetClusterId()); err != nil {
		return toWire(ctx, err)
	}
	if s.f.o.Desk == nil {
		return toWire(ctx, inquiry.ErrNotConnected)
	}
	return s.f.o.Desk.Follow(ctx, r.GetFilter(), r.GetRatePerS(), func(n inquiry.News) error {
		m := &nodepb.DecisionsReply{
			RouterId: string(n.Router), Region: string(n.Region), Records: n.Records, Dropped: n.Dropped,
			Following: uint32(max(0, n.Standing.Following)),
		}
		for _, id := range n.Standing.Unable {
			m.Unable = append(m.Unable, string(id))
		}
		return stream.Send(m)
	})
}
