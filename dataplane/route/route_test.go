package route

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
)

// fleetOf builds a table from lines "cluster region weight", weights as seen from us. Regions are
// us (zone us), eu (zone eu), de (zone eu) and ap (zone ap, without peers); RTT is 100 ms.
func fleetOf(t testing.TB, lines string, change ...func(*routerpb.Table)) *table.Table {
	t.Helper()
	pb := &routerpb.Table{
		Ref:    &routerpb.TableRef{ClusterId: "c", Revision: 1},
		Models: []*routerpb.Model{{Id: "m"}},
		Tenants: []*routerpb.Tenant{
			{Id: "free"}, {Id: "german", Residency: []string{"de"}}, {Id: "european", Residency: []string{"eu"}}, {Id: "lunar", Residency: []string{"moon"}},
		},
		Classes: []*routerpb.Class{{Id: "interactive", Spill: true}, {Id: "home", Spill: false}},
	}
	for _, r := range [][2]string{{"us", "us"}, {"eu", "eu"}, {"de", "eu"}, {"ap", "ap"}} {
		region := &routerpb.Region{Id: r[0], Zone: r[1], RttMs: map[string]float64{"us": 100}}
		if r[0] != "ap" {
			region.PeerUrls = []string{"https://" + r[0] + ".example"}
		}
		pb.Regions = append(pb.Regions, region)
	}
	weights := &routerpb.Weights{Model: "m", Class: "interactive", Source: "us"}
	for line := range strings.SplitSeq(strings.TrimSpace(lines), "\n") {
		var id, region string
		var w float64
		if _, err := fmt.Sscan(line, &id, &region, &w); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		pb.Clusters = append(pb.Clusters, &routerpb.Cluster{
			Id: id, Region: region, Kind: "gateway", GatewayUrl: "http://" + id, Models: []string{"m"}, HealthCap: 1,
		})
		weights.Clusters = append(weights.Clusters, &routerpb.ClusterWeight{Cluster: id, Weight: w})
	}
	pb.Weights = []*routerpb.Weights{weights}
	for _, f := range change {
		f(pb)
	}
	tab, err := table.Build(pb)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func input(tab *table.Table, change ...func(*Input)) Input {
	model, _, _ := tab.Model("m")
	tenant, _ := tab.Tenant("free")
	in := Input{Table: tab, Region: "us", Model: model, Class: tab.Class("m"), Tenant: tenant, Key: 1}
	for _, f := range change {
		f(&in)
	}
	return in
}

func tenant(id fleet.TenantID) func(*Input) {
	return func(in *Input) { in.Tenant, _ = in.Table.Tenant(id) }
}

func class(id fleet.ClassID) func(*Input) {
	return func(in *Input) { in.Class, _ = in.Table.ClassNamed(id, "m") }
}

func local(places map[fleet.ClusterID]Place) func(*Input) {
	return func(in *Input) { in.Local = func(id fleet.ClusterID, _ *table.Tenant) Place { return places[id] } }
}

func hop(in *Input) { in.Hop = true }

// told writes a choice as "targets | removed | code"; targets in any order but their groups.
func told(c Choice) string {
	var targets, removed []string
	for _, t := range c.Targets {
		targets = append(targets, fmt.Sprintf("%s(%s)", t.Cluster.ID, t.Reason))
	}
	for _, r := range c.Removed {
		removed = append(removed, fmt.Sprintf("%s(%s)", r.Cluster, r))
	}
	return strings.TrimSpace(strings.Join(targets, " ") + " | " + strings.Join(removed, " ") + " | " + c.Code)
}

// listsNone takes all clusters out of the weights, as where a model has none that may be used.
func listsNone(pb *routerpb.Table) { pb.Weights[0].Clusters = nil }

func drained(id string) func(*routerpb.Table) {
	return func(pb *routerpb.Table) { find(pb, id).Drained = true }
}

func capped(id string, to float64) func(*routerpb.Table) {
	return func(pb *routerpb.Table) { find(pb, id).HealthCap = to }
}

func find(pb *routerpb.Table, id string) *routerpb.Cluster {
	for _, c := range pb.Clusters {
		if c.Id == id {
			return c
		}
	}
	panic("no cluster " + id)
}

func TestChoose(t *testing.T) {
	const two = "u us 1\ne eu 0"
	dead := Place{Ejected: true, Reason: "3 connect failures"}
	tests := []struct {
		name  string
		fleet string
		table []func(*routerpb.Table)
		in    []func(*Input)
		want  string
	}{
		{name: "weight first, the rest as a last resort", fleet: two, want: "u(weight) e(fallback) |  |"},
		{
			name: "a dead cluster is left at once", fleet: two,
			in:   []func(*Input){local(map[fleet.ClusterID]Place{"u": dead})},
			want: "e(fallback) | u(ejected: 3 connect failures) |",
		},
		{name: "a drained cluster gets nothing", fleet: two, table: []func(*routerpb.Table){drained("u")}, want: "e(fallback) | u(drained) |"},
		{
			name: "all drained, which waiting does not mend", fleet: two, table: []func(*routerpb.Table){drained("u"), drained("e")},
			want: "| u(drained) e(drained) | no_legal_target",
		},
		{
			name: "one drained, the other dead", fleet: two, table: []func(*routerpb.Table){drained("e")},
			in:   []func(*Input){local(map[fleet.ClusterID]Place{"u": dead})},
			want: "| u(ejected: 3 connect failures) e(drained) | no_capacity",
		},
		{name: "nor does one without health", fleet: two, table: []func(*routerpb.Table){capped("u", 0)}, want: "e(fallback) | u(health) |"},
		{
			name: "a hop stays in its region", fleet: two, in: []func(*Input){hop},
			want: "u(weight) | e(hop) |",
		},
		{
			name: "a hop to a region that is dead", fleet: two, in: []func(*Input){hop, local(map[fleet.ClusterID]Place{"u": dead})},
			want: "| u(ejected: 3 connect failures) e(hop) | no_capacity",
		},
		{
			name: "a hop uses local clusters whatever their weight", fleet: "u us 0\ne eu 1", in: []func(*Input){hop},
			want: "u(fallback) | e(hop) |",
		},
		{
			name: "residency by region", fleet: "u us 0.5\ne eu 0.3\nd de 0.2", in: []func(*Input){tenant("german")},
			want: "d(weight) | u(residency) e(residency) |",
		},
		{
			name: "residency isn't widened when all that is legal is dead", fleet: "u us 0.5\nd de 0.5",
			in:   []func(*Input){tenant("german"), local(map[fleet.ClusterID]Place{"d": dead})},
			want: "| u(residency) d(ejected: 3 connect failures) | no_capacity",
		},
		{
			name: "no place is legal", fleet: two, in: []func(*Input){tenant("lunar")},
			want: "| u(residency) e(residency) | no_legal_target",
		},
		{
			name: "a hop of a tenant that mustn't be here", fleet: two, in: []func(*Input){hop, tenant("german")},
			want: "| u(residency) e(residency) | no_legal_target",
		},
		{
			name: "legal places without weight serve rather than none", fleet: "u us 1\nd de 0", in: []func(*Input){tenant("german")},
			want: "d(fallback) | u(residency) |",
		},
		{name: "a region without peers can't be entered", fleet: "u us 0.5\na ap 0.5", want: "u(weight) | a(no peer) |"},
		{
			name: "the table allows nothing", fleet: two, table: []func(*routerpb.Table){listsNone},
			want: "| u(not in table) e(not in table) | no_legal_target",
		},
		{
			name: "the table allows nothing because all are drained or forbidden", fleet: two, table: []func(*routerpb.Table){listsNone, drained("u")},
			in: []func(*Input){only("u")}, want: "| u(drained) e(pin) | no_legal_target",
		},
		{
			name: "the table allows nothing, and an order does", fleet: two, table: []func(*routerpb.Table){listsNone, drained("u"), drained("e")},
			in:   []func(*Input){func(in *Input) { in.Restored = func(id fleet.ClusterID) bool { return id == "e" } }},
			want: "e(fallback) | u(drained) |",
		},
		{
			name: "a cluster that the table leaves out isn't used", fleet: two,
			table: []func(*routerpb.Table){func(pb *routerpb.Table) { pb.Weights[0].Clusters = pb.Weights[0].Clusters[:1] }},
			in:    []func(*Input){local(map[fleet.ClusterID]Place{"u": dead})},
			want:  "| u(ejected: 3 connect failures) | no_capacity",
		},
		{
			name: "a class without weights takes those of the default class", fleet: two, in: []func(*Input){class("home")},
			want: "u(weight) | e(no spill) |",
		},
		{
			name: "no weights at all: any that serves the model", fleet: two,
			table: []func(*routerpb.Table){func(pb *routerpb.Table) { pb.Weights = nil }},
			in:    []func(*Input){hop},
			want:  "u(fallback) | e(hop) |",
		},
		{
			name: "no spill, while home is alive, even against the weights", fleet: "u us 0\ne eu 1", in: []func(*Input){class("home")},
			want: "u(fallback) | e(no spill) |",
		},
		{
			name: "no spill, but home is dead", fleet: two, in: []func(*Input){class("home"), local(map[fleet.ClusterID]Place{"u": dead})},
			want: "e(fallback) | u(ejected: 3 connect failures) |",
		},
		{
			name: "local full: the next, if it is sooner by more than the way and a margin", fleet: two,
			in:   []func(*Input){local(map[fleet.ClusterID]Place{"u": {Saturation: 1.2, Wait: 500 * time.Millisecond}, "e": {Wait: 200 * time.Millisecond}})},
			want: "e(local overflow) u(full) |  |",
		},
		{
			name: "local full, but the way costs more", fleet: two,
			in:   []func(*Input){local(map[fleet.ClusterID]Place{"u": {Saturation: 1.2, Wait: 250 * time.Millisecond}, "e": {Wait: 100 * time.Millisecond}})},
			want: "u(weight) e(fallback) |  |",
		},
		{
			name: "a long wait that isn't for want of room is no overflow", fleet: two,
			in:   []func(*Input){local(map[fleet.ClusterID]Place{"u": {Saturation: 0.9, Wait: 5 * time.Second}})},
			want: "u(weight) e(fallback) |  |",
		},
		{
			name: "both full: nothing is won", fleet: two,
			in:   []func(*Input){local(map[fleet.ClusterID]Place{"u": {Saturation: 2, Wait: 5 * time.Second}, "e": {Saturation: 1.5}})},
			want: "u(weight) e(fallback) |  |",
		},
		{
			name: "a class that doesn't spill doesn't overflow", fleet: two,
			in:   []func(*Input){class("home"), local(map[fleet.ClusterID]Place{"u": {Saturation: 3, Wait: 9 * time.Second}})},
			want: "u(weight) | e(no spill) |",
		},
		{name: "no tenant, no limit of residence", fleet: two, in: []func(*Input){func(in *Input) { in.Tenant = nil }}, want: "u(weight) e(fallback) |  |"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tab := fleetOf(t, tt.fleet, tt.table...)
			for key := range uint64(20) {
				in := input(tab, tt.in...)
				in.Key = key
				if got := told(Choose(in)); got != tt.want {
					t.Fatalf("got  %s\nwant %s", got, tt.want)
				}
			}
		})
	}
}

