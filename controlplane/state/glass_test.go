package state

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

func TestBrokenGlassLetsAWriteHoldAndIsLoud(t *testing.T) {
	h := guarded(t, regionsByTwo)
	out := h.do(sent("ann", 1, command(&statepb.Put{Kind: "Region", Name: "us", Doc: []byte(`{"spec":{"zone":"b"}}`), AnyRevision: true, BreakGlass: "us is on fire"})))
	if out.GetCode() != "" || out.GetProposal() != 0 || h.zone("us") != "b" {
		t.Fatalf("%v, zone %s", out, h.zone("us"))
	}
	if got := h.said(h.Index()); !slices.Equal(got, []string{"ann break_glass Region/us: says ann; us is on fire", "ann update Region/us: says ann"}) {
		t.Errorf("audit %q", got)
	}
	if rev := h.History(policy.KindRegion, "us")[0]; !rev.GetBreakGlass() || rev.GetActor() != "ann" {
		t.Errorf("history %v", rev)
	}
	h.do(sent("bob", 2, command(&statepb.Delete{Kind: "Region", Name: "us", BreakGlass: "still"})))
	if h.zone("us") != "gone" || !h.History(policy.KindRegion, "us")[0].GetBreakGlass() || !h.History(policy.KindRegion, "us")[1].GetBreakGlass() {
		t.Errorf("history %v", h.History(policy.KindRegion, "us"))
	}
	told := func(second int64) (out []string) {
		for _, g := range h.BrokenGlass(time.Unix(second, 0)) {
			out = append(out, fmt.Sprintf("%s %s/%s: %s", g.GetActor().GetName(), g.GetKind(), g.GetName(), g.GetWhy()))
		}
		return out
	}
	day := int64(GlassFor / time.Second)
	if got := told(day); !slices.Equal(got, []string{"ann Region/us: us is on fire", "bob Region/us: still"}) {
		t.Errorf("within a day %q", got)
	}
	if got := told(day + 1); !slices.Equal(got, []string{"bob Region/us: still"}) {
		t.Errorf("after it %q", got)
	}
	if !Equal(h.View, again(t, h.View)) {
		t.Error("a snapshot does not restore it")
	}
}

func TestTheGlassIsNotBrokenTooOften(t *testing.T) {
	h := guarded(t, regionsByTwo)
	second := int64(0)
	write := func() *statepb.Outcome {
		second++
		return h.do(sent("ann", second, command(&statepb.Put{Kind: "Region", Name: fmt.Sprintf("r-%d", second), Doc: []byte(`{"spec":{}}`), BreakGlass: "fire"})))
	}
	for range MaxGlass {
		if out := write(); out.GetCode() != "" {
			t.Fatal(out)
		}
	}
	if out := write(); out.GetCode() != CodeTooMany || h.zone(fmt.Sprintf("r-%d", second)) != "gone" {
		t.Errorf("one more: %v", out)
	}
	second = 1 + int64(GlassRate/time.Second) - 1 // the first is an hour old with the next
	if out := write(); out.GetCode() != "" {
		t.Errorf("an hour later: %v", out)
	}
	second += int64(GlassFor / time.Second)
	if write(); len(h.broken) != 1 {
		t.Errorf("%d are kept after a day", len(h.broken))
	}
}

func TestAWriteThatIsRefusedBreaksNoGlass(t *testing.T) {
	h := guarded(t, regionsByTwo)
	if out := h.do(sent("ann", 1, command(&statepb.Put{Kind: "Region", Name: "us", Doc: []byte(`{"spec":{"zone":7}}`), AnyRevision: true, BreakGlass: "fire"}))); out.GetCode() != CodeInvalid {
		t.Error(out)
	}
	if len(h.BrokenGlass(time.Unix(1, 0))) != 0 {
		t.Error("it is told")
	}
}
