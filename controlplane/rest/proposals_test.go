package rest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"anabranch/controlplane/access"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// newGuarded is a node of a cluster in which two people have to agree on tenants, and tenant acme is there.
func newGuarded(t *testing.T, change ...func(*Options)) *double {
	t.Helper()
	d := newChronicler(t, change...)
	d.seed("Tenant acme {}")
	d.do("operator", "POST", "/v1/safetyrules", doc("SafetyRule", "two", "{approval: {kinds: [Tenant], expiresAfterSeconds: 3600}}"), yaml).want(201, "")
	return d
}

// toldProposal is a Proposal as it was answered.
type toldProposal struct {
	Proposal
	Resource json.RawMessage `json:"resource"`
}

func (a answer) proposal() toldProposal {
	a.t.Helper()
	var p toldProposal
	a.into(&p)
	return p
}

// raise has the operator propose another tier of acme.
func (d *double) raise(headers ...string) toldProposal {
	d.t.Helper()
	a := d.do("operator", "PATCH", "/v1/tenants/acme", `{"spec":{"tier":"top"}}`, append(headers, "If-Match: *")...).want(202, "")
	p := a.proposal()
	if a.header.Get("Location") != "/v1/proposals/"+p.ID || p.State != "pending" {
		d.t.Fatalf("%s: %+v", a.header.Get("Location"), p)
	}
	return p
}

func (d *double) tier(name string) string {
	r, ok := d.current().Get(policy.KindTenant, name)
	if !ok {
		return "gone"
	}
	return r.Spec.(*policy.TenantSpec).Tier
}

func saw(sha256 string) string { return `{"sha256":"` + sha256 + `"}` }

func TestAProtectedWriteIsProposedApprovedAndApplied(t *testing.T) {
	d := newGuarded(t)
	base, _ := d.current().Get(policy.KindTenant, "acme")
	p := d.raise("X-Anabranch-Reason: contract")
	if p.Action != "update" || p.Kind != "Tenant" || p.Name != "acme" || p.Proposer != (Person{"operator", "token", "operator"}) || p.Reason != "contract" ||
		p.Manager != "human" || p.BaseRevision != base.Metadata.Revision || p.ApprovalsNeeded != 1 || len(p.Approvals) != 0 ||
		!p.CreatedAt.Equal(epoch) || !p.ExpiresAt.Equal(epoch.Add(time.Hour)) || len(p.SHA256) != 64 || len(p.DocumentSHA256) != 64 {
		t.Errorf("proposal %+v", p)
	}
	if len(p.Diff) != 1 || p.Diff[0].Field != "spec.tier" || !strings.Contains(string(p.Resource), `"tier":"top"`) {
		t.Errorf("content %s, %+v", p.Resource, p.Diff)
	}
	if got := d.tier("acme"); got != "standard" {
		t.Errorf("applied already: %s", got)
	}
	if st := d.standing(); st.PendingProposals != 1 || len(st.BrokenGlass) != 0 {
		t.Errorf("status %+v", st)
	}
	path := "/v1/proposals/" + p.ID
	if got := d.do("viewer", "GET", path, "").want(200, "").proposal(); got.SHA256 != p.SHA256 || string(got.Resource) != string(p.Resource) {
		t.Errorf("read %+v", got)
	}
	d.do("operator", "POST", path+"/approve", saw(p.SHA256)).want(403, "forbidden")
	d.do("approver", "POST", path+"/approve", saw(strings.Repeat("0", 64))).want(409, "proposal_changed")
	d.do("approver", "POST", path+"/approve", "{}").want(422, "invalid")
	d.do("approver", "POST", path+"/approve", saw("hello")).want(422, "invalid")
	now := d.do("approver", "POST", path+"/approve", saw(p.SHA256), "X-Anabranch-Reason: seen the contract").want(200, "").proposal()
	if now.State != "applied" || now.AppliedRevision != d.current().Index() || now.EndedBy != "approver" || now.EndReason != "seen the contract" || !now.EndedAt.Equal(epoch) {
		t.Errorf("approved %+v", now)
	}
	if want := []Approval{{Person{"approver", "token", "approver"}, epoch, "seen the contract"}}; !slices.Equal(now.Approvals, want) {
		t.Errorf("approvals %+v", now.Approvals)
	}
	if len(now.Diff) != 1 || d.tier("acme") != "top" {
		t.Errorf("tier %s, diff %+v", d.tier("acme"), now.Diff)
	}
	var past List[Version]
	d.do("viewer", "GET", "/v1/tenants/acme/history", "").want(200, "").into(&past)
	if v := past.Items[0]; v.Author != "operator" || v.Reason != "contract" || v.Proposal != p.ID || !slices.Equal(v.ApprovedBy, []string{"approver"}) || v.BreakGlass {
		t.Errorf("history %+v", v)
	}
	d.do("approver", "POST", path+"/approve", saw(p.SHA256)).want(409, "not_pending")
	d.do("viewer", "GET", "/v1/proposals/7777", "").want(404, "not_found")
	d.do("approver", "POST", "/v1/proposals/x/approve", saw(p.SHA256)).want(404, "not_found")
}

