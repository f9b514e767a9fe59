package state

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// sent is a command of somebody, at a second.
func sent(name string, second int64, cmd *statepb.Command) *statepb.Command {
	cmd = proto.CloneOf(cmd)
	cmd.Format, cmd.AtUnixMs = 3, second*1000
	cmd.Actor = &statepb.Actor{Name: name, Role: "operator", Kind: "token", Reason: "says " + name, RequestId: "r"}
	return cmd
}

func decision(id uint64, verdict string, sum []byte) *statepb.Command {
	return &statepb.Command{Op: &statepb.Command_DecideProposal{DecideProposal: &statepb.DecideProposal{Id: id, Verdict: verdict, Sha256: sum}}}
}

func expireAll() *statepb.Command {
	return &statepb.Command{Op: &statepb.Command_ExpireProposals{ExpireProposals: &statepb.ExpireProposals{}}}
}

func rule(name, spec string, ifRevision uint64) *statepb.Command {
	return command(&statepb.Put{Kind: "SafetyRule", Name: name, Doc: []byte(`{"spec":` + spec + `}`), IfRevision: ifRevision})
}

// guarded is a cluster in which two people have to agree on regions, within 100 s; region us is there.
func guarded(t *testing.T, approval string) *history {
	t.Helper()
	h := start(t)
	h.do(raise(3))
	h.do(region("us", `{"zone":"a"}`, 0))
	h.do(rule("two", `{"approval":`+approval+`}`, 0))
	return h
}

const regionsByTwo = `{"kinds":["Region"],"expiresAfterSeconds":100}`

// propose does a write and wants that it becomes a proposal.
func (h *history) propose(cmd *statepb.Command) *statepb.Proposal {
	h.t.Helper()
	before := h.ResourcesRevision()
	out := h.do(cmd)
	p := h.Proposal(out.GetProposal())
	if out.GetCode() != "" || p == nil || p.GetState() != ProposalPending || h.ResourcesRevision() != before {
		h.t.Fatalf("%v: %v, %v", cmd, out, p)
	}
	return p
}

func (h *history) zone(name string) string {
	r, ok := h.Get(policy.KindRegion, name)
	if !ok {
		return "gone"
	}
	return r.Spec.(*policy.RegionSpec).Zone
}

// said lists what the audit trail says of resources from an index on: actor, action, name and reason.
func (h *history) said(from uint64) []string {
	var out []string
	for _, e := range h.Audit(from-1, 0) {
		out = append(out, fmt.Sprintf("%s %s %s/%s: %s", e.GetActor(), e.GetAction(), e.GetKind(), e.GetName(), e.GetReason()))
	}
	return out
}

func TestAProtectedWriteHoldsOnceSomebodyElseApprovesIt(t *testing.T) {
	h := guarded(t, regionsByTwo)
	us, _ := h.Get(policy.KindRegion, "us")
	p := h.propose(sent("ann", 1, region("us", `{"zone":"b"}`, us.Metadata.Revision)))
	if p.GetAction() != "update" || ProposalBase(p) != us.Metadata.Revision || p.GetNeeded() != 1 || p.GetExpiresUnixMs() != 101_000 || h.zone("us") != "a" {
		t.Errorf("proposal %v", p)
	}
	out := h.do(sent("bob", 2, decision(p.GetId(), VerdictApprove, p.GetSha256())))
	now := h.Proposal(p.GetId())
	if out.GetCode() != "" || out.GetProposal() != p.GetId() || now.GetState() != ProposalApplied || now.GetAppliedRevision() != h.Index() || h.zone("us") != "b" {
		t.Fatalf("%v: %v, zone %s", out, now, h.zone("us"))
	}
	rev := h.History(policy.KindRegion, "us")[0]
	if rev.GetActor() != "ann" || rev.GetProposal() != p.GetId() || !slices.Equal(rev.GetApprovedBy(), []string{"bob"}) || rev.GetRevision() != h.Index() {
		t.Errorf("history %v", rev)
	}
	want := []string{
		fmt.Sprintf("ann propose Region/us: says ann; proposal %d: update", p.GetId()),
		fmt.Sprintf("bob approve Region/us: says bob; proposal %d: by ann, 1 of 1", p.GetId()),
		fmt.Sprintf("ann update Region/us: says ann; proposal %d approved by bob", p.GetId()),
	}
	if got := h.said(p.GetId()); !slices.Equal(got, want) {
		t.Errorf("audit\n%q, want\n%q", got, want)
	}
	changes, _ := h.Changes(p.GetId() - 1)
	if len(changes) != 1 || changes[0].Revision != h.Index() {
		t.Errorf("watches hear of %v", changes)
	}
	if !Equal(h.View, again(t, h.View)) {
		t.Error("a snapshot does not restore it")
	}
}

