package dataplane

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/failover/brownout"
)

// starving is a place in eu that says how full it is, in hundredths. The router reads that, and takes no looks but those
// that are taken by hand.
func starving(t *testing.T) (w *world, running *atomic.Int64, look func(seconds int)) {
	t.Helper()
	running = new(atomic.Int64)
	there := newTelling(t, 0, 0)
	there.tells(func() string {
		return fmt.Sprintf("trtllm_num_requests_waiting 0\ntrtllm_num_requests_running %d\ntrtllm_max_num_active_requests 100\n", running.Load())
	})
	there.does(answers)
	running.Store(95)
	w = newWorld(t, []site{{id: "eu-a", region: eu, weight: 1, endpoints: []*stub{there.stub}}}, shared)
	n := w.routers[eu]
	ctx, cancel := context.WithCancel(context.Background())
	var beside sync.WaitGroup
	for _, part := range []func(context.Context) error{n.places.Run, n.gate.Run} {
		beside.Go(func() {
			if err := part(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		beside.Wait()
	})
	w.filled(running, 95, "")
	at := time.Now()
	return w, running, func(seconds int) {
		t.Helper()
		for range seconds {
			at = at.Add(time.Second)
			n.lookAround(at)
		}
	}
}

// shared are tenants of the standard and of the top tier, two of each, of whom one counts for three times the other.
func shared(pb *routerpb.Table) {
	add := func(id, tier string, priority int32) {
		sum := sha256.Sum256([]byte(id + "-key"))
		pb.Tenants = append(pb.Tenants, &routerpb.Tenant{Id: id, Tier: tier, Priority: priority, KeySha256: [][]byte{sum[:]}})
	}
	add("heavy", "standard", 50)
	add("light", "standard", 50)
	add("first", "top", 100)
	add("second", "top", 100)
	pb.Classes[0].QueueMs = 60
	pb.Classes[0].Brownout = &routerpb.Brownout{Weights: map[string]float64{"heavy": 3, "light": 1, "first": 3, "second": 1}}
}

// askedInTurn sends requests as several tenants in turn, so many as each, and counts what comes of them. All that are
// refused must be told so, and when to come back.
func (w *world) askedInTurn(rounds int, tenants ...string) (served map[string]int) {
	w.t.Helper()
	served = map[string]int{}
	for range rounds {
		for _, name := range tenants {
			r := w.ask(eu, name, askWhole)
			if r.status == http.StatusOK {
				served[name]++
				continue
			}
			after, err := strconv.Atoi(r.header.Get("Retry-After"))
			if r.status != http.StatusTooManyRequests && r.status != http.StatusServiceUnavailable || err != nil || after < 1 {
				w.t.Fatalf("%s: %d, Retry-After %q: %s", name, r.status, r.header.Get("Retry-After"), r.body)
			}
		}
	}
	return served
}

// filled sets how full the place is, in hundredths, and waits until it is known; with room, until a tenant finds it.
func (w *world) filled(running *atomic.Int64, to int64, tenant string) {
	w.t.Helper()
	running.Store(to)
	w.eventually("its load is known", func() bool {
		x := w.routers[eu].places.Cluster("eu-a").Evidence(time.Now()).Saturation
		return x > float64(to-3)/100 && x < float64(to+3)/100
	})
	if to < 90 { // and that the gate goes by it
		w.eventually("there is room", func() bool { return w.ask(eu, tenant, askWhole).status == http.StatusOK })
	}
}

// Both tenants of a tier want more than there is, one of them four times as much as the other. Before their step all
// of the tier is served; at it they have shares by weight, and the tier above has all that it asks for.
func TestTiersHaveFairSharesTheTopLast(t *testing.T) {
	for _, tt := range []struct {
		step         brownout.Step
		seconds      int
		heavy, light string
		above        []string // tenants whose step has not come
		scarceAt     int64    // how full it is when no more of the tier is let in
		tier         string
	}{
		{brownout.ShareStandard, 27, "heavy", "light", []string{"first", "acme"}, 97, "standard"},
		{brownout.ShareTop, 33, "first", "second", nil, 100, "top"},
	} {
		t.Run(tt.step.String(), func(t *testing.T) {
			w, running, look := starving(t)
			look(tt.seconds - 5)
			if got := w.step(); got != tt.step-1 {
				t.Fatalf("step %d", got)
			}
			w.filled(running, 75, tt.heavy)
			if got := w.askedInTurn(10, tt.heavy, tt.light); got[tt.heavy] != 10 || got[tt.light] != 10 {
				t.Fatalf("a step before theirs %v of 10 each are served", got)
			}
			w.filled(running, 95, "")
			look(6)
			if got := w.step(); got != tt.step {
				t.Fatalf("step %d", got)
			}
			w.filled(running, 75, tt.heavy)
			w.askedInTurn(20, tt.heavy, tt.light) // what the tier gets
			w.filled(running, tt.scarceAt, "")
			if got := w.askedInTurn(8, tt.heavy, tt.light, tt.light, tt.light, tt.light); got[tt.heavy]+got[tt.light] > 5 {
				t.Fatalf("there is no room, and %v of 40 are served", got)
			}
			w.filled(running, 75, tt.heavy)
			look(1)
			const rounds = 60
			got := w.askedInTurn(rounds, append([]string{tt.heavy, tt.light}, tt.above...)...)
			// Of 28 and 52 asked for, 40 were let in, and a tenth more may be: 33 and 11 by weight, of which the one needs 28.
			if got[tt.heavy] < rounds*5/6 || got[tt.light] > rounds*3/4 || got[tt.light] == 0 {
				t.Errorf("%d requests of each: %v", rounds, got)
			}
			for _, name := range tt.above {
				if got[name] != rounds {
					t.Errorf("%d of %d requests of %s, whose turn it is not, are served", got[name], rounds, name)
				}
			}
			r := w.ask(eu, tt.light, askWhole)
			for range 100 {
				if r.status != http.StatusOK {
					break
				}
				r = w.ask(eu, tt.light, askWhole)
			}
			if e := r.problem(t); r.status != http.StatusTooManyRequests || e["code"] != "brownout" || r.header.Get(headerBrownout) != fmt.Sprint(uint8(tt.step)) {
				t.Errorf("%d %v, step %q", r.status, e, r.header.Get(headerBrownout))
			}
			if rec := w.record(eu, r); rec.Brownout == "" {
				t.Error("its record does not tell")
			}
			n := w.routers[eu]
			n.shows(t, map[string]float64{"router_brownout_step{model=llama}": float64(tt.step)})
			if got := n.Report(time.Now()).GetBrownout(); got != uint32(tt.step) {
				t.Errorf("the report says step %d", got)
			}
			if refused := n.values(t)["queue_refused_total{cause=over_share,tier="+tt.tier+"}"]; refused < rounds/4 {
				t.Errorf("%v are counted as refused over their share", refused)
			}
		})
	}
}
