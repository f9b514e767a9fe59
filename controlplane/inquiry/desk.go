package inquiry

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// Desk asks the routers that are connected to this node. It starts no goroutine and is safe for
// concurrent use.
type Desk struct {
	node fleet.NodeID

	mu        sync.Mutex // guards what is below
	number    uint64     // the last one given to a question or tail
	lines     map[fleet.RouterID]*line
	questions map[uint64]*question
	tails     map[uint64]*tail
}

// line is one router's stream.
type line struct {
	router          fleet.RouterID
	region          fleet.RegionID
	explains, tails bool // it answers such questions
	inspects        bool
	asks            chan<- *routerpb.ToRouter
	gone            chan struct{} // closed when the stream has ended
	refused         map[uint64]bool
}

// question waits for its answer.
type question struct {
	of     *line
	answer chan *routerpb.FromRouter // holds one
}

// NewDesk makes the desk of a node.
func NewDesk(node fleet.NodeID) *Desk {
	return &Desk{
		node: node, lines: map[fleet.RouterID]*line{},
		questions: map[uint64]*question{}, tails: map[uint64]*tail{},
	}
}

// Join takes in a router's stream: what is put into asks is to be sent, and heard is to be called with
// what the router answers. Leave is called once, when the stream has ended. A router's newest stream
// counts.
func (d *Desk) Join(hello *routerpb.Hello, asks chan<- *routerpb.ToRouter) (heard func(*routerpb.FromRouter), leave func()) {
	l := &line{
		router: fleet.RouterID(hello.GetRouterId()), region: fleet.RegionID(hello.GetRegion()),
		explains: slices.Contains(hello.GetFeatures(), routerpb.Feature_FEATURE_EXPLAIN),
		tails:    slices.Contains(hello.GetFeatures(), routerpb.Feature_FEATURE_TAIL),
		inspects: slices.Contains(hello.GetFeatures(), routerpb.Feature_FEATURE_INSPECT),
		asks:     asks, gone: make(chan struct{}), refused: map[uint64]bool{},
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines[l.router] = l
	for number, t := range d.tails {
		d.follow(l, number, t)
	}
	return func(m *routerpb.FromRouter) { d.hear(l, m) }, func() { d.leave(l) }
}

func (d *Desk) leave(l *line) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lines[l.router] == l {
		delete(d.lines, l.router)
	}
	close(l.gone)
}

// hear takes an answer. It never waits: the router's stream does.
func (d *Desk) hear(l *line, m *routerpb.FromRouter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if number := answered(m); number > 0 {
		if q := d.questions[number]; q != nil && q.of == l {
			delete(d.questions, number)
			q.answer <- m
		}
	}
	told := m.GetDecisions()
	if told == nil {
		return
	}
	t := d.tails[told.GetNumber()]
	if t == nil {
		// Nobody wants it any more, and the router has not heard of that: its lease ends by itself.
		return
	}
	l.refused[told.GetNumber()] = told.GetRefused()
	t.take(News{Node: d.node, Router: l.router, Region: l.region, Records: told.GetRecords(), Dropped: told.GetDropped()})
}

// answered is the number of the question that a message answers; 0: it answers none.
func answered(m *routerpb.FromRouter) uint64 {
	switch body := m.GetBody().(type) {
	case *routerpb.FromRouter_Explained:
		return body.Explained.GetNumber()
	case *routerpb.FromRouter_Inspected:
		return body.Inspected.GetNumber()
	default:
		return 0
	}
}

// Explain asks a router what became of a request, by the router's own name of it.
func (d *Desk) Explain(ctx context.Context, router fleet.RouterID, request string) (Explanation, error) {
	l, a, err := d.ask(ctx, router, func(l *line) bool { return l.explains }, func(number uint64) *routerpb.ToRouter {
		return &routerpb.ToRouter{Body: &routerpb.ToRouter_Explain{Explain: &routerpb.Explain{Number: number, RequestId: request}}}
	})
	if err != nil {
		return Explanation{}, err
	}
	return d.explanation(l, a.GetExplained()), nil
}

// Inspect asks a router how the places of a cluster stand, of so many at most; 0: as many as it tells at most.
func (d *Desk) Inspect(ctx context.Context, router fleet.RouterID, cluster fleet.ClusterID, most uint32) (Inspection, error) {
	l, a, err := d.ask(ctx, router, func(l *line) bool { return l.inspects }, func(number uint64) *routerpb.ToRouter {
		return &routerpb.ToRouter{Body: &routerpb.ToRouter_Inspect{Inspect: &routerpb.Inspect{Number: number, Cluster: string(cluster), Most: most}}}
	})
	if err != nil {
		return Inspection{}, err
	}
	return Inspection{Node: d.node, Router: l.router, Region: l.region, Sight: a.GetInspected()}, nil
}

func (d *Desk) explanation(l *line, a *routerpb.Explained) Explanation {
	e := Explanation{
		Node: d.node, Router: l.router, Region: l.region,
		Record: a.GetRecord(), Most: int(a.GetRememberedMost()),
	}
	if at := a.GetOldestUnixMs(); at > 0 {
		e.Oldest = time.UnixMilli(at)
	}
	return e
}

// ask puts a question to a router that is able to answer it, and waits for the answer.
func (d *Desk) ask(ctx context.Context, router fleet.RouterID, able func(*line) bool, question func(number uint64) *routerpb.ToRouter) (*line, *routerpb.FromRouter, error) {
	l, number, answer, err := d.put(router, able, question)
	if err != nil {
		return nil, nil, err
	}
	defer d.forget(number)
	select {
	case a := <-answer:
		return l, a, nil
	case <-l.gone:
		return nil, nil, ErrNotConnected
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

func (d *Desk) put(router fleet.RouterID, able func(*line) bool, ask func(number uint64) *routerpb.ToRouter) (*line, uint64, <-chan *routerpb.FromRouter, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.lines[router]
	switch {
	case l == nil:
		return nil, 0, nil, ErrNotConnected
	case !able(l):
		return nil, 0, nil, ErrTooOld
	}
	d.number++
	select {
	case l.asks <- ask(d.number):
	default:
		return nil, 0, nil, ErrBusy
	}
	q := &question{of: l, answer: make(chan *routerpb.FromRouter, 1)}
	d.questions[d.number] = q
	return l, d.number, q.answer, nil
}

func (d *Desk) forget(number uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.questions, number)
}

// sorted lists the lines by router. The caller holds the lock.
func (d *Desk) sorted() []*line {
	return slices.SortedFunc(maps.Values(d.lines), func(a, b *line) int { return cmp.Compare(a.router, b.router) })
}
