package dataplane

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/route"
)

// TestAClusterThatAnswersOnlyCanariesIsLeft: the page of a cluster's one server is frozen at zero, its
// canaries are answered, and no request is. The same requests are answered by another cluster.
func TestAClusterThatAnswersOnlyCanariesIsLeft(t *testing.T) {
	t.Parallel()
	const clients, most = 12, 8
	bad, good := newTelling(t, 0, 0), newTelling(t, 6, 0.05)
	bad.does(bad.computes)
	good.does(good.computes)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 0.5, endpoints: []*stub{bad.stub}}, {id: "us-b", region: us, weight: 0.5, endpoints: []*stub{good.stub}},
	}, func(pb *routerpb.Table) { pb.Classes[0].QueueMs, pb.Classes[0].FirstByteFloorMs = 5000, 1500 })
	w.run()
	w.scraped(us, "us-a")
	var over atomic.Bool
	var answered, failed atomic.Int64
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for i := 0; !over.Load(); i++ {
				if r := w.ask(us, "acme", strings.Replace(askStream, "hello", fmt.Sprint("hello ", c, " ", i), 1)); r.status != http.StatusOK {
					failed.Add(1)
				}
				answered.Add(1)
			}
		})
	}
	w.eventually("both are in use", func() bool { return bad.requests.Load() > clients && good.requests.Load() > clients })
	bad.tells(func() string { return page(0, 0) })
	bad.does(hangs)
	before := bad.requests.Load()
	cluster := w.routers[us].places.Cluster("us-a")
	w.eventually("it is left alone, or 60 requests have met silence", func() bool {
		_, yes := cluster.Unanswered(time.Now())
		return yes || bad.requests.Load() >= before+60
	})
	from, sofar := bad.requests.Load(), answered.Load()
	w.eventually("others are served", func() bool { return answered.Load() >= sofar+40 })
	over.Store(true)
	all.Wait()
	if drawn := bad.requests.Load() - from; from-before >= 60 || drawn > most || failed.Load() > 0 {
		t.Errorf("after %d silent requests %d of the next %d still go there; %d requests failed", from-before, drawn, answered.Load()-sofar, failed.Load())
	}
}

// mutes makes a cluster one that answers nobody, by failing requests of these tenants until it is.
func (w *world) mutes(bad *stub, cluster fleet.ClusterID, tenants ...string) {
	w.t.Helper()
	bad.does(says(http.StatusInternalServerError))
	for i := range 20 {
		if r := w.ask(us, tenants[i%len(tenants)], askStream); r.status != http.StatusOK {
			w.t.Fatalf("%d %q", r.status, r.body)
		}
	}
	row, yes := w.routers[us].places.Cluster(cluster).Unanswered(time.Now())
	if !yes || row.Requests != 20 || row.All != (len(tenants) > 1) {
		w.t.Fatalf("%s: %+v, %v", cluster, row, yes)
	}
}

// paced sets the pauses between trials.
func paced(first, most time.Duration) func(*routerpb.Table) {
	return func(pb *routerpb.Table) {
		pb.Classes[0].Ejection.ReprobeMs, pb.Classes[0].Ejection.ReprobeMaxMs = first.Milliseconds(), most.Milliseconds()
	}
}

// A tenant's requests break every server that they come to. The others' clusters are where they were.
func TestPoisonTakesAClusterFromNobodyElse(t *testing.T) {
	picky := func() *stub {
		s := newStub(t, nil)
		s.does(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(string(*s.body.Load()), "poison") {
				says(http.StatusInternalServerError)(w, r)
				return
			}
			answers(w, r)
		})
		return s
	}
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 0.5, endpoints: []*stub{picky()}}, {id: "us-b", region: us, weight: 0.5, endpoints: []*stub{picky()}},
	}, nil)
	n := w.routers[us]
	poison := strings.Replace(askWhole, "hello", "poison", 1)
	poisoned := map[fleet.ClusterID]bool{}
	served := map[string]int{}
	for i := range 400 {
		if i%10 != 9 || i%100 < 60 { // nine of ten, or sixty in a row
			if r := w.ask(us, "acme", poison); r.status < 500 {
				t.Fatalf("%d %q", r.status, r.body)
			}
		} else {
			r := w.ask(us, "globex", askWhole)
			if r.status != http.StatusOK || r.header.Get("X-Anabranch-Attempts") != "1" {
				t.Fatalf("%d after %s attempts", r.status, r.header.Get("X-Anabranch-Attempts"))
			}
			served[r.header.Get("X-Anabranch-Cluster")]++
		}
		for _, id := range []fleet.ClusterID{"us-a", "us-b"} {
			c, now := n.places.Cluster(id), time.Now()
			if a := c.Answering("globex", now); a != (endpoint.Answering{Share: 1}) {
				t.Fatalf("%s after %d requests: %+v", id, i, a)
			}
			poisoned[id] = poisoned[id] || c.Answering("acme", now).Unanswered
		}
	}
	if !poisoned["us-a"] || !poisoned["us-b"] {
		t.Errorf("left alone by who has the poison: %v", poisoned)
	}
	if served["us-a"] == 0 || served["us-b"] == 0 {
		t.Errorf("others were served by %v", served)
	}
}