func TestEveryKindOfWriteIsProposed(t *testing.T) {
	h := guarded(t, regionsByTwo)
	us, _ := h.Get(policy.KindRegion, "us")
	for name, tt := range map[string]struct {
		cmd  *statepb.Command
		zone string
	}{
		"create":   {region("eu", `{"zone":"e"}`, 0), "e"},
		"update":   {region("us", `{"zone":"b"}`, us.Metadata.Revision), "b"},
		"delete":   {command(&statepb.Delete{Kind: "Region", Name: "us"}), "gone"},
		"rollback": {command(&statepb.Put{Kind: "Region", Name: "us", Doc: []byte(`{"spec":{"zone":"r"}}`), AnyRevision: true, RollbackTo: us.Metadata.Revision}), "r"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &history{t: t, View: h.View}
			p := h.propose(sent("ann", 1, tt.cmd))
			if p.GetAction() != name {
				t.Errorf("action %s", p.GetAction())
			}
			h.do(sent("bob", 2, decision(p.GetId(), VerdictApprove, p.GetSha256())))
			_, about := ProposalOf(p)
			if got := h.zone(about); got != tt.zone {
				t.Errorf("zone %s, want %s", got, tt.zone)
			}
			if rev := h.History(policy.KindRegion, about)[0]; rev.GetAction() != name || rev.GetProposal() != p.GetId() {
				t.Errorf("history %v", rev)
			}
		})
	}
}

func TestWhatIsNotProtectedOrNotRightIsNotProposed(t *testing.T) {
	h := guarded(t, `{"kinds":["Region"],"names":["us"]}`)
	us, _ := h.Get(policy.KindRegion, "us")
	for name, tt := range map[string]struct {
		cmd  *statepb.Command
		code string
	}{
		"another name":            {region("eu", `{}`, 0), ""},
		"what is there already":   {region("us", `{"zone":"a"}`, us.Metadata.Revision), ""},
		"another revision":        {region("us", `{"zone":"b"}`, 1), CodePrecondition},
		"what does not read":      {region("us", `{"zone":7}`, us.Metadata.Revision), CodeInvalid},
		"an automation, not its":  {command(&statepb.Put{Kind: "Region", Name: "us", Doc: []byte(`{"spec":{"zone":"b"}}`), AnyRevision: true, Manager: "sizer"}), CodeFieldOwned},
		"what is not there":       {command(&statepb.Delete{Kind: "Region", Name: "ap"}), CodeNotFound},
		"a rule, of another kind": {command(&statepb.Put{Kind: "Tenant", Name: "us", Doc: []byte(`{"spec":{}}`)}), ""},
	} {
		h := &history{t: t, View: h.View}
		if out := h.do(sent("ann", 1, tt.cmd)); out.GetCode() != tt.code || out.GetProposal() != 0 || len(h.Proposals()) != 0 {
			t.Errorf("%s: %v", name, out)
		}
	}
}

