package state

import (
	"fmt"
	"math"
	"runtime"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"anabranch/api/routerpb"
	"anabranch/controlplane/state/statepb"
)

// wide is a table of so many regions, each with a cluster, and a list of weights for each region.
func wide(regions int) *routerpb.Table {
	t := &routerpb.Table{Models: []*routerpb.Model{{Id: "m"}}}
	for r := range regions {
		t.Regions = append(t.Regions, &routerpb.Region{Id: fmt.Sprintf("region-%03d", r)})
		t.Clusters = append(t.Clusters, &routerpb.Cluster{Id: fmt.Sprintf("cluster-%03d", r), Region: fmt.Sprintf("region-%03d", r)})
		w := &routerpb.Weights{Model: "m", Class: "interactive", Source: fmt.Sprintf("region-%03d", r)}
		for c := range regions {
			w.Clusters = append(w.Clusters, &routerpb.ClusterWeight{Cluster: fmt.Sprintf("cluster-%03d", c), Reason: fmt.Sprintf("%d is too far away from %d for what it has to give", c, r)})
		}
		w.Clusters[r].Weight = 1
		t.Weights = append(t.Weights, w)
	}
	return t
}

func published(t testing.TB, h *View, index uint64, table *routerpb.Table) *View {
	t.Helper()
	next, out, err := Apply(h, index, command(&statepb.Publish{Table: table}))
	if err != nil || out.GetCode() != "" {
		t.Fatal(err, out)
	}
	return next
}

func TestKeptTablesShareWhatIsAlike(t *testing.T) {
	v := published(t, start(t).View, 2, wide(4))
	first := v.Table()

	changed := wide(4)
	changed.Weights[1].Clusters[3].Reason = "nobody asks"
	v = published(t, v, 3, changed)
	second := v.Table()
	if second == first || second.GetRef().GetRevision() != 3 || first.GetRef().GetRevision() != 2 {
		t.Fatalf("revisions %d, %d", first.GetRef().GetRevision(), second.GetRef().GetRevision())
	}
	if second.GetWeights()[0] != first.GetWeights()[0] || second.GetClusters()[3] != first.GetClusters()[3] || second.GetRegions()[0] != first.GetRegions()[0] {
		t.Error("what is alike is there twice")
	}
	was, is := first.GetWeights()[1].GetClusters(), second.GetWeights()[1].GetClusters()
	if is[0] != was[0] || is[3] == was[3] || was[3].GetReason() == is[3].GetReason() {
		t.Error("a list that changed does not share its other entries, or lost its change")
	}

	v = published(t, v, 4, wide(5)) // a cluster more in each list
	if third := v.Table(); third.GetWeights()[0].GetClusters()[0] != first.GetWeights()[0].GetClusters()[0] || len(third.GetWeights()[0].GetClusters()) != 5 || len(first.GetWeights()) != 4 {
		t.Error("lists that grew share nothing, or the earlier one grew")
	}

	read, err := fromSnapshot(snapshotOf(t, v))
	if err != nil {
		t.Fatal(err)
	}
	tables := read.Tables()
	if len(tables) != 3 || tables[1].GetWeights()[0] != tables[0].GetWeights()[0] || !Equal(read, v) {
		t.Errorf("%d tables of a snapshot share nothing, or it is another state", len(tables))
	}
}

func snapshotOf(t *testing.T, v *View) *statepb.Snapshot {
	t.Helper()
	b, err := v.bytes()
	if err != nil {
		t.Fatal(err)
	}
	s := &statepb.Snapshot{}
	if err := proto.Unmarshal(b, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// Whatever comes before, a table says what it said.
func TestSharingChangesNoTable(t *testing.T) {
	names := []string{"a", "b", "c"}
	weights := rapid.Custom(func(t *rapid.T) *routerpb.ClusterWeight {
		w := &routerpb.ClusterWeight{
			Cluster: rapid.SampledFrom(names).Draw(t, "cluster"), Weight: rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 0.5, 1}).Draw(t, "weight"),
			Reason: rapid.SampledFrom(names).Draw(t, "reason"), Standby: rapid.Bool().Draw(t, "standby"),
		}
		if rapid.IntRange(0, 3).Draw(t, "of a newer build") == 0 {
			w.ProtoReflect().SetUnknown([]byte{0xf8, 0x07, 1})
		}
		return w
	})
	tables := rapid.Custom(func(t *rapid.T) *routerpb.Table {
		out := &routerpb.Table{Drill: &routerpb.Drill{Id: 1}}
		for _, n := range rapid.SliceOfN(rapid.SampledFrom(names), 0, 4).Draw(t, "regions") {
			out.Regions = append(out.Regions, &routerpb.Region{Id: n})
		}
		for _, n := range rapid.SliceOfN(rapid.SampledFrom(names), 0, 4).Draw(t, "sources") {
			w := &routerpb.Weights{Model: "m", Source: n, Clusters: rapid.SliceOfN(weights, 0, 4).Draw(t, "weights")}
			if rapid.Bool().Draw(t, "sheds") {
				w.Shed = []*routerpb.Shed{{Part: 0.5}}
			}
			out.Weights = append(out.Weights, w)
		}
		return out
	})
	written := func(m proto.Message) string {
		return string(must(proto.MarshalOptions{Deterministic: true}.Marshal(m)))
	}
	rapid.Check(t, func(t *rapid.T) {
		before, now := tables.Draw(t, "before"), tables.Draw(t, "now")
		was, is := written(before), written(now)
		got := sharing(before, now)
		if written(got) != is || written(before) != was || written(now) != is {
			t.Fatalf("%v became %v", now, got)
		}
		if sharing(nil, now) != now || sharing(before, nil) != nil {
			t.Fatal("nothing to share with is no reason to change anything")
		}
	})
}

// BenchmarkPublishOfAWideTable is a table of 200 regions in which one list changes, and what keeping fifty of them takes.
func BenchmarkPublishOfAWideTable(b *testing.B) {
	v := Empty()
	v, _, err := Apply(v, 1, initCommand())
	if err != nil {
		b.Fatal(err)
	}
	next := wide(200)
	v = published(b, v, 2, next)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	b.ReportAllocs()
	n := uint64(2)
	for b.Loop() {
		b.StopTimer()
		next = proto.CloneOf(next) // as it comes out of a log
		next.Weights[n%200].Clusters[0].Reason = fmt.Sprint(n)
		n++
		b.StartTimer()
		v = published(b, v, n, next)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	kept := float64(len(v.Tables()) - 1)
	b.ReportMetric((float64(after.HeapAlloc)-float64(before.HeapAlloc))/kept, "B/table")
}
