package signal

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*(1+math.Abs(want)) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func ask(model string, requests, work float64) func(*routerpb.Report) {
	return func(r *routerpb.Report) {
		r.Demand = append(r.Demand, &routerpb.DemandSignal{Model: model, Class: "interactive", RequestsPerS: requests, WorkPerS: work})
	}
}

func TestDemandIsSmoothed(t *testing.T) {
	c := newClock()
	c.report("us", ask("m", 10, 1000))
	near(t, "the first report", c.look().Demand("m", "interactive", "us").WorkPerS, 1000)
	c.pass(15 * time.Second)
	c.report("us", ask("m", 20, 2000))
	if got := c.look().Demand("m", "interactive", "us").WorkPerS; got < 1000+1000*(1-1/math.E) || got > 1700 {
		t.Errorf("a step after 15 s is %v", got)
	}
	if got := c.look().Demand("m", "interactive", "eu"); got != (Demand{}) {
		t.Errorf("a region that asked for nothing has %v", got)
	}
}

// How often reports come does not change what the average says of steady demand over a time. What is a trend
// and what is noise shows sooner to those who hear more often.
func TestSmoothingDoesNotDependOnTheRateOfReports(t *testing.T) {
	once, often := newClock(), newClock()
	for _, c := range []*clock{once, often} {
		c.report("us", ask("m", 10, 1000))
	}
	for range 4 {
		once.pass(10 * time.Second)
		once.report("us", ask("m", 30, 3000))
	}
	for range 160 {
		often.pass(250 * time.Millisecond)
		often.report("us", ask("m", 30, 3000))
	}
	a, b := once.routers["r-us"].demand[stream{"m", "interactive"}], often.routers["r-us"].demand[stream{"m", "interactive"}]
	near(t, "mean", a.work.mean, b.work.mean)
	near(t, "mean of means", a.work.lag, b.work.lag)
	near(t, "requests", a.requests.mean, b.requests.mean)
	if x, y := a.work.value(), b.work.value(); math.Abs(x-y) > 0.1*y {
		t.Errorf("work is %v and %v", x, y)
	}
}

func TestDemandThatEndsFadesAndIsForgotten(t *testing.T) {
	c := newClock()
	c.report("us", ask("m", 10, 1000))
	for range 600 {
		c.pass(time.Second)
		c.report("us", nil)
	}
	if got := c.look().Demand("m", "interactive", "us"); got != (Demand{}) {
		t.Errorf("ten minutes later it is %v", got)
	}
}

func TestDemandOfARegionIsThatOfItsLiveRouters(t *testing.T) {
	c := newClock()
	put := func(router string) {
		c.Put(Observation{
			Node: "n1", Hello: &routerpb.Hello{RouterId: router, Region: "us"}, Received: c.now,
			Report: &routerpb.Report{AtUnixMs: c.now.UnixMilli(), Demand: []*routerpb.DemandSignal{{Model: "m", Class: "interactive", WorkPerS: 100}}},
		})
	}
	put("r1")
	put("r2")
	near(t, "two routers", c.look().Demand("m", "interactive", "us").WorkPerS, 200)
	c.pass(20 * time.Second)
	put("r1")
	near(t, "one stale", c.look().Demand("m", "interactive", "us").WorkPerS, 200)
	c.pass(20 * time.Second)
	put("r1")
	near(t, "one absent", c.look().Demand("m", "interactive", "us").WorkPerS, 100)
}

func TestOneBadNumberDoesNotPoisonSums(t *testing.T) {
	c := newClock()
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -7} {
		c.pass(time.Second)
		c.report("us", func(r *routerpb.Report) {
			ask("m", bad, bad)(r)
			r.Clusters = []*routerpb.ClusterSignal{{
				Cluster: "c", Model: "m", Scraped: true, Waiting: bad, Running: bad, KvUsage: bad, Saturation: bad,
				CapacityWork: bad, LoadWork: bad, TtftP50Ms: bad, TtftP95Ms: bad,
			}}
		})
	}
	s := c.look()
	if got := s.Demand("m", "interactive", "us"); got != (Demand{}) {
		t.Errorf("demand is %v", got)
	}
	got := s.Cluster("c", "m")
	for _, v := range []float64{
		got.Waiting, got.Running, got.KVUsage, got.Saturation, got.CapacityWork, got.LoadWork, got.TTFTP50Ms, got.TTFTP95Ms,
	} {
		if v != 0 {
			t.Fatalf("got %+v", got)
		}
	}
}

func went(cluster string, requests, failures uint64, scraped bool) func(*routerpb.Report) {
	return func(r *routerpb.Report) {
		r.Clusters = append(r.Clusters, &routerpb.ClusterSignal{
			Cluster: cluster, Model: "m", Requests: requests, Failures: failures, Scraped: scraped, AgeMs: 0,
		})
	}
}

