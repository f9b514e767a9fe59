package dataplane

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/route"
	"anabranch/dataplane/table"
	"anabranch/failover"
)

// nearly is us, whose requests may go nowhere but to eu, which is as full as it can be for some.
func nearly(t *testing.T, queueMs int64) (w *world, running *atomic.Int64) {
	t.Helper()
	running = new(atomic.Int64)
	there := newTelling(t, 0, 0)
	there.tells(func() string {
		return fmt.Sprintf("trtllm_num_requests_waiting 0\ntrtllm_num_requests_running %d\ntrtllm_max_num_active_requests 100\n", running.Load())
	})
	there.does(answers)
	running.Store(95) // more than the 90 % of the standard tier
	w = newWorld(t, []site{
		{id: "eu-a", region: eu, weight: 1, endpoints: []*stub{there.stub}},
		{id: "us-a", region: us, weight: 0, drained: true, endpoints: []*stub{newStub(t, answers)}},
	}, func(pb *routerpb.Table) { pb.Classes[0].QueueMs = queueMs })
	w.run()
	w.eventually("eu knows how full it is", func() bool { return w.routers[eu].places.Cluster("eu-a").Evidence(time.Now()).Saturation > 0.9 })
	return w, running
}

// hops is how many requests of other regions a router has answered.
func (w *world) hops(region string) (n int) {
	w.routers[region].explain.newest(func(r *Record) bool {
		if r.Hop {
			n++
		}
		return true
	})
	return n
}

// rumour tells us all the time that eu has room, as answers do that began a moment ago.
func (w *world) rumour() (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			call := w.routers[us].places.Cluster("eu-a").Hop(endpoint.Load{Model: "llama"}, time.Now())
			call.Told(0.5, time.Now())
			call.Done(endpoint.Result{Outcome: failover.Ignored}, time.Now())
			<-tick.C
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		done.Wait()
	})
	w.t.Cleanup(stop)
	return stop
}

// What looks as if it had room and has none is asked again for as long as the request may wait, at a
// pace that does not storm it.
func TestARequestComesBackForAsLongAsItMayWait(t *testing.T) {
	t.Parallel()
	w, running := nearly(t, 60_000)
	w.rumour()
	answer := make(chan got, 1)
	began := time.Now()
	go func() { answer <- w.ask(us, "globex", askStream) }()
	w.eventually("it came back more often than four times", func() bool { return w.hops(eu) > 5 })
	if took := time.Since(began); took < 700*time.Millisecond {
		t.Errorf("six times within %v", took)
	}
	running.Store(10)
	r := <-answer
	if r.status != http.StatusOK || r.err != nil || r.header.Get("X-Anabranch-Cluster") != "eu-a" {
		t.Fatalf("%d %v by %q", r.status, r.err, r.header.Get("X-Anabranch-Cluster"))
	}
	if rec := w.record(us, r); rec.QueuedMs < 500 || len(rec.Attempts) < 6 {
		t.Errorf("waited %v ms, attempts %s", rec.QueuedMs, kinds(rec))
	}
	w.idle()
}

func TestARequestThatComesBackIsRefusedAtItsTime(t *testing.T) {
	w, _ := nearly(t, 1500)
	w.rumour()
	began := time.Now()
	r := w.ask(us, "globex", askWhole)
	after, err := strconv.Atoi(r.header.Get("Retry-After"))
	if took := time.Since(began); r.status != http.StatusServiceUnavailable || took < 1400*time.Millisecond || err != nil || after < 1 {
		t.Errorf("%d after %v, Retry-After %d %v", r.status, took, after, err)
	}
	w.idle()
}

func TestAClientThatLeavesWhileItsRequestRests(t *testing.T) {
	w, _ := nearly(t, 60_000)
	w.rumour()
	ctx, leave := context.WithCancel(t.Context())
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, w.routers[us].front.URL+"/v1/chat/completions", strings.NewReader(askWhole))
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
	w.eventually("it came back", func() bool { return w.hops(eu) > 3 })
	leave()
	<-gone
	w.idle()
}

func TestARecordOfManyAttemptsKeepsTheFirstAndTheLast(t *testing.T) {
	x := &trip{record: &Record{}}
	p := &place{target: &route.Target{Cluster: &table.Cluster{ID: "us-a"}}}
	for i := range 100 {
		x.note(&try{place: p, kind: strconv.Itoa(i)}, time.Now())
	}
	all := x.record.Attempts
	if len(all) != recordedAttempts || all[0].Kind != "0" || all[len(all)-2].Kind != strconv.Itoa(recordedAttempts-2) || all[len(all)-1].Kind != "99" {
		t.Errorf("kept %s", kinds(x.record))
	}
}
