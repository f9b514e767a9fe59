package signal

import (
	"fmt"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// largeFleet is 5,000 routers of 200 regions that have reported for ten seconds, each of its own cluster and of four others.
func largeFleet(tb testing.TB) (s *Store, now time.Time) {
	tb.Helper()
	const routers, regions = 5000, 200
	now = time.Unix(1_700_000_000, 0)
	s = New(func() time.Time { return now })
	for second := range 10 {
		now = now.Add(time.Second)
		for i := range routers {
			home := i % regions
			r := &routerpb.Report{AtUnixMs: now.UnixMilli(), Requests: 100, WindowMs: 1000, QuotaStoreOk: true}
			for k := range 5 {
				for _, model := range []string{"m0", "m1"} {
					r.Clusters = append(r.Clusters, &routerpb.ClusterSignal{
						Cluster: fmt.Sprintf("c-%03d", (home+8*k)%regions), Model: model, Scraped: k == 0, Requests: uint64(20 + (i+second)%5), InputTokens: 100, CapacityWork: 1000, LoadWork: 500,
					})
				}
			}
			for _, model := range []string{"m0", "m1"} {
				r.Demand = append(r.Demand, &routerpb.DemandSignal{Model: model, Class: "interactive", RequestsPerS: 50, WorkPerS: 2200})
			}
			s.Put(Observation{
				Node: "n1", Hello: &routerpb.Hello{RouterId: fmt.Sprintf("r-%04d", i), Region: fmt.Sprintf("region-%03d", home)}, Report: r, Received: now, Connected: true,
			})
		}
	}
	return s, now
}

// BenchmarkSnapshotOfAFleet is what one look at everything takes.
func BenchmarkSnapshotOfAFleet(b *testing.B) {
	s, now := largeFleet(b)
	b.ReportAllocs()
	for b.Loop() {
		s.Snapshot(now)
	}
}

// BenchmarkClusterOfAFleet is what one cluster comes to.
func BenchmarkClusterOfAFleet(b *testing.B) {
	s, now := largeFleet(b)
	snapshot := s.Snapshot(now)
	b.ReportAllocs()
	for b.Loop() {
		if l := snapshot.Cluster(fleet.ClusterID("c-007"), ""); l.Freshness == Absent {
			b.Fatal("nobody speaks of the cluster")
		}
	}
}
