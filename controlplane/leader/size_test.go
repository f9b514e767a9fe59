package leader

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/controlplane/store"
)

func TestAnEmptyStateHasNoTable(t *testing.T) {
	if table := Table(state.Empty(), nil, signal.Snapshot{}, time.Now()); table != nil {
		t.Errorf("planned %v", table)
	}
	if n, err := TableSize(state.Empty(), signal.Snapshot{}, time.Now()); err != nil || n != 0 {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// What is measured before a write is what the leader publishes after it, within the quarter that
// package rest leaves free.
func TestTheSizeIsThatOfWhatIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.seed()
		for i := range 300 {
			r.write(policy.KindTenant, fmt.Sprintf("tenant-%d", i), "{tier: top, residency: [eu]}")
		}
		r.lead()
		r.pass(20 * time.Second)
		measured, err := TableSize(r.View(), r.signals.Snapshot(time.Now()), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		var table *routerpb.Table
		published := 0
		for _, p := range r.proposals() {
			if p.publish.GetTable() == nil {
				continue
			}
			table = p.publish.GetTable()
			published, err = store.EntryBytes(&statepb.Command{Op: &statepb.Command_Publish{Publish: p.publish}})
			if err != nil {
				t.Fatal(err)
			}
		}
		again := Table(r.View(), r.View().Table(), r.signals.Snapshot(time.Now()), time.Now())
		if moves := plan.Moves(table, again, signal.Snapshot{}); len(again.GetTenants()) != 300 || len(moves) > 0 {
			t.Errorf("a plan for dry runs differs from what is published: %d tenants, %+v", len(again.GetTenants()), moves)
		}
		if len(table.GetTenants()) != 300 || measured*4 < published*3 || measured*3 > published*4 {
			t.Errorf("measured %d bytes, published %d with %d tenants", measured, published, len(table.GetTenants()))
		}
	})
}

func BenchmarkTableSizeOfTenThousandTenants(b *testing.B) {
	v := state.Empty()
	apply := func(cmd *statepb.Command) {
		next, out, err := state.Apply(v, v.Index()+1, cmd)
		if err != nil || out.GetCode() != "" {
			b.Fatal(out, err)
		}
		v = next
	}
	put := func(kind policy.Kind, name, spec string) {
		apply(&statepb.Command{Format: 1, Op: &statepb.Command_Put{Put: &statepb.Put{Kind: string(kind), Name: name, Doc: []byte(`{"spec":` + spec + `}`), AnyRevision: true}}})
	}
	apply(&statepb.Command{Format: 1, Op: &statepb.Command_Init{Init: &statepb.Init{ClusterId: "c"}}})
	put(policy.KindRegion, "us", `{"peerURLs":["https://us:1"]}`)
	put(policy.KindModel, "m", `{}`)
	put(policy.KindCluster, "us-a", `{"region":"us","models":["m"],"endpoints":[{"id":"e","url":"http://us:1","class":"h100"}]}`)
	for i := range 10_000 {
		put(policy.KindTenant, fmt.Sprintf("tenant-%05d", i), `{"tier":"top"}`)
	}
	signals := signal.New(nil).Snapshot(time.Now())
	b.ReportAllocs()
	for b.Loop() {
		n, err := TableSize(v, signals, time.Now())
		if err != nil || n > store.MaxEntryBytes {
			b.Fatal(n, err)
		}
		b.ReportMetric(float64(n), "entry-bytes")
	}
}
