package quota

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"anabranch/api/routerpb"
)

// TestRequestsAtTheSameTime: what is asked for at one moment over all routers gets no more than the limit.
func TestRequestsAtTheSameTime(t *testing.T) {
	money := &routerpb.Quota{
		Id: "dollars/money", Organisation: "dollars", Tenant: "dollars", Kind: "money", Limit: 1_000_000, Burst: 1_000_000,
		Degraded: "closed", Calendar: "day", TimeZone: "UTC",
	}
	slots := &routerpb.Quota{
		Id: "slots/concurrent-requests", Organisation: "slots", Tenant: "slots", Kind: "concurrent-requests", Limit: 10, Burst: 10, Degraded: "closed",
	}
	f := newFleet(t, []*routerpb.Quota{rate("tokens", "total-tokens", 1_000_000, 1_000_000, "closed"), money, slots})

	// 200 prompts of 50,000 tokens; a limit of a million tokens a minute.
	all := func(tell told, promptBytes, maxTokens, n int) (admitted int, codes map[string]int) {
		codes = map[string]int{}
		var got atomic.Int64
		var mu sync.Mutex // guards codes
		var running sync.WaitGroup
		for i := range n {
			running.Go(func() {
				status, code, err := f.routers[i%len(f.routers)].ask(t.Context(), tell, promptBytes, maxTokens)
				switch {
				case errors.Is(err, net.ErrClosed): // a prompt that a busy machine takes too long to send is cut off
					t.Logf("request %d: %v", i, err)
					mu.Lock()
					codes["no answer"]++
					mu.Unlock()
				case err != nil:
					t.Errorf("request %d: %v", i, err)
				case status == http.StatusOK:
					got.Add(1)
				case status == http.StatusTooManyRequests, code == "quota_store_unavailable":
					mu.Lock()
					codes[code]++
					mu.Unlock()
				default:
					t.Errorf("request %d: status %d, %s", i, status, code)
				}
			})
		}
		running.Wait()
		if codes["no answer"] > max(n/50, 1) {
			t.Errorf("%d of %d requests had no answer", codes["no answer"], n)
		}
		return int(got.Load()), codes
	}
	// until goes on, one by one, until the quota says no for want of units: at first it may have said so for
	// want of an answer by Redis, since that many large requests keep a small machine from everything else.
	until := func(tell told, code string, least int) (sum int, took time.Duration) {
		began := time.Now()
		sum, codes := all(tell, 200_000, 10, 200)
		t.Logf("%s: %d of 200 requests, %v", tell.tenant, sum, codes)
		for deadline := began.Add(30 * time.Second); time.Now().Before(deadline); {
			one, codes := all(tell, 200_000, 10, 1)
			if sum += one; sum >= least && codes[code] > 0 {
				return sum, time.Since(began)
			}
		}
		t.Errorf("%s: %d requests were let through in 30 s, want %d, and then %s", tell.tenant, sum, least, code)
		return sum, time.Since(began)
	}
	sum, took := until(told{tenant: "tokens", prompt: 50_000, completion: 10}, "rate_limit_exceeded", 15)
	if most := (1_000_000 + took.Minutes()*1_000_000) / 50_010; float64(sum) > most {
		t.Errorf("%d requests of 50,010 tokens were let through in %v, at most %.1f may be", sum, took, most)
	}

	// A dollar, at a dollar for a million tokens of a prompt and two for those of an answer: 0.05002 each.
	sum, _ = until(told{tenant: "dollars", prompt: 50_000, completion: 10}, "insufficient_quota", 15)
	if sum > 19 {
		t.Errorf("%d requests of 5 cents were let through with a budget of a dollar", sum)
	}

	// 100 requests that take a while, for ten places.
	for round := 0; round < 10 && f.model.together("slots") < 10; round++ {
		admitted, codes := all(told{tenant: "slots", prompt: 1, completion: 1, takes: 300 * time.Millisecond}, 0, 1, 100)
		t.Logf("slots: %d of 100 requests, %v, %d at the same time", admitted, codes, f.model.together("slots"))
	}
	if n := f.model.together("slots"); n != 10 {
		t.Errorf("%d requests were under way at the same time, want 10", n)
	}
}

// TestSlotsOfADeadRouterComeBack: what a router held when it was killed, or ended, is there for the others
// after two lives of a lease.
func TestSlotsOfADeadRouterComeBack(t *testing.T) {
	const n = 10
	quota := func(tenant string) *routerpb.Quota {
		return &routerpb.Quota{
			Id: tenant + "/concurrent-requests", Organisation: tenant, Tenant: tenant, Kind: "concurrent-requests", Limit: n, Burst: n, Degraded: "closed",
		}
	}
	f := newFleet(t, []*routerpb.Quota{quota("killed"), quota("ended")})
	tenants, ends := []string{"killed", "ended"}, []func(*router){(*router).kill, (*router).stop}
	var open sync.WaitGroup
	for i, tenant := range tenants {
		for range n {
			open.Go(func() {
				// They are cut off with the router, or end with it.
				_, _, _ = f.routers[i].ask(t.Context(), told{tenant: tenant, prompt: 1, completion: 1, takes: 2 * time.Second}, 0, 1)
			})
		}
	}
	ended := make([]time.Time, len(tenants))
	for i, tenant := range tenants {
		eventually(t, 5*time.Second, "all slots to be taken", func() error {
			if got := f.model.together(tenant); got < n {
				return fmt.Errorf("%d are", got)
			}
			return nil
		})
		ends[i](f.routers[i])
		ended[i] = time.Now()
	}
	for i, tenant := range tenants {
		eventually(t, 12*time.Second, "the slots to come back", func() error {
			var got atomic.Int64
			var asked sync.WaitGroup
			for range n {
				asked.Go(func() {
					status, _, err := f.routers[2].ask(t.Context(), told{tenant: tenant, prompt: 1, completion: 1, takes: 100 * time.Millisecond}, 0, 1)
					if err == nil && status == http.StatusOK {
						got.Add(1)
					}
				})
			}
			asked.Wait()
			if got.Load() < n {
				return fmt.Errorf("%d of %d were let in", got.Load(), n)
			}
			return nil
		})
		t.Logf("%s: all slots were back %v after its end", tenant, time.Since(ended[i]).Round(time.Millisecond))
	}
	open.Wait()
}
