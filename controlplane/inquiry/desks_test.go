package inquiry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// errDown is what a node that is down answers.
var errDown = errors.New("connection refused")

// nodes are the other nodes' desks, which a test takes down and adds.
type nodes struct {
	mu    sync.Mutex // guards what is below
	desks map[fleet.NodeID]*Desk
	down  map[fleet.NodeID]bool
	hung  map[fleet.NodeID]bool
	asked []fleet.NodeID
	left  map[fleet.NodeID]func() // ends the followers of a node
}

func (n *nodes) Others() []fleet.NodeID {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(maps.Keys(n.desks))
}

func (n *nodes) at(ctx context.Context, node fleet.NodeID) (*Desk, error) {
	n.mu.Lock()
	n.asked = append(n.asked, node)
	desk, down, hung := n.desks[node], n.down[node], n.hung[node]
	n.mu.Unlock()
	if hung {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if down || desk == nil {
		return nil, errDown
	}
	return desk, nil
}

func (n *nodes) Explain(ctx context.Context, node fleet.NodeID, router fleet.RouterID, request string) (Explanation, error) {
	desk, err := n.at(ctx, node)
	if err != nil {
		return Explanation{}, err
	}
	return desk.Explain(ctx, router, request)
}

func (n *nodes) Inspect(ctx context.Context, node fleet.NodeID, router fleet.RouterID, cluster fleet.ClusterID, most uint32) (Inspection, error) {
	desk, err := n.at(ctx, node)
	if err != nil {
		return Inspection{}, err
	}
	return desk.Inspect(ctx, router, cluster, most)
}

func (n *nodes) Follow(ctx context.Context, node fleet.NodeID, filter *routerpb.DecisionFilter, perSecond uint32, tell func(News) error) error {
	desk, err := n.at(ctx, node)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	n.mu.Lock()
	n.left[node] = func() { cancel(errDown) }
	n.mu.Unlock()
	return errors.Join(desk.Follow(ctx, filter, perSecond, tell), context.Cause(ctx))
}

// takeDown ends a node.
func (n *nodes) takeDown(node fleet.NodeID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down[node] = true
	if end := n.left[node]; end != nil {
		end()
	}
}

func (n *nodes) set(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

// three are the desks of three nodes, seen from n1. Where routers are held is told by held.
func three(t *testing.T, held map[fleet.RouterID]fleet.NodeID) (*Desks, map[fleet.NodeID]*Desk, *nodes) {
	t.Helper()
	desks := map[fleet.NodeID]*Desk{"n1": NewDesk("n1"), "n2": NewDesk("n2"), "n3": NewDesk("n3")}
	others := &nodes{
		desks: map[fleet.NodeID]*Desk{"n2": desks["n2"], "n3": desks["n3"]},
		down:  map[fleet.NodeID]bool{}, hung: map[fleet.NodeID]bool{}, left: map[fleet.NodeID]func(){},
	}
	d, err := NewDesks(Options{
		Desk: desks["n1"], Nodes: others, Registerer: prometheus.NewRegistry(),
		Holder: func(router fleet.RouterID) (fleet.NodeID, bool) {
			node, known := held[router]
			return node, known
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return d, desks, others
}

func TestARouterIsFoundWhereverItIs(t *testing.T) {
	for name, c := range map[string]struct {
		at    fleet.NodeID                    // that the router is connected to; empty: to none
		held  map[fleet.RouterID]fleet.NodeID // as this node has heard
		down  []fleet.NodeID
		hung  []fleet.NodeID
		old   bool
		want  error
		asked string
	}{
		"here":                                 {at: "n1", asked: "[]"},
		"where it is said to be":               {at: "n3", held: map[fleet.RouterID]fleet.NodeID{"r1": "n3"}, asked: "[n3]"},
		"elsewhere by now":                     {at: "n2", held: map[fleet.RouterID]fleet.NodeID{"r1": "n3"}, asked: "[n3 n2]"},
		"somewhere":                            {at: "n3", asked: "[n2 n3]"},
		"its node is down, and it is with us":  {at: "n2", held: map[fleet.RouterID]fleet.NodeID{"r1": "n3"}, down: []fleet.NodeID{"n3"}, asked: "[n3 n2]"},
		"another node hangs meanwhile":         {at: "n3", hung: []fleet.NodeID{"n2"}, asked: "[n2 n3]"},
		"too old":                              {at: "n3", old: true, held: map[fleet.RouterID]fleet.NodeID{"r1": "n3"}, want: ErrTooOld, asked: "[n3]"},
		"unknown":                              {want: ErrUnknownRouter, asked: "[n2 n3]"},
		"known, and gone":                      {held: map[fleet.RouterID]fleet.NodeID{"r1": "n2"}, want: ErrNotConnected, asked: "[n2 n3]"},
		"nowhere, as far as nodes answer":      {down: []fleet.NodeID{"n2"}, want: ErrNotConnected, asked: "[n2 n3]"},
		"its node hangs":                       {held: map[fleet.RouterID]fleet.NodeID{"r1": "n2"}, hung: []fleet.NodeID{"n2"}, want: context.DeadlineExceeded, asked: "[n2]"},
		"a node hangs, and the others know it": {hung: []fleet.NodeID{"n2"}, want: context.DeadlineExceeded, asked: "[n2 n3]"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, desks, others := three(t, c.held)
				for _, node := range c.down {
					others.down[node] = true
				}
				for _, node := range c.hung {
					others.hung[node] = true
				}
				if c.at != "" {
					features := able
					if c.old {
						features = nil
					}
					r := join(desks[c.at], "r1", "us", features...)
					go r.answers("r1-7")
					defer close(r.asks)
				}
				start := time.Now()
				e, err := d.Explain(t.Context(), "r1", "r1-7")
				if !errors.Is(err, c.want) || err == nil && (e.Node != c.at || e.Record == nil) {
					t.Errorf("got %+v, %v", e, err)
				}
				took := time.Since(start)
				slices.Sort(others.asked[min(len(others.asked), len(c.held)):]) // the rest is asked at once
				if got := fmt.Sprint(others.asked); got != c.asked {
					t.Errorf("asked %s, want %s", got, c.asked)
				}
				if took > Timeout {
					t.Errorf("it took %s", took)
				}
				if i, err := d.Inspect(t.Context(), "r1", "us-a", 9); !errors.Is(err, c.want) || err == nil && (i.Node != c.at || i.Router != "r1" || i.Region != "us" || i.Sight.GetReason() != "us-a of 9") {
					t.Errorf("of a cluster: %+v, %v", i, err)
				}
				answer := "known"
				if c.want != nil {
					answer = "none"
				}
				if n := testutil.CollectAndCount(d.metrics.took.WithLabelValues(answer).(prometheus.Histogram)); n != 1 {
					t.Errorf("%d times are kept of %s", n, answer)
				}
			})
		})
	}
}

// numbered asks which number a router's tail has.
func (r *router) begun(t *testing.T) uint64 {
	t.Helper()
	number := r.tail(t).GetNumber()
	r.decides(number, 0)
	return number
}

func TestAllRoutersOfAllNodesAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, desks, others := three(t, nil)
		r1, r2 := join(desks["n1"], "r1", "us", able...), join(desks["n2"], "r2", "eu", able...)
		join(desks["n3"], "old", "eu")
		l := listen(t, d.Follow, nil, 100)
		l.want(t, "2 followed, unable [old], missing []")
		n1, n2 := r1.begun(t), r2.begun(t)
		r1.decides(n1, 0, `{"id":"1"}`)
		synctest.Wait()
		r2.decides(n2, 3, `{"id":"2"}`)
		l.want(t, "r1 of us at n1: {\"id\":\"1\"}, 0 dropped\nr2 of eu at n2: {\"id\":\"2\"}, 3 dropped")

		others.takeDown("n2")
		l.want(t, "1 followed, unable [old], missing [n2]")
		others.set(func() { others.down["n2"] = false })
		time.Sleep(2 * lookEvery) //nolint:forbidigo // virtual time of synctest
		l.want(t, "2 followed, unable [old], missing []")
		r2.decides(r2.begun(t), 0, `{"id":"3"}`)
		l.want(t, `r2 of eu at n2: {"id":"3"}, 0 dropped`)

		n4 := NewDesk("n4")
		join(n4, "r4", "us", able...)
		others.set(func() { others.desks["n4"] = n4; delete(others.desks, "n3") })
		time.Sleep(2 * lookEvery) //nolint:forbidigo // virtual time of synctest
		if told := l.heard(); !strings.HasSuffix(told, "3 followed, unable [], missing []") {
			t.Errorf("after a change of members: %s", told)
		}
		if n := testutil.ToFloat64(d.metrics.tails); n != 1 {
			t.Errorf("%v tails are counted", n)
		}
		l.end(t)
		for node, desk := range desks {
			if len(desk.tails) != 0 {
				t.Errorf("%d tails are left at %s", len(desk.tails), node)
			}
		}
		if told, dropped, open := testutil.ToFloat64(d.metrics.decisions.WithLabelValues("told")), testutil.ToFloat64(d.metrics.decisions.WithLabelValues("dropped")), testutil.ToFloat64(d.metrics.tails); told != 3 || dropped != 3 || open != 0 {
			t.Errorf("counted %v told, %v dropped, %v open", told, dropped, open)
		}
	})
}

func TestANodeThatHangsIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, desks, others := three(t, nil)
		join(desks["n1"], "r1", "us", able...)
		others.hung["n3"] = true
		l := listen(t, d.Follow, nil, 0)
		l.want(t, "")
		time.Sleep(Timeout + renewEvery) //nolint:forbidigo // virtual time of synctest
		l.want(t, "1 followed, unable [], missing [n3]")
		l.end(t)
	})
}

func TestTheRateHoldsForAllRoutersTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, desks, _ := three(t, nil)
		r1, r2 := join(desks["n1"], "r1", "us", able...), join(desks["n2"], "r2", "us", able...)
		l := listen(t, d.Follow, nil, 3)
		l.heard()
		n1, n2 := r1.begun(t), r2.begun(t)
		r1.decides(n1, 0, `1`, `2`)
		synctest.Wait()
		r2.decides(n2, 1, `3`, `4`)
		l.want(t, "r1 of us at n1: 1 2, 0 dropped\nr2 of us at n2: 3, 2 dropped")
		time.Sleep(400 * time.Millisecond) //nolint:forbidigo // virtual time of synctest
		r2.decides(n2, 0, `5`, `6`)
		l.want(t, "r2 of us at n2: 5, 1 dropped")
		l.end(t)
	})
}

func TestAFollowerThatFailsEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, desks, _ := three(t, nil)
		broken := errors.New("broken pipe")
		if err := d.Follow(t.Context(), nil, 0, func(News) error { return broken }); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
		for node, desk := range desks {
			if len(desk.tails) != 0 {
				t.Errorf("%d tails are left at %s", len(desk.tails), node)
			}
		}
	})
}
