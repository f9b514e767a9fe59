package forward

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/forward/nodepb"
	"anabranch/controlplane/store"
)

// PeerStatus is what this node knows of another one.
type PeerStatus struct {
	ID fleet.NodeID
	// AppliedIndex is the last command that it had applied when it was last heard.
	AppliedIndex uint64
	// FeatureLevel is the newest format of commands that its build applies, as it says itself.
	FeatureLevel uint32
	// Age is the time since it was last heard.
	Age time.Duration
}

// Peers tells of the other nodes that have been heard since the start, by id.
func (f *Forward) Peers() []PeerStatus { return f.peers.list(time.Now()) }

// peers remembers when each node was last heard.
type peers struct {
	mu    sync.Mutex // guards those below
	known map[fleet.NodeID]sign
	// disowned is when a node last called this one a stranger, unless it has changed its mind.
	disowned map[fleet.NodeID]time.Time
}

// sign is a sign of life.
type sign struct {
	applied uint64
	level   uint32
	at      time.Time
}

func newPeers() *peers {
	return &peers{known: map[fleet.NodeID]sign{}, disowned: map[fleet.NodeID]time.Time{}}
}

// judged notes whether a node called this one a stranger.
func (p *peers) judged(id fleet.NodeID, stranger bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.disowned, id)
	if stranger {
		p.disowned[id] = time.Now()
	}
}

// strangers counts the nodes that have called this one so since a time.
func (p *peers) strangers(since time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, at := range p.disowned {
		if at.After(since) {
			n++
		}
	}
	return n
}

// heard notes what a node said of itself; level 0 comes from builds that do not tell it.
func (p *peers) heard(id fleet.NodeID, applied uint64, level uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[id] = sign{applied: applied, level: max(1, level), at: time.Now()}
}

// keep forgets those who are no members any more.
func (p *peers) keep(members []store.Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	gone := func(id fleet.NodeID) bool {
		return !slices.ContainsFunc(members, func(m store.Member) bool { return m.ID == id })
	}
	maps.DeleteFunc(p.known, func(id fleet.NodeID, _ sign) bool { return gone(id) })
	maps.DeleteFunc(p.disowned, func(id fleet.NodeID, _ time.Time) bool { return gone(id) })
}

func (p *peers) list(now time.Time) []PeerStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]PeerStatus, 0, len(p.known))
	for id, s := range p.known {
		list = append(list, PeerStatus{ID: id, AppliedIndex: s.applied, FeatureLevel: s.level, Age: now.Sub(s.at)})
	}
	slices.SortFunc(list, func(a, b PeerStatus) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// exchangeAll sends this node's reports to every other member each interval. A member that does
// not answer is not sent a second one before the first has failed.
func (f *Forward) exchangeAll(ctx context.Context) {
	tick := time.NewTicker(f.o.Interval)
	defer tick.Stop()
	var children sync.WaitGroup
	defer children.Wait()
	var busy sync.Map // address → struct{}
	var before []store.Member
	for {
		members := f.store.Members()
		for _, m := range before {
			if !slices.ContainsFunc(members, func(now store.Member) bool { return now.Address == m.Address }) {
				f.clients.drop(m.Address)
			}
		}
		before = members
		f.peers.keep(members)
		request := f.report()
		for _, m := range f.others() {
			if _, running := busy.LoadOrStore(m.Address, struct{}{}); running {
				continue
			}
			children.Go(func() {
				defer busy.Delete(m.Address)
				f.exchange(ctx, m, request)
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// report is what the others are sent.
func (f *Forward) report() *nodepb.ExchangeRequest {
	request := &nodepb.ExchangeRequest{NodeId: string(f.store.ID()), AppliedIndex: f.store.View().Index(), FeatureLevel: f.o.format}
	if f.o.Local != nil {
		local := f.o.Local()
		request.Routers, request.Sources = local.GetRouters(), local.GetSources()
	}
	request.SignedOrders = f.signedOrders()
	return request
}

// signedOrders are those that this node has.
func (f *Forward) signedOrders() []*routerpb.SignedOrder {
	if f.o.Orders == nil {
		return nil
	}
	messages, _ := f.o.Orders.Messages()
	return messages
}

// mergeOrders takes those of another node, whichever of the two asked.
func (f *Forward) mergeOrders(from fleet.NodeID, messages []*routerpb.SignedOrder) {
	if f.o.Orders != nil && len(messages) > 0 {
		f.o.Orders.Merge(from, messages)
	}
}

func (f *Forward) exchange(ctx context.Context, to store.Member, request *nodepb.ExchangeRequest) {
	ctx, cancel := context.WithTimeout(ctx, 2*f.o.Interval)
	defer cancel()
	client, err := f.clients.to(to.Address)
	if err != nil {
		return // shutting down
	}
	reply, err := client.Exchange(ctx, request)
	if err != nil {
		f.logger.Debug("exchange", "node", to.ID, "error", err)
		return
	}
	if reply.GetNodeId() == string(to.ID) {
		f.peers.heard(to.ID, reply.GetAppliedIndex(), reply.GetFeatureLevel())
		f.peers.judged(to.ID, reply.GetStranger())
		f.mergeOrders(to.ID, reply.GetSignedOrders())
	}
}

// Disowned says that most of the members that this node knows have lately called it a stranger: it was
// removed, and Raft, which tells so only as well as it can, has not got through to it.
func (f *Forward) Disowned() bool {
	return f.peers.strangers(time.Now().Add(-3*f.o.Interval)) > len(f.store.Members())/2
}
