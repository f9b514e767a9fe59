package plan

import (
	"math"
	"slices"
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
	b.cluster("ap-a", "ap", 0, "pin: {percent: 40, until: 2026-12-01T04:00:00Z}")
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
	us := got[at("us-a")]
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
	if x, want := got[at("ap-a")], (failover.Pin{Until: time.Date(2026, 12, 1, 4, 0, 0, 0, time.UTC), Share: 0.4}); x.Pin != want || us.Pin.Holds(b.now) {
		t.Errorf("pinned: %+v; the other: %+v", x.Pin, us.Pin)
	}
	if x := got[at("eu-a")]; !x.Drained || !x.Quiet || len(x.Sights) != 0 || x.Capacity != 5000 {
		t.Errorf("a cluster that nobody speaks of: %+v", x)
	}
}

// Adapters are missing where a router of the region says so, now, and an operator has named them.
func TestMissingAdaptersAreToldByThoseWhoStandThere(t *testing.T) {
	b := newBench(t)
	b.write("Model", "m", "{adapters: [legal, support, a-lora]}")
	say := func(router, region string, age time.Duration, missing ...string) {
		b.hear(router, region, age, 0, &routerpb.ClusterSignal{Cluster: "us-a", Model: "m", Scraped: true, EndpointsTotal: 1, EndpointsReady: 1, MissingAdapters: missing})
	}
	say("r-us", "us", 0, "support", "made-up")
	say("r-us-2", "us", time.Second, "a-lora", "support")
	say("r-us-3", "us", 20*time.Second, "legal") // of long ago
	say("r-eu", "eu", 0, "legal")                // from elsewhere
	got := Evidence(b.written, b.signals.Snapshot(b.now))
	if want := []string{"a-lora", "support"}; !slices.Equal(got[at("us-a")].MissingAdapters, want) || got[at("eu-a")].MissingAdapters != nil {
		t.Errorf("%v is missing, want %v; elsewhere %v", got[at("us-a")].MissingAdapters, want, got[at("eu-a")].MissingAdapters)
	}
}

// Each model is judged by what is said of it, and by nothing else.
func TestModelsOfOneClusterAreJudgedApart(t *testing.T) {
	b := newBench(t)
	b.write("Model", "n", "{}")
	b.write("TrafficPolicy", "p", "{models: [n], ttftObjectiveMs: 900}")
	b.write("Cluster", "us-a", "{region: us, models: [m, n], endpoints: [{id: e, url: http://e}], gpus: [{class: h100, count: 4}]}")
	b.hear("r-us", "us", 0, 300,
		&routerpb.ClusterSignal{Cluster: "us-a", Model: "m", Scraped: true, EndpointsTotal: 4, EndpointsReady: 4, Requests: 100, Failures: 1, TtftP95Ms: 100},
		&routerpb.ClusterSignal{Cluster: "us-a", Model: "n", Scraped: true, EndpointsTotal: 4, EndpointsReady: 2, Requests: 200, Failures: 90, Ejected: true, EjectReason: "hangs"},
		&routerpb.ClusterSignal{Cluster: "us-a", Model: "gone", Requests: 7},
		&routerpb.ClusterSignal{Cluster: "eu-a", Model: "m", Requests: 50},
	)
	got := Evidence(b.written, b.signals.Snapshot(b.now))
	m, n := got[at("us-a")], got[failover.Place{Cluster: "us-a", Model: "n"}]
	if len(m.Sights) != 1 || len(n.Sights) != 1 {
		t.Fatalf("sights %+v and %+v", m.Sights, n.Sights)
	}
	if s := m.Sights[0]; s.Ejected || s.Ready != 4 || s.Requests != 100 || s.Failures != 1 || s.TTFTP95 != 100*time.Millisecond {
		t.Errorf("of m: %+v", s)
	}
	if s := n.Sights[0]; !s.Ejected || s.Reason != "hangs" || s.Ready != 2 || s.Requests != 200 || s.Failures != 90 {
		t.Errorf("of n: %+v", s)
	}
	if m.Objective == n.Objective || n.Objective != 900*time.Millisecond {
		t.Errorf("objectives %s and %s", m.Objective, n.Objective)
	}
	if m.Capacity != n.Capacity || m.Capacity+n.Capacity != 5000 {
		t.Errorf("capacities %v and %v, which are not those of the cluster", m.Capacity, n.Capacity)
	}
	if _, known := got[failover.Place{Cluster: "us-a", Model: "gone"}]; known {
		t.Error("a model that is not served is judged")
	}
}

