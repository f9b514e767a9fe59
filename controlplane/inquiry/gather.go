package inquiry

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

const (
	// lookEvery is how often the members are looked at, and how long a node that could not be followed
	// is left alone.
	lookEvery = time.Second
	// gathered is how many pieces of news wait for whoever takes them; the rest waits, and is dropped, at
	// the desks, which count bytes.
	gathered = 4
)

// Follow tells what the routers of all nodes decide from now on, as far as filter wants it: at most
// perSecond records in all, and of those what a router gives by itself. It calls tell, one call at a
// time, first with the standing and again whenever that changes, until ctx ends, and returns nil then,
// or tell's error. While tell takes its time, what comes is counted as dropped; routers never wait.
func (d *Desks) Follow(ctx context.Context, filter *routerpb.DecisionFilter, perSecond uint32, tell func(News) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var children sync.WaitGroup
	defer children.Wait()
	defer cancel()
	d.metrics.followers(1)
	defer d.metrics.followers(-1)

	g := &gathering{Desks: d, filter: filter, rate: perSecond, news: make(chan News, gathered), nodes: map[fleet.NodeID]*standing{}}
	g.join(ctx, &children, d.o.Desk.node, d.o.Desk.Follow)
	g.look(ctx, &children)
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	allowed := allowance{rate: float64(perSecond), level: float64(perSecond)}
	for {
		var n News
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
			g.look(ctx, &children)
		case n = <-g.news:
		}
		if s, changed := g.stand(n); changed {
			if err := tell(News{Standing: s}); err != nil {
				return err
			}
		}
		if n.Router == "" {
			continue
		}
		keep := allowed.take(time.Now(), len(n.Records))
		n.Dropped += uint64(len(n.Records) - keep)
		n.Records = n.Records[:keep]
		d.metrics.told(keep, n.Dropped)
		if err := tell(n); err != nil {
			return err
		}
	}
}

// gathering is one follower of all nodes' routers. Only its own goroutine touches nodes and said.
type gathering struct {
	*Desks
	filter *routerpb.DecisionFilter
	rate   uint32
	news   chan News
	nodes  map[fleet.NodeID]*standing
	said   *Standing
}

// standing is one node's.
type standing struct {
	Standing
	leave context.CancelFunc
	since time.Time // it is followed
	heard bool
}

// follow is [Desk.Follow].
type follow func(context.Context, *routerpb.DecisionFilter, uint32, func(News) error) error

// join follows a node until ctx ends or the node is no member any more.
func (g *gathering) join(ctx context.Context, children *sync.WaitGroup, node fleet.NodeID, follow follow) {
	ctx, leave := context.WithCancel(ctx)
	g.nodes[node] = &standing{leave: leave, since: time.Now()}
	children.Go(func() {
		for {
			// Why it ends is the node's matter: it is followed again.
			_ = follow(ctx, g.filter, g.rate, func(n News) error { return g.put(ctx, n) })
			if g.put(ctx, News{Node: node, Standing: Standing{Missing: []fleet.NodeID{node}}}) != nil {
				return // ctx has ended
			}
			pause := time.NewTimer(lookEvery)
			select {
			case <-pause.C:
			case <-ctx.Done():
				pause.Stop()
				return
			}
		}
	})
}

// put waits for room: what comes meanwhile is dropped, and counted, at the desk that it comes to.
func (g *gathering) put(ctx context.Context, n News) error {
	select {
	case g.news <- n:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// look follows those that are new among the nodes, and lets go of those that are members no more.
func (g *gathering) look(ctx context.Context, children *sync.WaitGroup) {
	others := g.o.Nodes.Others()
	for node, s := range g.nodes {
		if node != g.o.Desk.node && !slices.Contains(others, node) {
			s.leave()
			delete(g.nodes, node)
		}
	}
	for _, node := range others {
		if g.nodes[node] == nil {
			g.join(ctx, children, node, func(ctx context.Context, f *routerpb.DecisionFilter, rate uint32, tell func(News) error) error {
				return g.o.Nodes.Follow(ctx, node, f, rate, tell)
			})
		}
	}
}

// stand takes in news of a standing, and gives that of all nodes if it differs from the one said last.
func (g *gathering) stand(n News) (s Standing, changed bool) {
	if at := g.nodes[n.Node]; at != nil && n.Router == "" && n.Node != "" {
		at.Standing, at.heard = n.Standing, true
	}
	for _, node := range slices.Sorted(maps.Keys(g.nodes)) {
		at := g.nodes[node]
		if !at.heard && time.Since(at.since) < Timeout {
			return s, false // it will be
		} else if !at.heard {
			s.Missing = append(s.Missing, node)
		}
		s.Following += at.Following
		s.Unable = append(s.Unable, at.Unable...)
		s.Missing = append(s.Missing, at.Missing...)
	}
	if g.said != nil && g.said.Following == s.Following && slices.Equal(g.said.Unable, s.Unable) && slices.Equal(g.said.Missing, s.Missing) {
		return s, false
	}
	g.said = &s
	return s, true
}

// allowance is a rate with a second's worth to spare.
type allowance struct {
	rate, level float64
	at          time.Time
}

// take says how many of n may pass at now. A rate of 0 lets all pass.
func (a *allowance) take(now time.Time, n int) int {
	if a.rate == 0 {
		return n
	}
	if !a.at.IsZero() {
		a.level = min(a.rate, a.level+a.rate*max(0, now.Sub(a.at).Seconds()))
	}
	a.at = now
	passed := min(n, int(a.level))
	a.level -= float64(passed)
	return passed
}
