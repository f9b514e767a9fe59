package dataplane

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"anabranch/api/routerpb"
)

// two is a world of two regions with one cluster each. All requests of both want the eu.
func two(t *testing.T, change func(*routerpb.Table)) (w *world, here, there *stub) {
	t.Helper()
	here, there = newStub(t, answers), newStub(t, answers)
	w = newWorld(t, []site{
		{id: "us-a", region: us, weight: 0, endpoints: []*stub{here}},
		{id: "eu-a", region: eu, weight: 1, endpoints: []*stub{there}},
	}, change)
	return w, here, there
}

func TestOneHopToAnotherRegion(t *testing.T) {
	w, _, there := two(t, nil)
	for name, body := range map[string]string{"whole": askWhole, "stream": askStream} {
		t.Run(name, func(t *testing.T) {
			before := there.requests.Load()
			r := w.ask(us, "globex", body, "X-Request-Id", "mine-2", "X-Anabranch-Priority", "0")
			if r.status != 200 || r.err != nil {
				t.Fatalf("%d %q, %v", r.status, r.body, r.err)
			}
			if name == "stream" && r.body != role+content+content+content+finish+done {
				t.Errorf("body %q", r.body)
			}
			for key, want := range map[string]string{
				"X-Anabranch-Region": eu, "X-Anabranch-Cluster": "eu-a", "X-Anabranch-Endpoint": "e1",
				"X-Anabranch-Attempts": "1", "X-Request-Id": "mine-2", "X-Ratelimit-Limit-Requests": "1000000",
			} {
				if got := r.header.Get(key); got != want {
					t.Errorf("%s: %q, want %q", key, got, want)
				}
			}
			seen := *there.seen.Load()
			for key, want := range map[string]string{
				"X-Gateway-Inference-Fairness-Id": "globex", "X-Gateway-Inference-Objective": "best-effort",
				"X-Request-Id": "mine-2", "Authorization": "", "X-Anabranch-Tenant": "", "X-Anabranch-Hop": "",
			} {
				if got := seen.Get(key); got != want {
					t.Errorf("the place saw %s: %q, want %q", key, got, want)
				}
			}
			if there.requests.Load() != before+1 {
				t.Errorf("%d requests at the place", there.requests.Load()-before)
			}
			here, far := w.record(us, r), w.record(eu, r)
			if here.Hop || !far.Hop || far.Tenant != "globex" || far.Priority != 0 || far.Usage.Completion != 3 {
				t.Errorf("records %+v\n%+v", here, far)
			}
			w.idle()
		})
	}
	stop := w.run()
	if got := w.settled(stop, "q-requests"); got != 2 {
		t.Errorf("charged %d requests for 2", got)
	}
	if got := w.ledger.total("q-tokens"); got != 28 {
		t.Errorf("charged %d tokens for 2 × 14", got)
	}
}

func TestWhatOnlyPeersMaySayIsStrippedFromClients(t *testing.T) {
	w, _, there := two(t, nil)
	r := w.ask(eu, "initech", askWhole, "X-Anabranch-Tenant", "acme", "X-Anabranch-Hop", "1", "X-Anabranch-Priority", "100",
		"X-Anabranch-Cluster-Hint", "us-a", "X-Anabranch-Request-Id", "forged")
	if r.status != 200 || r.header.Get("X-Anabranch-Request-Id") == "forged" {
		t.Errorf("%d %v", r.status, r.header)
	}
	if seen := *there.seen.Load(); seen.Get("X-Gateway-Inference-Fairness-Id") != "initech" || seen.Get("X-Gateway-Inference-Objective") != "batch" {
		t.Errorf("the place saw %v", seen)
	}
	// The client's door has no peer's page.
	if r := w.get(http.MethodGet, w.routers[eu].front.URL+"/peer/probe?cluster=eu-a", "acme", ""); r.status != 404 {
		t.Errorf("probe at the front: %d", r.status)
	}
}

func TestAPeerDoesNotForward(t *testing.T) {
	w, here, there := two(t, nil)
	n := w.routers[us]
	q, err := http.NewRequest(http.MethodPost, n.peer.URL+"/v1/chat/completions", strings.NewReader(askWhole))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("X-Anabranch-Tenant", "acme")
	q.Header.Set("X-Anabranch-Hop", "1")
	q.Header.Set("X-Anabranch-Cluster-Hint", "eu-a") // not of its region
	res, err := n.peer.Client().Do(q)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK || res.Header.Get("X-Anabranch-Cluster") != "us-a" || there.requests.Load() != 0 || here.requests.Load() != 1 {
		t.Errorf("%d from %s, %d here and %d there", res.StatusCode, res.Header.Get("X-Anabranch-Cluster"), here.requests.Load(), there.requests.Load())
	}
	for name, change := range map[string]func(http.Header){
		"without a hop": func(h http.Header) { h.Del("X-Anabranch-Hop") },
		"hop two":       func(h http.Header) { h.Set("X-Anabranch-Hop", "2") },
	} {
		q := q.Clone(t.Context())
		q.Body = io.NopCloser(strings.NewReader(askWhole))
		change(q.Header)
		res, err := n.peer.Client().Do(q)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", name, res.StatusCode)
		}
	}
}

