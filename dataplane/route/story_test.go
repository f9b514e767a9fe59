package route

import (
	"fmt"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
)

// shares sends many keys and says where they went, in percent.
func shares(in Input) map[fleet.ClusterID]float64 {
	const keys = 5000
	out := map[fleet.ClusterID]float64{}
	for key := range uint64(keys) {
		in.Key = key
		if c := Choose(in); len(c.Targets) > 0 {
			out[c.Targets[0].Cluster.ID] += 100.0 / keys
		}
	}
	return out
}

func expect(t *testing.T, when string, got map[fleet.ClusterID]float64, want map[fleet.ClusterID]float64) {
	t.Helper()
	for id, w := range want {
		if g := got[id]; g < w-2 || g > w+2 {
			t.Errorf("%s: %s has %.1f %%, want %.0f %% (all: %v)", when, id, g, w, got)
		}
	}
	sum := 0.0
	for _, g := range got {
		sum += g
	}
	if sum < 99.9 {
		t.Errorf("%s: %.1f %% of the requests went nowhere", when, 100-sum)
	}
}

// A region dies and comes back, as one router sees it: first by its own evidence, then by tables.
func TestARegionDiesAndComesBack(t *testing.T) {
	const steady = "u us 0.5\nv us 0.2\ne eu 0.2\nd de 0.1"
	dead := local(map[fleet.ClusterID]Place{"u": {Ejected: true}, "v": {Ejected: true}})

	in := input(fleetOf(t, steady))
	expect(t, "steady", shares(in), map[fleet.ClusterID]float64{"u": 50, "v": 20, "e": 20, "d": 10})

	in = input(fleetOf(t, steady), dead)
	expect(t, "killed, the table still the old one", shares(in), map[fleet.ClusterID]float64{"u": 0, "v": 0, "e": 66.7, "d": 33.3})

	evacuated := []func(*routerpb.Table){capped("u", 0), capped("v", 0)}
	in = input(fleetOf(t, "u us 0\nv us 0\ne eu 0.6\nd de 0.4", evacuated...), dead)
	expect(t, "evacuated", shares(in), map[fleet.ClusterID]float64{"u": 0, "v": 0, "e": 60, "d": 40})

	in = input(fleetOf(t, "u us 0\nv us 0\ne eu 0.6\nd de 0.4", evacuated...))
	expect(t, "alive again, the table not yet", shares(in), map[fleet.ClusterID]float64{"u": 0, "v": 0, "e": 60, "d": 40})

	for _, step := range []float64{0.01, 0.05, 0.10, 0.25, 0.50} {
		fleet1 := fmt.Sprintf("u us %v\nv us 0\ne eu %v\nd de %v", step, (1-step)*0.6, (1-step)*0.4)
		in = input(fleetOf(t, fleet1, capped("u", step), capped("v", 0)))
		expect(t, fmt.Sprintf("ramp at %v", step), shares(in), map[fleet.ClusterID]float64{"u": 100 * step, "e": 60 * (1 - step), "d": 40 * (1 - step)})
	}

	in = input(fleetOf(t, steady))
	expect(t, "steady again", shares(in), map[fleet.ClusterID]float64{"u": 50, "v": 20, "e": 20, "d": 10})
}

// Each key that moved when the region died is back where it was when all is as before.
func TestKeysComeHome(t *testing.T) {
	const steady = "u us 0.5\nv us 0.2\ne eu 0.2\nd de 0.1"
	before := fleetOf(t, steady)
	after := fleetOf(t, steady)
	for key := range uint64(1000) {
		a, b := input(before), input(after)
		a.Key, b.Key = key, key
		if x, y := Choose(a).Targets[0].Cluster.ID, Choose(b).Targets[0].Cluster.ID; x != y {
			t.Fatalf("key %d was at %s and is at %s", key, x, y)
		}
	}
}

// A full region sheds to the second choice of each key, one place per key, and takes all back when
// it has room.
func TestOverflow(t *testing.T) {
	tab := fleetOf(t, "u us 1\ne eu 0\nd de 0")
	full := func(wait time.Duration) func(*Input) {
		return local(map[fleet.ClusterID]Place{"u": {Saturation: 1.3, Wait: wait}, "e": {Wait: 100 * time.Millisecond}, "d": {Wait: 100 * time.Millisecond}})
	}
	expect(t, "full, but sooner than the way there", shares(input(tab, full(250*time.Millisecond))), map[fleet.ClusterID]float64{"u": 100})
	expect(t, "full", shares(input(tab, full(2*time.Second))), map[fleet.ClusterID]float64{"u": 0, "e": 50, "d": 50})
	expect(t, "room again", shares(input(tab, local(map[fleet.ClusterID]Place{"u": {Saturation: 0.9, Wait: time.Second}}))), map[fleet.ClusterID]float64{"u": 100})
	for key := range uint64(200) {
		in := input(tab, full(2*time.Second))
		in.Key = key
		c := Choose(in)
		if len(c.Targets) != 3 || c.Targets[1].Cluster.ID != "u" {
			t.Fatalf("key %d: %s; the full place stays second, before a third is warmed up", key, told(c))
		}
	}
}

// Two routers of different regions, each sends home what it can; tenants bound to a zone never leave
// it, whichever router they come to.
func TestTwoRoutersOneResidency(t *testing.T) {
	tab := fleetOf(t, "u us 1\ne eu 0\nd de 0", func(pb *routerpb.Table) {
		pb.Weights = append(pb.Weights, &routerpb.Weights{Model: "m", Class: "interactive", Source: "eu", Clusters: []*routerpb.ClusterWeight{
			{Cluster: "u", Weight: 0}, {Cluster: "e", Weight: 0.8}, {Cluster: "d", Weight: 0.2},
		}})
	})
	from := func(region fleet.RegionID) func(*Input) { return func(in *Input) { in.Region = region } }
	expect(t, "free, from us", shares(input(tab)), map[fleet.ClusterID]float64{"u": 100})
	expect(t, "european, from us", shares(input(tab, tenant("european"))), map[fleet.ClusterID]float64{"u": 0, "e": 50, "d": 50})
	expect(t, "european, from eu", shares(input(tab, tenant("european"), from("eu"))), map[fleet.ClusterID]float64{"u": 0, "e": 80, "d": 20})
	expect(t, "german, from eu", shares(input(tab, tenant("german"), from("eu"))), map[fleet.ClusterID]float64{"u": 0, "e": 0, "d": 100})
	var none *table.Tenant
	expect(t, "nobody's, from eu", shares(input(tab, from("eu"), func(in *Input) { in.Tenant = none })), map[fleet.ClusterID]float64{"e": 80, "d": 20})
}
