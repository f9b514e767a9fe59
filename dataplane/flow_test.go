package dataplane

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	emergency "anabranch/api/order"
	"anabranch/api/routerpb"
	"anabranch/dataplane/override"
	"anabranch/dataplane/table"
)

// waits lets requests wait for so many ms.
func waits(ms int64) func(*routerpb.Table) {
	return func(pb *routerpb.Table) { pb.Classes[0].QueueMs = ms }
}

// refuses says that a place has no room for so many seconds, until full is false.
func refuses(full *atomic.Bool, seconds int, count *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !full.Load() {
			answers(w, r)
			return
		}
		count.Add(1)
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
		http.Error(w, "full", http.StatusTooManyRequests)
	}
}

func TestARequestWaitsForRoom(t *testing.T) {
	var full atomic.Bool
	var refused atomic.Int64
	full.Store(true)
	s := newStub(t, refuses(&full, 1, &refused))
	w := newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{s}}}, waits(20_000))
	w.run()
	time.AfterFunc(200*time.Millisecond, func() { full.Store(false) })
	r := w.ask(us, "acme", askStream)
	if r.status != http.StatusOK || r.err != nil || !strings.HasSuffix(r.body, done) {
		t.Fatalf("%d %v %q", r.status, r.err, r.body)
	}
	rec := w.record(us, r)
	if rec.QueuedMs < 300 || refused.Load() != 1 || len(rec.Attempts) != 2 {
		t.Errorf("waited %v ms, refused %d times, attempts %s", rec.QueuedMs, refused.Load(), kinds(rec))
	}
	w.idle()
}

// Room that comes too late is told with when to come back, and marked for all tiers.
func TestWaitingEndsWithAnHonestAnswer(t *testing.T) {
	var full atomic.Bool
	var refused atomic.Int64
	full.Store(true)
	s := newStub(t, refuses(&full, 30, &refused))
	w := newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{s}}}, waits(300))
	stop := w.run()
	r := w.ask(us, "globex", askWhole)
	e := r.problem(t)
	after, err := strconv.Atoi(r.header.Get("Retry-After"))
	if r.status != http.StatusServiceUnavailable || e["code"] != "no_capacity" || e["origin"] != "router" || err != nil || after < 1 || after > 66 {
		t.Errorf("%d %v, Retry-After %q", r.status, e, r.header.Get("Retry-After"))
	}
	if r.header.Get("X-Should-Retry") != "false" || r.header.Get("X-Llm-D-Request-Dropped-Reason") == "" {
		t.Errorf("it is not marked: %v", r.header)
	}
	if rec := w.record(us, r); rec.QueuedMs < 200 || rec.Code != "no_capacity" {
		t.Errorf("waited %v ms, code %q", rec.QueuedMs, rec.Code)
	}
	w.idle()
	if charged := w.settled(stop, "q-tokens"); charged != 0 {
		t.Errorf("%d tokens are charged for nothing", charged)
	}
}

