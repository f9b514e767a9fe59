package subscribe

import (
	"fmt"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/dataplane/subscribe/lastgood"
	"anabranch/dataplane/table"
)

// A table as large as one is expected to be.
const (
	manyClusters = 1_000
	perCluster   = 10
	manyTenants  = 5_000
	manyModels   = 20
	manyRegions  = 10
	startWithin  = 2 * time.Second
	slackOfTests = 3
)

func large(revision uint64) *routerpb.Table {
	t := &routerpb.Table{Ref: &routerpb.TableRef{ClusterId: "c-1", Epoch: 1, Revision: revision}}
	for i := range manyRegions {
		t.Regions = append(t.Regions, &routerpb.Region{
			Id: fmt.Sprintf("region-%d", i), Zone: "zone", PeerUrls: []string{fmt.Sprintf("https://router-%d.example.com:8300", i)},
		})
	}
	for i := range manyModels {
		t.Models = append(t.Models, &routerpb.Model{
			Id: fmt.Sprintf("model-%d", i), OutputWeight: 6, Adapters: []string{fmt.Sprintf("adapter-%d", i)},
		})
	}
	for i := range manyClusters {
		c := &routerpb.Cluster{
			Id: fmt.Sprintf("cluster-%d", i), Region: fmt.Sprintf("region-%d", i%manyRegions), Kind: "endpoints",
			Health: "HEALTHY", HealthCap: 1, Models: []string{fmt.Sprintf("model-%d", i%manyModels), fmt.Sprintf("model-%d", (i+7)%manyModels)},
		}
		for j := range perCluster {
			c.Endpoints = append(c.Endpoints, &routerpb.Endpoint{
				Id: fmt.Sprintf("e-%d-%d", i, j), Url: fmt.Sprintf("http://10.%d.%d.%d:8000", i/250, i%250, j+1), Class: "h100-80gb",
			})
		}
		t.Clusters = append(t.Clusters, c)
	}
	for i := range manyTenants {
		id := fmt.Sprintf("tenant-%d", i)
		hash := make([]byte, 32)
		hash[0], hash[1] = byte(i), byte(i>>8)
		t.Tenants = append(t.Tenants, &routerpb.Tenant{Id: id, Tier: "standard", Priority: 50, KeySha256: [][]byte{hash}})
		t.Quotas = append(t.Quotas, &routerpb.Quota{
			Id: "q-" + id, Tenant: id, Kind: "requests", Limit: 1000, PeriodMs: 60_000, Burst: 1000, Degraded: "share", Share: 0.5,
		})
	}
	for i, m := range t.Models {
		for _, r := range t.Regions {
			w := &routerpb.Weights{Model: m.Id, Class: "interactive", Source: r.Id}
			for j, c := range t.Clusters {
				if j%manyModels == i || (j+7)%manyModels == i {
					w.Clusters = append(w.Clusters, &routerpb.ClusterWeight{Cluster: c.Id, Weight: 0.01, Reason: "capacity"})
				}
			}
			t.Weights = append(t.Weights, w)
		}
	}
	return t
}

// kept is a folder with ten large tables.
func kept(t testing.TB) string {
	t.Helper()
	disk := t.TempDir()
	dir, err := lastgood.Open(disk)
	if err != nil {
		t.Fatal(err)
	}
	for revision := range uint64(lastgood.Keep) {
		if err := dir.Save(large(revision+1), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	return disk
}

func restoreFrom(t testing.TB, disk string) time.Duration {
	t.Helper()
	began := time.Now()
	dir, err := lastgood.Open(disk)
	if err != nil {
		t.Fatal(err)
	}
	holder := &table.Holder{}
	c, err := New(Options{
		Router: "r", Region: "region-0", Holder: holder, LastGood: dir,
		Report: func(time.Time) *routerpb.Report { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Restore(); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	if got := holder.Load(); got.Ref.Revision != lastgood.Keep || len(got.Clusters) != manyClusters {
		t.Fatalf("restored %v with %d clusters", got.Ref, len(got.Clusters))
	}
	return took
}

func TestALargeTableIsRestoredWithinMoments(t *testing.T) {
	took := restoreFrom(t, kept(t))
	if took > slackOfTests*startWithin {
		t.Errorf("took %s, wanted %s at most", took, startWithin)
	}
	t.Logf("restored %d clusters, %d endpoints and %d tenants in %s", manyClusters, manyClusters*perCluster, manyTenants, took)
}

func BenchmarkRestore(b *testing.B) {
	disk := kept(b)
	b.ReportAllocs()
	for b.Loop() {
		restoreFrom(b, disk)
	}
}
