package drill

import (
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
)

// what a request without a drill pays: the look at the table's drill, and at the lease.
func BenchmarkNoDrill(b *testing.B) {
	h, now := NewHolder(time.Now()), Moment{}
	var holder table.Holder
	tab := &table.Table{}
	holder.Store(tab)
	b.ReportAllocs()
	for b.Loop() {
		if d := holder.Load().Drill(); d != nil || h.View().Obeyed(d, now) {
			b.Fatal("a drill")
		}
	}
}

// what one pays while a drill is under way.
func BenchmarkDecide(b *testing.B) {
	h, d := NewHolder(time.Now()), built(b, nil)
	h.Take(&routerpb.DrillLease{
		Id: 12, Epoch: 1, Sequence: 1, BaseSha256: base("a"), TtlMs: 30_000, NotAfterUnixMs: time.Now().Add(time.Hour).UnixMilli(), ShiftedPpm: 500_000,
	}, time.Now())
	now, shifted := h.At(time.Now()), 0
	b.ReportAllocs()
	for i := uint64(0); b.Loop(); i++ {
		if v := h.View(); v.Obeyed(d, now) && Decide(v, d, "acme", "m", i) == Shifted {
			shifted++
		}
	}
}

func BenchmarkCountEnded(b *testing.B) {
	var c Counts
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			c.Ended(&Ended{Tier: "standard", TTFTMs: 300, Scoped: true, Away: true, Shifted: true})
		}
	})
}
