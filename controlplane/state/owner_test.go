package state

import (
	"fmt"
	"strings"
	"testing"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// by makes a put of a tenant, as an automation or, without a name, as a person.
func by(manager, spec string) *statepb.Command {
	return command(&statepb.Put{Kind: "Tenant", Name: "acme", Doc: []byte(`{"spec":` + spec + `}`), AnyRevision: true, Manager: manager})
}

func forced(cmd *statepb.Command) *statepb.Command {
	cmd.GetPut().Force = true
	return cmd
}

func managers(v *View) string {
	r, ok := v.Get(policy.KindTenant, "acme")
	if !ok {
		return "gone"
	}
	var all []string
	for _, m := range r.Metadata.Managers {
		all = append(all, m.Name+":"+strings.Join(m.Fields, ","))
	}
	return strings.Join(all, " ")
}

func TestAutomationGivesWayToPeople(t *testing.T) {
	h := remembering(t)
	h.do(region("eu", `{}`, 0))
	h.do(region("us", `{}`, 0))
	for _, step := range []struct {
		what     string
		cmd      *statepb.Command
		code     string
		field    string
		managers string
	}{
		{"a person creates it", by("", `{"tier":"top"}`), "", "", ""},
		{"automation adds a field", by("sizer", `{"tier":"top","residency":["eu"]}`), "", "", "human:spec.tier sizer:spec.residency"},
		{"automation changes a person's", by("sizer", `{"tier":"batch","residency":["eu"]}`), CodeFieldOwned, "spec.tier", "human:spec.tier sizer:spec.residency"},
		{"and removes it", by("sizer", `{"residency":["eu"]}`), CodeFieldOwned, "spec.tier", "human:spec.tier sizer:spec.residency"},
		{"automation changes its own", by("sizer", `{"tier":"top","residency":["us"]}`), "", "", "human:spec.tier sizer:spec.residency"},
		{"another automation changes it", by("mover", `{"tier":"top","residency":["eu"]}`), CodeFieldOwned, "spec.residency", "human:spec.tier sizer:spec.residency"},
		{"a person takes it", by("", `{"tier":"top","residency":["eu"]}`), "", "", ""},
		{"and automation has lost it", by("sizer", `{"tier":"top","residency":["us"]}`), CodeFieldOwned, "spec.residency", ""},
		{"automation forces it", forced(by("sizer", `{"tier":"batch","residency":["eu"]}`)), "", "", "human:spec.residency sizer:spec.tier"},
		{"a bad name", by("Sizer!", `{"tier":"top"}`), CodeInvalid, "manager", "human:spec.residency sizer:spec.tier"},
		{"a person by name", by("human", `{}`), "", "", ""},
	} {
		before := h.View
		out := h.do(step.cmd)
		if out.GetCode() != step.code || out.GetField() != step.field || managers(h.View) != step.managers {
			t.Errorf("%s: %v; managers %q, want %q", step.what, out, managers(h.View), step.managers)
		}
		if n := len(h.History(policy.KindTenant, "acme")) - len(before.History(policy.KindTenant, "acme")); (n == 1) != (step.code == "") {
			t.Errorf("%s: %d revisions more", step.what, n)
		}
		if got := managers(again(t, h.View)); got != step.managers {
			t.Errorf("%s, after a restart: managers %q", step.what, got)
		}
	}
	entries := h.Audit(0, 0)
	if e := entries[len(entries)-2]; e.GetReason() != "because; manager sizer, forced" {
		t.Errorf("audited as %q", e.GetReason())
	}
}

func TestAutomationMayNotDeleteWhatPeopleHaveSet(t *testing.T) {
	h := remembering(t)
	h.do(by("", `{"tier":"top"}`))
	gone := func(manager string, force bool) *statepb.Command {
		return command(&statepb.Delete{Kind: "Tenant", Name: "acme", Manager: manager, Force: force})
	}
	if out := h.do(gone("sizer", false)); out.GetCode() != CodeFieldOwned || out.GetField() != "spec.tier" || out.GetMessage() != "spec.tier was set by human" {
		t.Errorf("got %v", out)
	}
	if out := h.do(gone("sizer", true)); out.GetCode() != "" || managers(h.View) != "gone" {
		t.Errorf("forced: %v", out)
	}
	h.do(by("sizer", `{"tier":"top"}`))
	if out := h.do(gone("sizer", false)); out.GetCode() != "" || h.History(policy.KindTenant, "acme")[0].GetManager() != "sizer" {
		t.Errorf("its own: %v", out)
	}
}

func TestManagersAreBounded(t *testing.T) {
	h := remembering(t)
	spec := "{"
	for i := range policy.MaxManagers + 1 {
		labels := fmt.Sprintf(`"l%02d":"x"`, i)
		if spec != "{" {
			labels = "," + labels
		}
		spec += labels
		out := h.do(command(&statepb.Put{
			Kind: "Tenant", Name: "acme", Doc: []byte(`{"labels":` + spec + `},"spec":{}}`), AnyRevision: true, Manager: fmt.Sprintf("m%02d", i),
		}))
		if want := map[bool]string{true: CodeInvalid}[i == policy.MaxManagers]; out.GetCode() != want {
			t.Errorf("manager %d: %v", i, out)
		}
	}
}

func TestBeforeLevel3AllFieldsArePeoples(t *testing.T) {
	h := start(t)
	h.do(by("sizer", `{"tier":"top"}`))
	if out := h.do(by("mover", `{"tier":"batch"}`)); out.GetCode() != "" || managers(h.View) != "" {
		t.Errorf("%v, managers %q", out, managers(h.View))
	}
	h.do(raise(3))
	if out := h.do(by("mover", `{"tier":"top"}`)); out.GetCode() != CodeFieldOwned {
		t.Errorf("after the upgrade: %v", out)
	}
}

func TestWhatOlderBuildsWouldTakeForAnOrdinaryWriteNeedsFormat3(t *testing.T) {
	put, del := &statepb.Put{Kind: "Tenant"}, &statepb.Delete{Kind: "Tenant"}
	for _, tt := range []struct {
		op   any
		want uint32
	}{
		{put, 1},
		{del, 1},
		{&statepb.Put{Kind: "Tenant", RollbackTo: 4}, 3},
		{&statepb.Put{Kind: "Tenant", Manager: "sizer"}, 3},
		{&statepb.Put{Kind: "Tenant", Force: true}, 3},
		{&statepb.Delete{Kind: "Tenant", Manager: "sizer"}, 3},
		{&statepb.Delete{Kind: "Tenant", Force: true}, 3},
	} {
		if got := FormatOf(command(tt.op)); got != tt.want {
			t.Errorf("%v needs %d, want %d", tt.op, got, tt.want)
		}
	}
}

func TestManyClaimsAreToldShort(t *testing.T) {
	var claims []policy.Claim
	for i := range 9 {
		claims = append(claims, policy.Claim{Field: fmt.Sprintf("spec.f%d", i), Manager: "human"})
	}
	if got := Claims(claims); !strings.HasSuffix(got, "spec.f4 was set by human and 4 more") {
		t.Error(got)
	}
}

func TestAnAnswerKeepsWhoHasWritten(t *testing.T) {
	h := remembering(t)
	out := h.do(keyed(by("sizer", `{"tier":"top"}`), "k", "create", 0))
	again := h.do(keyed(by("sizer", `{"tier":"top"}`), "k", "create", 0)).GetAnswer()
	if out.GetCode() != "" || again.GetUpdatedBy() != "ann" || len(again.GetManagers()) != 1 || again.GetManagers()[0].GetName() != "sizer" {
		t.Errorf("answer %v", again)
	}
}