// What becomes of a proposal by ann when somebody says something to it.
func TestDecisionsOnAProposal(t *testing.T) {
	base := guarded(t, regionsByTwo)
	p := base.propose(sent("ann", 1, command(&statepb.Put{Kind: "Region", Name: "us", Doc: []byte(`{"spec":{"zone":"b"}}`), AnyRevision: true})))
	approve := decision(p.GetId(), VerdictApprove, p.GetSha256())
	reject, withdraw := decision(p.GetId(), VerdictReject, nil), decision(p.GetId(), VerdictWithdraw, nil)
	account := sent("ann", 2, approve)
	account.Actor.Kind = "oidc"
	breaks := command(&statepb.Put{Kind: "Region", Name: "us", Doc: []byte(`{"spec":{"zone":"c"}}`), AnyRevision: true, BreakGlass: "on fire"})
	for name, tt := range map[string]struct {
		before []*statepb.Command
		cmd    *statepb.Command
		code   string
		state  string
		zone   string
	}{
		"somebody else approves":            {nil, sent("bob", 2, approve), "", ProposalApplied, "b"},
		"at the last moment":                {nil, sent("bob", 100, approve), "", ProposalApplied, "b"},
		"too late":                          {nil, sent("bob", 101, approve), CodeDecided, ProposalPending, "a"},
		"the proposer approves":             {nil, sent("ann", 2, approve), CodeOwnProposal, ProposalPending, "a"},
		"the proposer's account approves":   {nil, account, CodeOwnProposal, ProposalPending, "a"},
		"another hash":                      {nil, sent("bob", 2, decision(p.GetId(), VerdictApprove, []byte("other"))), CodeChanged, ProposalPending, "a"},
		"no hash":                           {nil, sent("bob", 2, decision(p.GetId(), VerdictApprove, nil)), CodeChanged, ProposalPending, "a"},
		"somebody rejects":                  {nil, sent("bob", 2, reject), "", ProposalRejected, "a"},
		"the proposer withdraws":            {nil, sent("ann", 2, withdraw), "", ProposalWithdrawn, "a"},
		"somebody else withdraws":           {nil, sent("bob", 2, withdraw), CodeNotProposer, ProposalPending, "a"},
		"another verdict":                   {nil, sent("bob", 2, decision(p.GetId(), "shrug", nil)), CodeInvalid, ProposalPending, "a"},
		"another proposal":                  {nil, sent("bob", 2, decision(7777, VerdictApprove, p.GetSha256())), CodeNotFound, ProposalPending, "a"},
		"approved twice":                    {[]*statepb.Command{sent("bob", 2, approve)}, sent("cay", 3, approve), CodeDecided, ProposalApplied, "b"},
		"approved after it was rejected":    {[]*statepb.Command{sent("bob", 2, reject)}, sent("cay", 3, approve), CodeDecided, ProposalRejected, "a"},
		"approved after it was withdrawn":   {[]*statepb.Command{sent("ann", 2, withdraw)}, sent("bob", 3, approve), CodeDecided, ProposalWithdrawn, "a"},
		"expiry, in time":                   {nil, sent("x", 100, expireAll()), "", ProposalPending, "a"},
		"expiry":                            {nil, sent("x", 101, expireAll()), "", ProposalExpired, "a"},
		"approved after the resource moved": {[]*statepb.Command{sent("dan", 2, breaks)}, sent("bob", 3, approve), CodeDecided, ProposalStale, "c"},
		"rejected after it expired":         {[]*statepb.Command{sent("x", 101, expireAll())}, sent("bob", 102, reject), CodeDecided, ProposalExpired, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &history{t: t, View: base.View}
			for _, cmd := range tt.before {
				if out := h.do(cmd); out.GetCode() != "" {
					t.Fatal(out)
				}
			}
			out := h.do(tt.cmd)
			now := h.Proposal(p.GetId())
			if out.GetCode() != tt.code || now.GetState() != tt.state || h.zone("us") != tt.zone {
				t.Errorf("%v; %s, zone %s", out, now.GetState(), h.zone("us"))
			}
			if (now.GetEndedUnixMs() == 0) != (tt.state == ProposalPending) || (now.GetEndedBy() == nil) != (tt.state == ProposalPending) {
				t.Errorf("ended %v", now)
			}
		})
	}
}

