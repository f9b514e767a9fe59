package rls

import (
	"strconv"
	"sync"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"anabranch/ratelimit"
)

// However many requests are under way together, each is charged with what its end tells, or where there
// is none with what it reserved, and no slot is left taken.
func TestManyAtOnceAreEachChargedOnce(t *testing.T) {
	const (
		gateways = 8
		each     = 25
		limit    = 1_000_000
	)
	lending := ratelimit.NewLending(nil)
	d := opened(t, lending, limits(t,
		quota("requests", "requests", limit), quota("input", "input-tokens", limit), quota("output", "output-tokens", limit),
		quota("slots", "concurrent-requests", 1000),
	))
	var group sync.WaitGroup
	var mu sync.Mutex
	var output, let int64
	for g := range gateways {
		group.Go(func() {
			for n := range each {
				id := strconv.Itoa(g) + "-" + strconv.Itoa(n)
				ask := func(ds ...*ratelimitv3.RateLimitDescriptor) bool {
					out, err := d.client.ShouldRateLimit(t.Context(), &rlsv3.RateLimitRequest{Domain: DefaultDomain, Descriptors: ds})
					if err != nil {
						t.Error(err)
					}
					return out.GetOverallCode() == rlsv3.RateLimitResponse_OK
				}
				if !ask(entries("tenant", "acme", "request_id", id, "input_tokens", "10", "output_tokens", "20")) {
					continue
				}
				used := int64(20)
				if n%5 != 0 { // of every fifth nothing is told
					used = int64(n)
					ask(done(id, uint64(n), "output-tokens"))
				}
				mu.Lock()
				let++
				output += used
				mu.Unlock()
			}
		})
	}
	group.Wait()
	d.stop()
	if let < gateways*each*9/10 {
		t.Errorf("only %d of %d were let in, far below the limits", let, gateways*each)
	}
	for id, want := range map[string]int64{"requests": let, "input": 10 * let, "output": output} {
		level, held, ok := lending.Left("acme", id)
		// What flows in meanwhile is an hour's amount in an hour: some 278 units a second.
		if got := limit - level; !ok || held != 0 || got > want || got < want-limit/3600*10 {
			t.Errorf("%s: charged %d, held %d; %d were used", id, got, held, want)
		}
	}
	if level, held, _ := lending.Left("acme", "slots"); level != 1000 || held != 0 {
		t.Errorf("%d of 1000 slots are free and %d held", level, held)
	}
	if n := d.count("anabranch_rls_requests_ended_total", "", ""); int64(n) != let {
		t.Errorf("%v requests ended, %d began", n, let)
	}
}
