package rest

import (
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state/statepb"
)

// publishes puts a table in force whose requests from us go to us-a by this part and else to eu-a, and gives its revision.
func (d *double) publishes(part float64) uint64 {
	d.t.Helper()
	out := d.apply(&statepb.Command{Format: 1, AtUnixMs: d.now().UnixMilli(), Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: &routerpb.Table{
		Regions:  []*routerpb.Region{{Id: "us"}, {Id: "eu"}},
		Clusters: []*routerpb.Cluster{{Id: "us-a", Region: "us"}, {Id: "eu-a", Region: "eu"}},
		Weights: []*routerpb.Weights{{Model: "m", Class: "interactive", Source: "us", Clusters: []*routerpb.ClusterWeight{
			{Cluster: "us-a", Weight: part}, {Cluster: "eu-a", Weight: 1 - part},
		}}},
	}}}})
	if out.GetCode() != "" {
		d.t.Fatal(out)
	}
	return d.current().Table().GetRef().GetRevision()
}

// obeys makes a router known that said so long ago which table it has.
func (d *double) obeys(id, region string, revision uint64, age time.Duration) {
	d.signals.Put(signal.Observation{
		Node: "n1", Connected: true, Received: d.now().Add(-age), Hello: &routerpb.Hello{RouterId: id, Region: region},
		Report: &routerpb.Report{AtUnixMs: d.now().UnixMilli(), Applied: &routerpb.TableRef{Epoch: d.current().Epoch(), Revision: revision}},
	})
}

func TestWeightsAreAppliedAsFarAsRoutersHaveTakenThem(t *testing.T) {
	for name, c := range map[string]struct {
		happen func(d *double, before, now uint64)
		want   float64 // of us-a; by the tables 0.2, and before 1
	}{
		"nobody is heard of":                  {func(*double, uint64, uint64) {}, -1},
		"all have it":                         {func(d *double, _, now uint64) { d.obeys("r1", "us", now, 0); d.obeys("r2", "us", now, 0) }, 0.2},
		"one of two has it":                   {func(d *double, before, now uint64) { d.obeys("r1", "us", before, 0); d.obeys("r2", "us", now, 0) }, 0.6},
		"none has it":                         {func(d *double, before, _ uint64) { d.obeys("r1", "us", before, 0) }, 1},
		"routers elsewhere are of no account": {func(d *double, before, now uint64) { d.obeys("r1", "us", now, 0); d.obeys("r2", "eu", before, 0) }, 0.2},
		"nor one that is not heard of": {func(d *double, before, now uint64) {
			d.obeys("r1", "us", now, 0)
			d.obeys("r2", "us", before, time.Minute)
		}, 0.2},
		"a table that nobody knows": {func(d *double, _, _ uint64) { d.obeys("r1", "us", 9999, 0) }, -1},
		"none yet":                  {func(d *double, _, _ uint64) { d.obeys("r1", "us", 0, 0) }, -1},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDouble(t)
			before := d.publishes(1)
			now := d.publishes(0.2)
			if before == now {
				t.Fatal("both tables have one revision")
			}
			c.happen(d, before, now)
			got := d.server.standing(d.current()).liveWeights()["m"]["interactive"]["us"].Clusters
			if us := got["us-a"]; us.Wanted != 0.2 || us.Applied != c.want {
				t.Errorf("us-a %+v, want %v applied", us, c.want)
			}
			if eu := got["eu-a"]; c.want >= 0 && eu.Applied != rough(1-c.want) {
				t.Errorf("eu-a %+v", eu)
			}
		})
	}
}