func TestSeveralPeopleApproveWhereTheRuleSaysSo(t *testing.T) {
	h := guarded(t, `{"kinds":["Region"],"approvals":2}`)
	p := h.propose(sent("ann", 1, region("eu", `{}`, 0)))
	approve := decision(p.GetId(), VerdictApprove, p.GetSha256())
	h.do(sent("bob", 2, approve))
	index := h.Index()
	for range 2 { // his second word counts as little as his first
		if now := h.Proposal(p.GetId()); now.GetState() != ProposalPending || len(now.GetApprovals()) != 1 || now.GetRevision() != index {
			t.Fatalf("after one: %v", now)
		}
		if out := h.do(sent("bob", 3, approve)); out.GetCode() != "" || out.GetProposal() != p.GetId() {
			t.Fatal(out)
		}
	}
	h.do(sent("cay", 4, approve))
	if now := h.Proposal(p.GetId()); now.GetState() != ProposalApplied || h.zone("eu") == "gone" {
		t.Errorf("after two: %v", now)
	}
	if rev := h.History(policy.KindRegion, "eu")[0]; !slices.Equal(rev.GetApprovedBy(), []string{"bob", "cay"}) || rev.GetActor() != "ann" {
		t.Errorf("history %v", rev)
	}
}

func TestARuleThatBecameStricterHoldsForWhatWaits(t *testing.T) {
	h := guarded(t, regionsByTwo)
	p := h.propose(sent("ann", 1, region("eu", `{}`, 0)))
	stricter := h.propose(sent("ann", 1, rule("more", `{"approval":{"kinds":["Region"],"approvals":2}}`, 0)))
	h.do(sent("bob", 2, decision(stricter.GetId(), VerdictApprove, stricter.GetSha256())))
	approve := decision(p.GetId(), VerdictApprove, p.GetSha256())
	h.do(sent("bob", 3, approve))
	if now := h.Proposal(p.GetId()); now.GetState() != ProposalPending || now.GetNeeded() != 2 {
		t.Fatalf("after one: %v", now)
	}
	h.do(sent("cay", 4, approve))
	if h.zone("eu") == "gone" {
		t.Error("two did not do")
	}
}

func TestTheRulesCannotBeSwitchedOffByOne(t *testing.T) {
	h := guarded(t, regionsByTwo)
	two, _ := h.Get(policy.KindSafetyRule, "two")
	for _, cmd := range []*statepb.Command{
		command(&statepb.Delete{Kind: "SafetyRule", Name: "two"}),
		rule("two", `{"changeLimit":{"maxMovedShare":1}}`, two.Metadata.Revision),
		rule("other", `{"approval":{"kinds":["Model"]}}`, 0),
	} {
		h.propose(sent("ann", 1, cmd))
	}
}

func TestAnApprovalThatCannotHoldAnyMoreChangesNothing(t *testing.T) {
	h := guarded(t, `{"kinds":["Quota"]}`)
	h.do(command(&statepb.Put{Kind: "Tenant", Name: "acme", Doc: []byte(`{"spec":{}}`)}))
	p := h.propose(sent("ann", 1, command(&statepb.Put{Kind: "Quota", Name: "q", Doc: []byte(`{"spec":{"tenant":"acme","limits":[{"kind":"requests","perMinute":1}]}}`)})))
	h.do(command(&statepb.Delete{Kind: "Tenant", Name: "acme"}))
	at := h.AuditKept()
	out := h.do(sent("bob", 2, decision(p.GetId(), VerdictApprove, p.GetSha256())))
	if now := h.Proposal(p.GetId()); out.GetCode() != CodeInvalid || now.GetState() != ProposalPending || len(now.GetApprovals()) != 0 || h.AuditKept() != at {
		t.Errorf("%v: %v", out, now)
	}
}

