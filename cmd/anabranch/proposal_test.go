package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// guarded is a session of the operator with a cluster in which two people have to agree on tenants; tenant
// acme of tier top is there.
func guarded(t *testing.T) session {
	t.Helper()
	s := begin(t)
	if out := s.node.Apply(&statepb.Command{Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}}}); out.GetCode() != "" {
		t.Fatal(out)
	}
	s.do(0, eu+"---\n"+acme, "apply", "-f", "-")
	s.do(0, "apiVersion: anabranch/v1\nkind: SafetyRule\nmetadata: {name: two}\nspec: {approval: {kinds: [Tenant]}}\n", "apply", "-f", "-")
	t.Setenv("ANABRANCH_TOKEN", "operator-token")
	return s
}

var batch = strings.Replace(acme, "top", "batch", 1)

// proposedAs is the id of the newest proposal.
func (s session) proposedAs() string {
	s.t.Helper()
	all := s.node.View().Proposals()
	if len(all) == 0 {
		s.t.Fatal("nothing is proposed")
	}
	return fmt.Sprint(all[len(all)-1].GetId())
}

func TestAProtectedChangeIsProposedShownAndApproved(t *testing.T) {
	s := guarded(t)
	out, _ := s.do(0, batch, "apply", "-f", "-", "--reason", "contract ended")
	id := s.proposedAs()
	if !strings.HasPrefix(out, "tenants/acme proposed as "+id+": somebody else has to approve it until ") || !strings.HasSuffix(out, "\n  anabranch proposal show "+id+"\n") || s.tierOfAcme() != "top" {
		t.Errorf("apply: %q, tier %s", out, s.tierOfAcme())
	}
	out, _ = s.do(0, "", "proposal", "list")
	if got := fields(out); !strings.HasPrefix(got, "ID STATE ACTION RESOURCE PROPOSER APPROVED CREATED EXPIRES REASON\n"+id+" pending update tenants/acme operator 0 of 1 ") || !strings.Contains(got, " contract ended") {
		t.Errorf("list:\n%s", out)
	}
	if out, _ = s.do(0, "", "status"); !strings.Contains(out, "proposals 1 to be approved: anabranch proposal list\n") {
		t.Errorf("status:\n%s", out)
	}
	out, _ = s.do(0, "", "proposal", "show", id)
	for _, want := range []string{"state pending", "would update tenants/acme, made from revision ", "by operator (operator) at ", "reason contract ended", "approved 0 of 1", "spec.tier: \"top\" → \"batch\""} {
		if !strings.Contains(fields(out), want) {
			t.Errorf("show has no %q:\n%s", want, out)
		}
	}
	if more, _ := s.do(0, "", "proposal", "show", id, "--simulate"); !strings.HasPrefix(more, out) || !strings.Contains(more, "traffic: no share would move") {
		t.Errorf("show --simulate:\n%s", more)
	}
	if _, errs := s.do(exitRefused, "", "proposal", "approve", id); !strings.Contains(errs, "forbidden") {
		t.Errorf("approved by the operator: %s", errs)
	}
	if _, errs := s.do(exitFailed, "", "--token", "approver-token", "proposal", "approve", id, "--sha256", "00"); !strings.Contains(errs, "look at it again") {
		t.Errorf("approved by another hash: %s", errs)
	}
	sum := fmt.Sprintf("%x", s.node.View().Proposals()[0].GetSha256())
	out, _ = s.do(0, "", "--token", "approver-token", "proposal", "approve", id, "--sha256", sum, "--reason", "ok")
	if want := fmt.Sprintf("proposal %s, update tenants/acme: applied as revision %d, approved by approver\n  spec.tier: \"top\" → \"batch\"\n", id, s.node.View().Index()); out != want || s.tierOfAcme() != "batch" {
		t.Errorf("approve: %q, want %q", out, want)
	}
	if _, errs := s.do(exitRefused, "", "--token", "approver-token", "proposal", "approve", id); !strings.Contains(errs, "not_pending") {
		t.Errorf("approved again: %s", errs)
	}
	if out, _ = s.do(0, "", "history", "tenant", "acme"); !strings.Contains(fields(out), "update, approved by approver operator human contract ended") {
		t.Errorf("history:\n%s", out)
	}
	if out, _ = s.do(0, "", "proposal", "list"); strings.Contains(out, id) {
		t.Errorf("it is listed still:\n%s", out)
	}
	if out, _ = s.do(0, "", "proposal", "show", id); !strings.Contains(fields(out), "approved 1 of 1, by approver (ok)") {
		t.Errorf("show:\n%s", out)
	}
	var list struct{ Items []struct{ ID, State string } }
	out, _ = s.do(0, "", "proposal", "list", "--state", "all", "--kind", "tenant", "--proposer", "operator", "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Items) != 1 || list.Items[0].State != "applied" {
		t.Errorf("json: %v\n%s", err, out)
	}
	if out, _ = s.do(0, "", "proposal", "show", id, "-o", "yaml"); !strings.Contains(out, "state: applied") {
		t.Errorf("yaml:\n%s", out)
	}
	s.do(exitFailed, "", "proposal", "list", "--state", "odd")
	s.do(exitUsage, "", "proposal", "list", "--kind", "odd")
}

