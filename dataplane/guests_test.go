package dataplane

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"anabranch/api/routerpb"
	"anabranch/dataplane/endpoint"
)

// One that is full for a request of low priority has room for others yet.
func TestARegionIsNotFullForAllThatIsFullForOne(t *testing.T) {
	w := newWorld(t, []site{
		{id: "eu-a", region: eu, weight: 1, endpoints: []*stub{newStub(t, answers)}},
		{id: "us-a", region: us, weight: 0, endpoints: []*stub{newStub(t, answers)}},
	}, nil)
	w.run()
	c := w.routers[eu].places.Cluster("eu-a")
	e := c.Endpoints()[0]
	w.eventually("signals", func() bool { return c.Evidence(time.Now()).Known })
	var calls []*endpoint.Call
	w.eventually("it is rather full", func() bool {
		if c.Evidence(time.Now()).Saturation >= 0.7 {
			return true
		}
		call := e.Begin(endpoint.Load{Model: "llama", PromptTokens: 1, Stream: true}, time.Now())
		call.FirstToken(time.Now())
		calls = append(calls, call)
		return false
	})
	defer func() {
		for _, call := range calls {
			call.Done(endpoint.Result{}, time.Now())
		}
	}()
	r := w.ask(us, "acme", askWhole, "X-Anabranch-Priority", "-10")
	if r.status != 200 || r.header.Get("X-Anabranch-Cluster") != "us-a" {
		t.Fatalf("%d by %s; saturation %v", r.status, r.header.Get("X-Anabranch-Cluster"), c.Evidence(time.Now()).Saturation)
	}
	r = w.ask(us, "acme", askWhole)
	if r.header.Get("X-Anabranch-Cluster") != "eu-a" {
		t.Errorf("top tier by %s: %+v", r.header.Get("X-Anabranch-Cluster"), w.record(us, r).Candidates)
	}
}

func TestAHopNamesTheModelAsRoutersDo(t *testing.T) {
	there := newStub(t, answers)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 0, endpoints: []*stub{newStub(t, answers)}}, {id: "eu-a", region: eu, weight: 1, endpoints: []*stub{there}},
	}, member("eu-a", func(c *routerpb.Cluster) { c.ModelNames = map[string]string{"llama": "meta/llama-3.1"} }))
	r := w.ask(us, "acme", askStream)
	if r.status != 200 || r.header.Get("X-Anabranch-Cluster") != "eu-a" || there.askedFor(t) != "meta/llama-3.1" {
		t.Errorf("%d by %s: %s", r.status, r.header.Get("X-Anabranch-Cluster"), kinds(w.record(us, r)))
	}
}

func TestPeersRequestsAreBoundedToo(t *testing.T) {
	there := newStub(t, answers)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 0, endpoints: []*stub{newStub(t, answers)}}, {id: "eu-a", region: eu, weight: 1, endpoints: []*stub{there}},
	}, nil)
	n := w.routers[eu]
	n.hops.Store(n.o.MaxInFlight)
	r := w.ask(us, "acme", askWhole)
	if r.status != 200 || r.header.Get("X-Anabranch-Cluster") != "us-a" || there.requests.Load() != 0 {
		t.Errorf("%d by %s", r.status, r.header.Get("X-Anabranch-Cluster"))
	}
	n.hops.Add(-n.o.MaxInFlight)
	w.idle()
}

func TestARegionAsAMemberIsCreditedWithItsAnswers(t *testing.T) {
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 0, endpoints: []*stub{newStub(t, answers)}},
		{id: "europe", region: eu, weight: 1, endpoints: []*stub{newStub(t, answers)}},
		{id: "eu-a", region: eu, weight: 0, endpoints: []*stub{newStub(t, answers)}},
	}, member("europe", func(c *routerpb.Cluster) { c.Kind, c.Endpoints = "router", nil }))
	for range 3 {
		if r := w.ask(us, "acme", askWhole); r.header.Get("X-Anabranch-Region") != eu {
			t.Fatalf("served in %s", r.header.Get("X-Anabranch-Region"))
		}
	}
	n := w.routers[us]
	if got := testutil.ToFloat64(n.metrics.attempts.WithLabelValues("europe", "first", "ok")); got != 3 {
		t.Errorf("%v counted as answered", got)
	}
	for _, s := range n.Report(time.Now()).Clusters {
		if s.Cluster == "europe" && s.LoadWork == 0 {
			t.Errorf("no work is credited: %v", s)
		}
	}
}
