package endpoint

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/pick"
	"anabranch/dataplane/table"
	"anabranch/failover"
)

func (r *Registry) ejectedNow(cluster fleet.ClusterID) bool {
	out, _ := r.Cluster(cluster).Ejected()
	return out
}

func TestSyncFollowsTheTable(t *testing.T) {
	r, _ := still(t)
	a := r.Cluster("a")
	a1 := r.of("a")[0]
	if len(r.of("a")) != 2 || r.of("a")[1].Class != "a100" || a.Remote {
		t.Fatalf("a: %+v", a)
	}
	if g := r.of("g"); len(g) != 1 || g[0].URL != "http://g:80" || g[0].ID != "g" {
		t.Errorf("a gateway is one endpoint: %+v", g)
	}
	if e := r.Cluster("e"); !e.Remote || len(r.of("e")) != 0 {
		t.Errorf("of another region's cluster no endpoint is known: %+v", e)
	}
	if r.Cluster("none") != nil || r.of("none") != nil {
		t.Error("found what isn't there")
	}
	r.Sync(world(t, func(pb *routerpb.Table) {
		pb.Clusters[0].Endpoints[1].Url = "http://a2-new:8000"
		pb.Clusters[0].Drained = true
		pb.Clusters = append(pb.Clusters[:1], pb.Clusters[2:]...) // b goes
	}))
	if r.Cluster("a") != a || r.of("a")[0] != a1 {
		t.Error("what stayed lost its state")
	}
	if got := r.of("a")[1]; got.URL != "http://a2-new:8000" || got.InFlight() != 0 {
		t.Errorf("a moved endpoint: %+v", got)
	}
	if !a.Spec().Drained {
		t.Error("the cluster's description is an old one")
	}
	if r.Cluster("b") != nil {
		t.Error("b is still there")
	}
}

// An operator who adds a model to a cluster does not put what is dead back into use, nor forget what is
// there.
func TestAClusterThatServesOtherModelsKeepsItsState(t *testing.T) {
	serving := func(models ...string) *table.Table {
		return world(t, func(pb *routerpb.Table) {
			pb.Models = append(pb.Models, &routerpb.Model{Id: "n"})
			for i := range pb.Clusters {
				pb.Clusters[i].Models = models
			}
		})
	}
	r, now := still(t)
	r.Sync(serving("m"))
	a, e := r.Cluster("a"), r.Cluster("e")
	one, two := a.Endpoints()[0], a.Endpoints()[1]
	one.Begin(Load{Model: "m"}, *now)
	e.Hop(Load{Model: "m"}, *now)
	for range 3 {
		two.Begin(Load{Model: "m"}, *now).Done(Result{Outcome: failover.ConnectFailure}, *now)
		e.Hop(Load{Model: "m"}, *now).Done(Result{Outcome: failover.ConnectFailure}, *now)
	}
	late := one.Begin(Load{Model: "m", Stream: true}, *now)
	for _, models := range [][]string{{"n", "m"}, {"n"}} {
		r.Sync(serving(models...))
		if r.Cluster("a") != a || a.Endpoints()[0] != one || one.InFlight() != 2 || r.Cluster("e").InFlight() != 1 {
			t.Errorf("serving %v: it has lost its state", models)
		}
		if out, _ := two.Ejected(); !out || !r.ejectedNow("e") {
			t.Errorf("serving %v: what is dead is in use again", models)
		}
		if one.Rates("n") == nil || one.Rates("m") == nil != (len(models) == 1) {
			t.Errorf("serving %v: rates %v, %v", models, one.Rates("m"), one.Rates("n"))
		}
		call := one.Begin(Load{Model: "n", Stream: true}, *now)
		call.FirstToken(now.Add(time.Second))
		call.Done(Result{Outcome: failover.OK, FirstToken: time.Second, Output: 10}, now.Add(2*time.Second))
		told := map[string]uint64{}
		for _, s := range r.Report(now.Add(3 * time.Second)).Clusters {
			if s.Cluster == "a" {
				told[s.Model] = s.Requests
			}
		}
		if len(told) != len(models) || told["n"] != 1 {
			t.Errorf("serving %v: reported %v", models, told)
		}
	}
	late.Done(Result{Outcome: failover.OK, FirstToken: time.Second}, *now) // of a model that has gone
	if one.InFlight() != 1 {
		t.Errorf("%d in flight", one.InFlight())
	}
}

func TestScrapesFillSignals(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		f.set("a1", func(s *server) { s.metrics = vllm(3, 7, 0.5) })
		soon(t, 1500*time.Millisecond, "signals of a1", func() bool {
			s := r.of("a")[0].Signals()
			return s != nil && s.Waiting == 3 && s.Running == 7 && s.KV == 0.5
		})
		if c := r.of("a")[0].Candidate(&Load{Model: "m"}, time.Now()); c.Freshness != pick.Fresh || c.Waiting != 3 {
			t.Errorf("candidate %+v", c)
		}
		if f.get("e1").scrapes != 0 {
			t.Error("another region's endpoint was scraped")
		}
	})
}

