package dataplane

import (
	"net/http"
	"testing"

	"google.golang.org/protobuf/proto"

	"anabranch/api/routerpb"
)

// The table changes between the moment that a request has taken it and the moment that it is sent, and
// none of the places that it may go to by the old one is in the new: it still goes there.
func TestARequestBetweenTwoTablesIsServed(t *testing.T) {
	w, first, second := pair(t, nil)
	n := w.routers[us]
	old := proto.CloneOf(w.table)
	old.Clusters = old.Clusters[:1]
	old.Weights[0].Clusters = []*routerpb.ClusterWeight{{Cluster: "us-a", Weight: 1}}
	next := proto.CloneOf(w.table)
	next.Ref.Revision++
	next.Clusters = next.Clusters[1:]
	next.Weights[0].Clusters = []*routerpb.ClusterWeight{{Cluster: "us-b", Weight: 1}}
	w.table = old
	w.apply()
	draws, random := 0, n.random
	n.random = func() uint64 {
		if draws++; draws == 2 { // the first names the request, the second is for its affinity
			w.table = next
			w.apply()
		}
		return random()
	}
	r := w.ask(us, "acme", askStream)
	if draws < 2 || r.status != http.StatusOK || r.header.Get("X-Anabranch-Cluster") != "us-a" || first.requests.Load() != 1 {
		t.Errorf("%d %q after %d draws, %d and %d requests", r.status, r.body, draws, first.requests.Load(), second.requests.Load())
	}
	w.idle()
}
