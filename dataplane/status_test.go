package dataplane

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/dataplane/dispatch"
	"anabranch/dataplane/override"
	"anabranch/dataplane/subscribe"
)

func (w *world) status(region string) Status {
	w.t.Helper()
	var s Status
	r := w.get(http.MethodGet, w.routers[region].admin.URL+"/status", "", "")
	if err := json.Unmarshal([]byte(r.body), &s); r.status != http.StatusOK || err != nil {
		w.t.Fatalf("%d %v %s", r.status, err, r.body)
	}
	return s
}

func TestTheStatusPageTellsHowPlacesStand(t *testing.T) {
	good, bad := newStub(t, answers), newStub(t, answers)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{good, bad}}, {id: "eu-a", region: eu, weight: 0, endpoints: []*stub{newStub(t, answers)}},
	}, func(pb *routerpb.Table) {
		pb.Clusters[1].Drained, pb.Clusters[1].HealthCap = true, 0.5
		pb.Clusters[0].Discovery = &routerpb.Discovery{Kind: "file", Name: "/nowhere/at/all.yaml"}
	})
	n := w.routers[us]
	n.o.Control = func() ControlStatus {
		return ControlStatus{Connected: true, Node: "n1", Waiting: &TableNumber{Epoch: 2, Revision: 9}}
	}
	n.o.OrdersStatus = func() override.Status {
		return override.Status{Orders: []override.Given{{Order: override.Order{ID: "o1", Kind: override.Freeze}, Door: "socket"}}, Problems: []string{"a problem"}}
	}
	for range 3 {
		if r := w.ask(us, "acme", strings.Replace(askStream, `"llama"`, `"legal"`, 1)); r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	w.run()
	bad.Close()
	w.eventually("a server is found dead", func() bool {
		s := w.status(us)
		return len(s.Clusters) == 2 && s.Clusters[1].Endpoints[1].Ejected && s.Clusters[1].Endpoints[0].Signals == "fresh" &&
			len(s.Discovery) == 1 && s.Discovery[0].Failures > 0
	})
	s := w.status(us)
	if s.Router != "r-us-east-1" || !s.Ready || s.Draining || s.Revision != 5 || s.Epoch != 1 || !s.Quota || s.Open != (Left{}) || s.Sight != "current" {
		t.Errorf("%+v", s)
	}
	if s.Control.Waiting == nil || s.Control.Waiting.Revision != 9 {
		t.Errorf("control plane: %+v", s.Control)
	}
	if s.Orders == nil || s.Orders.Orders[0].ID != "o1" || s.Orders.Orders[0].Door != "socket" || s.Orders.Problems[0] != "a problem" {
		t.Errorf("orders: %+v", s.Orders)
	}
	if d := s.Discovery[0]; d.Cluster != "us-a" || d.Kind != "file" || d.Error == "" {
		t.Errorf("discovery: %+v", d)
	}
	if len(s.Queue) != 4 || s.Queue[0].Tier != "top" || s.Queue[3].Tier != "batch" {
		t.Errorf("queue: %+v", s.Queue)
	}
	if s.Prefixes.Capacity != 1<<20 {
		t.Errorf("prefixes: %+v", s.Prefixes)
	}
	far, near := s.Clusters[0], s.Clusters[1]
	if far.ID != "eu-a" || !far.Drained || far.Cap != 0.5 || len(far.Endpoints) != 0 || far.Kind != "endpoints" {
		t.Errorf("%+v", far)
	}
	if near.Retries.Requests+near.Retries.Left < 3+dispatch.BudgetFloor || near.Cap != 1 {
		t.Errorf("%+v", near)
	}
	up, down := near.Endpoints[0], near.Endpoints[1]
	if up.State != stateReady || up.Ramp != 1 || up.SignalAgeMs < 0 || up.Slots <= 0 || len(up.Rates) != 1 || up.Rates[0].Model != "llama" ||
		up.Rates[0].PrefillTokensPerS <= 0 || up.Rates[0].StepMs <= 0 {
		t.Errorf("%+v", up)
	}
	if down.State != stateEjected || down.Reason == "" {
		t.Errorf("%+v", down)
	}
	if adapters := append(up.Adapters, down.Adapters...); len(adapters) == 0 || adapters[0] != "legal" {
		t.Errorf("adapters %v", adapters)
	}
}

// A page is made of a router that is still without a table, and says so.
func TestTheStatusPageOfARouterThatBegins(t *testing.T) {
	w, _ := one(t)
	w.routers[us].tables.Store(nil)
	s := w.status(us)
	if s.Ready || s.Reason == "" || s.Orders != nil || s.Clusters == nil || len(s.Clusters) != 0 {
		t.Errorf("%+v", s)
	}
	if len(s.Discovery) != 0 {
		t.Errorf("discovery %v", s.Discovery)
	}
}