func TestAChangeMakesAllProposalsAboutItStale(t *testing.T) {
	h := guarded(t, regionsByTwo)
	us, _ := h.Get(policy.KindRegion, "us")
	first := h.propose(sent("ann", 1, region("us", `{"zone":"b"}`, us.Metadata.Revision)))
	second := h.propose(sent("cay", 1, command(&statepb.Delete{Kind: "Region", Name: "us"})))
	other := h.propose(sent("ann", 1, region("eu", `{}`, 0)))
	h.do(sent("bob", 2, decision(first.GetId(), VerdictApprove, first.GetSha256())))
	if got := h.Proposal(second.GetId()); got.GetState() != ProposalStale || got.GetRevision() != h.Index() {
		t.Errorf("second %v", got)
	}
	if got := h.Proposal(other.GetId()); got.GetState() != ProposalPending {
		t.Errorf("other %v", got)
	}
	last := h.said(h.Index())
	if want := fmt.Sprintf("ann stale Region/us: says ann; proposal %d: it was made from revision %d", second.GetId(), us.Metadata.Revision); last[len(last)-1] != want {
		t.Errorf("audit %q", last)
	}
}

// swiftly is do without looking at the view before, which takes long where there are many proposals.
func (h *history) swiftly(cmd *statepb.Command) *statepb.Outcome {
	h.t.Helper()
	next, out, err := Apply(h.View, h.Index()+1, cmd)
	if err != nil {
		h.t.Fatal(err)
	}
	h.View = next
	return out
}

func TestProposalsAreBounded(t *testing.T) {
	h := guarded(t, regionsByTwo)
	make1 := func(who string, n int) *statepb.Outcome {
		return h.swiftly(sent(who, 1, region(fmt.Sprintf("r-%d", n), `{}`, 0)))
	}
	for i := range MaxPendingOf {
		make1("ann", i)
	}
	if out := make1("ann", 0); out.GetCode() != CodeTooMany || !strings.Contains(out.GetMessage(), "of ann") {
		t.Errorf("ann's next: %v", out)
	}
	for i := MaxPendingOf; i < MaxPending; i++ {
		if out := make1(fmt.Sprintf("u-%d", i/MaxPendingOf), i); out.GetCode() != "" {
			t.Fatal(out)
		}
	}
	if out := make1("zoe", 0); out.GetCode() != CodeTooMany {
		t.Errorf("beyond all: %v", out)
	}
	// What has expired makes room, also before that is replicated.
	late := sent("zoe", 101, region("late", `{}`, 0))
	if out := h.swiftly(late); out.GetCode() != "" {
		t.Errorf("after they expired: %v", out)
	}
	h.swiftly(sent("x", 101, expireAll()))
	if n := len(h.Proposals()); n != MaxEnded+1 || h.ProposalsForgotten() != 0 {
		t.Errorf("%d are remembered, and %d is forgotten", n, h.ProposalsForgotten())
	}
	ended := h.Index()
	p := h.Proposals()[len(h.Proposals())-1]
	h.swiftly(sent("bob", 102, decision(p.GetId(), VerdictReject, nil)))
	if n := len(h.Proposals()); n != MaxEnded {
		t.Errorf("%d are remembered after one more ended", n)
	}
	h.swiftly(sent("zoe", 101+int64(EndedFor/time.Second), region("later", `{}`, 0)))
	if n := len(h.Proposals()); n != 2 || h.ProposalsForgotten() != ended { // p ended a second later than the others
		t.Errorf("%d are remembered after a month, and %d is forgotten, not %d", n, h.ProposalsForgotten(), ended)
	}
	var snapshot bytes.Buffer
	if err := Encode(h.View, &snapshot); err != nil {
		t.Fatal(err)
	}
	back, err := Decode(&snapshot)
	if err != nil || back.ProposalsForgotten() != ended || Hash(back) != Hash(h.View) {
		t.Errorf("after a snapshot %d is forgotten: %v", back.ProposalsForgotten(), err)
	}
	back.forgotten--
	if Hash(back) == Hash(h.View) {
		t.Error("nodes that have forgotten other proposals don't notice")
	}
}