func TestTargetsSayHowToGetThere(t *testing.T) {
	tab := fleetOf(t, "u us 0.5\ne eu 0.5")
	for _, target := range Choose(input(tab)).Targets {
		if remote := target.Cluster.ID == "e"; target.Remote != remote || target.Region != target.Cluster.Region || target.Weight != 0.5 {
			t.Errorf("%s: %+v", target.Cluster.ID, target)
		}
	}
}

func TestSameKeySamePlace(t *testing.T) {
	tab := fleetOf(t, "u us 0.25\nv us 0.25\ne eu 0.25\nd de 0.25")
	for key := range uint64(100) {
		in := input(tab)
		in.Key = key
		first := Choose(in)
		if again := Choose(in); told(first) != told(again) {
			t.Fatalf("key %d: %s, then %s", key, told(first), told(again))
		}
		// A retry goes on down the list, and so do those who know the first to be dead.
		local(map[fleet.ClusterID]Place{first.Targets[0].Cluster.ID: {Ejected: true}})(&in)
		if next := Choose(in).Targets[0].Cluster.ID; next != first.Targets[1].Cluster.ID {
			t.Fatalf("key %d: with the first dead it goes to %s, want %s", key, next, first.Targets[1].Cluster.ID)
		}
	}
}

// All legal weights are zero: the clusters share by what their health allows.
func TestFallbackSharesByHealth(t *testing.T) {
	tab := fleetOf(t, "u us 1\ne eu 0\nd de 0", capped("e", 0.1), drained("u"))
	hits := map[fleet.ClusterID]int{}
	const n = 20_000
	for key := range uint64(n) {
		in := input(tab)
		in.Key = key
		hits[Choose(in).Targets[0].Cluster.ID]++
	}
	if share := float64(hits["e"]) / n; math.Abs(share-0.1/1.1) > 0.01 {
		t.Errorf("a tenth of a place got %.3f", share)
	}
}

func TestScoreOfNothing(t *testing.T) {
	for _, w := range []float64{0, -1, math.NaN()} {
		if s := Score(w, 1, 2); !math.IsInf(s, -1) {
			t.Errorf("weight %v scores %v", w, s)
		}
	}
}

func BenchmarkChoose(b *testing.B) {
	tab := fleetOf(b, "u us 0.4\nv us 0.3\ne eu 0.2\nd de 0.1")
	in := input(tab)
	b.ReportAllocs()
	for b.Loop() {
		in.Key++
		if len(Choose(in).Targets) != 4 {
			b.Fatal("targets")
		}
	}
}
