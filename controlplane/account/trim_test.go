package account

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/costmodel"
)

// crowd is a minute in which many tenants used some clusters, the later the more.
func crowd(tenants, clusters int) body {
	b := body{closed: true, sums: costmodel.Rollup{}}
	for i := range clusters {
		b.bill(costmodel.Interval{Cluster: fleet.ClusterID(fmt.Sprintf("cluster-%04d", i)), Region: "r", Bill: costmodel.Priced{Cost: costmodel.Micros(1000 + i)}, Capacity: 1e9})
	}
	for i := range tenants {
		k := costmodel.Key{
			Tenant: fleet.TenantID(fmt.Sprintf("tenant-%05d", i)), Model: "m", Class: "chat",
			Cluster: fleet.ClusterID(fmt.Sprintf("cluster-%04d", i%clusters)), Region: "r", Source: "r",
		}
		b.sums.Add(k, costmodel.Sum{Usage: costmodel.Usage{Input: int64(i), Output: 3, Succeeded: 1}, Work: costmodel.Work(1000 * i), Cost: costmodel.Micros(i)})
	}
	return b
}

func TestTheLeastAreToldTogetherWhereThereIsNoRoom(t *testing.T) {
	for name, tt := range map[string]struct {
		tenants, clusters int
		whole             bool // nothing is put together
		clustersTold      bool
	}{
		"all fit":           {500, 5, true, true},
		"too many tenants":  {3000, 5, false, true},
		"too many clusters": {3000, 2000, false, false},
		"clusters and idle": {0, 2000, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := crowd(tt.tenants, tt.clusters)
			data := b.within(MaxMinute)
			if len(data) > MaxMinute {
				t.Fatalf("%d bytes", len(data))
			}
			got, err := decode(data)
			if err != nil {
				t.Fatal(err)
			}
			is, was := got.attributed().By(0)[costmodel.Key{}], b.attributed().By(0)[costmodel.Key{}]
			if is.Paid() != was.Paid() || is.Usage != was.Usage || is.Work != was.Work {
				t.Errorf("%+v became %+v", was, is)
			}
			if tt.whole != same(got, b) {
				t.Errorf("told whole: %v", same(got, b))
			}
			if _, gone := got.sums.By(costmodel.ByCluster)[costmodel.Key{Cluster: costmodel.Other}]; gone == tt.clustersTold && tt.tenants > 0 {
				t.Errorf("clusters are told apart: %v", !gone)
			}
			if !tt.whole && tt.clustersTold {
				largest := costmodel.Key{Tenant: fleet.TenantID(fmt.Sprintf("tenant-%05d", tt.tenants-1))}
				least := costmodel.Key{Tenant: "tenant-00001"}
				by := got.sums.By(costmodel.ByTenant)
				if by[largest].Work == 0 || by[least].Work != 0 || by[costmodel.Key{Tenant: costmodel.Other}].Work == 0 {
					t.Error("the least are not the ones that are put together")
				}
				if len(data) < MaxMinute*8/10 {
					t.Errorf("only %d of %d bytes are used", len(data), MaxMinute)
				}
			}
		})
	}
}

// However little room there is, sums stay what they are, and the same sums are the same bytes.
func TestTrimmingKeepsSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := anyBody.Draw(t, "body")
		for _, k := range b.sums.Keys() { // so that nothing saturates
			s := b.sums[k]
			for _, n := range numbers(&s) {
				*n %= 1 << 40
			}
			b.sums[k] = s
		}
		for i := range b.bills {
			b.bills[i].Bill.Cost, b.bills[i].Carbon, b.bills[i].Capacity = b.bills[i].Bill.Cost%(1<<40), b.bills[i].Carbon%(1<<40), b.bills[i].Capacity%(1<<40)
		}
		limit := rapid.IntRange(200, 2000).Draw(t, "limit")
		data := b.within(limit)
		got, err := decode(data)
		if err != nil || len(data) > limit && len(data) > 400 {
			t.Fatalf("%d bytes of %d, %v", len(data), limit, err)
		}
		was, is := b.attributed().By(0)[costmodel.Key{}], got.attributed().By(0)[costmodel.Key{}]
		if was.Paid() != is.Paid() || was.Carbon != is.Carbon || was.Usage != is.Usage || was.Work != is.Work || was.Estimate != is.Estimate {
			t.Fatalf("%+v became %+v", was, is)
		}
	})
}

func TestLateLinesOfAClusterThatIsGoneHaveItsRegion(t *testing.T) {
	b := body{
		bills: []costmodel.Interval{{Cluster: "c", Region: "us", Bill: costmodel.Priced{Cost: 10}}},
		sums:  costmodel.Rollup{{Tenant: "a", Cluster: "c"}: {Work: 1}, {Tenant: "b", Cluster: "gone"}: {Work: 1}},
	}
	got := b.attributed()
	if got[costmodel.Key{Tenant: "a", Cluster: "c", Region: "us"}].Cost != 10 || got[costmodel.Key{Tenant: "b", Cluster: "gone"}].Cost != 0 || len(got) != 2 {
		t.Errorf("got %v", got)
	}
}

func BenchmarkAttributeMinute(b *testing.B) {
	minute := crowd(1000, 20)
	data := minute.within(MaxMinute)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		m, err := decode(data)
		if err != nil {
			b.Fatal(err)
		}
		m.attributed()
	}
}