func TestProposalsAreRejectedAndTakenBack(t *testing.T) {
	s := guarded(t)
	s.do(0, batch, "apply", "-f", "-")
	first := s.proposedAs()
	if _, errs := s.do(exitFailed, "", "--token", "approver-token", "proposal", "reject", first); !strings.Contains(errs, "--reason") {
		t.Errorf("rejected without a reason: %s", errs)
	}
	if out, _ := s.do(0, "", "--token", "approver-token", "proposal", "reject", first, "--reason", "no"); out != "proposal "+first+", update tenants/acme: rejected by approver: no\n" {
		t.Errorf("reject: %q", out)
	}
	out, _ := s.do(0, "", "delete", "tenant", "acme")
	second := s.proposedAs()
	if !strings.HasPrefix(out, "tenants/acme deletion proposed as "+second+": ") {
		t.Errorf("delete: %q", out)
	}
	if _, errs := s.do(exitRefused, "", "--token", "admin-token", "proposal", "withdraw", second); !strings.Contains(errs, "not_proposer") {
		t.Errorf("withdrawn by another: %s", errs)
	}
	if out, _ = s.do(0, "", "proposal", "withdraw", second); out != "proposal "+second+", delete tenants/acme: withdrawn by operator\n" {
		t.Errorf("withdraw: %q", out)
	}
}

// decideSoon has somebody decide the next proposal, once it is there.
func (s session) decideSoon(verdict string) {
	s.t.Helper()
	done := make(chan struct{})
	s.t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		for until := time.Now().Add(20 * time.Second); time.Now().Before(until); {
			for _, p := range s.node.View().Proposals() {
				if p.GetState() == state.ProposalPending {
					s.node.Apply(&statepb.Command{
						Format: 3, AtUnixMs: time.Now().UnixMilli(), Actor: &statepb.Actor{Name: "zoe", Reason: "said so"},
						Op: &statepb.Command_DecideProposal{DecideProposal: &statepb.DecideProposal{Id: p.GetId(), Verdict: verdict, Sha256: p.GetSha256()}},
					})
					return
				}
			}
			<-time.After(5 * time.Millisecond)
		}
	}()
}

func TestACommandWaitsForTheDecision(t *testing.T) {
	s := guarded(t)
	s.decideSoon(state.VerdictApprove)
	if out, _ := s.do(0, batch, "apply", "-f", "-", "--wait"); !strings.Contains(out, "\ntenants/acme applied as revision ") || !strings.HasSuffix(out, ", approved by zoe\n") || s.tierOfAcme() != "batch" {
		t.Errorf("apply: %q", out)
	}
	s.decideSoon(state.VerdictReject)
	if _, errs := s.do(exitFailed, "", "delete", "tenant", "acme", "--wait"); !strings.Contains(errs, " is rejected by zoe: said so") {
		t.Errorf("delete: %q", errs)
	}
}

func TestEditAndRollbackAreProposedToo(t *testing.T) {
	s := guarded(t)
	t.Setenv("TMPDIR", t.TempDir())
	editor(t, `sed -i 's/tier: top/tier: batch/' "$1"`)
	if out, _ := s.do(0, "", "edit", "tenant", "acme"); !strings.HasPrefix(out, "tenants/acme proposed as "+s.proposedAs()) {
		t.Errorf("edit: %q", out)
	}
	if left, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "*")); len(left) > 0 {
		t.Errorf("left behind %q", left)
	}
	first, _ := s.node.View().Get(policy.KindTenant, "acme")
	s.do(0, "", "--token", "approver-token", "proposal", "approve", s.proposedAs())
	if out, _ := s.do(0, "", "rollback", "tenant", "acme", "--to", fmt.Sprint(first.Metadata.Revision)); !strings.HasPrefix(out, "tenants/acme rollback proposed as "+s.proposedAs()) {
		t.Errorf("rollback: %q", out)
	}
}

