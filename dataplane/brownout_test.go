package dataplane

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
	"anabranch/failover/brownout"
)

// scarce is a place in eu that says how full it is, in hundredths, and looks that are taken by hand from then on.
func scarce(t *testing.T, queueMs int64) (w *world, s *stub, running *atomic.Int64, look func(seconds int)) {
	t.Helper()
	running = new(atomic.Int64)
	there := newTelling(t, 0, 0)
	there.tells(func() string {
		return fmt.Sprintf("trtllm_num_requests_waiting 0\ntrtllm_num_requests_running %d\ntrtllm_max_num_active_requests 100\n", running.Load())
	})
	there.does(answers)
	running.Store(95)
	w = newWorld(t, []site{{id: "eu-a", region: eu, weight: 1, endpoints: []*stub{there.stub}}}, func(pb *routerpb.Table) {
		pb.Classes[0].QueueMs = queueMs
		pb.Tenants[1].Priority, pb.Tenants[1].Tier = 0, "best-effort"
	})
	w.run()
	n := w.routers[eu]
	w.eventually("it is known how full it is", func() bool { return n.places.Cluster("eu-a").Evidence(time.Now()).Saturation > 0.9 })
	at := time.Now().Add(time.Hour) // ahead of the router's own looks, which a clock that is set back begins anew
	return w, there.stub, running, func(seconds int) {
		t.Helper()
		for range seconds {
			at = at.Add(time.Second)
			n.lookAround(at)
		}
	}
}

func (w *world) step() brownout.Step { return w.routers[eu].brown.of("llama").at() }

func TestBatchIsRefusedWhileTopIsServed(t *testing.T) {
	w, s, _, look := scarce(t, 50)
	look(12)
	if got := w.step(); got != brownout.HoldBatch {
		t.Fatalf("after 11 s of shortage it is at step %d", got)
	}
	r := w.ask(eu, "initech", askWhole)
	e := r.problem(t)
	after, err := strconv.Atoi(r.header.Get("Retry-After"))
	if r.status != http.StatusTooManyRequests || e["code"] != "brownout" || e["origin"] != "router" || err != nil || after < 1 || after > 66 {
		t.Errorf("batch: %d %v, Retry-After %q", r.status, e, r.header.Get("Retry-After"))
	}
	if r.header.Get(headerBrownout) != "2" || !strings.Contains(e["message"].(string), "Capacity is short") {
		t.Errorf("batch: header %q, %v", r.header.Get(headerBrownout), e["message"])
	}
	if rec := w.record(eu, r); !strings.HasPrefix(rec.Brownout, "step 2: batch is held back") || rec.QueuedMs < 40 {
		t.Errorf("record %+v", rec)
	}
	if r = w.ask(eu, "acme", askWhole); r.status != http.StatusOK || r.header.Get(headerBrownout) != "2" {
		t.Errorf("top: %d, header %q", r.status, r.header.Get(headerBrownout))
	}
	if got := s.requests.Load(); got != 1 {
		t.Errorf("the place saw %d requests", got)
	}
	if got := w.routers[eu].Report(time.Now()).GetBrownout(); got != 2 {
		t.Errorf("the report says step %d", got)
	}
	w.routers[eu].shows(t, map[string]float64{
		"router_brownout_step{model=llama}": 2, "router_brownout_step{model=lonely}": 0,
		"queue_refused_total{cause=held_back,tier=batch}": 1,
	})
}

func TestHeldBackBatchIsLetInWhereThereIsPlenty(t *testing.T) {
	w, s, running, look := scarce(t, 50)
	look(18)
	if got := w.step(); got != brownout.ShortBatch {
		t.Fatalf("step %d", got)
	}
	settles := func(to int64) {
		running.Store(to)
		w.eventually("its load is known", func() bool {
			x := w.routers[eu].places.Cluster("eu-a").Evidence(time.Now()).Saturation
			return x < float64(to+5)/100
		})
	}
	settles(50) // below the ceiling of batch, and above the one while it is held back
	if r := w.ask(eu, "initech", askWhole); r.status != http.StatusTooManyRequests {
		t.Errorf("with half of the place free: %d", r.status)
	}
	settles(10)
	if r := w.ask(eu, "initech", `{"model":"llama","messages":[{"role":"user","content":"hello"}]}`); r.status != http.StatusOK {
		t.Fatalf("with most of the place free: %d %s", r.status, r.body)
	}
	if got := string(*s.body.Load()); !strings.Contains(got, `"max_tokens":512`) {
		t.Errorf("the place was asked %s", got)
	}
	if r := w.ask(eu, "initech", askWhole); r.status != http.StatusOK || !strings.Contains(string(*s.body.Load()), `"max_tokens":50`) {
		t.Errorf("%d: less than that was asked for, and the place was asked %s", r.status, *s.body.Load())
	}
	if r := w.ask(eu, "acme", `{"model":"llama","messages":[{"role":"user","content":"hello"}]}`); r.status != http.StatusOK || strings.Contains(string(*s.body.Load()), "max_tokens") {
		t.Errorf("top is cut short too: %s", *s.body.Load())
	}
}