// A class that does not wait is answered at once.
func TestWhereNothingMayWaitFullIsFull(t *testing.T) {
	var full atomic.Bool
	var refused atomic.Int64
	full.Store(true)
	s := newStub(t, refuses(&full, 30, &refused))
	w := newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{s}}}, nil)
	for range 2 { // of the second it is known
		if r := w.ask(us, "acme", askWhole); r.status != http.StatusServiceUnavailable || r.problem(t)["code"] != "no_capacity" {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	if refused.Load() != 1 {
		t.Errorf("%d requests at a place that has no room", refused.Load())
	}
}

// Each waits in the tier of its priority, which a client can only lower.
func TestRequestsWaitInTheirTier(t *testing.T) {
	var full atomic.Bool
	var refused atomic.Int64
	full.Store(true)
	s := newStub(t, refuses(&full, 1, &refused))
	w := newWorld(t, []site{{id: "eu-a", region: eu, weight: 1, endpoints: []*stub{s}}}, waits(20_000))
	w.run()
	n := w.routers[eu]
	var all sync.WaitGroup // the first is refused, and waits with the others
	for i, ask := range [][]string{
		{"initech"}, {"globex"}, {"acme"}, {"acme", "X-Anabranch-Priority", "0"}, {"initech", "X-Anabranch-Priority", "100"},
	} {
		all.Go(func() {
			if r := w.ask(eu, ask[0], askWhole, ask[1:]...); r.status != http.StatusOK {
				t.Errorf("%d %s", r.status, r.body)
			}
		})
		w.eventually("it waits", func() bool { return n.waitingNow() > i })
	}
	var got []string
	for _, d := range n.gate.Depths() {
		got = append(got, d.Tier+":"+strconv.FormatInt(d.Requests, 10))
	}
	if tiers := strings.Join(got, " "); tiers != "top:1 standard:1 best-effort:1 batch:2" {
		t.Errorf("waiting: %s", tiers)
	}
	full.Store(false)
	all.Wait()
	w.idle()
}

// A client that leaves while it waits is forgotten, and its quota given back.
func TestAClientThatLeavesTheQueue(t *testing.T) {
	var full atomic.Bool
	var refused atomic.Int64
	full.Store(true)
	s := newStub(t, refuses(&full, 30, &refused))
	w := newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{s}}}, waits(60_000))
	stop := w.run()
	n := w.routers[us]
	ctx, leave := context.WithCancel(context.Background())
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, n.front.URL+"/v1/chat/completions", strings.NewReader(askWhole))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer globex-key")
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if res, err := http.DefaultClient.Do(q); err == nil {
			res.Body.Close()
		}
	}()
	w.eventually("it waits", func() bool { return n.waitingNow() == 1 })
	leave()
	<-gone
	w.eventually("nothing waits", func() bool { return n.waitingNow() == 0 })
	w.idle()
	if charged := w.settled(stop, "q-tokens"); charged != 0 {
		t.Errorf("%d tokens are charged", charged)
	}
}

// ordered gives all routers orders.
func (w *world) ordered(orders ...override.Order) {
	now := time.Now()
	for i := range orders {
		orders[i].ID, orders[i].Actor, orders[i].Reason = "o"+strconv.Itoa(i), "sre", "test"
		orders[i].At, orders[i].Expires = now, now.Add(time.Hour)
	}
	w.orders.Store(emergency.Set{}.With(emergency.DoorSocket, orders...).At(now))
}

func TestAnOrderShedsWhatMattersLess(t *testing.T) {
	s := newStub(t, answers)
	w := newWorld(t, []site{{id: "eu-a", region: eu, weight: 1, endpoints: []*stub{s}}}, nil)
	w.run()
	w.ordered(override.Order{Kind: override.Shed, Priority: 50})
	w.eventually("the order is obeyed", func() bool { return w.ask(eu, "initech", askWhole).status == http.StatusTooManyRequests })
	r := w.ask(eu, "initech", askWhole)
	if e := r.problem(t); e["code"] != "shed" || r.header.Get("Retry-After") == "" || r.header.Get("X-Should-Retry") != "false" {
		t.Errorf("%v, header %v", e, r.header)
	}
	if r := w.ask(eu, "globex", askWhole); r.status != http.StatusOK {
		t.Errorf("standard tier: %d %s", r.status, r.body)
	}
	w.orders.Store(nil)
	w.eventually("the order is over", func() bool { return w.ask(eu, "initech", askWhole).status == http.StatusOK })
}

