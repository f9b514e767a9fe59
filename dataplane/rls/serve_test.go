package rls

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"anabranch/dataplane/table"
	"anabranch/ratelimit"
	"anabranch/ratelimit/redisbucket"
	"anabranch/ratelimit/redisbucket/redistest"
)

// lender makes the store of a redis-server, and runs it until the test ends.
func lender(t testing.TB, server *redistest.Server) *redisbucket.Lender {
	t.Helper()
	l, err := redisbucket.NewLender(redisbucket.LenderOptions{Addrs: []string{server.Addr}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ran := make(chan error, 1)
	go func() { ran <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func TestTwoDoorsShareALimitInRedis(t *testing.T) {
	server := redistest.Start(t)
	tab := limits(t, quota("requests", "requests", 200))
	doors := []*door{opened(t, lender(t, server), tab), opened(t, lender(t, server), tab)}
	let := 0
	until(t, "both refuse", func() bool {
		refused := 0
		for _, d := range doors {
			if d.call(entries("tenant", "acme")).OverallCode == rlsv3.RateLimitResponse_OK {
				let++
			} else {
				refused++
			}
		}
		return refused == len(doors) && let >= 195
	})
	if let > 200+1 { // and what an hour's 200 refill meanwhile
		t.Errorf("let in %d, the limit is 200", let)
	}
}

// envoyWaits is how long Envoy waits unless it is told otherwise; a machine that is busy gets slack times
// as long.
const (
	envoyWaits = 20 * time.Millisecond
	slack      = 5
)

// inTime wants a try that takes no longer than slack allows: one of three, since a busy machine may hold up
// any. Where a call waits for the store all three take too long.
func inTime(t *testing.T, try func() time.Duration) {
	t.Helper()
	var took []time.Duration
	for range 3 {
		took = append(took, try())
		if took[len(took)-1] <= slack*envoyWaits {
			return
		}
	}
	t.Errorf("calls took %v, Envoy waits for %v", took, envoyWaits)
}

// A server of Redis that hangs is worse than none: connections stay, and nothing is answered.
func TestNoCallWaitsForRedisThatIsFrozen(t *testing.T) {
	inTime(t, func() time.Duration { return longestFrozen(t) })
}

// longestFrozen is how long the slowest of many calls takes while Redis is frozen.
func longestFrozen(t *testing.T) (longest time.Duration) {
	t.Helper()
	server := redistest.Start(t)
	d := opened(t, lender(t, server), limits(t, quota("requests", "requests", 1_000_000)))
	d.ok(entries("tenant", "acme"))
	server.Freeze()
	defer server.Thaw()
	models := []string{"", "llama", "qwen"}
	until(t, "the leases in hand are over", func() bool {
		began := time.Now()
		d.ok(entries("tenant", "acme", "model", models[int(began.UnixMilli())%len(models)])) // by the router's own share
		longest = max(longest, time.Since(began))
		return !d.admitter.StoreOK()
	})
	for range 50 {
		began := time.Now()
		d.ok(entries("tenant", "acme"))
		longest = max(longest, time.Since(began))
	}
	return longest
}

// stuck is a store that answers nothing until it is let go.
type stuck struct {
	*ratelimit.Lending
	asked, letGo chan struct{}
	once         sync.Once
}

func (s *stuck) LeaseAll(ctx context.Context, calls []ratelimit.In) []ratelimit.Result {
	s.once.Do(func() { close(s.asked) })
	<-s.letGo
	return s.Lending.LeaseAll(ctx, calls)
}

func TestCallsBeyondTheBoundAreTurnedAway(t *testing.T) {
	store := &stuck{Lending: ratelimit.NewLending(nil), asked: make(chan struct{}), letGo: make(chan struct{})}
	d := opened(t, store, limits(t, quota("requests", "requests", 5)), func(o *Options) { o.MostAtOnce, o.Budget = 1, patience })
	first := make(chan error, 1)
	q := &rlsv3.RateLimitRequest{Domain: DefaultDomain, Descriptors: []*ratelimitv3.RateLimitDescriptor{entries("tenant", "acme")}}
	go func() {
		_, err := d.client.ShouldRateLimit(t.Context(), q)
		first <- err
	}()
	<-store.asked
	if _, err := d.client.ShouldRateLimit(t.Context(), q); status.Code(err) != codes.Unavailable {
		t.Errorf("the second: %v", err)
	}
	close(store.letGo)
	if err := <-first; err != nil {
		t.Errorf("the first: %v", err)
	}
	if n := d.count("anabranch_rls_calls_total", "outcome", outcomeBusy); n != 1 {
		t.Errorf("counted %v", n)
	}
}

func TestABudgetBoundsTheWaitForTheStore(t *testing.T) {
	inTime(t, func() time.Duration {
		store := &stuck{Lending: ratelimit.NewLending(nil), asked: make(chan struct{}), letGo: make(chan struct{})}
		d := opened(t, store, limits(t, quota("requests", "requests", 1000)))
		defer close(store.letGo)
		began := time.Now()
		d.ok(entries("tenant", "acme")) // by the router's own share
		took := time.Since(began)
		if took < DefaultBudget {
			t.Errorf("took %v, the budget is %v", took, DefaultBudget)
		}
		return took
	})
}

func TestHealthFollowsTheTable(t *testing.T) {
	d := opened(t, ratelimit.NewLending(nil), limits(t))
	check := func(service string) healthv1.HealthCheckResponse_ServingStatus {
		out, err := healthv1.NewHealthClient(d.conn).Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
		if err != nil {
			t.Fatal(err)
		}
		return out.Status
	}
	for _, service := range []string{"", "envoy.service.ratelimit.v3.RateLimitService"} {
		until(t, "it serves", func() bool { return check(service) == healthv1.HealthCheckResponse_SERVING })
	}
	d.tables.Store(nil)
	until(t, "it does not serve without a table", func() bool { return check("") == healthv1.HealthCheckResponse_NOT_SERVING })
}

func TestTheEndSettlesWhatIsOpenAndCutsWhoWatches(t *testing.T) {
	lending := ratelimit.NewLending(nil)
	d := opened(t, lending, limits(t, quota("output", "output-tokens", 1000)))
	d.ok(entries("tenant", "acme", "request_id", "1", "output_tokens", "100"))
	watch, err := healthv1.NewHealthClient(d.conn).Watch(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	d.stop()
	if took := time.Since(began); took > 3*grace {
		t.Errorf("the end took %v", took)
	}
	if level, held, _ := lending.Left("acme", "output"); level != 900 || held != 0 {
		t.Errorf("left of 1000: %d, held %d", level, held)
	}
	if n := d.count("anabranch_rls_requests_ended_total", "by", endStopped); n != 1 {
		t.Errorf("counted %v", n)
	}
}

func TestAListenerThatFailsEndsTheRun(t *testing.T) {
	s, err := New(Options{Tables: &table.Holder{}, Quotas: failing{}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := s.Run(t.Context(), l); err == nil {
		t.Error("it ran on a listener that is closed")
	}
}

func TestOptionsThatAreWrongAreNamed(t *testing.T) {
	good := func() Options { return Options{Tables: &table.Holder{}, Quotas: failing{}} }
	for _, c := range []struct {
		says   string
		change func(*Options)
	}{
		{"tables", func(o *Options) { o.Tables = nil }},
		{"quotas", func(o *Options) { o.Quotas = nil }},
		{"domain", func(o *Options) { o.Domains = []string{""} }},
		{"budget", func(o *Options) { o.Budget = -1 }},
		{"keep", func(o *Options) { o.Keep = -1 }},
		{"most open", func(o *Options) { o.MostOpen = -1 }},
		{"most at once", func(o *Options) { o.MostAtOnce = -1 }},
	} {
		o := good()
		c.change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.says, err)
		}
	}
}
