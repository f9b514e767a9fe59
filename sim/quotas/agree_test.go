package quotas

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/admit"
	"anabranch/dataplane/table"
	"anabranch/ratelimit"
)

// distant is the store as one router sees it: at a distance, and away at times. After a call without an
// answer nobody calls until a probe finds it again.
type distant struct {
	*ratelimit.Lending
	w      *world
	router int
	count  func(calls int)
	probes sync.WaitGroup

	mu   sync.Mutex // guards what follows
	sick bool
}

var errNoAnswer = errors.New("no answer")

func (d *distant) half() time.Duration { return time.Duration(d.w.routers[d.router].rtt / 2) }

func (d *distant) away() bool { return d.w.awayAt(d.router, time.Now().UnixNano()) }

// LeaseAll implements admit.Store.
func (d *distant) LeaseAll(ctx context.Context, calls []ratelimit.In) []ratelimit.Result {
	d.count(len(calls))
	began := time.Now()
	<-time.After(d.half())
	if !d.away() {
		results := d.Lending.LeaseAll(ctx, calls)
		<-time.After(d.half())
		return results
	}
	<-time.After(max(time.Duration(budget), 4*d.half()) - time.Since(began))
	results := make([]ratelimit.Result, len(calls))
	for i := range results {
		results[i].Err = errNoAnswer
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.sick {
		d.sick = true
		d.probes.Go(d.probe)
	}
	return results
}

// probe looks for the store until it is there again.
func (d *distant) probe() {
	for {
		<-time.After(probeEvery)
		d.count(0)
		if !d.away() {
			<-time.After(2 * d.half())
			d.mu.Lock()
			defer d.mu.Unlock()
			d.sick = false
			return
		}
	}
}

// Healthy implements admit.Store.
func (d *distant) Healthy(string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sick {
		return errNoAnswer
	}
	return nil
}

// describe is the table that says what the spec does.
func describe(t *testing.T, w *world) *table.Table {
	t.Helper()
	org := &routerpb.Organisation{Id: "acme", Epoch: 1, Version: 1, Young: true, ColdPercent: cold}
	pb := &routerpb.Table{
		Ref: &routerpb.TableRef{ClusterId: "c", Epoch: 1, Revision: 1}, Organisations: []*routerpb.Organisation{org},
		Clusters: []*routerpb.Cluster{{
			Id: "a", Region: w.spec.Regions[0].Name, Kind: "endpoints", Models: []string{"small"}, HealthCap: 1,
			Endpoints: []*routerpb.Endpoint{{Id: "a-0", Url: "http://127.0.0.1:9101", Class: "h100"}},
		}},
		Models: []*routerpb.Model{{Id: "small", OutputWeight: 6}},
	}
	for i, r := range w.spec.Regions {
		region := &routerpb.Region{Id: r.Name, Zone: "us"}
		for range r.Routers {
			region.PeerUrls = append(region.PeerUrls, "https://router:8300")
		}
		pb.Regions = append(pb.Regions, region)
		org.Shares = append(org.Shares, &routerpb.Share{Region: r.Name, Parts: uint32(w.parts[i].Parts)})
	}
	for i, l := range w.limits {
		q := &routerpb.Quota{
			Id: l.ID, Organisation: "acme", Kind: string(l.Kind), Limit: l.Amount, PeriodMs: l.PeriodMs, Burst: l.Burst, Degraded: w.spec.Fault.policy(),
		}
		if i > orgTokens {
			q.Tenant = w.spec.Tenants[(i-2)/2].Name
		}
		pb.Quotas = append(pb.Quotas, q)
	}
	for _, tenant := range w.spec.Tenants {
		pb.Tenants = append(pb.Tenants, &routerpb.Tenant{Id: tenant.Name, Tier: "top", Organisation: "acme"})
	}
	tab, err := table.Build(pb)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// really plays the spec with the admitters of twenty routers, whose requests wait in goroutines.
func really(t *testing.T, s Spec) (result Result) {
	synctest.Test(t, func(t *testing.T) {
		<-time.After(time.Until(time.Unix(0, start)))
		w := newWorld(&s)
		tab := describe(t, w)
		lending := ratelimit.NewLending(nil)
		ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
		var mu sync.Mutex // guards the world
		var owners, requests sync.WaitGroup
		var routers []*admit.Admitter
		var stores []*distant
		for i := range w.routers {
			store := &distant{Lending: lending, w: w, router: i, count: func(calls int) {
				mu.Lock()
				defer mu.Unlock()
				w.result.Trips++
				w.result.Messages += int64(calls)
			}}
			region := fleet.RegionID(s.Regions[w.routers[i].region].Name)
			a, err := admit.New(admit.Options{Stores: admit.Own(store), Region: region, Rand: func() float64 { return 0 }})
			if err != nil {
				t.Fatal(err)
			}
			a.Applied(tab)
			owners.Go(func() { _ = a.Run(ctx) })
			routers, stores = append(routers, a), append(stores, store)
		}
		for _, st := range streams(&s) {
			requests.Go(func() {
				for now := start; ; {
					r := st.next(now)
					if now = r.at; now >= start+s.Time.Nanoseconds() {
						return
					}
					<-time.After(time.Until(time.Unix(0, now)))
					requests.Go(func() {
						tenant, _ := tab.Tenant(fleet.TenantID(s.Tenants[r.tenant].Name))
						taken, _ := routers[r.router].Take(ctx, tab, admit.Request{Tenant: tenant, Input: r.costs[orgTokens]})
						if taken != nil {
							taken.Settle(1, r.costs[orgTokens], 0)
						}
						mu.Lock()
						defer mu.Unlock()
						w.now = time.Now().UnixNano()
						w.asked[w.routers[r.router].region] += float64(r.costs[orgTokens])
						w.conclude(r, taken != nil)
					})
				}
			})
		}
		requests.Wait()
		stop()
		owners.Wait()
		for _, store := range stores {
			store.probes.Wait()
		}
		result = w.finish()
	})
	return result
}

// TestRoutersThatAreSimulatedAgreeWithAdmitters plays the same requests through the real admitters, and holds what
// is written here anew of them to what they do.
func TestRoutersThatAreSimulatedAgreeWithAdmitters(t *testing.T) {
	for name, c := range map[string]struct {
		demand float64
		fault  Fault
	}{
		"half the limit":         {0.5, Fault{}},
		"three times the limit":  {3, Fault{}},
		"the store goes, share":  {2, Fault{From: 4 * time.Second, To: 6 * time.Second}},
		"the store goes, closed": {2, Fault{From: 4 * time.Second, To: 6 * time.Second, Policy: Closed}},
		"two regions are cut":    {2, Fault{From: 3500 * time.Millisecond, To: 6500 * time.Millisecond, Cut: []int{3, 4}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := small(1)
			s.Time = 7 * time.Second
			s.Demand, s.Fault = c.demand, c.fault
			simulated, actual := play(t, Leases, s), really(t, s)
			t.Logf("simulated: excess %+.3f, used %.3f, late %.4f, %.1f decisions per round trip, at most %v", simulated.Excess, simulated.Used, simulated.Late, simulated.PerTrip(), simulated.WaitedMost)
			t.Logf("really:    excess %+.3f, used %.3f, late %.4f, %.1f decisions per round trip, at most %v", actual.Excess, actual.Used, actual.Late, actual.PerTrip(), actual.WaitedMost)
			if math.Abs(simulated.Used-actual.Used) > 0.1 || math.Abs(simulated.Late-actual.Late) > 0.03 {
				t.Error("they use the limit, or wait, differently")
			}
			if ratio := simulated.PerTrip() / actual.PerTrip(); ratio < 0.7 || ratio > 1.4 {
				t.Error("they make other round trips")
			}
			if bound := (overshoot/100.0 + silentAfter.Seconds()/s.Burst.Seconds()) * map[bool]float64{true: 1}[c.fault.To > 0]; actual.Excess > bound {
				t.Errorf("excess %.3f bursts, at most %.3f may be", actual.Excess, bound)
			}
			longest := 50 * time.Millisecond
			if c.fault.Policy == Closed { // the first of a path waits for a store that is far away
				for _, r := range s.Regions {
					longest = max(longest, 3*r.RoundTrip/2)
				}
			}
			if actual.WaitedMost > longest {
				t.Errorf("a request waited %v", actual.WaitedMost)
			}
		})
	}
}
