package dataplane

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"anabranch/api/routerpb"
)

// fickle is a server that does everything wrong now and then, before content and after it.
func fickle(w http.ResponseWriter, r *http.Request) {
	streams := r.Header.Get("X-Streams") != ""
	kind := rand.IntN(1000)
	switch {
	case kind < 30:
		cut()
	case kind < 50:
		http.Error(w, "no", http.StatusInternalServerError)
	case kind < 52:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "full", http.StatusTooManyRequests)
	case kind < 60:
		hangs(w, r)
	case kind < 80 && streams:
		send(w, role)
		cut()
	case kind < 110 && streams:
		send(w, role, content, content)
		cut()
	case kind < 120 && streams:
		send(w, role, content)
		hangs(w, r)
	case kind < 130 && streams:
		send(w, role, content, "data: "+engineDied+"\n\n")
	case kind < 140 && streams:
		send(w, role, noJSON)
	case kind < 160:
		_, _ = io.WriteString(w, whole[:30])
		w.(http.Flusher).Flush()
		cut()
	case kind < 400:
		select {
		case <-time.After(time.Duration(rand.IntN(30)) * time.Millisecond): // the model computes
			answers(w, r)
		case <-r.Context().Done():
		}
	default:
		answers(w, r)
	}
}

// everything is a table that hedges, rescues, copies and lets wait, and is soon impatient.
func everything(pb *routerpb.Table) {
	ruled(&routerpb.Rule{Id: "try", Class: "interactive", Shadow: &routerpb.Shadow{Share: 0.1, Model: "qwen"}})(pb)
	c := pb.Classes[0]
	c.FirstByteFloorMs, c.FirstByteDeadlineMs, c.StallMs, c.QueueMs = 300, 600, 300, 500
	c.Hedge = &routerpb.Hedge{AfterMs: 10, MaxShare: 0.1, MaxSaturation: 0.9}
	c.Rescue = true
	for _, q := range pb.Quotas {
		q.Limit, q.Burst = 1e7, 1e7
	}
	pb.Quotas = append(pb.Quotas, &routerpb.Quota{Id: "q-slots", Tenant: "globex", Kind: "concurrent-requests", Limit: 1000, Burst: 1000, Degraded: "share", Share: 1})
	c.Ejection.FailureRatio, c.Ejection.MinRequests = 0.5, 50
}

// fates counts how requests ended for their clients.
type fates struct {
	mu  sync.Mutex // guards all
	all map[string]int
}

func (f *fates) add(fate string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[fate]++
}

// askAndMayLeave asks once; every sixth client leaves sooner or later.
func (w *world) askAndMayLeave(region string) (fate string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	leaves := rand.IntN(6) == 0
	if leaves {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(20_000))*time.Microsecond)
		defer cancel()
	}
	body, streams := askWhole, rand.IntN(3) > 0
	if streams {
		body = askStream
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, w.routers[region].front.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	q.Header.Set("Authorization", "Bearer globex-key")
	text, status := []byte(nil), 0
	res, err := http.DefaultClient.Do(q)
	if err == nil {
		text, err = io.ReadAll(res.Body)
		status = res.StatusCode
		res.Body.Close()
	}
	ended := strings.HasSuffix(string(text), done) || string(text) == whole
	switch {
	case leaves && ctx.Err() != nil:
		return "left"
	case err != nil && status == http.StatusOK && streams && strings.Contains(string(text), `data: {"error"`):
		return "broken off"
	case err != nil:
		return fmt.Sprintf("%d, %v", status, err)
	case status == http.StatusOK && ended:
		return "answered"
	case status >= 502 && status <= 504, status == http.StatusTooManyRequests:
		return "refused"
	}
	return fmt.Sprintf("%d %q", status, text)
}