func all(changes ...func(*routerpb.Report)) func(*routerpb.Report) {
	return func(r *routerpb.Report) {
		for _, change := range changes {
			change(r)
		}
	}
}

func TestSharesAreOfARegionsOwnRequests(t *testing.T) {
	c := newClock()
	for range 5 {
		// us keeps 60 of its 100 and sends 40 to eu, which has 20 of its own.
		c.report("us", all(ask("m", 100, 1), went("us-a", 45, 0, true), went("us-b", 15, 0, true), went("eu-a", 40, 0, false)))
		c.report("eu", all(ask("m", 20, 1), went("eu-a", 60, 0, true)))
		c.pass(time.Second)
	}
	s := c.look()
	near(t, "us to us-a", s.Share("m", "us", "us-a"), 0.45)
	near(t, "us to us-b", s.Share("m", "us", "us-b"), 0.15)
	near(t, "us to eu-a", s.Share("m", "us", "eu-a"), 0.40)
	near(t, "eu to eu-a", s.Share("m", "eu", "eu-a"), 1)
	near(t, "eu to us-a", s.Share("m", "eu", "us-a"), 0)
	near(t, "another model", s.Share("n", "eu", "eu-a"), 0)
}

func TestTransitIsNotARegionsOwnTraffic(t *testing.T) {
	c := newClock()
	// eu is asked for 20, sends 10 of them to us, and takes in 90 from elsewhere.
	c.report("us", all(ask("m", 0, 0), went("us-a", 10, 0, true)))
	c.report("eu", all(ask("m", 20, 1), went("eu-a", 100, 0, true), went("us-a", 10, 0, false)))
	s := c.look()
	near(t, "eu to eu-a", s.Share("m", "eu", "eu-a"), 0.5)
	near(t, "eu to us-a", s.Share("m", "eu", "us-a"), 0.5)
	near(t, "us, which was asked for nothing", s.Share("m", "us", "us-a"), 0)
}

func TestSharesForgetAfterTenSeconds(t *testing.T) {
	c := newClock()
	c.report("us", all(ask("m", 10, 1), went("us-a", 10, 0, true)))
	for range 10 {
		c.pass(time.Second)
		c.report("us", all(ask("m", 10, 1), went("us-a", 0, 0, true), went("us-b", 10, 0, true)))
	}
	near(t, "where requests no longer go", c.look().Share("m", "us", "us-a"), 0)
}

func TestAClusterAsItsOwnRegionSeesIt(t *testing.T) {
	c := newClock()
	for range 4 {
		c.pass(time.Second)
		c.report("us", func(r *routerpb.Report) {
			r.Clusters = []*routerpb.ClusterSignal{{
				Cluster: "us-a", Model: "m", Scraped: true, AgeMs: 300, EndpointsTotal: 4, EndpointsReady: 3, Waiting: 2, Running: 9,
				KvUsage: 0.5, Saturation: 0.7, CapacityWork: 1000, LoadWork: 400, Requests: 20, Failures: 1, TtftP50Ms: 90, TtftP95Ms: 200,
			}}
		})
		c.report("eu", func(r *routerpb.Report) {
			r.Clusters = []*routerpb.ClusterSignal{{
				Cluster: "us-a", Model: "m", AgeMs: -1, Requests: 7, Failures: 7, TtftP95Ms: 900, Ejected: true, EjectReason: "refused",
			}}
		})
	}
	l := c.look().Cluster("us-a", "m")
	if l.Freshness != Fresh || l.Age != 300*time.Millisecond || l.Total != 4 || l.Ready != 3 {
		t.Errorf("got %+v", l)
	}
	near(t, "requests, not counted twice on the way", l.RequestsPerS, 20)
	near(t, "failures", l.FailuresPerS, 1)
	near(t, "load", l.LoadWork, 400)
	near(t, "p95 without the way from afar", l.TTFTP95Ms, 200)
	if len(l.Observers) != 2 || !l.Observers[0].Ejected || l.Observers[0].Reason != "refused" || l.Observers[1].Ejected {
		t.Errorf("observers %+v", l.Observers)
	}
	c.pass(5 * time.Second)
	c.report("eu", func(r *routerpb.Report) {
		r.Clusters = []*routerpb.ClusterSignal{{Cluster: "us-a", Model: "m", AgeMs: -1, Requests: 3}}
	})
	if l := c.look().Cluster("us-a", "m"); l.Freshness != Stale {
		t.Errorf("after five seconds it is %s", l.Freshness)
	}
	c.pass(28 * time.Second)
	c.report("eu", func(r *routerpb.Report) {
		r.Clusters = []*routerpb.ClusterSignal{{Cluster: "us-a", Model: "m", AgeMs: -1, Requests: 3}}
	})
	l = c.look().Cluster("us-a", "m")
	if l.Freshness != Absent || l.Age != -1 || l.RequestsPerS == 0 {
		t.Errorf("with its own router gone, what others send is all there is: %+v", l)
	}
	near(t, "the capacity last measured", l.CapacityWork, 1000)
}

