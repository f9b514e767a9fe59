package clienttest

import (
	"context"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/inquiry"
	"anabranch/controlplane/rest"
)

// Ask has routers answer questions about requests; until then there are none.
func (n *Node) Ask(routers rest.Inquiries) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.routers = routers
}

// inquiries are whatever Ask has set.
type inquiries struct{ n *Node }

func (i inquiries) now() rest.Inquiries {
	i.n.mu.Lock()
	defer i.n.mu.Unlock()
	return i.n.routers
}

// Explain asks the routers of the test.
func (i inquiries) Explain(ctx context.Context, router fleet.RouterID, request string) (inquiry.Explanation, error) {
	if routers := i.now(); routers != nil {
		return routers.Explain(ctx, router, request)
	}
	return inquiry.Explanation{}, inquiry.ErrUnknownRouter
}

// Inspect asks the routers of the test.
func (i inquiries) Inspect(ctx context.Context, router fleet.RouterID, cluster fleet.ClusterID, most uint32) (inquiry.Inspection, error) {
	if routers := i.now(); routers != nil {
		return routers.Inspect(ctx, router, cluster, most)
	}
	return inquiry.Inspection{}, inquiry.ErrUnknownRouter
}

// Follow follows the routers of the test.
func (i inquiries) Follow(ctx context.Context, filter *routerpb.DecisionFilter, perSecond uint32, tell func(inquiry.News) error) error {
	if routers := i.now(); routers != nil {
		return routers.Follow(ctx, filter, perSecond, tell)
	}
	<-ctx.Done()
	return nil
}
