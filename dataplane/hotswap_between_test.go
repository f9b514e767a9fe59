package dataplane

import (
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
)

// only is a later table in which one cluster of a world is alone.
func (w *world) only(cluster string, revision uint64) *routerpb.Table {
	pb := proto.CloneOf(w.table)
	pb.Ref.Revision = revision
	pb.Clusters = slices.DeleteFunc(pb.Clusters, func(c *routerpb.Cluster) bool { return c.Id != cluster })
	pb.Weights = slices.DeleteFunc(pb.Weights, func(ws *routerpb.Weights) bool { return ws.Source != us })
	pb.Weights[0].Clusters = []*routerpb.ClusterWeight{{Cluster: cluster, Weight: 1}}
	return pb
}

// onDraw has something done at a draw of the next request: the first names it, the second, when it has
// its table, is for its affinity.
func (n *node) onDraw(which int, do func()) (draws *int) {
	draws = new(int)
	random := n.random
	n.random = func() uint64 {
		if *draws++; *draws == which {
			do()
		}
		return random()
	}
	return draws
}

// The table changes between the moment that a request has taken it and the moment that it is sent, and
// none of the places that it may go to by the old one is in the new: it still goes there.
func TestARequestBetweenTwoTablesIsServed(t *testing.T) {
	w, first, second := pair(t, nil)
	old, next := w.only("us-a", 6), w.only("us-b", 7)
	w.table = old
	w.apply()
	draws := w.routers[us].onDraw(2, func() {
		w.table = next
		w.apply()
	})
	r := w.ask(us, "acme", askStream)
	if *draws < 2 || r.status != http.StatusOK || r.header.Get("X-Anabranch-Cluster") != "us-a" || first.requests.Load() != 1 {
		t.Errorf("%d %q after %d draws, %d and %d requests", r.status, r.body, *draws, first.requests.Load(), second.requests.Load())
	}
	w.idle()
}

// The cluster of a request has left the table, and comes back at any moment of the request's way: each
// time that it looks at the clock once. It is found all the time.
func TestAClusterComesBackWhileARequestLooksForIt(t *testing.T) {
	w, first, _ := pair(t, nil)
	with, without := w.only("us-a", 6), w.only("us-b", 7)
	n := w.routers[us]
	var looks, at atomic.Int64 // at the clock since the cluster left; when it comes back
	swap := func(pb *routerpb.Table) {
		w.table = pb
		w.apply()
	}
	now := n.now
	n.now = func() time.Time {
		if n.tables.Load().Ref.Revision == without.Ref.Revision && looks.Add(1) == at.Load() {
			swap(with)
		}
		return now()
	}
	draws := n.onDraw(2, func() { swap(without) })
	for {
		swap(with)
		looks.Store(0)
		at.Add(1)
		*draws = 0
		before := first.requests.Load()
		if r := w.ask(us, "acme", askStream); r.status != http.StatusOK || first.requests.Load() != before+1 {
			t.Errorf("back at look %d: %d %q", at.Load(), r.status, r.body)
		}
		w.idle()
		if looks.Load() < at.Load() {
			break
		}
	}
	if at.Load() < 10 {
		t.Errorf("the clock was looked at %d times", at.Load())
	}
}

// By the new table the cluster that a request goes to is in another region, its name being all that is
// left of it.
func TestAClusterMovesToAnotherRegionWhileARequestIsOnItsWay(t *testing.T) {
	here, there := newStub(t, answers), newStub(t, answers)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{here}}, {id: "eu-a", region: eu, weight: 0, endpoints: []*stub{there}},
	}, nil)
	old, next := w.only("us-a", 6), w.only("us-a", 7)
	next.Clusters[0].Region = eu
	w.table = old
	w.apply()
	w.routers[us].onDraw(2, func() {
		w.table = next
		w.apply()
	})
	if r := w.ask(us, "acme", askStream); r.status != http.StatusOK || here.requests.Load() != 1 || there.requests.Load() != 0 {
		t.Errorf("%d %q, %d requests here and %d there", r.status, r.body, here.requests.Load(), there.requests.Load())
	}
	w.idle()
}