func TestEveryWriteOfWhatIsProtectedIsProposed(t *testing.T) {
	d := newGuarded(t)
	acme, _ := d.current().Get(policy.KindTenant, "acme")
	r1 := acme.Metadata.Revision
	p := d.raise()
	d.do("approver", "POST", "/v1/proposals/"+p.ID+"/approve", saw(p.SHA256)).want(200, "")
	for _, w := range []struct{ method, path, body, media, action string }{
		{"POST", "/v1/tenants", doc("Tenant", "new", "{}"), yaml, "create"},
		{"PUT", "/v1/tenants/acme", doc("Tenant", "acme", "{tier: batch}"), yaml, "update"},
		{"PATCH", "/v1/tenants/acme", `{"spec":{"tier":"batch"}}`, "Content-Type: application/json", "update"},
		{"POST", "/v1/tenants/acme/rollback", `{"revision":` + etag(r1)[1:len(etag(r1))-1] + `}`, "Content-Type: application/json", "rollback"},
		{"DELETE", "/v1/tenants/acme", "", yaml, "delete"},
		{"PUT", "/v1/safetyrules/two", doc("SafetyRule", "two", "{rollout: {}}"), yaml, "update"},
	} {
		if got := d.do("admin", w.method, w.path, w.body, w.media, "If-Match: *").want(202, "").proposal(); got.Action != w.action || got.Proposer.Name != "admin" {
			t.Errorf("%s %s: %+v", w.method, w.path, got)
		}
	}
	if d.tier("acme") != "top" || d.tier("new") != "gone" {
		t.Error("something was applied")
	}
	d.do("operator", "PATCH", "/v1/tenants/acme", `{"spec":{"tier":"batch"}}`, `If-Match: "1"`).want(412, "precondition")
	d.do("operator", "PATCH", "/v1/tenants/acme", `{"spec":{"colour":"red"}}`, "If-Match: *").want(422, "invalid")
	d.do("operator", "PATCH", "/v1/tenants/acme", `{"spec":{"tier":"top"}}`, "If-Match: *").want(200, "") // as it is
}

func TestNobodyApprovesTheirOwn(t *testing.T) {
	d := newGuarded(t)
	p := d.do("admin", "PATCH", "/v1/tenants/acme", `{"spec":{"tier":"top"}}`, "If-Match: *").want(202, "").proposal()
	d.do("admin", "POST", "/v1/proposals/"+p.ID+"/approve", saw(p.SHA256)).want(409, "own_proposal")
	found := slices.ContainsFunc(d.current().Audit(0, 0), func(e *statepb.AuditEntry) bool {
		return e.GetAction() == actionRefused && e.GetCode() == "own_proposal" && e.GetKind() == state.KindProposal && e.GetName() == p.ID
	})
	if !found || d.tier("acme") != "standard" {
		t.Errorf("audited: %v, tier %s", found, d.tier("acme"))
	}
}

