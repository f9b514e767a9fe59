package dataplane

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// large is a request of about so many bytes.
func large(bytes int) string {
	return strings.Replace(askWhole, "hello", strings.Repeat("x", bytes), 1)
}

// One tenant's large requests do not fill the router; the others go on, and so do its small ones.
func TestOneTenantCannotHoldAllMemory(t *testing.T) {
	let := make(chan struct{})
	release := sync.OnceFunc(func() { close(let) })
	s := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		<-let
		answers(w, r)
	})
	w := newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{s}}}, func(pb *routerpb.Table) { pb.Quotas = nil })
	n := w.routers[us]
	n.bodies.most = 4 << 20
	var all sync.WaitGroup
	defer func() { // the stub can't end before
		release()
		all.Wait()
	}()
	held := func(tenant string) {
		before, answered := s.requests.Load(), make(chan struct{})
		all.Go(func() {
			defer close(answered)
			if r := w.ask(us, tenant, large(1<<20)); r.status != http.StatusOK {
				t.Errorf("%s: %d %s", tenant, r.status, r.body)
			}
		})
		w.eventually("it is there", func() bool {
			select {
			case <-answered:
				return true // with an error, of which nothing more comes
			default:
				return s.requests.Load() > before
			}
		})
	}
	held("acme")
	// The second does not fit, with the room that is made for it.
	r := w.ask(us, "acme", large(2<<20))
	if e := r.problem(t); r.status != http.StatusTooManyRequests || e["code"] != "tenant_busy" || r.header.Get("Retry-After") == "" {
		t.Errorf("%d %v", r.status, e)
	}
	held("globex")
	release()
	all.Wait()
	if r := w.ask(us, "acme", large(1<<20)); r.status != http.StatusOK {
		t.Errorf("afterwards: %d %s", r.status, r.body)
	}
	w.idle()
	if left := n.bodies.held.Load(); left != 0 {
		t.Errorf("%d bytes are counted for nothing", left)
	}
	n.bodies.most = firstPiece // of all that count for anybody
	if r := w.ask(us, "acme", large(firstPiece/2)); r.status != http.StatusOK {
		t.Errorf("a small one: %d %s", r.status, r.body)
	}
}

func TestARouterThatIsFullOfBodiesSaysSo(t *testing.T) {
	w, _ := one(t)
	n := w.routers[us]
	n.bodies.held.Store(n.bodies.most)
	r := w.ask(us, "acme", large(1<<20))
	if e := r.problem(t); r.status != http.StatusServiceUnavailable || e["code"] != "router_busy" || r.header.Get("Retry-After") == "" {
		t.Errorf("%d %v", r.status, e)
	}
}

// Whatever is asked for and given back, in whatever order: no bound is passed, and nothing is left.
func TestBodiesAreCountedOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &bodies{most: 1 << 20}
		var open []holding
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(open) > 0 && rapid.Bool().Draw(t, "ends") {
				open[0].free()
				open[0].free()
				open = open[1:]
				continue
			}
			h := b.holding(fleet.TenantID(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "tenant")))
			for _, bytes := range rapid.SliceOfN(rapid.Int64Range(0, 400<<10), 1, 3).Draw(t, "bytes") {
				before := h.bytes
				if problem := h.upTo(bytes); problem != nil && h.bytes != before {
					t.Fatalf("refused, and %d bytes are held for it", h.bytes-before)
				}
			}
			open = append(open, h)
			sums := map[any]int64{}
			for _, h := range open {
				sums[h.id] += h.bytes
				sums[nil] += h.bytes
			}
			for tenant, sum := range sums {
				if tenant != nil && sum > b.most/2 || sum > b.most {
					t.Fatalf("%d bytes are held, of %d", sum, b.most)
				}
			}
			if sums[nil] != b.held.Load() {
				t.Fatalf("%d bytes are held and %d counted", sums[nil], b.held.Load())
			}
		}
		for i := range open {
			open[i].free()
		}
		b.keep(func(id fleet.TenantID) bool { return id == "a" })
		left := 0
		b.tenants.Range(func(id, _ any) bool {
			if left++; id != fleet.TenantID("a") {
				t.Fatalf("%v is remembered", id)
			}
			return true
		})
		if b.held.Load() != 0 || left > 1 {
			t.Fatalf("%d bytes and %d tenants are left", b.held.Load(), left)
		}
	})
}