func TestTheHintIsFollowedAmongTheClustersOfTheRegion(t *testing.T) {
	a, b := newStub(t, answers), newStub(t, answers)
	here := newStub(t, answers)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 0, endpoints: []*stub{here}},
		{id: "eu-a", region: eu, weight: 1, endpoints: []*stub{a}},
		{id: "eu-b", region: eu, weight: 1, endpoints: []*stub{b}},
	}, func(pb *routerpb.Table) {
		for _, ws := range pb.Weights {
			if ws.Source == eu { // there all would go to the other
				ws.Clusters[1].Weight, ws.Clusters[2].Weight = 1, 0
			} else {
				ws.Clusters[1].Weight, ws.Clusters[2].Weight = 0, 1
			}
		}
	})
	for range 10 {
		if r := w.ask(us, "acme", askWhole); r.header.Get("X-Anabranch-Cluster") != "eu-b" {
			t.Errorf("answered by %s", r.header.Get("X-Anabranch-Cluster"))
		}
	}
	b.does(says(500))
	r := w.ask(us, "acme", askWhole)
	if r.status != 200 || r.header.Get("X-Anabranch-Cluster") != "eu-a" || r.header.Get("X-Anabranch-Attempts") != "2" {
		t.Errorf("%d by %s after %s attempts", r.status, r.header.Get("X-Anabranch-Cluster"), r.header.Get("X-Anabranch-Attempts"))
	}
}

func TestFaultsOfAnotherRegionAreAnsweredHere(t *testing.T) {
	for name, c := range map[string]struct {
		does http.HandlerFunc
		kill bool // the router there
		code string
	}{
		"its router is gone":    {kill: true, code: "connect_failed"},
		"its cluster is broken": {does: says(500), code: "upstream_error"},
		"its cluster resets":    {does: func(http.ResponseWriter, *http.Request) { cut() }, code: "upstream_reset"},
		"its cluster is busy":   {does: says(429), code: "no_capacity"},
	} {
		t.Run(name, func(t *testing.T) {
			w, here, there := two(t, nil)
			if c.kill {
				w.routers[eu].peer.Close()
			} else {
				there.does(c.does)
			}
			r := w.ask(us, "globex", askStream)
			if r.status != 200 || r.header.Get("X-Anabranch-Cluster") != "us-a" || r.err != nil {
				t.Fatalf("%d %q, %v", r.status, r.body, r.err)
			}
			if rec := w.record(us, r); rec.Attempts[0].Code != c.code {
				t.Errorf("attempts %+v, want the first to be %s", rec.Attempts, c.code)
			}
			if here.requests.Load() != 1 {
				t.Errorf("%d requests here", here.requests.Load())
			}
			w.idle()
			stop := w.run()
			if got := w.settled(stop, "q-tokens"); got != 14 {
				t.Errorf("charged %d tokens", got)
			}
		})
	}
}

func TestAStreamCutInAnotherRegionEndsWithOneErrorEvent(t *testing.T) {
	w, _, there := two(t, nil)
	there.does(func(rw http.ResponseWriter, _ *http.Request) { send(rw, role, content); cut() })
	r := w.ask(us, "acme", askStream)
	if r.err == nil || strings.Count(r.body, `"error"`) != 1 || !strings.HasPrefix(r.body, role+content+"data: {\"error\"") {
		t.Errorf("body %q, %v", r.body, r.err)
	}
	if e := r.problem(t); e["code"] != "stream_broken" || e["origin"] != "endpoint" {
		t.Errorf("error %v", e)
	}
	w.idle()
}

func TestAClientThatLeavesIsToldAcrossTheHop(t *testing.T) {
	w, _, there := two(t, func(pb *routerpb.Table) { pb.Classes[0].FirstByteFloorMs = 60000 })
	there.does(func(rw http.ResponseWriter, r *http.Request) { send(rw, role, content); hangs(rw, r) })
	res, err := http.DefaultClient.Do(w.request(us, "acme", askStream))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	w.eventually("the place over there is told", func() bool { return there.left.Load() == 1 })
	w.idle()
}

func (w *world) request(region, tenant, body string) *http.Request {
	w.t.Helper()
	q, err := http.NewRequest(http.MethodPost, w.routers[region].front.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+tenant+"-key")
	return q
}

