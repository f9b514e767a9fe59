package plan

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/failover"
	"anabranch/failover/drill"
)

// drilling plans with a drill of clusters.
func (b *bench) drilling(d *Drill) Output {
	b.t.Helper()
	return Compute(Input{
		Resources: b.written, Signals: b.signals.Snapshot(b.now), Previous: b.table, Health: b.health, Now: b.now, Warm: true, Frozen: true, Drill: d,
	})
}

// loaded is the usual fleet under a load, its table in force.
func loaded(t *testing.T) *bench {
	b := newBench(t)
	for _, region := range []string{"us", "eu", "ap"} {
		b.demand[region] = map[string]float64{"m": 4000}
	}
	b.report()
	b.plan()
	return b
}

func drillShares(t *testing.T, d *routerpb.Drill, source string) map[string]float64 {
	t.Helper()
	return sharesIn(&routerpb.Table{Weights: d.GetWeights()}, "m", "interactive", source)
}

func TestADrillAddsWhereItsRequestsWouldGo(t *testing.T) {
	b := loaded(t)
	base := BaseSHA256(b.table)
	x := &Drill{ID: 7, Kind: drill.Soft, Clusters: []fleet.ClusterID{"us-a", "us-b"}, Tenants: []fleet.TenantID{"acme"}, Protected: []fleet.TenantID{"bank"}, Base: base}
	out := b.drilling(x)
	d := out.Table.GetDrill()
	if d.GetId() != 7 || d.GetKind() != "soft" || strings.Join(d.GetClusters(), ",") != "us-a,us-b" || d.GetTenants()[0] != "acme" || d.GetProtected()[0] != "bank" || !bytes.Equal(d.GetBaseSha256(), base) {
		t.Errorf("the drill says %v", d)
	}
	shares, sum := drillShares(t, d, "us"), 0.0
	for c, w := range shares {
		if strings.HasPrefix(c, "us") {
			t.Errorf("%s gets %v", c, w)
		}
		sum += w
	}
	if sum < 1-1e-6 {
		t.Errorf("shares from us are %v", shares)
	}
	if err := Sound(out.Table); err != nil {
		t.Error(err)
	}
	if !out.Changed {
		t.Error("routers have to hear of it, and it is no change")
	}
	if !bytes.Equal(BaseSHA256(out.Table), base) {
		t.Error("the table means something else without the drill")
	}
}

// What is rehearsed is one move: the ways of a drill stay as they were found, whatever load does.
func TestTheWaysOfADrillStay(t *testing.T) {
	b := loaded(t)
	x := &Drill{ID: 7, Kind: drill.Soft, Clusters: []fleet.ClusterID{"us-a", "us-b"}, Base: BaseSHA256(b.table)}
	first := b.drilling(x)
	b.table = proto.CloneOf(first.Table)
	b.table.Ref = &routerpb.TableRef{Revision: 50}
	b.demand["eu"]["m"] = 9000
	b.report()
	again := b.drilling(x)
	if !proto.Equal(again.Table.GetDrill(), first.Table.GetDrill()) || again.Changed {
		t.Error("load moves what is rehearsed")
	}
	// What can't be followed any more is found anew.
	b.health[at("eu-a")] = failover.Cluster{State: failover.Evacuated}
	b.report()
	other := b.drilling(x)
	if shares := drillShares(t, other.Table.GetDrill(), "us"); shares["eu-a"] != 0 || len(shares) == 0 {
		t.Errorf("it goes on to send to what is dead: %v", shares)
	}
	if err := Sound(other.Table); err != nil {
		t.Error(err)
	}
	b.table = other.Table
	if gone := b.drilling(nil); gone.Table.GetDrill() != nil || !gone.Changed {
		t.Error("the drill is over, and the table has it")
	}
}

func TestADrillIsOfItsModels(t *testing.T) {
	b := newBench(t)
	b.write("Model", "n", "adapters: []")
	for _, region := range []string{"us", "eu", "ap"} {
		b.cluster(region+"-c", region, 5000)
		b.remove("Cluster", region+"-c")
		b.write("Cluster", region+"-c", "region: "+region+"\n  models: [m, n]\n  endpoints: [{id: e1, url: \"http://c:1\", class: h100}]")
		b.demand[region] = map[string]float64{"m": 2000, "n": 1000}
	}
	b.report()
	b.plan()
	x := &Drill{ID: 7, Kind: drill.Hard, Clusters: []fleet.ClusterID{"us-c"}, Models: []fleet.ModelID{"n"}, Base: BaseSHA256(b.table)}
	d := b.drilling(x).Table.GetDrill()
	if len(d.GetWeights()) == 0 {
		t.Fatal("nothing is shifted")
	}
	for _, w := range d.GetWeights() {
		if w.GetModel() != "n" {
			t.Errorf("%s is not in the scope", w.GetModel())
		}
	}
}

