package dataplane

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"anabranch/api/fleet"
)

// A server that answers 429 has little to do, and must not look the best for that.
func TestABusyEndpointIsLeftAlone(t *testing.T) {
	bad, far := newStub(t, says(429)), newStub(t, answers)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1e9, endpoints: []*stub{bad, newStub(t, answers), newStub(t, answers), newStub(t, answers)}},
		{id: "eu-a", region: eu, weight: 1, endpoints: []*stub{far}},
	}, nil)
	began := time.Now()
	retried := 0
	for range 300 {
		r := w.ask(us, "acme", askWhole)
		if r.status != 200 {
			t.Fatalf("%d %q", r.status, r.body)
		}
		if r.header.Get("X-Anabranch-Attempts") != "1" {
			retried++
		}
	}
	// Once, and once more for each second that has passed since.
	if most := 1 + int(time.Since(began)/time.Second); retried > most || bad.requests.Load() != int64(retried) || far.requests.Load() != 0 {
		t.Errorf("%d retried, at most %d expected; %d at the busy one, %d far away", retried, most, bad.requests.Load(), far.requests.Load())
	}
	if dead, why := w.routers[us].places.Cluster("us-a").Endpoints()[0].Ejected(); dead {
		t.Errorf("ejected: %s", why)
	}
}

// A request that meets a busy cluster tries another of the region before one abroad. Those after it
// know, and go where the weights send what overflows.
func TestABusyClusterIsHelpedOutInItsRegionFirst(t *testing.T) {
	full := func(status int) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Retry-After", "20")
			http.Error(rw, "no", status)
		}
	}
	near, far := newStub(t, answers), newStub(t, answers)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1e9, endpoints: []*stub{newStub(t, full(429)), newStub(t, full(503))}},
		{id: "us-b", region: us, weight: 0, endpoints: []*stub{near}}, // later than eu-a by the weights
		{id: "eu-a", region: eu, weight: 1, endpoints: []*stub{far}},
	}, nil)
	ask := func(cluster, attempts string) {
		t.Helper()
		r := w.ask(us, "acme", askWhole)
		if r.status != 200 || r.header.Get("X-Anabranch-Cluster") != cluster || r.header.Get("X-Anabranch-Attempts") != attempts {
			t.Errorf("%d by %s after %s attempts, want %s after %s", r.status,
				r.header.Get("X-Anabranch-Cluster"), r.header.Get("X-Anabranch-Attempts"), cluster, attempts)
		}
	}
	ask("us-b", "3") // both endpoints of us-a are new to it
	ask("eu-a", "1")
	if n := near.requests.Load(); n != 1 {
		t.Errorf("%d requests at us-b", n)
	}
}

func TestASiblingOfABusyEndpointIsTriedWithoutABudget(t *testing.T) {
	bad, good := newStub(t, says(429)), newStub(t, answers)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{bad, good}},
	}, nil)
	n := w.routers[us]
	spend(n, "us-a")
	for range 20 { // until the busy one is drawn
		if r := w.ask(us, "acme", askWhole); r.status != 200 {
			t.Errorf("%d %q", r.status, r.body)
		}
	}
	if bad.requests.Load() == 0 {
		t.Error("the busy one was never drawn")
	}
}

func TestARecordNamesASpentBudget(t *testing.T) {
	w, first, second := pair(t, nil)
	first.does(says(500))
	spend(w.routers[us], "us-b")
	r := w.ask(us, "acme", askWhole)
	rec := w.record(us, r)
	if r.status != 502 || second.requests.Load() != 0 || !slices.Equal(rec.Removed, []Removal{{"us-b", "retry budget spent"}}) {
		t.Errorf("%d, removed %+v", r.status, rec.Removed)
	}
}

// spend uses up the retries that a cluster may get.
func spend(n *node, id fleet.ClusterID) {
	for n.budget.Retry(id, false, n.now()) {
	}
}
