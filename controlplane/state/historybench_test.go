package state

import (
	"fmt"
	"io"
	"testing"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// laden is a state of ten thousand resources with a full history each, about as much as the bounds allow.
func laden(b *testing.B) *View {
	b.Helper()
	v, _, err := Apply(Empty(), 1, initCommand())
	if err != nil {
		b.Fatal(err)
	}
	s, of := &shelf{revision: 1}, []*statepb.History{}
	for i := range MaxResources {
		name, doc := fmt.Sprintf("t%05d", i), fmt.Appendf(nil, `{"labels":{"team":"team-%d","cost-centre":"%d"},"spec":{"tier":"top"}}`, i, i)
		r, err := policy.FromCanonical(policy.KindTenant, name, doc)
		if err != nil {
			b.Fatal(err)
		}
		s.items, s.docs = append(s.items, r), append(s.docs, doc)
		h := &statepb.History{Kind: "Tenant", Name: name}
		for n := range MaxRevisions {
			rev := &statepb.Revision{Revision: uint64(n*MaxResources + i + 2), Action: "update", Actor: "ann", Role: "admin", Reason: "because", RequestId: "0123456789abcdef"}
			if n < MaxRevisions-1 {
				rev.Doc = doc
			}
			h.Revisions = append(h.GetRevisions(), rev)
		}
		of = append(of, h)
	}
	v.shelves, v.level = map[policy.Kind]*shelf{policy.KindTenant: s}, 3
	v.past = past{of: map[policy.Kind][]*statepb.History{policy.KindTenant: of}}
	v.past.count()
	v.index = MaxRevisions*MaxResources + 2
	return v
}

// BenchmarkForget is what one put in many pays: history beyond its bound is cut by an eighth.
func BenchmarkForget(b *testing.B) {
	v := laden(b)
	b.ReportMetric(float64(v.past.size)/(1<<20), "MiB")
	for b.Loop() {
		if p := v.past.within(MaxGone, v.past.size-1); p.size >= v.past.size {
			b.Fatal("nothing is forgotten")
		}
	}
}

func BenchmarkSumsOfMany(b *testing.B) {
	v := laden(b)
	for b.Loop() {
		Sums(v)
	}
}

func BenchmarkSnapshotOfMany(b *testing.B) {
	v := laden(b)
	for b.Loop() {
		if err := Encode(v, io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}
