package leader

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

func TestProposalsThatNobodyDecidesAreEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		c.write(policy.KindSafetyRule, "two", "{approval: {kinds: [Tenant], expiresAfterSeconds: 60}}")
		c.mu.Lock()
		out := c.apply(&statepb.Command{
			Format: 3, AtUnixMs: time.Now().UnixMilli(), Actor: &statepb.Actor{Name: "ann"},
			Op: &statepb.Command_Put{Put: &statepb.Put{Kind: "Tenant", Name: "acme", Doc: []byte(`{"spec":{}}`)}},
		})
		c.mu.Unlock()
		id := out.GetProposal()
		c.pass(58 * time.Second)
		if p := c.View().Proposal(id); p.GetState() != state.ProposalPending {
			t.Fatalf("too early: %v", p)
		}
		c.pass(4 * time.Second)
		if p := c.View().Proposal(id); p.GetState() != state.ProposalExpired || p.GetEndedBy().GetName() != actor {
			t.Errorf("too late: %v", p)
		}
		ended := slices.DeleteFunc(c.View().Audit(id, 0), func(e *statepb.AuditEntry) bool { return e.GetAction() != state.ActionExpire })
		c.pass(5 * time.Second)
		if len(ended) != 1 || ended[0].GetReason() == "" {
			t.Errorf("audited as %v", ended)
		}
	})
}