func TestProposalsAreRejectedAndWithdrawn(t *testing.T) {
	d := newGuarded(t)
	first, second := d.raise(), d.raise()
	d.do("approver", "POST", "/v1/proposals/"+first.ID+"/reject", "").want(400, "invalid_request")
	if got := d.do("approver", "POST", "/v1/proposals/"+first.ID+"/reject", "", "X-Anabranch-Reason: not now").want(200, "").proposal(); got.State != "rejected" || got.EndReason != "not now" {
		t.Errorf("rejected %+v", got)
	}
	d.do("admin", "DELETE", "/v1/proposals/"+second.ID, "").want(409, "not_proposer")
	d.do("operator", "DELETE", "/v1/proposals/"+second.ID, "", "X-Anabranch-Reason: "+strings.Repeat("x", maxReason+1)).want(400, "invalid_request")
	if got := d.do("operator", "DELETE", "/v1/proposals/"+second.ID, "").want(200, "").proposal(); got.State != "withdrawn" || got.EndedBy != "operator" {
		t.Errorf("withdrawn %+v", got)
	}
	d.do("approver", "POST", "/v1/proposals/"+second.ID+"/approve", saw(second.SHA256)).want(409, "not_pending")
	d.failing(errNoLeaderForTest)
	d.do("approver", "POST", "/v1/proposals/"+first.ID+"/approve", saw(first.SHA256)).want(503, "no_leader")
}

func TestAProposalEndsWhenItIsStaleOrTooOld(t *testing.T) {
	d := newGuarded(t)
	first, second := d.raise(), d.raise()
	d.do("approver", "POST", "/v1/proposals/"+first.ID+"/approve", saw(first.SHA256)).want(200, "")
	if got := d.do("viewer", "GET", "/v1/proposals/"+second.ID, "").want(200, "").proposal(); got.State != "stale" || len(got.Diff) != 1 {
		t.Errorf("stale %+v", got)
	}
	p := d.do("approver", "POST", "/v1/proposals/"+second.ID+"/approve", saw(second.SHA256)).want(409, "not_pending").problem()
	if !strings.Contains(p.Detail, "is stale") {
		t.Errorf("detail %q", p.Detail)
	}
	third := d.do("operator", "DELETE", "/v1/tenants/acme", "", "If-Match: *").want(202, "").proposal()
	d.advance(time.Hour)
	if got := d.do("viewer", "GET", "/v1/proposals/"+third.ID, "").want(200, "").proposal(); got.State != "expired" || !got.EndedAt.IsZero() {
		t.Errorf("expired %+v", got)
	}
	d.do("approver", "POST", "/v1/proposals/"+third.ID+"/approve", saw(third.SHA256)).want(409, "not_pending")
	if st := d.standing(); st.PendingProposals != 0 {
		t.Errorf("%d are pending", st.PendingProposals)
	}
}

func TestAnApprovalIsJudgedAsAnyWrite(t *testing.T) {
	d := newChronicler(t)
	d.seed("Tenant acme {}", "Model m {}")
	d.do("operator", "POST", "/v1/safetyrules", doc("SafetyRule", "two", "{approval: {kinds: [Quota]}}"), yaml).want(201, "")
	p := d.do("operator", "POST", "/v1/quotas", doc("Quota", "q", "{tenant: acme, limits: [{kind: requests, perMinute: 1}]}"), yaml).want(202, "").proposal()
	d.do("operator", "DELETE", "/v1/tenants/acme", "", "If-Match: *").want(204, "")
	d.do("approver", "POST", "/v1/proposals/"+p.ID+"/approve", saw(p.SHA256)).want(422, "invalid")
	if got := d.do("viewer", "GET", "/v1/proposals/"+p.ID, "").proposal(); got.State != "pending" || len(got.Approvals) != 0 {
		t.Errorf("after it: %+v", got)
	}
}

