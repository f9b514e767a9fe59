package state

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

func TestSumsSayWhichPartDiffers(t *testing.T) {
	h := start(t)
	h.do(region("us", `{}`, 0))
	h.do(command(&statepb.Publish{
		Table:   &routerpb.Table{Regions: []*routerpb.Region{{Id: "us"}}, Clusters: []*routerpb.Cluster{{Id: "c"}}},
		Health:  []*statepb.ClusterHealth{{Cluster: "c", State: "HEALTHY"}},
		Reasons: []*statepb.WeightReason{{Model: "m", Text: "near"}},
	}))
	h.do(command(&statepb.PutNode{Id: "n1", Version: "1"}))
	h.do(keyed(region("eu", `{}`, 0), "k", "eu", time.Second))
	want := Sums(h.View)
	for part, change := range map[string]func(v *View){
		"Region": func(v *View) {
			s := *v.shelf(policy.KindRegion)
			s.docs = [][]byte{[]byte("{}"), s.docs[1]}
			v.setShelf(policy.KindRegion, &s)
			v.shelf(policy.KindRegion).revision = h.shelf(policy.KindRegion).revision
		},
		"Tenant":  func(v *View) { v.setShelf(policy.KindTenant, &shelf{}) },
		"tables":  func(v *View) { v.tables = nil },
		"health":  func(v *View) { v.health = []*statepb.ClusterHealth{{Cluster: "c", State: "SUSPECT"}} },
		"reasons": func(v *View) { v.reasons = nil },
		"nodes":   func(v *View) { v.nodes = []*statepb.PutNode{{Id: "n1", Version: "2"}} },
		"answers": func(v *View) { v.answers = nil },
		"audit":   func(v *View) { v.record(command(&statepb.Noop{}), entry{action: "x"}) },
		"proposals": func(v *View) {
			v.proposals = []*statepb.Proposal{{Id: 1}}
		},
		"ledger":  func(v *View) { v.ledger.runs = []*statepb.SpendingRun{{Run: "r/1", Sequence: 1}} },
		"cluster": func(v *View) { v.epoch++ },
	} {
		other := *h.View
		change(&other)
		if got := Differing(want, Sums(&other)); !slices.Equal(got, []string{part}) {
			t.Errorf("%s was changed, and %q differ", part, got)
		}
	}
	var b bytes.Buffer
	if err := Encode(h.View, &b); err != nil {
		t.Fatal(err)
	}
	restored, err := Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	if got := Differing(want, Sums(restored)); len(got) > 0 {
		t.Errorf("after a restart %q differ", got)
	}
}

func TestTheIndexIsInNoSum(t *testing.T) {
	h := start(t)
	before := Sums(h.View)
	h.do(command(&statepb.Noop{}))
	if got := Differing(before, Sums(h.View)); len(got) > 0 {
		t.Errorf("%q differ", got)
	}
	if len(Differing(before, before[1:])) != 1 || len(Differing(before[1:], before)) != 1 {
		t.Error("a part that one of them lacks is not told")
	}
}

func TestTheSchemaIsAStableName(t *testing.T) {
	if schema := Schema(); schema != Schema() || len(schema) != 16 {
		t.Errorf("schema %q", Schema())
	}
}

// crowded is a state of 10,000 tenants with documents of some 300 bytes, and a full audit trail.
func crowded(tb testing.TB) *View {
	tb.Helper()
	v, _, err := Apply(Empty(), 1, initCommand())
	if err != nil {
		tb.Fatal(err)
	}
	s := &shelf{revision: 1}
	for i := range MaxResources {
		doc := fmt.Appendf(nil, `{"metadata":{"labels":{"team":"team-%d"}},"spec":{"tier":"top","residency":["a","b"],"apiKeys":[{"id":"k","sha256":"%064d"},{"id":"l","sha256":"%064d"}]}}`, i, i, i+1_000_000)
		r, err := policy.FromCanonical(policy.KindTenant, fmt.Sprintf("t%05d", i), doc)
		if err != nil {
			tb.Fatal(err)
		}
		s.items, s.docs = append(s.items, r), append(s.docs, doc)
	}
	v.shelves = map[policy.Kind]*shelf{policy.KindTenant: s}
	for range MaxAudit {
		v.record(command(&statepb.Noop{}), entry{action: "x"})
	}
	return v
}

func TestSumsOfTenThousandResourcesTakeMilliseconds(t *testing.T) {
	v := crowded(t)
	best := time.Hour
	for range 5 {
		began := time.Now()
		Sums(v)
		best = min(best, time.Since(began))
	}
	if best > 100*time.Millisecond {
		t.Errorf("it takes %s", best)
	}
}

func BenchmarkSums(b *testing.B) {
	v := crowded(b)
	b.ReportAllocs()
	for b.Loop() {
		Sums(v)
	}
}
