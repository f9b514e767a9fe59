package state

import (
	"testing"

	"anabranch/controlplane/state/statepb"
)

func bump(atLeast uint64) *statepb.Command {
	return command(&statepb.BumpEpoch{AtLeast: atLeast})
}

func publication(us float64) *statepb.Command {
	return command(&statepb.Publish{Table: table(us)})
}

func TestARebornStatePublishesNothingUntilItsEpochRises(t *testing.T) {
	before := full(t)
	born := again(t, before.Reborn(Rebirth{Index: before.Index() + 5, Lineage: "l1"})) // through a snapshot
	if born.Index() != before.Index()+5 || born.ClusterID() != before.ClusterID() || born.Lineage() != "l1" || !born.EpochDue() {
		t.Fatalf("index %d, cluster %s, lineage %q, due %v", born.Index(), born.ClusterID(), born.Lineage(), born.EpochDue())
	}
	if len(before.Nodes()) == 0 || len(born.Nodes()) != 0 {
		t.Errorf("%d nodes before, %d after: the old ones are not there any more", len(before.Nodes()), len(born.Nodes()))
	}
	if before.EpochDue() || before.Lineage() != "" {
		t.Error("the state that it came from has changed")
	}
	h := &history{t: t, View: born}
	if out := h.do(publication(0.123)); out.GetCode() != CodePrecondition {
		t.Errorf("published in epoch %d, which routers may know better: %v", h.Epoch(), out)
	}
	if out := h.do(bump(born.Epoch())); out.GetCode() != "" || !h.EpochDue() {
		t.Errorf("an epoch that did not rise was enough: %v", out)
	}
	if out := h.do(bump(born.Epoch() + 3)); out.GetCode() != "" || h.EpochDue() {
		t.Fatalf("bump: %v, due %v", out, h.EpochDue())
	}
	if out := h.do(publication(0.123)); out.GetCode() != "" {
		t.Fatalf("publish: %v", out)
	}
	ref := h.Table().GetRef()
	if ref.GetEpoch() != born.Epoch()+3 || ref.GetRevision() <= before.Table().GetRef().GetRevision() {
		t.Errorf("table %v does not come after %v", ref, before.Table().GetRef())
	}
	if h.Lineage() != "l1" {
		t.Errorf("lineage %q", h.Lineage())
	}
}

func TestARebornStateKeepsItsAuditTrailAndResources(t *testing.T) {
	before := full(t)
	born := again(t, before.Reborn(Rebirth{ClusterID: "other", Lineage: "l1"}))
	if born.ClusterID() != "other" || born.Index() != before.Index() {
		t.Errorf("cluster %s at %d", born.ClusterID(), born.Index())
	}
	if a, b := len(before.Audit(0, 0)), len(born.Audit(0, 0)); a == 0 || a != b {
		t.Errorf("%d audit entries before, %d after", a, b)
	}
	if err := VerifyAudit(born.Audit(0, 0)); err != nil {
		t.Error(err)
	}
	if Equal(before, born) {
		t.Error("two histories can't be told apart")
	}
	if born.ResourcesRevision() != before.ResourcesRevision() || len(born.Tokens()) != len(before.Tokens()) {
		t.Error("resources or tokens were lost")
	}
}