func TestDocumentsOfProposalsAreBounded(t *testing.T) {
	h := guarded(t, regionsByTwo)
	large := `{"labels":{"x":"` + strings.Repeat("x", MaxDoc-100) + `"},"spec":{}}`
	for i := range MaxPendingBytes/MaxDoc + 1 {
		out := h.swiftly(sent(fmt.Sprint(i), 1, command(&statepb.Put{Kind: "Region", Name: fmt.Sprintf("r-%d", i), Doc: []byte(large)})))
		if want := i >= MaxPendingBytes/(MaxDoc-70); (out.GetCode() == CodeTooMany) != want {
			t.Fatalf("%d: %v", i, out)
		}
	}
}

func TestProposalsOfATokenThatIsRevokedAreWithdrawn(t *testing.T) {
	h := guarded(t, regionsByTwo)
	h.do(command(&statepb.PutToken{Token: &statepb.Token{Name: "ci", Role: "operator", Sha256: bytes.Repeat([]byte("c"), 32)}}))
	of := h.propose(sent("ci", 1, region("eu", `{}`, 0)))
	account := sent("ci", 1, region("eu", `{}`, 0))
	account.Actor.Kind = "oidc"
	others := []*statepb.Proposal{h.propose(account), h.propose(sent("ann", 1, region("eu", `{}`, 0)))}
	h.do(sent("bob", 2, command(&statepb.RevokeToken{Name: "ci"})))
	if now := h.Proposal(of.GetId()); now.GetState() != ProposalWithdrawn || now.GetEndedBy().GetName() != "bob" {
		t.Errorf("ci's: %v", now)
	}
	for _, p := range others {
		if now := h.Proposal(p.GetId()); now.GetState() != ProposalPending {
			t.Errorf("another's: %v", now)
		}
	}
	last := h.said(h.Index())
	if want := fmt.Sprintf("bob withdraw Region/eu: says bob; proposal %d: the token ci is revoked", of.GetId()); last[len(last)-1] != want {
		t.Errorf("audit %q", last)
	}
}

func TestAKeyOfAProposalAnswersWithIt(t *testing.T) {
	h := guarded(t, regionsByTwo)
	first := keyed(sent("ann", 1, region("eu", `{}`, 0)), "k", "create eu", time.Second)
	id := h.do(first).GetProposal()
	out := h.do(first)
	if a := out.GetAnswer(); a.GetKind() != KindProposal || a.GetName() != fmt.Sprint(id) || !a.GetCreated() || len(h.Proposals()) != 1 {
		t.Errorf("again: %v", out)
	}
	p := h.Proposal(id)
	approve := keyed(sent("bob", 2, decision(id, VerdictApprove, p.GetSha256())), "k", "approve", 2*time.Second)
	h.do(approve)
	if a := h.do(approve).GetAnswer(); a.GetKind() != KindProposal || a.GetName() != fmt.Sprint(id) || a.GetCreated() {
		t.Errorf("again: %v", a)
	}
}

func TestWhatIsLookedAheadOfNeedsNoApproval(t *testing.T) {
	h := guarded(t, regionsByTwo)
	before := Hash(h.View)
	next, out := Rehearse(h.View, sent("ann", 1, region("eu", `{"zone":"e"}`, 0)))
	if (&history{View: next}).zone("eu") != "e" || out.GetCode() != "" || next.Index() != h.Index()+1 || Hash(h.View) != before {
		t.Errorf("create: %v", out)
	}
	if next, out = Rehearse(h.View, sent("ann", 1, command(&statepb.Delete{Kind: "Region", Name: "us"}))); (&history{View: next}).zone("us") != "gone" || out.GetCode() != "" {
		t.Errorf("delete: %v", out)
	}
	if next, out = Rehearse(h.View, sent("ann", 1, region("us", `{}`, 0))); next != h.View || out.GetCode() != CodeExists {
		t.Errorf("refused: %v", out)
	}
}