func TestOrdersEvacuateAndRestore(t *testing.T) {
	a, b, c := newStub(t, answers), newStub(t, answers), newStub(t, answers)
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{a}},
		{id: "us-b", region: us, weight: 0, endpoints: []*stub{b}},
		{id: "us-c", region: us, weight: 0, drained: true, endpoints: []*stub{c}},
	}, nil)
	served := func(want string) *Record {
		t.Helper()
		r := w.ask(us, "acme", askWhole)
		if got := r.header.Get("X-Anabranch-Cluster"); r.status != http.StatusOK || got != want {
			t.Errorf("%d by %s, want %s", r.status, got, want)
		}
		return w.record(us, r)
	}
	served("us-a")
	w.ordered(override.Order{Kind: override.Evacuate, Target: "us-a"})
	if rec := served("us-b"); len(rec.Removed) != 2 || rec.Removed[0].Cluster != "us-a" || !strings.HasPrefix(rec.Removed[0].Reason, "evacuated: emergency order o0 by sre") {
		t.Errorf("removed %v", rec.Removed)
	}
	w.ordered(override.Order{Kind: override.Evacuate, Target: "us-a"}, override.Order{Kind: override.Evacuate, Target: "us-b"}, override.Order{Kind: override.Restore, Target: "us-c"})
	served("us-c")
	w.ordered(override.Order{Kind: override.Evacuate, Target: us})
	if r := w.ask(us, "acme", askWhole); r.status != http.StatusServiceUnavailable || r.problem(t)["code"] != "no_legal_target" {
		t.Errorf("%d %s", r.status, r.body)
	}
	w.orders.Store(nil)
	served("us-a")
}

// A region that is full says so at once, and its requests are served at home.
func TestAFullRegionSendsItsGuestsBack(t *testing.T) {
	var full atomic.Bool
	var refused atomic.Int64
	full.Store(true)
	there := newStub(t, refuses(&full, 20, &refused))
	w := newWorld(t, []site{
		{id: "eu-a", region: eu, weight: 1, endpoints: []*stub{there}},
		{id: "us-a", region: us, weight: 0, endpoints: []*stub{newStub(t, answers)}},
	}, nil)
	for range 3 {
		if r := w.ask(us, "acme", askWhole); r.status != http.StatusOK || r.header.Get("X-Anabranch-Cluster") != "us-a" {
			t.Fatalf("%d by %s", r.status, r.header.Get("X-Anabranch-Cluster"))
		}
	}
	if refused.Load() != 1 {
		t.Errorf("%d requests at a place that has no room", refused.Load())
	}
}

// Places that a newer table does not have are not waited for, and the client is told to come again.
func TestWaitingForPlacesThatAreGoneEnds(t *testing.T) {
	s := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "30")
		http.Error(w, "full", http.StatusTooManyRequests)
	})
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 1, endpoints: []*stub{s}}, {id: "us-b", region: us, weight: 0, drained: true, endpoints: []*stub{newStub(t, answers)}},
	}, waits(30_000))
	w.run()
	n := w.routers[us]
	answer := make(chan got, 1)
	go func() { answer <- w.ask(us, "acme", askWhole) }()
	w.eventually("it waits", func() bool { return n.waitingNow() == 1 })
	w.sites = w.sites[1:]
	w.sites[0].weight, w.sites[0].drained = 1, false
	next := w.describe()
	next.Ref.Revision++
	next.Classes[0].QueueMs = 30_000
	w.table = next
	w.apply()
	select {
	case r := <-answer:
		if r.status != 503 || r.header.Get("Retry-After") == "" || r.header.Get("X-Should-Retry") == "false" {
			t.Errorf("%d %v %s", r.status, r.header, r.body)
		}
	case <-time.After(10 * time.Second):
		t.Error("it waits for what will never be")
	}
}

func TestASlowUploadDoesNotUseUpTheWait(t *testing.T) {
	now := time.Now()
	x := &trip{start: now.Add(-time.Minute), class: &table.Class{Queue: 10 * time.Second}}
	if until := x.waitUntil(t.Context(), now); !until.Equal(now.Add(10 * time.Second)) {
		t.Errorf("it may wait for %s", until.Sub(now))
	}
}