func TestBreakingTheGlassAppliesAtOnce(t *testing.T) {
	s := guarded(t)
	s.do(exitFailed, batch, "apply", "-f", "-", "--break-glass", " ")
	if out, _ := s.do(0, batch, "apply", "-f", "-", "--break-glass", "they pay no more"); !strings.HasPrefix(out, "tenants/acme configured\n") || s.tierOfAcme() != "batch" {
		t.Errorf("apply: %q", out)
	}
	if out, _ := s.do(0, "", "history", "tenant", "acme"); !strings.Contains(fields(out), "update, glass broken operator human they pay no more") {
		t.Errorf("history:\n%s", out)
	}
	if out, _ := s.do(0, "", "status"); !strings.Contains(fields(out), "glass broken by operator at ") || !strings.Contains(out, " for tenants/acme: they pay no more\n") {
		t.Errorf("status:\n%s", out)
	}
	s.do(0, "", "rollback", "tenant", "acme", "--to", fmt.Sprint(s.node.View().History(policy.KindTenant, "acme")[1].GetRevision()), "--break-glass", "back")
	if s.tierOfAcme() != "top" {
		t.Errorf("tier %s", s.tierOfAcme())
	}
	if out, _ := s.do(0, "", "delete", "tenant", "acme", "--break-glass", "gone"); out != "tenants/acme deleted\n" {
		t.Errorf("delete: %q", out)
	}
}

func TestAPlanSaysWhoMustApprove(t *testing.T) {
	s := guarded(t)
	if out, _ := s.do(0, batch, "plan", "-f", "-", "--simulate=false"); !strings.Contains(out, "approval: it would be proposed, and needs that of others: 1") {
		t.Errorf("plan: %s", out)
	}
	if out, _ := s.do(0, "", "get", "safetyrules"); !strings.Contains(fields(out), "APPROVAL DRILLS REVISION\ntwo - - - - tenants by 1 - ") {
		t.Errorf("rules:\n%s", out)
	}
}

func TestKeysOfAProtectedTenantAreProposed(t *testing.T) {
	s := guarded(t)
	out, errs := s.do(0, "", "key", "add", "acme", "--id", "new")
	id := s.proposedAs()
	if !strings.HasPrefix(out, "ab-") || !strings.Contains(errs, "waits as proposal "+id) {
		t.Errorf("add: %s%s", out, errs)
	}
	s.do(0, "", "--token", "approver-token", "proposal", "approve", id)
	out, errs = s.do(0, "", "key", "revoke", "acme", "--id", "new")
	if out != "" || !strings.Contains(errs, "waits as proposal "+s.proposedAs()) {
		t.Errorf("revoke: %s%s", out, errs)
	}
}

func TestIdsOfProposalsAreCompleted(t *testing.T) {
	s := guarded(t)
	s.do(0, batch, "apply", "-f", "-")
	if out, _ := s.do(0, "", "__complete", "proposal", "show", ""); !strings.HasPrefix(out, s.proposedAs()+"\n") {
		t.Errorf("completed: %s", out)
	}
	if out, _ := s.do(0, "", "__complete", "proposal", "show", s.proposedAs(), ""); strings.HasPrefix(out, s.proposedAs()) {
		t.Errorf("completed twice: %s", out)
	}
}

func TestTwoOthersApproveWhereTheRuleWantsThat(t *testing.T) {
	s := guarded(t)
	s.do(0, "apiVersion: anabranch/v1\nkind: SafetyRule\nmetadata: {name: three}\nspec: {approval: {kinds: [Tenant], approvals: 2}}\n", "apply", "-f", "-", "--break-glass", "set up")
	if out, _ := s.do(0, batch, "apply", "-f", "-"); !strings.Contains(out, ": 2 others have to approve it until ") {
		t.Errorf("apply: %q", out)
	}
	id := s.proposedAs()
	if out, _ := s.do(0, "", "--token", "approver-token", "proposal", "approve", id); !strings.HasPrefix(out, "proposal "+id+", update tenants/acme: approved by 1 of 2\n") || s.tierOfAcme() != "top" {
		t.Errorf("first: %q", out)
	}
	if out, _ := s.do(0, "", "--token", "admin-token", "proposal", "approve", id); !strings.Contains(out, "approved by approver, admin\n") || s.tierOfAcme() != "batch" {
		t.Errorf("second: %q", out)
	}
}