func TestFailbackOnlyBringsBackWhatIsDrained(t *testing.T) {
	b := loaded(t)
	b.write("Cluster", "us-a", "region: us\n  models: [m]\n  drained: true\n  endpoints: [{id: e1, url: \"http://us-a:1\", class: h100}]")
	b.report()
	b.plan()
	if b.shares("us")["us-a"] != 0 {
		t.Fatalf("it is not drained: %v", b.shares("us"))
	}
	x := &Drill{ID: 7, Kind: drill.FailbackOnly, Clusters: []fleet.ClusterID{"us-a"}, Base: BaseSHA256(b.table)}
	out := b.drilling(x)
	if shares := drillShares(t, out.Table.GetDrill(), "us"); shares["us-a"] <= 0 {
		t.Errorf("it brings back %v", shares)
	}
	if err := Sound(out.Table); err != nil {
		t.Error(err)
	}
	for _, c := range out.Table.GetClusters() {
		if c.GetId() == "us-a" && !c.GetDrained() {
			t.Error("the table itself restores it")
		}
	}
}

func TestKindsWithoutClustersShiftNothing(t *testing.T) {
	b := loaded(t)
	for _, kind := range []drill.Kind{drill.QuotaStore, drill.ControlPlane} {
		d := b.drilling(&Drill{ID: 3, Kind: kind, Base: BaseSHA256(b.table)}).Table.GetDrill()
		if d.GetId() != 3 || len(d.GetWeights()) != 0 {
			t.Errorf("%s: %v", kind, d)
		}
	}
}

func TestDrillsThatAreNotSoundAreRefused(t *testing.T) {
	b := loaded(t)
	good := b.drilling(&Drill{ID: 7, Kind: drill.Soft, Clusters: []fleet.ClusterID{"us-a", "us-b"}, Base: BaseSHA256(b.table)}).Table
	for name, c := range map[string]struct {
		spoil func(*routerpb.Table)
		says  string
	}{
		"a drilled cluster that is not there": {func(t *routerpb.Table) { t.Drill.Clusters[0] = "nowhere" }, "not in the table"},
		"shares to nowhere":                   {func(t *routerpb.Table) { t.Drill.Weights[0].Clusters[0].Cluster = "nowhere" }, "not in the table"},
		"shares that are not whole":           {func(t *routerpb.Table) { t.Drill.Weights[0].Clusters[0].Weight += 0.5 }, "sum to"},
		"shares to what it takes out":         {func(t *routerpb.Table) { t.Drill.Weights[0].Clusters[0].Cluster = "us-a" }, "takes out"},
		"a model that is not in the scope":    {func(t *routerpb.Table) { t.Drill.Models = []string{"other"} }, "scope"},
		"shares to what is drained": {func(t *routerpb.Table) {
			for _, c := range t.GetClusters() {
				c.Drained = c.GetId() == t.Drill.Weights[0].Clusters[0].Cluster
			}
		}, "takes nothing"},
	} {
		bad := proto.CloneOf(good)
		c.spoil(bad)
		if err := Sound(bad); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whatever the fleet and the drill: without the drill the table is, to the byte, what it would be if there were none, and
// no request of the scope is sent where the class may not go, to what is drilled or to what takes nothing.
func TestWithoutItsDrillATableIsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := draw(t)
		previous := published(Compute(f.input(nil, true)))
		in := f.input(previous, rapid.Bool().Draw(t, "warm"))
		in.Frozen = true
		plain := Compute(in)
		if plain.Table == nil {
			return
		}
		kinds := []drill.Kind{drill.Soft, drill.Hard, drill.Shadow, drill.Tier1, drill.FailbackOnly, drill.QuotaStore}
		x := &Drill{ID: 9, Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Base: BaseSHA256(previous)}
		for _, c := range plain.Table.GetClusters() {
			if rapid.Bool().Draw(t, "drilled") {
				x.Clusters = append(x.Clusters, fleet.ClusterID(c.GetId()))
			}
		}
		in.Drill = x
		drilled := Compute(in)
		if err := Sound(drilled.Table); err != nil {
			t.Fatal(err)
		}
		bare := proto.CloneOf(drilled.Table)
		bare.Drill = nil
		opts := proto.MarshalOptions{Deterministic: true}
		one, _ := opts.Marshal(plain.Table)
		two, _ := opts.Marshal(bare)
		if !bytes.Equal(one, two) || !bytes.Equal(BaseSHA256(plain.Table), BaseSHA256(drilled.Table)) {
			t.Fatal("the table is another one")
		}
		in.Previous = published(drilled)
		if again := Compute(in); !proto.Equal(again.Table.GetDrill(), drilled.Table.GetDrill()) {
			t.Fatalf("the ways of the drill have changed by themselves:\n%v\n%v", drilled.Table.GetDrill(), again.Table.GetDrill())
		}
	})
}