// A region that dies is left within a second, whether its router died or only its cluster, and
// nothing goes there until it can be used again.
func TestADeadRegionIsLeftAndComesBack(t *testing.T) {
	w, _, there := two(t, nil)
	w.run()
	fail := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cut() })
	there.does(fail)
	there.canaries.Store(&fail)
	if r := w.ask(us, "acme", askWhole); r.status != 200 || r.header.Get("X-Anabranch-Region") != us {
		t.Fatalf("%d from %s", r.status, r.header.Get("X-Anabranch-Region"))
	}
	began := time.Now()
	dead := func() bool { dead, _ := w.routers[us].places.Cluster("eu-a").Ejected(); return dead }
	w.eventually("it is ejected here", dead)
	if took := time.Since(began); took > 1500*time.Millisecond {
		t.Errorf("ejected after %s", took)
	}
	before := w.routers[eu].explain.next.Load()
	for range 20 {
		if r := w.ask(us, "acme", askWhole); r.status != 200 || r.header.Get("X-Anabranch-Attempts") != "1" {
			t.Errorf("%d after %s attempts", r.status, r.header.Get("X-Anabranch-Attempts"))
		}
	}
	if w.routers[eu].explain.next.Load() != before {
		t.Error("a tenant's request went there")
	}
	there.canaries.Store(nil)
	there.does(answers)
	w.eventually("it is back", func() bool { return !dead() })
	if r := w.ask(us, "acme", askWhole); r.header.Get("X-Anabranch-Region") != eu {
		t.Errorf("answered from %s", r.header.Get("X-Anabranch-Region"))
	}
	w.idle()
}

func TestAnotherRouterOfTheRegionTakesOver(t *testing.T) {
	w, here, _ := two(t, nil)
	gone := "https://" + refusing(t)
	for _, r := range w.table.Regions {
		if r.Id == eu {
			r.PeerUrls = append([]string{gone}, r.PeerUrls...)
		}
	}
	w.apply()
	for range 5 {
		r := w.ask(us, "acme", askWhole)
		if r.status != 200 || r.header.Get("X-Anabranch-Region") != eu || r.header.Get("X-Anabranch-Attempts") != "1" {
			t.Errorf("%d from %s after %s attempts", r.status, r.header.Get("X-Anabranch-Region"), r.header.Get("X-Anabranch-Attempts"))
		}
	}
	if here.requests.Load() != 0 {
		t.Errorf("%d requests stayed here", here.requests.Load())
	}
	if at := w.routers[us].peers.preferred(eu).Load(); at != 1 {
		t.Errorf("the address that answers is not asked first: %d", at)
	}
}

func TestProbesTellWhatTheRegionsRouterKnows(t *testing.T) {
	w, _, there := two(t, nil)
	n := w.routers[eu]
	probe := func(cluster string) int {
		res, err := n.peer.Client().Get(n.peer.URL + "/peer/probe?cluster=" + cluster)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	for cluster, want := range map[string]int{"eu-a": 200, "us-a": 404, "nowhere": 404} {
		if got := probe(cluster); got != want {
			t.Errorf("%s: %d, want %d", cluster, got, want)
		}
	}
	there.does(says(500))
	fail := says(500)
	there.canaries.Store(&fail)
	w.run()
	w.ask(eu, "initech", askWhole)
	w.eventually("its router has found it dead", func() bool { return probe("eu-a") == 503 })
	there.canaries.Store(nil)
	w.eventually("it is back", func() bool { return probe("eu-a") == 200 })
	n.Drain()
	if got := probe("eu-a"); got != 503 {
		t.Errorf("a draining router says %d", got)
	}
}

func TestResidencyHoldsWhateverFails(t *testing.T) {
	w, here, there := two(t, nil)
	there.does(says(500))
	r := w.ask(us, "initech", askWhole)
	if r.status == 200 || here.requests.Load() != 0 {
		t.Errorf("%d, %d requests left the eu", r.status, here.requests.Load())
	}
	if rec := w.record(us, r); len(rec.Removed) != 1 || rec.Removed[0].Reason != "residency" {
		t.Errorf("removed %+v", rec.Removed)
	}
}

func TestATenantThatThePeerDoesNotKnowGoesElsewhere(t *testing.T) {
	w, here, _ := two(t, nil)
	n := w.routers[eu]
	old := w.describe()
	old.Tenants = old.Tenants[1:] // without acme
	old.Ref.Revision--
	built := w.table
	w.table = old
	keep := w.routers
	w.routers = map[string]*node{eu: n}
	w.apply()
	w.routers, w.table = keep, built
	if r := w.ask(us, "acme", askWhole); r.status != 200 || here.requests.Load() != 1 {
		t.Errorf("%d %q", r.status, r.body)
	}
}
