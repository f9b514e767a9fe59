package dataplane

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/dataplane/dispatch"
)

func TestRetriesEndWithTheBudgetOfTheirDestination(t *testing.T) {
	w, first, second := pair(t, func(pb *routerpb.Table) { pb.Classes[0].Ejection.MinRequests = 10000 })
	first.does(says(500))
	refused := 0
	for range dispatch.BudgetFloor + 10 {
		if r := w.ask(us, "acme", askWhole); r.status != 200 {
			refused++
		}
	}
	if refused != 10 || second.requests.Load() != dispatch.BudgetFloor {
		t.Errorf("%d refused, %d retried; want 10 and %d", refused, second.requests.Load(), dispatch.BudgetFloor)
	}
	// Connect failures do not count: they cost nobody anything.
	w.moved("us-a", "http://"+refusing(t))
	if r := w.ask(us, "acme", askWhole); r.status != 200 {
		t.Errorf("after a connect failure: %d", r.status)
	}
}

func TestARequestThatBreaksPlacesCountsFromItsSecondRetry(t *testing.T) {
	cuts := func(http.ResponseWriter, *http.Request) { cut() }
	good := newStub(t, answers)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{newStub(t, cuts)}},
		{id: "us-b", region: us, weight: 0, endpoints: []*stub{newStub(t, cuts)}},
		{id: "us-c", region: us, weight: 0, endpoints: []*stub{good}},
	}, func(pb *routerpb.Table) { pb.Classes[0].Ejection.MinRequests = 10000 })
	refused := 0
	for range 3 * dispatch.BudgetFloor {
		if r := w.ask(us, "acme", askWhole); r.status != 200 {
			refused++
		}
	}
	if got := good.requests.Load(); refused == 0 || got < dispatch.BudgetFloor {
		t.Errorf("%d refused, %d at the good place: its budget is %d beside first retries", refused, got, dispatch.BudgetFloor)
	}
}

func TestAHangingPlaceIsLeftByWhatIsNotStreamed(t *testing.T) {
	w, first, second := pair(t, nil)
	hang := http.HandlerFunc(hangs)
	first.does(hangs)
	first.canaries.Store(&hang)
	w.run()
	began := time.Now()
	r := w.ask(us, "acme", askWhole)
	if r.status != 200 || r.header.Get("X-Anabranch-Cluster") != "us-b" {
		t.Fatalf("%d %q", r.status, r.body)
	}
	if rec := w.record(us, r); rec.Attempts[0].Code != "place_ejected" {
		t.Errorf("attempts %+v", rec.Attempts)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
	if second.requests.Load() != 1 {
		t.Errorf("%d requests at the second place", second.requests.Load())
	}
	w.idle()
}

func TestADeadPlaceIsLeftAndComesBack(t *testing.T) {
	w, first, second := pair(t, nil)
	w.run()
	fail := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cut() })
	first.does(fail)
	first.canaries.Store(&fail)
	if r := w.ask(us, "acme", askWhole); r.status != 200 || r.header.Get("X-Anabranch-Attempts") != "2" {
		t.Fatalf("%d after %s attempts", r.status, r.header.Get("X-Anabranch-Attempts"))
	}
	n := w.routers[us]
	began := time.Now()
	w.eventually("it is ejected", func() bool { dead, _ := n.places.Cluster("us-a").Ejected(); return dead })
	if took := time.Since(began); took > time.Second {
		t.Errorf("ejected after %s", took)
	}
	before := first.requests.Load()
	for range 20 {
		if r := w.ask(us, "acme", askWhole); r.status != 200 || r.header.Get("X-Anabranch-Attempts") != "1" {
			t.Errorf("%d after %s attempts", r.status, r.header.Get("X-Anabranch-Attempts"))
		}
	}
	if first.requests.Load() != before {
		t.Error("a tenant's request went to an ejected place")
	}
	first.canaries.Store(nil)
	first.does(answers)
	w.eventually("it is back", func() bool { dead, _ := n.places.Cluster("us-a").Ejected(); return !dead })
	before = second.requests.Load()
	if r := w.ask(us, "acme", askWhole); r.header.Get("X-Anabranch-Cluster") != "us-a" || second.requests.Load() != before {
		t.Errorf("answered by %s", r.header.Get("X-Anabranch-Cluster"))
	}
	w.idle()
}

func TestWithEverythingDeadCapacityIsWhatIsMissing(t *testing.T) {
	w, first, second := pair(t, nil)
	fail := says(500)
	for _, s := range []*stub{first, second} {
		s.does(fail)
		s.canaries.Store(&fail)
	}
	w.run()
	w.ask(us, "acme", askWhole)
	n := w.routers[us]
	w.eventually("both are ejected", func() bool {
		a, _ := n.places.Cluster("us-a").Ejected()
		b, _ := n.places.Cluster("us-b").Ejected()
		return a && b
	})
	r := w.ask(us, "acme", askWhole)
	if e := r.problem(t); r.status != 503 || e["code"] != "no_capacity" || r.header.Get("Retry-After") == "" {
		t.Errorf("%d %v", r.status, e)
	}
	if rec := w.record(us, r); len(rec.Removed) != 2 || !strings.HasPrefix(rec.Removed[0].Reason, "ejected: ") {
		t.Errorf("removed %+v", rec.Removed)
	}
}