func TestBusyPlacesAreScrapedMoreOften(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		call := r.of("a")[0].Begin(Load{Model: "m"}, time.Now())
		a, b := f.get("a1").scrapes, f.get("b1").scrapes
		pass(10 * time.Second)
		a, b = f.get("a1").scrapes-a, f.get("b1").scrapes-b
		call.Done(Result{}, time.Now())
		if a < 35 || a > 42 || b < 9 || b > 11 {
			t.Errorf("in 10 s %d scrapes of a busy place, %d of an idle one; want 40 and 10", a, b)
		}
	})
}

func TestScrapesThatStopMakeSignalsStale(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		e := r.of("a")[0]
		f.set("a1", func(s *server) { s.metrics = vllm(0, 9, 0.5) })
		soon(t, 2*time.Second, "signals", func() bool { s := e.Signals(); return s != nil && s.Running == 9 })
		f.set("a1", func(s *server) { s.noPage = true })
		soon(t, 5*time.Second, "stale signals", func() bool { return e.Candidate(&Load{Model: "m"}, time.Now()).Freshness == pick.Stale })
		if c := e.Candidate(&Load{Model: "m"}, time.Now()); c.Running != 9 {
			t.Errorf("stale signals look idle: %+v", c)
		}
		if r.ejectedNow("a") {
			t.Error("a page that fails is not a server that fails: its canaries are answered")
		}
	})
}

// The kill of a cluster without any traffic: the scrape fails, canaries confirm it.
func TestADeadClusterIsFoundWithoutRequests(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		pass(3 * time.Second)
		for _, host := range []string{"a1", "a2"} {
			f.set(host, func(s *server) { s.refuse = true })
		}
		took := soon(t, 2*time.Second, "a ejected", func() bool { return r.ejectedNow("a") })
		t.Logf("found after %v", took)
		if r.ejectedNow("b") {
			t.Error("b was ejected too")
		}
	})
}

// The same with one request that finds it first: within a second nothing more goes there.
func TestOneFailedRequestIsEnough(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		f.set("b1", func(s *server) { s.refuse = true })
		r.of("b")[0].Begin(Load{Model: "m"}, time.Now()).Done(Result{Outcome: failover.ConnectFailure}, time.Now())
		soon(t, time.Second, "b ejected", func() bool { return r.ejectedNow("b") })
	})
}

func TestAHealedClusterComesBackByCanary(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		f.set("b1", func(s *server) { s.refuse = true })
		soon(t, 3*time.Second, "b ejected", func() bool { return r.ejectedNow("b") })
		pass(2 * time.Minute) // probes are a minute apart by now
		before := f.get("b1").canaries
		if !r.ejectedNow("b") {
			t.Fatal("b came back while dead")
		}
		f.set("b1", func(s *server) { s.refuse = false })
		soon(t, 3*time.Second, "b back", func() bool { return !r.ejectedNow("b") })
		if after := f.get("b1").canaries; after == before {
			t.Error("it came back without a canary")
		}
	})
}

func TestProbesOfADeadPlaceThinOut(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		f.set("b1", func(s *server) { s.refuse = true })
		soon(t, 3*time.Second, "b ejected", func() bool { return r.ejectedNow("b") })
		first := f.get("b1").canaries
		pass(10 * time.Minute)
		if n := f.get("b1").canaries - first; n < 8 || n > 20 {
			t.Errorf("%d canaries in ten minutes; want about 15: after 1, 2, 4 … 60 s", n)
		}
	})
}

// A server that takes requests and answers nothing, its page frozen at idle.
func TestAHangingServerIsFound(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		pass(time.Second)
		e := r.of("b")[0]
		f.set("b1", func(s *server) { s.hang = true })
		call := e.Begin(Load{Model: "m", Stream: true}, time.Now())
		took := soon(t, 5*time.Second, "b ejected", func() bool { return r.ejectedNow("b") })
		if took < partOf(blindShare, e.floor()) {
			t.Errorf("judged after %v, and nothing is known of how long first tokens take there", took)
		}
		call.Done(Result{Outcome: failover.Silence}, time.Now())
		f.set("b1", func(s *server) { s.hang = false })
		soon(t, 10*time.Second, "b back", func() bool { return !r.ejectedNow("b") })
	})
}