// TestNothingIsLeftOfTenThousandRequests lets everything happen at once, hedging, rescues, shadow
// copies, waiting, faults of all kinds and clients that leave, and then looks for what is left: goroutines,
// requests, reservations and slots.
func TestNothingIsLeftOfTenThousandRequests(t *testing.T) {
	const n, clients = 10_000, 64
	goroutines := runtime.NumGoroutine()
	w := newWorld(t, []site{
		{id: "us-a", region: us, weight: 0.5, endpoints: []*stub{newStub(t, fickle), newStub(t, fickle)}},
		{id: "us-b", region: us, weight: 0.2, endpoints: []*stub{newStub(t, fickle)}},
		{id: "eu-a", region: eu, weight: 0.3, endpoints: []*stub{newStub(t, fickle), newStub(t, fickle)}},
	}, everything)
	stop := w.run()
	began := time.Now()
	seen := fates{all: map[string]int{}}
	left := make(chan string, n)
	for i := range n {
		left <- []string{us, us, eu}[i%3]
	}
	close(left)
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for region := range left {
				seen.add(w.askAndMayLeave(region))
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	t.Logf("%d requests in %s: %v", n, took.Round(time.Millisecond), seen.all)
	sum := 0
	for _, fate := range []string{"answered", "refused", "broken off", "left"} {
		sum += seen.all[fate]
	}
	if sum != n || seen.all["answered"] < n/2 || seen.all["broken off"] == 0 || seen.all["left"] == 0 {
		t.Errorf("how they ended: %v", seen.all)
	}
	w.idle()
	w.nothingWaits()
	w.happened("hedge", "rescue", "retry", "exempt")
	charged := w.settled(stop, "q-requests")
	if most := int64(n); charged > most || charged < int64(seen.all["answered"]+seen.all["broken off"]) {
		t.Errorf("%d requests charged, of %d with %d answers", charged, n, seen.all["answered"])
	}
	for _, q := range w.table.Quotas {
		level, held, ok := w.ledger.lending.Left(q.Tenant, q.Id)
		if !ok || held != 0 || q.Kind == "concurrent-requests" && level != q.Burst {
			t.Errorf("%s: %d of %d are there, %d are held", q.Id, level, q.Burst, held)
		}
	}
	w.close()
	http.DefaultClient.CloseIdleConnections()
	defer func() {
		if now := runtime.NumGoroutine(); now > goroutines {
			var stacks strings.Builder
			_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1) // a builder takes everything
			t.Logf("%d goroutines before, %d now:\n%s", goroutines, now, stacks.String())
		}
	}()
	w.eventually("all goroutines have ended", func() bool { return runtime.NumGoroutine() <= goroutines })
}

// nothingWaits waits until no shadow copy is under way and nothing waits for room.
func (w *world) nothingWaits() {
	w.t.Helper()
	for region, n := range w.routers {
		w.eventually("shadows and queues are empty at "+region, func() bool {
			n.shadows.mu.Lock()
			defer n.shadows.mu.Unlock()
			return n.shadows.open == 0 && n.waitingNow() == 0
		})
	}
}

// happened checks that there were attempts of these kinds, and shadow copies.
func (w *world) happened(kinds ...string) {
	w.t.Helper()
	counts := map[string]float64{}
	for key, v := range w.counts() {
		if words := strings.Fields(key[2]); key[1] == "attempts_total" {
			counts[words[1]] += v
		}
	}
	for _, n := range w.routers {
		families, err := n.registry.Gather()
		if err != nil {
			w.t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "anabranch_router_shadow_requests_total" {
				for _, m := range f.GetMetric() {
					counts["shadow"] += m.GetCounter().GetValue()
				}
			}
		}
	}
	w.t.Logf("attempts: %v", counts)
	for _, kind := range append(kinds, "shadow") {
		if counts[kind] == 0 {
			w.t.Errorf("no attempt of kind %s: %v", kind, counts)
		}
	}
}

// close ends all servers, those of the places too.
func (w *world) close() {
	for _, n := range w.routers {
		n.front.Close()
		n.admin.Close()
		n.peer.Close()
		n.relay.Close()
	}
	for _, s := range w.sites {
		for _, e := range s.endpoints {
			e.Close()
		}
	}
}