func TestASnapshotWithAForgedProposalIsRefused(t *testing.T) {
	h := guarded(t, regionsByTwo)
	h.propose(sent("ann", 1, region("eu", `{}`, 0)))
	h.propose(sent("ann", 1, region("ap", `{}`, 0)))
	for name, forge := range map[string]func(s *statepb.Proposals){
		"another document": func(s *statepb.Proposals) { s.Proposals[0].GetPut().Doc = []byte(`{"spec":{"zone":"x"}}`) },
		"another base":     func(s *statepb.Proposals) { s.Proposals[0].GetPut().IfRevision = 3 },
		"another order":    func(s *statepb.Proposals) { slices.Reverse(s.Proposals) },
		"a newer kind":     func(s *statepb.Proposals) { s.Proposals[0].GetPut().Kind = "Fancy" },
		"no write":         func(s *statepb.Proposals) { s.Proposals[0].Op = nil },
	} {
		s := proto.CloneOf(h.proposalsProto())
		forge(s)
		if err := new(View).restoreProposals(s); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	var b bytes.Buffer
	if err := Encode(h.View, &b); err != nil {
		t.Fatal(err)
	}
	restored, err := Decode(&b)
	if err != nil || len(Differing(Sums(restored), Sums(h.View))) > 0 {
		t.Errorf("restored: %v", err)
	}
}

// No sequence of commands changes what is protected by the word of one, but where the glass is broken: each
// revision that came to be while a rule asked for two names somebody who is not its author, and that person
// approved these very bytes.
func TestNobodyChangesWhatIsProtectedAlone(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		v, twin := Empty(), Empty() // the twin is restored now and then
		apply := func(cmd *statepb.Command) *statepb.Outcome {
			next, out, err := Apply(v, v.Index()+1, cmd)
			other, told, wrong := Apply(twin, v.Index()+1, proto.CloneOf(cmd))
			if err != nil || wrong != nil {
				rt.Fatal(err, wrong)
			}
			if v, twin = next, other; !Equal(v, twin) || !proto.Equal(out, told) {
				rt.Fatalf("replicas differ after %v: %v, %v", cmd, out, told)
			}
			return out
		}
		apply(initCommand())
		apply(raise(3))
		apply(rule("two", `{"approval":{"kinds":["Region"]}}`, 0))
		since := v.Index()
		shown := map[string][]string{} // person to hashes that they approved
		for second := range rapid.IntRange(1, 60).Draw(rt, "commands") {
			who := rapid.SampledFrom([]string{"ann", "bob", "cay"}).Draw(rt, "who")
			cmd := sent(who, int64(second)*3600, anyProtected(rt, v))
			if apply(cmd).GetCode() == "" && cmd.GetDecideProposal().GetVerdict() == VerdictApprove {
				shown[who] = append(shown[who], string(cmd.GetDecideProposal().GetSha256()))
			}
			if rapid.IntRange(0, 9).Draw(rt, "restart") == 0 {
				twin = again(t, twin)
			}
		}
		if parts := Differing(Sums(v), Sums(twin)); len(parts) > 0 {
			rt.Fatalf("%q differ after a restart", parts)
		}
		for _, kind := range []policy.Kind{policy.KindRegion, policy.KindSafetyRule} {
			for _, name := range []string{"us", "eu", "two", "three"} {
				for _, rev := range v.History(kind, name) {
					if rev.GetRevision() > since {
						judgeAuthors(rt, v, kind, name, rev, shown)
					}
				}
			}
		}
	})
}