// The router ignores what the control plane said of health once that is old, and says so.
func TestWithoutControlPlaneOwnSightCounts(t *testing.T) {
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{newStub(t, answers)}},
		{id: "eu-a", region: eu, weight: 0, endpoints: []*stub{newStub(t, answers)}},
	}, func(pb *routerpb.Table) {
		for _, c := range pb.Clusters {
			c.Health, c.HealthCap = "DOWN", 0
		}
	})
	var sight atomic.Int64
	for _, n := range w.routers {
		n.o.Sight = func(time.Time) subscribe.Sight { return subscribe.Sight(sight.Load()) }
	}
	for _, c := range []struct {
		sight  subscribe.Sight
		served string // empty: nobody
		said   string
	}{
		{subscribe.Current, "", ""},
		{subscribe.Stale, "eu-a", "stale"}, // which the router of eu, as blind, must take for dead
		{subscribe.Alone, "us-a", "alone"},
	} {
		sight.Store(int64(c.sight))
		r := w.ask(us, "acme", askWhole)
		rec := w.record(us, r)
		if rec.Sight != c.said {
			t.Errorf("%s: the record says %q", c.sight, rec.Sight)
		}
		if s := w.status(us); s.Sight != c.sight.String() {
			t.Errorf("the status page says %s, want %s", s.Sight, c.sight)
		}
		switch {
		case c.sight == subscribe.Stale:
			// It is tried, and the region's own router still believes that it is dead.
			if r.status != http.StatusServiceUnavailable || len(rec.Candidates) != 1 || rec.Candidates[0].Cluster != "eu-a" {
				t.Errorf("stale: %d, candidates %v", r.status, rec.Candidates)
			}
		case c.served == "":
			if r.status != http.StatusServiceUnavailable || len(rec.Candidates) != 0 {
				t.Errorf("%s: %d, candidates %v", c.sight, r.status, rec.Candidates)
			}
		case r.status != http.StatusOK || r.header.Get("X-Anabranch-Cluster") != c.served:
			t.Errorf("%s: %d from %s, want %s", c.sight, r.status, r.header.Get("X-Anabranch-Cluster"), c.served)
		}
	}
}

// A router that ends serves what finds room, tells the rest to go elsewhere, and says what it still
// has.
func TestDrainingLetsNobodyNewWait(t *testing.T) {
	var full atomic.Bool
	var refused atomic.Int64
	full.Store(true)
	let := make(chan struct{})
	s := newStub(t, refuses(&full, 1, &refused))
	w := newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{s}}}, waits(20_000))
	w.run()
	n := w.routers[us]
	waited := make(chan got, 1)
	go func() { waited <- w.ask(us, "acme", askWhole) }()
	w.eventually("it waits", func() bool { return n.waitingNow() == 1 })
	n.Withdraw()
	if s := w.status(us); !s.Draining || s.Ready {
		t.Errorf("%+v", s)
	}
	next := make(chan got, 1)
	go func() { next <- w.ask(us, "acme", askWhole) }()
	w.eventually("what comes before the drain waits too", func() bool { return n.waitingNow() == 2 })
	n.Drain()
	n.Drain()
	if left := n.Left(); left != (Left{Clients: 2, Waiting: 2}) {
		t.Errorf("left: %+v", left)
	}
	if s := w.status(us); !s.Draining || s.Ready || s.Open.Waiting != 2 || s.Queue[0].Requests != 2 {
		t.Errorf("%+v", s)
	}
	r := w.ask(us, "globex", askWhole)
	if e := r.problem(t); r.status != http.StatusServiceUnavailable || e["code"] != "no_capacity" || r.header.Get("Retry-After") == "" ||
		r.header.Get("X-Should-Retry") != "" || r.header.Get("X-Llm-D-Request-Dropped-Reason") != "" || !strings.Contains(r.body, "ending") {
		t.Errorf("what comes: %d %v %v", r.status, e, r.header)
	}
	full.Store(false)
	for _, waited := range []chan got{waited, next} {
		if r := <-waited; r.status != http.StatusOK {
			t.Errorf("what waited: %d %s", r.status, r.body)
		}
	}
	w.eventually("there is room again", func() bool { return w.ask(us, "globex", askWhole).status == http.StatusOK })

	s.does(func(rw http.ResponseWriter, _ *http.Request) {
		send(rw, role, content)
		<-let
		send(rw, finish, done)
	})
	q, err := http.NewRequest(http.MethodPost, n.front.URL+"/v1/chat/completions", strings.NewReader(askStream))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer acme-key")
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if left := n.Left(); left != (Left{Clients: 1}) {
		t.Errorf("left: %+v", left)
	}
	close(let)
	if body, err := io.ReadAll(res.Body); err != nil || !strings.HasSuffix(string(body), done) {
		t.Errorf("a stream: %q, %v", body, err)
	}
	w.idle()
	if left := n.Left(); left != (Left{}) {
		t.Errorf("left: %+v", left)
	}
}

// What still waits when the router's last part ends is told to go elsewhere.
func TestWhatWaitsAtTheEndGoesElsewhere(t *testing.T) {
	var full atomic.Bool
	var refused atomic.Int64
	full.Store(true)
	w := newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{newStub(t, refuses(&full, 1, &refused))}}}, waits(20_000))
	stop := w.run()
	n := w.routers[us]
	waited := make(chan got, 1)
	go func() { waited <- w.ask(us, "acme", askWhole) }()
	w.eventually("it waits", func() bool { return n.waitingNow() == 1 })
	n.Drain()
	stop()
	r := <-waited
	if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" || r.header.Get("X-Should-Retry") != "" {
		t.Errorf("%d %v", r.status, r.header)
	}
}
