package client_test

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"time"

	"anabranch/cmd/anabranch/client"
	"anabranch/cmd/anabranch/client/clienttest"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// guarded is a node of a cluster in which two people have to agree on tenants.
func guarded(t *testing.T) *clienttest.Node {
	t.Helper()
	n := clienttest.Start(t)
	n.Apply(&statepb.Command{Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}}})
	out := n.Apply(&statepb.Command{Format: 3, Op: &statepb.Command_Put{Put: &statepb.Put{Kind: "SafetyRule", Name: "two", Doc: []byte(`{"spec":{"approval":{"kinds":["Tenant"]}}}`)}}})
	if out.GetCode() != "" {
		t.Fatal(out)
	}
	return n
}

func TestAChangeThatOthersMustApproveIsAProposal(t *testing.T) {
	n := guarded(t)
	c := admin(n)
	done, _, err := c.Apply(t.Context(), tenant(t, "acme", "top"))
	var p *client.ProposedError
	if done != client.Created || !errors.As(err, &p) || p.ID == "" || p.ApprovalsNeeded != 1 || p.SHA256 == "" {
		t.Fatalf("%s, %v", done, err)
	}
	if made, err := c.Create(t.Context(), tenant(t, "globex", "top")); made || !errors.As(err, new(*client.ProposedError)) {
		t.Errorf("create: %v, %v", made, err)
	}
	approver := &client.Client{Servers: []string{n.URL}, Token: "approver-token"}
	if _, err := approver.Approve(t.Context(), p.ID, "00"); err == nil {
		t.Error("another hash was approved")
	}
	now, err := approver.Approve(t.Context(), p.ID, p.SHA256)
	if err != nil || now.State != client.Applied || len(now.Approvers()) != 1 || now.Approvers()[0] != "approver" {
		t.Errorf("approved: %+v, %v", now, err)
	}
	if now, err = c.Decided(t.Context(), p.ID); err != nil || now.State != client.Applied {
		t.Errorf("decided: %+v, %v", now, err)
	}
	if err := c.Delete(t.Context(), policy.KindTenant, "acme"); !errors.As(err, new(*client.ProposedError)) {
		t.Errorf("delete: %v", err)
	}
	c.BreakGlass = "fire"
	if err := c.Delete(t.Context(), policy.KindTenant, "acme"); err != nil {
		t.Errorf("delete with the glass broken: %v", err)
	}
	list, err := c.Proposals(t.Context(), url.Values{"limit": {"1"}})
	if err != nil || len(list) != 3 || list[2].ID != p.ID {
		t.Errorf("listed page by page: %+v, %v", list, err)
	}
}

func TestWhoWaitsForADecisionMayGiveUp(t *testing.T) {
	n := guarded(t)
	c := admin(n)
	_, _, err := c.Apply(t.Context(), tenant(t, "acme", "top"))
	var p *client.ProposedError
	if !errors.As(err, &p) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Decided(ctx, p.ID); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("gave up with %v", err)
	}
}