func TestAllModelsOfAClusterTogether(t *testing.T) {
	c := newClock()
	c.report("us", func(r *routerpb.Report) {
		r.Clusters = []*routerpb.ClusterSignal{
			{Cluster: "us-a", Model: "m", Scraped: true, Saturation: 0.2, CapacityWork: 500, LoadWork: 10, Requests: 5},
			{Cluster: "us-a", Model: "n", Scraped: true, Saturation: 0.9, CapacityWork: 800, LoadWork: 20, Requests: 7, Ejected: true, EjectReason: "x"},
		}
	})
	l := c.look().Cluster("us-a", "")
	if l.Saturation != 0.9 || l.CapacityWork != 800 || l.LoadWork != 30 || l.RequestsPerS != 12 {
		t.Errorf("got %+v", l)
	}
	if len(l.Observers) != 1 || !l.Observers[0].Ejected {
		t.Errorf("observers %+v", l.Observers)
	}
	if got := c.look().Cluster("us-a", "m"); got.Saturation != 0.2 || got.CapacityWork != 500 {
		t.Errorf("one model is %+v", got)
	}
	if got := c.look().Cluster("nowhere", ""); got.Freshness != Absent || got.Age != -1 {
		t.Errorf("a cluster nobody speaks of is %+v", got)
	}
	if got := c.look().Clusters(); len(got) != 1 || got[0] != fleet.ClusterID("us-a") {
		t.Errorf("clusters %v", got)
	}
}

func TestCapacityOutlivesItsRouter(t *testing.T) {
	c := newClock()
	c.report("us", func(r *routerpb.Report) {
		r.Clusters = []*routerpb.ClusterSignal{{Cluster: "c", Model: "m", Scraped: true, CapacityWork: 700}}
	})
	c.pass(time.Hour)
	near(t, "an hour later", c.look().Capacity("c", "m"), 700)
	c.pass(keepBelief)
	near(t, "two days later", c.look().Capacity("c", "m"), 0)
	c.report("us", func(r *routerpb.Report) {
		r.Clusters = []*routerpb.ClusterSignal{{Cluster: "c", Model: "m", CapacityWork: 900}}
	})
	near(t, "what was not measured by a scrape", c.look().Capacity("c", "m"), 0)
}

func TestARegionIsAllItsRouters(t *testing.T) {
	c := newClock()
	put := func(id string, ok bool, requests uint64) {
		c.Put(Observation{
			Node: "n1", Hello: &routerpb.Hello{RouterId: id, Region: "us"}, Received: c.now,
			Report: &routerpb.Report{AtUnixMs: c.now.UnixMilli(), WindowMs: 500, Requests: requests, Failures: 1, InFlight: 4, QuotaStoreOk: ok},
		})
	}
	put("r1", true, 10)
	c.pass(2 * time.Second)
	put("r2", false, 5)
	r := c.look().Region("us")
	if r.Freshness != Fresh || r.Age != 0 || r.InFlight != 8 || r.QuotaStoreOK {
		t.Errorf("got %+v", r)
	}
	near(t, "requests", r.RequestsPerS, 30)
	near(t, "failures", r.FailuresPerS, 4)
	if got := c.look().Region("eu"); got.Freshness != Absent || got.Age != -1 {
		t.Errorf("a region without routers is %+v", got)
	}
}

func TestWindowsThatCannotBeAreTakenForASecond(t *testing.T) {
	for _, ms := range []uint64{0, math.MaxUint64, 3_600_000} {
		c := newClock()
		c.report("us", func(r *routerpb.Report) { r.WindowMs, r.Requests = ms, 12 })
		near(t, "requests a second", c.look().Region("us").RequestsPerS, 12)
	}
}

// Shares of one region and model sum to 1 or to nothing, whatever is reported.
func TestSharesSumToOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newClock()
		clusters := []string{"us-a", "us-b", "eu-a"}
		for range rapid.IntRange(1, 30).Draw(t, "reports") {
			for _, region := range []string{"us", "eu"} {
				c.report(region, func(r *routerpb.Report) {
					ask("m", rapid.Float64Range(0, 100).Draw(t, "asked"), 1)(r)
					for _, cl := range clusters {
						n := uint64(rapid.IntRange(0, 50).Draw(t, "n"))
						went(cl, n, 0, cl[:2] == region)(r)
					}
				})
			}
			c.pass(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
		}
		s := c.look()
		for _, region := range []fleet.RegionID{"us", "eu"} {
			sum := 0.0
			for _, cl := range clusters {
				x := s.Share("m", region, fleet.ClusterID(cl))
				if x < 0 || x > 1 {
					t.Fatalf("share %v", x)
				}
				sum += x
			}
			if sum != 0 && math.Abs(sum-1) > 1e-9 {
				t.Fatalf("shares of %s sum to %v", region, sum)
			}
		}
	})
}