func TestProposalsAreListedByWhatIsAskedFor(t *testing.T) {
	d := newGuarded(t)
	first := d.raise()
	second := d.do("admin", "POST", "/v1/tenants", doc("Tenant", "new", "{}"), yaml).want(202, "").proposal()
	third := d.do("admin", "DELETE", "/v1/safetyrules/two", "", "If-Match: *").want(202, "").proposal()
	d.do("operator", "DELETE", "/v1/proposals/"+first.ID, "").want(200, "")
	for query, want := range map[string][]string{
		"":                              {third.ID, second.ID, first.ID},
		"?state=pending":                {third.ID, second.ID},
		"?state=withdrawn":              {first.ID},
		"?kind=Tenant":                  {second.ID, first.ID},
		"?kind=Tenant&proposer=admin":   {second.ID},
		"?name=ac*":                     {first.ID},
		"?proposer=nobody":              {},
		"?kind=SafetyRule&state=stale":  {},
		"?limit=1000&consistency=stale": {third.ID, second.ID, first.ID},
	} {
		var list List[toldProposal]
		d.do("viewer", "GET", "/v1/proposals"+query, "").want(200, "").into(&list)
		var ids []string
		for _, p := range list.Items {
			ids = append(ids, p.ID)
			if p.Resource != nil || p.Diff != nil {
				t.Errorf("a list tells the content of %s", p.ID)
			}
		}
		if !slices.Equal(ids, want) {
			t.Errorf("%q: %q, want %q", query, ids, want)
		}
	}
	var page List[toldProposal]
	d.do("viewer", "GET", "/v1/proposals?kind=Tenant&limit=1", "").want(200, "").into(&page)
	if page.Items[0].ID != second.ID || page.NextCursor == "" {
		t.Fatalf("first page %+v", page)
	}
	next := page.NextCursor
	d.do("viewer", "GET", "/v1/proposals?kind=Tenant&limit=1&cursor="+next, "").want(200, "").into(&page)
	if page.Items[0].ID != first.ID || page.NextCursor != "" {
		t.Errorf("second page %+v", page)
	}
	d.do("viewer", "GET", "/v1/proposals?cursor="+next, "").want(400, "invalid_request")
	for _, query := range []string{"watch=perhaps", "watch=true&state=pending", "watch=true&limit=3", "state=odd", "kind=Regions"} {
		d.do("viewer", "GET", "/v1/proposals?"+query, "").want(400, "invalid_request")
	}
}

func TestAKeyMakesOneProposal(t *testing.T) {
	d := newGuarded(t)
	first := d.raise(key("k"))
	if again := d.raise(key("k")); again.ID != first.ID {
		t.Errorf("again %s, want %s", again.ID, first.ID)
	}
	path := "/v1/proposals/" + first.ID + "/approve"
	a := d.do("approver", "POST", path, saw(first.SHA256), key("k")).want(200, "")
	if again := d.do("approver", "POST", path, saw(first.SHA256), key("k")).want(200, ""); string(again.body) != string(a.body) {
		t.Errorf("again %s, want %s", again.body, a.body)
	}
	d.do("approver", "POST", path, saw(strings.Repeat("0", 64)), key("k")).want(422, "idempotency_key_reused")
	if got := d.topAgain(key("k")); got.ID != first.ID || got.State != "applied" {
		t.Errorf("the key of a proposal that was applied: %+v", got)
	}
}

// topAgain sends the write of raise again, whatever has become of it.
func (d *double) topAgain(headers ...string) toldProposal {
	d.t.Helper()
	return d.do("operator", "PATCH", "/v1/tenants/acme", `{"spec":{"tier":"top"}}`, append(headers, "If-Match: *")...).want(202, "").proposal()
}

func TestARepeatedProposalThatMeetsItsFirstIsOne(t *testing.T) {
	d := newGuarded(t)
	d.before = func(d *double, cmd *statepb.Command) { d.apply(cmd) }
	d.raise(key("k"))
	if n := len(d.current().Proposals()); n != 1 {
		t.Errorf("%d proposals", n)
	}
}