// Where requests go unanswered and there is nothing else, all goes on as before: each is tried, and the
// first that is answered is.
func TestTheOnlyClusterIsTriedAlways(t *testing.T) {
	for name, sites := range map[string]int{"one cluster": 1, "all clusters": 2} {
		t.Run(name, func(t *testing.T) {
			var all []site
			var stubs []*stub
			for i := range sites {
				s := newStub(t, says(http.StatusInternalServerError))
				stubs = append(stubs, s)
				all = append(all, site{id: fmt.Sprint("us-", i), region: us, weight: 1, endpoints: []*stub{s}})
			}
			w := newWorld(t, all, paced(time.Minute, time.Minute))
			n := w.routers[us]
			first := map[fleet.ClusterID]int{}
			for i := range 80 {
				r := w.ask(us, []string{"acme", "globex"}[i%2], askWhole)
				if r.status < 500 {
					t.Fatalf("%d", r.status)
				}
				if i >= 60 { // all are unanswered by then
					first[w.record(us, r).Attempts[0].Cluster]++
				}
			}
			if len(first) != sites {
				t.Errorf("the last twenty went to %v first", first)
			}
			for i := range sites {
				if _, yes := n.places.Cluster(fleet.ClusterID(fmt.Sprint("us-", i))).Unanswered(time.Now()); !yes {
					t.Errorf("cluster %d is answered", i)
				}
				stubs[i].does(answers)
			}
			if r := w.ask(us, "acme", askWhole); r.status != http.StatusOK || r.header.Get("X-Anabranch-Attempts") != "1" {
				t.Errorf("%d after %s attempts, though they answer again", r.status, r.header.Get("X-Anabranch-Attempts"))
			}
		})
	}
}

// One request at a time sees whether others would be answered. While they would not, it goes elsewhere
// then, and costs nobody's budget; when one is, all follow, and three failures are a relapse.
func TestRequestsFindTheWayBackOneAtATime(t *testing.T) {
	bad, good := newStub(t, answers), newStub(t, answers)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{bad}}, {id: "us-b", region: us, weight: 0, endpoints: []*stub{good}},
	}, paced(10*time.Second, 10*time.Minute))
	n := w.routers[us]
	var passed atomic.Int64
	n.now = func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
	n.sight.Now = n.now
	pass := func(d time.Duration) { passed.Add(int64(d)) }
	asks := func(tenant string) *Record {
		t.Helper()
		r := w.ask(us, tenant, askStream)
		if r.status != http.StatusOK {
			t.Fatalf("%d %q", r.status, r.body)
		}
		return w.record(us, r)
	}
	tries := func(yes bool) {
		t.Helper()
		before := bad.requests.Load()
		rec := asks("acme")
		if yes && (rec.Candidates[0].Reason != route.ByTrial || kinds(rec) != "first@us-a:upstream_error exempt@us-b:") {
			t.Errorf("a trial: %s, of %+v", kinds(rec), rec.Candidates)
		}
		for _, tenant := range []string{"acme", "globex", "acme"} {
			if rec := asks(tenant); rec.Candidates[1].Reason != route.Unanswered || kinds(rec) != "first@us-b:" {
				t.Errorf("no trial: %s, of %+v", kinds(rec), rec.Candidates)
			}
		}
		if got := bad.requests.Load() - before; got != map[bool]int64{true: 1}[yes] {
			t.Errorf("%d requests tried, expected one: %v", got, yes)
		}
	}
	w.mutes(bad, "us-a", "acme", "globex")
	spend(n, "us-b")
	tries(false)
	for _, pause := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second} { // ± 50 %
		pass(pause/2 - time.Second)
		tries(false)
		pass(pause + time.Second)
		tries(true)
		spend(n, "us-b")
	}
	bad.does(answers)
	tries(false)
	pass(2 * time.Minute)
	if rec := asks("globex"); rec.Candidates[0].Reason != route.ByTrial || kinds(rec) != "first@us-a:" {
		t.Errorf("a trial that is answered: %s, of %+v", kinds(rec), rec.Candidates)
	}
	if rec := asks("acme"); rec.Candidates[0].Reason != route.ByReturn || kinds(rec) != "first@us-a:" {
		t.Errorf("after that: %s, of %+v", kinds(rec), rec.Candidates)
	}
	bad.does(says(http.StatusInternalServerError))
	n.budget.Keep(func(fleet.ClusterID) bool { return false })
	for i := range 3 {
		if _, yes := n.places.Cluster("us-a").Unanswered(n.now()); yes {
			t.Errorf("a relapse after %d", i)
		}
		asks("acme")
	}
	if row, yes := n.places.Cluster("us-a").Unanswered(n.now()); !yes || row.Trial < 39*time.Second {
		t.Errorf("after three failures: %+v, %v", row, yes)
	}
}

// Requests that wait for long count before they are given up.
func TestWhoWaitsForLongIsToldOf(t *testing.T) {
	w, _ := one(t)
	n := w.routers[us]
	c := n.places.Cluster("us-a")
	now := time.Now()
	all := newWaiting()
	for i := range 20 {
		call := c.Endpoints()[0].Begin(endpoint.Load{Model: "llama", Tenant: "acme", Stream: true}, now)
		p := &pending{place: c.Endpoints()[0], since: now, floor: time.Hour, call: call, overdue: time.Minute}
		all.add(p)
		if i == 0 {
			all.add(&pending{place: c, since: now, floor: time.Hour}) // by way of another region's router
		}
	}
	for _, at := range []time.Duration{0, time.Minute - 1, time.Minute, 2 * time.Minute} {
		all.sweep(now.Add(at))
		row, yes := c.Unanswered(now.Add(at))
		if yes != (at >= time.Minute) || yes && row.Requests != 20 {
			t.Errorf("after %s: %+v, %v", at, row, yes)
		}
	}
}