// A server with a long queue: a canary waits in line, but tokens flow.
func TestABusyServerIsNotTakenForHanging(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		e := r.of("b")[0]
		f.set("b1", func(s *server) { s.hang = true })
		stuck := e.Begin(Load{Model: "m", Stream: true}, time.Now())
		for range 30 {
			c := e.Begin(Load{Model: "m", Stream: true}, time.Now())
			pass(time.Second)
			c.FirstToken(time.Now())
			c.Done(Result{Outcome: failover.OK, FirstToken: time.Second}, time.Now())
		}
		if r.ejectedNow("b") {
			t.Error("ejected while requests were answered each second")
		}
		stuck.Done(Result{Outcome: failover.Ignored}, time.Now())
	})
}

func TestServerErrorsEject(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		f.set("b1", func(s *server) { s.status = http.StatusInternalServerError })
		r.of("b")[0].Begin(Load{Model: "m"}, time.Now()).Done(Result{Outcome: failover.ServerFault}, time.Now())
		soon(t, time.Second, "b ejected", func() bool { return r.ejectedNow("b") })
	})
}

func TestA4xxCanaryIsASignOfLife(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		f.set("b1", func(s *server) { s.status = http.StatusTooManyRequests })
		r.of("b")[0].Begin(Load{Model: "m"}, time.Now()).Done(Result{Outcome: failover.ServerFault}, time.Now())
		soon(t, time.Second, "a canary", func() bool { return f.get("b1").canaries > 0 })
		pass(time.Second)
		if r.ejectedNow("b") || f.get("b1").canaries > 1 {
			t.Errorf("ejected %v after %d canaries; 429 says that it is alive", r.ejectedNow("b"), f.get("b1").canaries)
		}
	})
}

func TestRemoteClustersAreAskedForByTheirRouter(t *testing.T) {
	down := make(chan bool, 1)
	down <- true
	isDown := func() bool { d := <-down; down <- d; return d }
	asked := make(chan fleet.ClusterID, 1000)
	opt := Options{Probe: func(_ context.Context, c *table.Cluster) error {
		asked <- c.ID
		if isDown() {
			return errors.New("peer refused")
		}
		return nil
	}}
	live(t, opt, func(t *testing.T, r *Registry, f *fakeFleet) {
		r.Cluster("e").Hop(Load{Model: "m"}, time.Now()).Done(Result{Outcome: failover.ConnectFailure}, time.Now())
		soon(t, time.Second, "e ejected", func() bool { return r.ejectedNow("e") })
		pass(time.Minute)
		if !r.ejectedNow("e") {
			t.Fatal("e came back while its router refuses")
		}
		<-down
		down <- false
		soon(t, 4*time.Second, "e back", func() bool { return !r.ejectedNow("e") })
		if id := <-asked; id != "e" {
			t.Errorf("asked for %s", id)
		}
		if f.get("e1").canaries+f.get("e1").scrapes != 0 {
			t.Error("another region's endpoint was asked directly")
		}
	})
}

func TestGatewaysAreScrapedAtTheirPoolMetrics(t *testing.T) {
	pool := page(t, "llm-d.prom")
	auth := func(c *table.Cluster, q *http.Request, _ []byte) error {
		q.Header.Set("Authorization", "Bearer for-"+string(c.ID))
		return nil
	}
	live(t, Options{Sign: auth}, func(t *testing.T, r *Registry, f *fakeFleet) {
		f.set("g-metrics", func(s *server) { s.metrics = string(pool) })
		soon(t, 2*time.Second, "pool metrics", func() bool { s := r.of("g")[0].Signals(); return s != nil && s.Ready == 4 })
		if got := f.get("g-metrics").headers.Get("Authorization"); got != "Bearer for-g" {
			t.Errorf("scraped with %q", got)
		}
		r.of("g")[0].Begin(Load{Model: "m"}, time.Now()).Done(Result{Outcome: failover.ServerFault}, time.Now())
		soon(t, time.Second, "a canary", func() bool { return f.get("g").canaries == 1 })
		if got := f.get("g").headers.Get("Authorization"); got != "Bearer for-g" {
			t.Errorf("canary with %q", got)
		}
	})
}

func TestRunFollowsTheTable(t *testing.T) {
	live(t, Options{}, func(t *testing.T, r *Registry, f *fakeFleet) {
		pass(time.Second)
		r.Sync(world(t, func(pb *routerpb.Table) {
			pb.Clusters[0].Endpoints[0].Url = "http://a1-new:8000"
		}))
		synctest.Wait()
		old := f.get("a1").scrapes
		pass(5 * time.Second)
		if n := f.get("a1").scrapes - old; n != 0 {
			t.Errorf("%d scrapes of an endpoint that has gone", n)
		}
		if n := f.get("a1-new").scrapes; n < 4 {
			t.Errorf("%d scrapes of the new one", n)
		}
	})
}