func TestProposalsAreKeptWithinScopes(t *testing.T) {
	d := newChronicler(t)
	d.seed("Tenant mine {}", "Tenant theirs {}")
	d.do("operator", "POST", "/v1/safetyrules", doc("SafetyRule", "two", "{approval: {kinds: [Tenant, SafetyRule]}}"), yaml).want(201, "")
	d.token("mine-approver", "approver", access.Scope{Tenants: []string{"mine"}})
	d.token("mine-operator", "operator", access.Scope{Tenants: []string{"mine"}})
	patch := `{"spec":{"tier":"top"}}`
	mine := d.do("mine-operator", "PATCH", "/v1/tenants/mine", patch, "If-Match: *").want(202, "").proposal()
	theirs := d.do("operator", "PATCH", "/v1/tenants/theirs", patch, "If-Match: *").want(202, "").proposal()
	rule := d.do("operator", "DELETE", "/v1/safetyrules/two", "", "If-Match: *").want(202, "").proposal()
	var list List[toldProposal]
	d.do("mine-approver", "GET", "/v1/proposals", "").want(200, "").into(&list)
	if len(list.Items) != 2 || list.Items[0].ID != rule.ID || list.Items[1].ID != mine.ID {
		t.Errorf("listed %+v", list.Items)
	}
	d.do("mine-approver", "GET", "/v1/proposals/"+theirs.ID, "").want(404, "not_found")
	d.do("mine-approver", "POST", "/v1/proposals/"+theirs.ID+"/approve", saw(theirs.SHA256)).want(403, "out_of_scope")
	d.do("mine-approver", "POST", "/v1/proposals/"+rule.ID+"/approve", saw(rule.SHA256)).want(403, "out_of_scope")
	d.do("mine-operator", "DELETE", "/v1/proposals/"+theirs.ID, "").want(403, "out_of_scope")
	var st Status
	d.do("mine-operator", "GET", "/v1/status", "").want(200, "").into(&st)
	if st.PendingProposals != 2 {
		t.Errorf("%d are pending", st.PendingProposals)
	}
	d.do("mine-approver", "POST", "/v1/proposals/"+mine.ID+"/approve", saw(mine.SHA256)).want(200, "")
	if d.tier("mine") != "top" {
		t.Error("not applied")
	}
}

func TestAWatchTellsWhatBecomesOfProposals(t *testing.T) {
	d := newGuarded(t)
	first, second := d.raise(), d.raise()
	s := d.watch("/v1/proposals?watch=true")
	next := func(s *sse) (string, string, string) {
		t.Helper()
		e, ok := s.next()
		var p Proposal
		if err := json.Unmarshal([]byte(e.data), &p); err != nil || !ok || e.name != "proposal" {
			t.Fatalf("event %+v, %v", e, err)
		}
		return p.ID, p.State, e.id
	}
	for _, want := range []string{first.ID, second.ID} {
		if id, state, at := next(s); id != want || state != "pending" || at != want {
			t.Errorf("%s %s at %s", id, state, at)
		}
	}
	d.do("approver", "POST", "/v1/proposals/"+first.ID+"/approve", saw(first.SHA256)).want(200, "")
	_, _, before := next(s)
	if id, state, at := next(s); id != second.ID || state != "stale" || at == before {
		t.Errorf("%s %s at %s, after %s", id, state, at, before)
	}
	resumed := d.watch("/v1/proposals?watch=true", "Last-Event-ID: "+before) // in the midst of a command
	if id, state, _ := next(resumed); id != first.ID || state != "applied" {
		t.Errorf("resumed with %s %s", id, state)
	}
	d.do("viewer", "GET", "/v1/proposals?watch=true", "", "Last-Event-ID: x").want(400, "invalid_request")
	d.do("viewer", "GET", "/v1/proposals?watch=true&after=999999", "").want(410, "gone")
	d.advance(state.EndedFor + time.Hour)
	// Those that have ended are forgotten with the next.
	d.do("operator", "PATCH", "/v1/tenants/acme", `{"spec":{"tier":"batch"}}`, "If-Match: *").want(202, "")
	gone := d.current().ProposalsForgotten()
	if gone == 0 || len(d.current().Proposals()) != 1 {
		t.Fatal("nothing was forgotten")
	}
	d.do("viewer", "GET", "/v1/proposals?watch=true", "", "Last-Event-ID: "+before).want(410, "gone")
	if id, state, _ := next(d.watch("/v1/proposals?watch=true", fmt.Sprintf("Last-Event-ID: %d", gone))); id == first.ID || id == second.ID || state != "pending" {
		t.Errorf("from the last that is forgotten on: %s %s", id, state)
	}
}

