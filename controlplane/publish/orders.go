package publish

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
	"anabranch/controlplane/state"
)

// Emergencies are orders that somebody signed because there may be no quorum.
type Emergencies interface {
	// Messages are those to be handed on, and a channel that is closed when that changes.
	Messages() ([]*routerpb.SignedOrder, <-chan struct{})
}

// commands is the side of a session that hands on emergency orders. Only the session's goroutine touches it.
type commands struct {
	on   bool             // the router takes them
	told *routerpb.Orders // what it was sent last; nil: nothing
}

// orders is what to tell the router of emergency orders now, nil if nothing, and a channel that is closed when signed
// ones change; nil: they don't. A node that is cut off says that it can't tell what a quorum wants.
func (x *session) orders(view *state.View, now time.Time) (*routerpb.Orders, <-chan struct{}) {
	if !x.commands.on {
		return nil, nil
	}
	m := &routerpb.Orders{CommittedKnown: view.ClusterID() != "" && (x.s.o.Isolated == nil || !x.s.o.Isolated())}
	if m.GetCommittedKnown() {
		m.Committed, m.Ended = committed(view, now), view.EndedOrders(now)
	}
	var changed <-chan struct{}
	if x.s.o.Emergencies != nil {
		m.Signed, changed = x.s.o.Emergencies.Messages()
	}
	if proto.Equal(m, x.commands.told) || x.commands.told == nil && empty(m) {
		return nil, changed
	}
	return m, changed
}

// empty: what says nothing a router that was told nothing need not be told. But that no order holds takes back what it
// may have kept over a restart.
func empty(m *routerpb.Orders) bool {
	return !m.GetCommittedKnown() && len(m.GetSigned()) == 0
}

// committed are the orders of a quorum as routers obey them: what a revert goes back to has a number of its own.
func committed(view *state.View, now time.Time) []*routerpb.Order {
	var out []*routerpb.Order
	for _, p := range view.Orders(now) {
		o := p.GetOrder()
		if made := p.GetTableRevision(); made != 0 {
			o = proto.CloneOf(o)
			o.Epoch, o.Revision = view.Epoch(), made
		}
		out = append(out, o)
	}
	return slices.Clip(out)
}
