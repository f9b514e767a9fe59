package state

import (
	"fmt"
	"strings"
	"testing"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// labelled is a document of about a size.
func labelled(size int) []byte {
	return fmt.Appendf(nil, `{"metadata":{"labels":{"note":%q}},"spec":{}}`, strings.Repeat("x", size))
}

func TestADocumentHasABudgetFromTheSecondLevelOn(t *testing.T) {
	h := start(t)
	put := func(size int) *statepb.Outcome {
		return h.do(command(&statepb.Put{Kind: "Tenant", Name: "t", Doc: labelled(size), AnyRevision: true}))
	}
	if out := put(2 * MaxDoc); out.GetCode() != "" {
		t.Fatalf("at level 1: %v", out) // nodes of that level take it too
	}
	h.do(raise(2))
	if out := put(3 * MaxDoc); out.GetCode() != CodeInvalid || out.GetField() != "spec" || !strings.Contains(out.GetMessage(), fmt.Sprint(MaxDoc)) {
		t.Errorf("larger: %v", out)
	}
	for _, size := range []int{2*MaxDoc - 1, MaxDoc / 2, MaxDoc - 100} {
		if out := put(size); out.GetCode() != "" {
			t.Errorf("%d bytes: %v", size, out)
		}
	}
	if out := put(MaxDoc); out.GetCode() != CodeInvalid {
		t.Errorf("growing past the limit: %v", out)
	}
}

func TestAllDocumentsTogetherHaveABudget(t *testing.T) {
	h := start(t)
	h.do(raise(2))
	s := &shelf{revision: 1}
	doc := labelled(MaxDoc - 100)
	for i := range MaxDocs / len(doc) {
		r, err := policy.FromCanonical(policy.KindTenant, fmt.Sprintf("t%05d", i), []byte(`{"spec":{}}`))
		if err != nil {
			t.Fatal(err)
		}
		s.items, s.docs = append(s.items, r), append(s.docs, doc)
	}
	h.shelves = map[policy.Kind]*shelf{policy.KindTenant: s}
	next, out, err := Apply(h.View, h.Index()+1, command(&statepb.Put{Kind: "Region", Name: "us", Doc: doc}))
	if err != nil || out.GetCode() != CodeInvalid || !strings.Contains(out.GetMessage(), fmt.Sprint(MaxDocs)) || len(next.List(policy.KindRegion)) != 0 {
		t.Errorf("one more: %v, %v", out, err)
	}
	_, out, err = Apply(h.View, h.Index()+1, command(&statepb.Put{Kind: "Tenant", Name: "t00000", Doc: []byte(`{"spec":{}}`), AnyRevision: true}))
	if err != nil || out.GetCode() != "" {
		t.Errorf("a smaller one: %v, %v", out, err)
	}
}
