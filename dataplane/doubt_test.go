package dataplane

import (
	"sync"
	"testing"
	"time"

	"anabranch/api/routerpb"
)

// fewest places by requests in flight, and gives silence long enough for a busy machine.
func fewest(pb *routerpb.Table) {
	pb.Classes[0].PickMode, pb.Classes[0].FirstByteFloorMs = "least-outstanding", 1500
}

// A whole cluster hangs. What waited once for nothing goes to another, and not to a sibling whose
// own requests wait for nothing too.
func TestSiblingsInDoubtAreNotTriedAfterSilence(t *testing.T) {
	t.Parallel()
	bad := []*stub{newStub(t, hangs), newStub(t, hangs), newStub(t, hangs)}
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: bad},
		{id: "us-b", region: us, weight: 0, endpoints: []*stub{newStub(t, answers)}},
	}, fewest)
	began := time.Now()
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			r := w.ask(us, "acme", askStream)
			if r.status != 200 || r.header.Get("X-Anabranch-Cluster") != "us-b" || r.header.Get("X-Anabranch-Attempts") != "2" {
				t.Errorf("%d by %s after %s attempts", r.status, r.header.Get("X-Anabranch-Cluster"), r.header.Get("X-Anabranch-Attempts"))
			}
		})
	}
	all.Wait()
	if took := time.Since(began); took < 1500*time.Millisecond {
		t.Errorf("took %s, less than silence is given", took)
	}
	w.idle()
}

func TestASiblingThatIsNotInDoubtIsTriedAfterSilence(t *testing.T) {
	t.Parallel()
	other := newStub(t, answers)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{newStub(t, hangs), newStub(t, hangs), newStub(t, hangs)}},
		{id: "us-b", region: us, weight: 0, endpoints: []*stub{other}},
	}, fewest)
	good := newStub(t, answers)
	var all sync.WaitGroup
	n := w.routers[us]
	for i := range int64(3) { // one at each
		all.Go(func() { w.ask(us, "acme", askStream) })
		w.eventually("it is there", func() bool { return n.places.Cluster("us-a").InFlight() == i+1 })
	}
	w.table.Clusters[0].Endpoints = append(w.table.Clusters[0].Endpoints, &routerpb.Endpoint{Id: "e4", Url: good.URL, Class: "h100"})
	w.apply()
	all.Wait()
	if good.requests.Load() != 3 || other.requests.Load() != 0 {
		t.Errorf("%d at the sibling, %d at the other cluster", good.requests.Load(), other.requests.Load())
	}
}

// Doubt is no ejection: where nothing else is left a sibling in doubt is tried.
func TestASiblingInDoubtIsBetterThanNone(t *testing.T) {
	t.Parallel()
	a, b := newStub(t, hangs), newStub(t, hangs)
	w := newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{a, b}}}, fewest)
	var all sync.WaitGroup
	for i := range int64(2) { // one at each
		all.Go(func() {
			if r := w.ask(us, "acme", askStream); r.status != 200 || r.header.Get("X-Anabranch-Attempts") != "2" {
				t.Errorf("%d %q", r.status, r.body)
			}
		})
		w.eventually("it is there", func() bool { return a.requests.Load()+b.requests.Load() == i+1 })
	}
	a.does(answers)
	b.does(answers)
	all.Wait()
	w.idle()
}
