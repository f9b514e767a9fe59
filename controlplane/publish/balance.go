package publish

import (
	"cmp"
	"slices"
	"time"
)

const (
	// balanceEvery is how often a node looks at its share of the streams.
	balanceEvery = time.Second
	// settledAfter is how many looks in a row must see the same nodes before any stream is moved: a
	// node that is away for a moment moves none.
	settledAfter = 10
)

// balance spreads streams over the nodes after their number has changed. Nobody tells a router where
// to go: a node that has more than its share ends streams, few at a time, and the routers go on to the
// next node of their lists. After each change of the number of nodes it moves at most as many as there
// are routers, so that routers which can't reach the other nodes are not sent round for ever.
type balance struct {
	nodes  int // as last seen; 0: not yet
	looks  int // in a row that saw them
	budget int // of streams that may still be moved
}

// next says how many streams to move now.
func (b *balance) next(streams, routers, nodes int) int {
	if nodes != b.nodes {
		*b = balance{nodes: nodes}
	}
	b.looks++
	switch {
	case b.looks < settledAfter:
		return 0
	case b.looks == settledAfter:
		b.budget = max(routers, streams)
	}
	n := min(surplus(streams, routers, nodes), b.budget)
	b.budget -= n
	return n
}

// surplus is how many streams to move at one look: what is above the node's share and a tenth, one in
// a hundred of its streams at most, and always one if any.
func surplus(streams, routers, nodes int) int {
	if nodes < 2 {
		return 0
	}
	share := (max(routers, streams) + nodes - 1) / nodes
	above := streams - (share + share/10 + 1)
	return max(0, min(above, max(1, streams/100)))
}

// latest and eldest are orders in which streams are ended. To spread routers those that came last go.
func latest(a, b *session) int { return cmp.Compare(b.number, a.number) }
func eldest(a, b *session) int { return cmp.Compare(a.number, b.number) }

// move ends the first n streams in an order.
func (s *Server) move(n int, order func(a, b *session) int) {
	if n <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*session, 0, len(s.current))
	for _, x := range s.current {
		if !x.moving {
			all = append(all, x)
		}
	}
	slices.SortFunc(all, order)
	for _, x := range all[:min(n, len(all))] {
		x.moving = true
		close(x.moved)
		if s.metrics.moved != nil {
			s.metrics.moved.Inc()
		}
	}
	s.logger.Info("moving routers to other nodes", "streams", len(s.current), "moved", n)
}