func TestADryRunSaysWhoMustApprove(t *testing.T) {
	d := newGuarded(t)
	for path, want := range map[string]int{"?dry_run=true": 1, "?dry_run=true&break_glass=true": 0} {
		var got struct {
			ApprovalsNeeded int             `json:"approvalsNeeded"`
			Diff            []policy.Change `json:"diff"`
		}
		d.do("operator", "PATCH", "/v1/tenants/acme"+path, `{"spec":{"tier":"top"}}`, "If-Match: *", "X-Anabranch-Reason: why").want(200, "").into(&got)
		if got.ApprovalsNeeded != want || len(got.Diff) != 1 {
			t.Errorf("%s: %+v", path, got)
		}
	}
	if len(d.current().Proposals()) != 0 || len(d.current().BrokenGlass(epoch)) != 0 {
		t.Error("a dry run left something behind")
	}
}

func TestAProposalTellsWhatADryRunWould(t *testing.T) {
	d := pair(t, nil)
	d.apply(&statepb.Command{Format: 2, Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}}})
	d.do("operator", "POST", "/v1/safetyrules", doc("SafetyRule", "s", "{approval: {kinds: [Cluster]}}"), yaml).want(201, "")
	p := d.do("operator", "PATCH", "/v1/clusters/us-1", `{"spec":{"drained":true}}`, "If-Match: *").want(202, "").proposal()
	would := d.rehearse("")
	got := d.do("approver", "GET", "/v1/proposals/"+p.ID+"?simulate=true", "").want(200, "").proposal()
	if got.Simulation == nil || len(got.Simulation.Weights) == 0 || !reflect.DeepEqual(got.Simulation, would.Simulation) || len(got.Lint) != len(would.Lint) {
		t.Errorf("told %+v, a dry run %+v", got.Simulation, would.Simulation)
	}
	if plain := d.do("approver", "GET", "/v1/proposals/"+p.ID, "").want(200, "").proposal(); plain.Simulation != nil || plain.Lint != nil {
		t.Errorf("told without being asked: %+v", plain)
	}
	d.do("approver", "GET", "/v1/proposals/"+p.ID+"?simulate=perhaps", "").want(400, "invalid_request")
	d.do("operator", "DELETE", "/v1/proposals/"+p.ID, "").want(200, "")
	if ended := d.do("approver", "GET", "/v1/proposals/"+p.ID+"?simulate=true", "").want(200, "").proposal(); ended.Simulation != nil {
		t.Error("told of one that has ended")
	}
}

func TestAnApprovalThatMovesTooMuchSaysSo(t *testing.T) {
	d := pair(t, nil)
	d.apply(&statepb.Command{Format: 2, Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}}})
	d.do("operator", "POST", "/v1/safetyrules", doc("SafetyRule", "s", "{changeLimit: {maxMovedShare: 0.2}, approval: {kinds: [Cluster]}}"), yaml).want(201, "")
	table := d.server.o.Table(d.current(), nil, signal.Snapshot{})
	d.apply(&statepb.Command{Format: 1, Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: table}}})
	const path, drain = "/v1/clusters/us-1", `{"spec":{"drained":true}}`
	d.do("operator", "PATCH", path, drain, "If-Match: *").want(422, "change_too_large")
	p := d.do("operator", "PATCH", path+"?allow_large_change=true", drain, "If-Match: *", "X-Anabranch-Reason: fire").want(202, "").proposal()
	approve := "/v1/proposals/" + p.ID + "/approve"
	d.do("approver", "POST", approve, saw(p.SHA256)).want(422, "change_too_large")
	now := d.do("approver", "POST", approve+"?allow_large_change=true", saw(p.SHA256), "X-Anabranch-Reason: I see it").want(200, "").proposal()
	if now.State != "applied" || !strings.Contains(now.Approvals[0].Reason, "I see it; allowed to move") {
		t.Errorf("approved %+v", now)
	}
}