func judgeAuthors(t *rapid.T, v *View, kind policy.Kind, name string, rev *statepb.Revision, shown map[string][]string) {
	if rev.GetBreakGlass() {
		if !slices.ContainsFunc(v.Audit(rev.GetRevision()-1, 0), func(e *statepb.AuditEntry) bool {
			return e.GetIndex() == rev.GetRevision() && e.GetAction() == ActionBreakGlass
		}) {
			t.Fatalf("%s %s: the glass was broken silently: %v", kind, name, rev)
		}
		return
	}
	p := v.Proposal(rev.GetProposal())
	if p == nil || p.GetAppliedRevision() != rev.GetRevision() || len(rev.GetApprovedBy()) == 0 {
		t.Fatalf("%s %s was changed by one alone: %v", kind, name, rev)
	}
	for _, other := range rev.GetApprovedBy() {
		if other == rev.GetActor() || !slices.Contains(shown[other], string(p.GetSha256())) {
			t.Fatalf("%s %s: %s did not approve it: %v", kind, name, other, rev)
		}
	}
	if !bytes.Equal(p.GetPut().GetDoc(), rev.GetDoc()) {
		t.Fatalf("%s %s: %s, and approved was %s", kind, name, rev.GetDoc(), p.GetPut().GetDoc())
	}
}

// anyProtected draws a write of something protected, or a word on what waits.
func anyProtected(t *rapid.T, v *View) *statepb.Command {
	kind := rapid.SampledFrom([]string{"Region", "Region", "SafetyRule"}).Draw(t, "kind")
	name := rapid.SampledFrom(map[string][]string{"Region": {"us", "eu"}, "SafetyRule": {"two", "three"}}[kind]).Draw(t, "name")
	doc := rapid.SampledFrom(map[string][]string{
		"Region":     {`{"spec":{}}`, `{"spec":{"zone":"a"}}`, `{"spec":{"zone":"b"}}`},
		"SafetyRule": {`{"spec":{"changeLimit":{"maxMovedShare":1}}}`, `{"spec":{"approval":{"kinds":["Region"]}}}`, `{"spec":{"approval":{"kinds":["Model"],"approvals":2}}}`},
	}[kind]).Draw(t, "doc")
	glass := rapid.SampledFrom([]string{"", "", "", "", "", "", "fire"}).Draw(t, "glass")
	if kind == "SafetyRule" && glass != "" {
		name = "three" // two stays, so that regions are protected throughout
	}
	switch rapid.IntRange(0, 9).Draw(t, "operation") {
	case 0, 1, 2:
		return command(&statepb.Put{Kind: kind, Name: name, Doc: []byte(doc), AnyRevision: true, BreakGlass: glass})
	case 3:
		if name == "two" {
			name = "three"
		}
		return command(&statepb.Delete{Kind: kind, Name: name, BreakGlass: glass})
	case 4:
		return expireAll()
	}
	p := &statepb.Proposal{Id: 1}
	if all := v.Proposals(); len(all) > 0 {
		p = rapid.SampledFrom(all).Draw(t, "proposal")
	}
	if _, about := ProposalOf(p); about == "two" {
		return decision(p.GetId(), VerdictReject, nil)
	}
	sum := p.GetSha256()
	if rapid.IntRange(0, 5).Draw(t, "another hash") == 0 {
		sum = []byte("another")
	}
	verdict := rapid.SampledFrom([]string{VerdictApprove, VerdictApprove, VerdictApprove, VerdictReject, VerdictWithdraw}).Draw(t, "verdict")
	return decision(p.GetId(), verdict, sum)
}

func TestOnePersonByTwoWays(t *testing.T) {
	alice := &statepb.Actor{Name: "alice", Kind: "token"}
	for _, tt := range []struct {
		name, kind string
		same       bool
	}{
		{"alice", "token", true},
		{"alice", "", true},
		{"oidc:alice", "oidc", true},
		{"bob", "token", false},
		{"oidc:bob", "oidc", false},
		{"oidc:alice@example.com", "oidc", false}, // nobody knows
		{"oidc:alice", "token", false},            // no token is called so
	} {
		other := &statepb.Actor{Name: tt.name, Kind: tt.kind}
		if samePerson(alice, other) != tt.same || samePerson(other, alice) != tt.same || !samePerson(other, other) {
			t.Errorf("%s by %s: not %v", tt.name, tt.kind, tt.same)
		}
	}
}