func TestNumbersThatAreNoneDoNotPoisonEvidence(t *testing.T) {
	b := newBench(t)
	b.hear("r-us", "us", 0, 1, &routerpb.ClusterSignal{
		Cluster: "us-a", Model: "m", Scraped: true, Saturation: math.NaN(), TtftP95Ms: math.Inf(1), CapacityWork: -1,
	}, &routerpb.ClusterSignal{Cluster: "us-b", Model: "m", Scraped: true, TtftP95Ms: 1e300})
	got := Evidence(b.written, b.signals.Snapshot(b.now))
	if s := got[at("us-a")].Sights[0]; s.Saturation != 0 || s.TTFTP95 != 0 {
		t.Errorf("got %+v", got[at("us-a")])
	}
	if s := got[at("us-b")].Sights[0]; s.TTFTP95 != time.Hour {
		t.Errorf("got %+v", s)
	}
}

func TestAClusterIsQuietWhenOnlyProbesArrive(t *testing.T) {
	tests := map[string]struct {
		toCluster, all uint64
		policy         string
		quiet          bool
	}{
		"nothing":              {0, 0, "", true},
		"a probe by each":      {2, 2, "", true},
		"a little of a little": {3, 50, "", false},
		"one in a hundred":     {10, 1000, "", true},
		"more than that":       {11, 1000, "", false},
		"as policy has it":     {100, 1000, "models: [m]\n  failover: {quietShare: 0.1}", true},
		"more than it has":     {101, 1000, "models: [m]\n  failover: {quietShare: 0.1}", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if tt.policy != "" {
				b.write("TrafficPolicy", "p", tt.policy)
			}
			b.hear("r-us", "us", 0, tt.all,
				&routerpb.ClusterSignal{Cluster: "us-a", Model: "m", Requests: tt.toCluster},
				&routerpb.ClusterSignal{Cluster: "eu-a", Model: "m", Requests: tt.all - tt.toCluster},
				&routerpb.ClusterSignal{Cluster: "us-a", Model: "another", Requests: 5000}) // is none of its business
			b.hear("r-eu", "eu", 0, 0)
			if got := Evidence(b.written, b.signals.Snapshot(b.now))[at("us-a")].Quiet; got != tt.quiet {
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

// What stands before a cluster is what its region's routers are like, as far as they were heard of lately.
func TestEvidenceTellsOfClocksAndBuilds(t *testing.T) {
	b := newBench(t)
	say := func(router, region, version string, age, behind time.Duration) {
		sent := b.now.Add(-age)
		report := &routerpb.Report{AtUnixMs: sent.UnixMilli(), WindowMs: 1000}
		if behind >= 0 {
			report.ClockUnixMs = sent.Add(-behind).UnixMilli()
		}
		b.signals.Put(signal.Observation{
			Node: "n1", Hello: &routerpb.Hello{RouterId: router, Region: region, Version: version}, Connected: true, Received: sent, Report: report,
		})
	}
	say("r1", "us", "v1", time.Second, 700*time.Millisecond)
	say("r2", "us", "v2", time.Second, 20*time.Millisecond)
	say("r3", "us", "v3", 9*time.Second, time.Hour) // is no witness any more
	say("r4", "eu", "v1", time.Second, -1)          // an older one, that does not tell its clock
	got := Evidence(b.written, b.signals.Snapshot(b.now))
	if us := got[at("us-a")]; us.Skew != 700*time.Millisecond || us.Versions != 2 {
		t.Errorf("us: clocks off by %s, %d builds", us.Skew, us.Versions)
	}
	if eu := got[at("eu-a")]; eu.Skew != 0 || eu.Versions != 1 {
		t.Errorf("eu: clocks off by %s, %d builds", eu.Skew, eu.Versions)
	}
	if ap := got[at("ap-a")]; ap.Skew != 0 || ap.Versions != 0 {
		t.Errorf("ap, of which nothing is heard: clocks off by %s, %d builds", ap.Skew, ap.Versions)
	}
}