func TestItIsLeftOnceThereIsRoom(t *testing.T) {
	w, _, running, look := scarce(t, 50)
	look(7)
	if got := w.step(); got != brownout.NoExtras {
		t.Fatalf("step %d", got)
	}
	running.Store(10)
	w.eventually("its load is known", func() bool { return w.routers[eu].places.Cluster("eu-a").Evidence(time.Now()).Saturation < 0.2 })
	if look(29); w.step() != brownout.NoExtras {
		t.Error("it was left too soon")
	}
	if look(3); w.step() != brownout.None {
		t.Errorf("step %d", w.step())
	}
	if r := w.ask(eu, "initech", askWhole); r.status != http.StatusOK || r.header.Get(headerBrownout) != "" || w.record(eu, r).Brownout != "" {
		t.Errorf("%d, header %q", r.status, r.header.Get(headerBrownout))
	}
}

func TestBestEffortHasItsFloorAndNoMore(t *testing.T) {
	w, _, running, look := scarce(t, 50)
	look(22)
	if got := w.step(); got != brownout.FloorBestEffort {
		t.Fatalf("step %d", got)
	}
	running.Store(75) // there is room for best-effort, below its ceiling; but others want more than there is, says the ladder
	w.eventually("its load is known", func() bool { return w.routers[eu].places.Cluster("eu-a").Evidence(time.Now()).Saturation < 0.79 })
	for range 10 {
		if r := w.ask(eu, "globex", askWhole); r.status != http.StatusOK {
			t.Fatalf("before shares are known: %d %s", r.status, r.body)
		}
	}
	for range 10 {
		w.ask(eu, "acme", askWhole)
	}
	look(1)
	let := 0
	for range 200 {
		r := w.ask(eu, "globex", askWhole)
		switch r.status {
		case http.StatusOK:
			let++
		case http.StatusTooManyRequests:
			if e := r.problem(t); e["code"] != "brownout" {
				t.Fatalf("%v", e)
			}
		default:
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	if let < 10 || let > 80 { // a tenth of 20 is 2 of 10: a fifth
		t.Errorf("%d of 200 were let in", let)
	}
}

func TestExtrasEndWithTheFirstStep(t *testing.T) {
	for step, want := range map[brownout.Step]time.Duration{brownout.None: time.Second, brownout.NoExtras: 0, brownout.Last: 0} {
		b := &brown{}
		b.step.Store(uint32(step))
		x := &trip{brown: b, class: &table.Class{Hedge: &table.Hedge{After: time.Second, MaxShare: 1}}}
		if got := (&Router{}).hedgeAfter(x, &try{number: 1}); got != want {
			t.Errorf("at step %d a copy goes after %v", step, got)
		}
	}
	x := &trip{brown: &brown{}, rule: &table.Rule{Shadow: &table.Shadow{Share: 1}}}
	x.brown.step.Store(1)
	(&Router{}).shadow(x) // would draw, and has nothing to draw with
}

func TestModelsComeAndGoWithTheTable(t *testing.T) {
	w, _, _, look := scarce(t, 50)
	look(7)
	w.table.Models = append(w.table.Models, &routerpb.Model{Id: "new", OutputWeight: 6})
	w.table.Ref.Revision++
	w.apply()
	if w.step() != brownout.NoExtras || w.routers[eu].brown.of("new").at() != brownout.None {
		t.Error("it does not stand where it stood")
	}
	w.table.Classes[0].Brownout = &routerpb.Brownout{Off: true}
	w.table.Ref.Revision++
	w.apply()
	if look(1); w.step() != brownout.None {
		t.Error("it is not turned off")
	}
	if r := (&brownouts{}).of(fleet.ModelID("llama")).at(); r != brownout.None {
		t.Error("no table")
	}
}

// What a request pays at step 0.
func BenchmarkBrownoutAtStepNone(b *testing.B) {
	r := &Router{}
	all := map[fleet.ModelID]*brown{"llama": {}, "other": {}}
	r.brown.all.Store(&all)
	model, x := &table.Model{ID: "llama"}, &trip{}
	b.ReportAllocs()
	for b.Loop() {
		x.model, x.brown = model, r.brown.of(model.ID)
		r.shorten(x)
		if r.brownedOut(x) || x.brown.at().Treats(50) != brownout.Free {
			b.Fatal("at step 0")
		}
		x.letIn(true, false)
	}
}
