package plan

import (
	"math"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/signal"
	"anabranch/failover"
)

// hear puts one router's report, aged.
func (b *bench) hear(router, region string, age time.Duration, requests uint64, clusters ...*routerpb.ClusterSignal) {
	b.signals.Put(signal.Observation{
		Node: "n1", Hello: &routerpb.Hello{RouterId: router, Region: region}, Connected: true, Received: b.now.Add(-age),
		Report: &routerpb.Report{AtUnixMs: b.now.Add(-age).UnixMilli(), WindowMs: 1000, Requests: requests, Clusters: clusters},
	})
}

func TestReportsBecomeEvidence(t *testing.T) {
	b := newBench(t)
	b.write("TrafficPolicy", "p", "ttftObjectiveMs: 700")
	b.cluster("eu-a", "eu", 0, "drained: true")
	b.hear("r-us", "us", time.Second, 50, &routerpb.ClusterSignal{
		Cluster: "us-a", Model: "m", Scraped: true, EndpointsTotal: 4, EndpointsReady: 3, Saturation: 0.4,
		TtftP95Ms: 250, Requests: 50, Failures: 2, CapacityWork: 1234,
	})
	b.hear("r-eu", "eu", 2*time.Second, 9, &routerpb.ClusterSignal{
		Cluster: "us-a", Model: "m", AgeMs: -1, Requests: 5, Ejected: true, EjectReason: "refused",
	})
	got := Evidence(b.written, b.signals.Snapshot(b.now))
	if len(got) != 6 {
		t.Fatalf("evidence of %d clusters, want 6", len(got))
	}
	us := got["us-a"]
	if us.Region != "us" || us.Capacity != 5000 || us.Drained || us.Objective != 700*time.Millisecond || us.Quiet || len(us.Sights) != 2 {
		t.Errorf("got %+v", us)
	}
	eu, own := us.Sights[0], us.Sights[1]
	wantOwn := failover.Sight{
		Router: "r-us", Region: "us", Own: true, Age: time.Second, Scraped: true, Total: 4, Ready: 3, Saturation: 0.4,
		TTFTP95: 250 * time.Millisecond, Requests: 50, Failures: 2,
	}
	if own != wantOwn {
		t.Errorf("own router: %+v", own)
	}
	if eu.Own || eu.Scraped || !eu.Ejected || eu.Reason != "refused" || eu.Age != 2*time.Second || eu.Requests != 5 {
		t.Errorf("remote router: %+v", eu)
	}
	if x := got["eu-a"]; !x.Drained || !x.Quiet || len(x.Sights) != 0 || x.Capacity != 5000 {
		t.Errorf("a cluster that nobody speaks of: %+v", x)
	}
}

func TestModelsOfOneClusterMakeOneSight(t *testing.T) {
	tests := map[string]struct {
		a, b    *routerpb.ClusterSignal
		ejected bool
		ready   int
	}{
		"one model ejected": {
			&routerpb.ClusterSignal{Ejected: true, EndpointsReady: 4}, &routerpb.ClusterSignal{EndpointsReady: 4}, false, 4,
		},
		"both ejected": {
			&routerpb.ClusterSignal{Ejected: true}, &routerpb.ClusterSignal{Ejected: true}, true, 0,
		},
		"one model without an endpoint": {
			&routerpb.ClusterSignal{EndpointsReady: 0}, &routerpb.ClusterSignal{EndpointsReady: 2}, false, 2,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			for i, c := range []*routerpb.ClusterSignal{tt.a, tt.b} {
				c.Cluster, c.Model, c.Scraped, c.EndpointsTotal = "us-a", []string{"m", "n"}[i], true, 4
				c.Requests, c.Failures, c.Saturation, c.TtftP95Ms = 10, 1, float64(i), float64(100*i)
			}
			b.hear("r-us", "us", 0, 20, tt.a, tt.b)
			sights := Evidence(b.written, b.signals.Snapshot(b.now))["us-a"].Sights
			if len(sights) != 1 {
				t.Fatalf("%d sights", len(sights))
			}
			s := sights[0]
			if s.Ejected != tt.ejected || s.Ready != tt.ready || s.Requests != 20 || s.Failures != 2 ||
				s.Saturation != 1 || s.TTFTP95 != 100*time.Millisecond {
				t.Errorf("got %+v", s)
			}
		})
	}
}

func TestNumbersThatAreNoneDoNotPoisonEvidence(t *testing.T) {
	b := newBench(t)
	b.hear("r-us", "us", 0, 1, &routerpb.ClusterSignal{
		Cluster: "us-a", Model: "m", Scraped: true, Saturation: math.NaN(), TtftP95Ms: math.Inf(1), CapacityWork: -1,
	}, &routerpb.ClusterSignal{Cluster: "us-b", Model: "m", Scraped: true, TtftP95Ms: 1e300})
	got := Evidence(b.written, b.signals.Snapshot(b.now))
	if s := got["us-a"].Sights[0]; s.Saturation != 0 || s.TTFTP95 != 0 {
		t.Errorf("got %+v", got["us-a"])
	}
	if s := got["us-b"].Sights[0]; s.TTFTP95 != time.Hour {
		t.Errorf("got %+v", s)
	}
}

func TestAClusterIsQuietWhenOnlyProbesArrive(t *testing.T) {
	tests := map[string]struct {
		toCluster, all uint64
		quiet          bool
	}{
		"nothing":              {0, 0, true},
		"a probe by each":      {2, 2, true},
		"a little of a little": {3, 50, false},
		"one in a hundred":     {10, 1000, true},
		"more than that":       {11, 1000, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.hear("r-us", "us", 0, tt.all, &routerpb.ClusterSignal{Cluster: "us-a", Model: "m", Requests: tt.toCluster})
			b.hear("r-eu", "eu", 0, 0)
			if got := Evidence(b.written, b.signals.Snapshot(b.now))["us-a"].Quiet; got != tt.quiet {
				t.Errorf("quiet is %v", got)
			}
		})
	}
}

func TestCoverage(t *testing.T) {
	b := newBench(t)
	b.plan()
	at := func() float64 { return Covered(b.written, b.signals.Snapshot(b.now), b.table) }
	if got := Covered(b.written, signal.Snapshot{}, nil); got != 1 {
		t.Errorf("without a table %v is covered", got)
	}
	if got := at(); got != 0 {
		t.Errorf("with no report %v is covered", got)
	}
	b.hear("r-us", "us", 0, 0)
	b.hear("r-eu", "eu", 0, 0)
	near(t, "two regions of three", at(), 2.0/3, 0.01)
	b.hear("r-ap", "ap", 6*time.Second, 0)
	near(t, "with a stale report of the third", at(), 2.0/3, 0.01)
	b.now = b.now.Add(time.Millisecond)
	b.hear("r-ap", "ap", 0, 0)
	near(t, "with a fresh one", at(), 1, 0)
	// What has no weight need not be heard.
	b.state("ap-a", failover.Evacuated, 0)
	b.state("ap-b", failover.Evacuated, 0)
	b.plan()
	s := signal.New(func() time.Time { return b.now })
	b.signals = s
	b.hear("r-us", "us", 0, 0)
	b.hear("r-eu", "eu", 0, 0)
	near(t, "without the region that is evacuated", at(), 1, 0)
}
