package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// remembering is a user of a control plane that keeps the history of resources.
func remembering(t *testing.T) session {
	t.Helper()
	s := begin(t)
	s.node.Apply(&statepb.Command{Format: 2, Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}}})
	return s
}

const topTenant = `apiVersion: anabranch/v1
kind: Tenant
metadata: {name: acme}
spec: {tier: top}
`

// tiers applies a tenant three times, and gives the revisions.
func (s session) tiers() (revisions [3]uint64) {
	for i, tier := range []string{"top", "batch", "standard"} {
		s.do(0, strings.Replace(topTenant, "top", tier, 1), "apply", "-f", "-", "--reason", "to "+tier)
		revisions[i] = s.node.View().ResourcesRevision()
	}
	return revisions
}

func (s session) tier() string {
	r, ok := s.node.View().Get(policy.KindTenant, "acme")
	if !ok {
		return "gone"
	}
	return r.Spec.(*policy.TenantSpec).Tier
}

// words are the words of each line.
func words(out string) []string {
	var lines []string
	for line := range strings.Lines(out) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

func TestHistoryOfAResource(t *testing.T) {
	s := remembering(t)
	at := s.tiers()
	s.do(0, "", "delete", "tenant", "acme", "--reason", "left us")
	out, _ := s.do(0, "", "history", "tenant", "acme")
	got := words(out)
	if len(got) != 5 || got[0] != "REVISION AT ACTION AUTHOR MANAGER REASON" || !strings.HasSuffix(got[1], "delete admin human left us") ||
		!strings.HasPrefix(got[2], fmt.Sprint(at[2])) || !strings.HasSuffix(got[4], "create admin human to top") {
		t.Errorf("history:\n%s", out)
	}
	out, _ = s.do(0, "", "history", "tenants", "acme", "--diff")
	for _, want := range []string{
		fmt.Sprintf("revision %d, ", at[1]), ": update by admin (to batch)\n  spec.tier: \"top\" → \"batch\"\n", ": create by admin (to top)\n  spec: - → {\"tier\":\"top\"}\n", ": delete by admin (left us)\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it lacks %q:\n%s", want, out)
		}
	}
	out, _ = s.do(0, "", "history", "tenant", "acme", "--revision", fmt.Sprint(at[1]))
	if !strings.Contains(out, "tier: batch\n") {
		t.Errorf("as of %d:\n%s", at[1], out)
	}
	if again, _ := s.do(0, out, "apply", "-f", "-", "--dry-run"); again != "tenants/acme created (dry run)\n" {
		t.Errorf("what it prints can't be applied: %s", again)
	}
	var list struct{ Items []revision }
	out, _ = s.do(0, "", "history", "tenant", "acme", "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Items) != 4 || list.Items[3].Revision != at[0] {
		t.Errorf("json: %v\n%s", err, out)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"kind":     {[]string{"history", "planet", "x"}, exitUsage, "or tables"},
		"name":     {[]string{"history", "tenant"}, exitUsage, "history tenant NAME"},
		"nobody":   {[]string{"history", "tenant", "nobody"}, exitRefused, "no history of one"},
		"revision": {[]string{"history", "tenant", "acme", "--revision", "1"}, exitRefused, "the oldest is"},
		"nothing":  {[]string{"history"}, exitUsage, "accepts between 1 and 2"},
	} {
		if _, errs := s.do(c.code, "", c.args...); !strings.Contains(errs, c.want) {
			t.Errorf("%s: error lacks %q: %s", name, c.want, errs)
		}
	}
}

func TestRollback(t *testing.T) {
	s := remembering(t)
	at := s.tiers()
	to := fmt.Sprint(at[0])
	out, _ := s.do(0, "", "rollback", "tenant", "acme", "--to", to, "--dry-run")
	if want := "tenants/acme would be rolled back to revision " + to + " (dry run)\n  spec.tier: \"standard\" → \"top\"\n"; out != want || s.tier() != "standard" {
		t.Errorf("dry run: %q, want %q; the tier is %s", out, want, s.tier())
	}
	out, _ = s.do(0, "", "rollback", "tenant", "acme", "--to", to, "--reason", "slow")
	now := s.node.View().ResourcesRevision()
	if want := fmt.Sprintf("tenants/acme rolled back to revision %s by revision %d\n  spec.tier: \"standard\" → \"top\"\n", to, now); out != want || s.tier() != "top" {
		t.Errorf("%q, want %q; the tier is %s", out, want, s.tier())
	}
	if newest := s.node.View().History(policy.KindTenant, "acme")[0]; newest.GetRollbackTo() != at[0] || newest.GetReason() != "slow" {
		t.Errorf("the newest is %v", newest)
	}
	if out, _ = s.do(0, "", "rollback", "tenant", "acme", "--to", to); out != "tenants/acme is as it was at revision "+to+" already\n" {
		t.Errorf("once more: %q", out)
	}
	if out, _ = s.do(0, "", "history", "tenant", "acme"); !strings.Contains(out, "rollback to "+to) {
		t.Errorf("history:\n%s", out)
	}
	s.do(0, "", "delete", "tenant", "acme")
	if out, _ = s.do(0, "", "rollback", "tenant", "acme", "--to", fmt.Sprint(at[1]), "--dry-run"); s.tier() != "gone" {
		t.Errorf("a dry run brought it back: %s", out)
	}
	if out, _ = s.do(0, "", "rollback", "tenant", "acme", "--to", fmt.Sprint(at[1])); s.tier() != "batch" || !strings.Contains(out, "  spec: - → {\"tier\":\"batch\"}\n") {
		t.Errorf("back from deletion: %s", out)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"to what":  {[]string{"rollback", "tenant", "acme"}, exitFailed, "`anabranch history tenant acme` lists them"},
		"kind":     {[]string{"rollback", "planet", "x", "--to", "1"}, exitUsage, "choose one of"},
		"nobody":   {[]string{"rollback", "tenant", "nobody", "--to", "1"}, exitRefused, "no history"},
		"unknown":  {[]string{"rollback", "tenant", "acme", "--to", "1"}, exitRefused, "no revision 1"},
		"no force": {[]string{"rollback", "tenant", "acme", "--to", "1", "--force"}, exitFailed, "people may change every field"},
	} {
		if _, errs := s.do(c.code, "", c.args...); !strings.Contains(errs, c.want) {
			t.Errorf("%s: error lacks %q: %s", name, c.want, errs)
		}
	}
}

func TestARollbackToWhatIsGoneSaysSo(t *testing.T) {
	s := remembering(t)
	s.do(0, eu+"---\n"+acme, "apply", "-f", "-")
	at := s.node.View().ResourcesRevision()
	s.do(0, topTenant, "apply", "-f", "-")
	s.do(0, "", "delete", "region", "us-east-1")
	s.do(0, "", "delete", "region", "eu-west-1")
	for _, more := range [][]string{nil, {"--dry-run"}} {
		_, errs := s.do(exitRefused, "", append([]string{"rollback", "tenant", "acme", "--to", fmt.Sprint(at)}, more...)...)
		if !strings.Contains(errs, "spec.residency[0]") || !strings.Contains(errs, "fix: ") {
			t.Errorf("error: %s", errs)
		}
	}
}

func TestAutomationThatNamesItselfGivesWay(t *testing.T) {
	s := remembering(t)
	s.do(0, topTenant, "apply", "-f", "-")
	batch := strings.Replace(topTenant, "top", "batch", 1)
	_, errs := s.do(exitRefused, batch, "apply", "-f", "-", "--manager", "sizer")
	if !strings.Contains(errs, "field_owned") || !strings.Contains(errs, "spec.tier: was set by human") || s.tier() != "top" {
		t.Errorf("error: %s", errs)
	}
	if _, errs = s.do(exitFailed, batch, "apply", "-f", "-", "--manager", "sizer", "--dry-run"); !strings.Contains(errs, "this would be refused:\n  tenants/acme spec.tier: was set by human") {
		t.Errorf("dry run: %s", errs)
	}
	s.do(0, batch, "apply", "-f", "-", "--manager", "sizer", "--force", "--dry-run")
	s.do(0, batch, "apply", "-f", "-", "--dry-run")
	s.do(exitRefused, "", "delete", "tenant", "acme", "--manager", "sizer")
	s.do(exitFailed, batch, "apply", "-f", "-", "--force")
	s.do(0, batch, "apply", "-f", "-", "--manager", "sizer", "--force")
	if s.tier() != "batch" {
		t.Errorf("the tier is %s", s.tier())
	}
	out, _ := s.do(0, "", "history", "tenant", "acme", "--diff")
	if !strings.Contains(out, "update by admin as sizer\n") {
		t.Errorf("history:\n%s", out)
	}
	at := s.node.View().History(policy.KindTenant, "acme")[1].GetRevision()
	s.do(0, topTenant, "apply", "-f", "-")
	s.do(exitRefused, "", "rollback", "tenant", "acme", "--to", fmt.Sprint(s.node.View().History(policy.KindTenant, "acme")[1].GetRevision()), "--manager", "sizer")
	s.do(0, "", "rollback", "tenant", "acme", "--to", fmt.Sprint(at), "--manager", "sizer", "--force")
	s.do(0, "", "delete", "tenant", "acme", "--manager", "sizer", "--force")
}

// publish commits a table with a share of traffic for each of two clusters.
func (s session) publish(share float64, tenants ...string) uint64 {
	table := &routerpb.Table{
		CreatedUnixMs: 1, Regions: []*routerpb.Region{{Id: "us"}}, Clusters: []*routerpb.Cluster{{Id: "a"}, {Id: "b"}}, Rules: []*routerpb.Rule{{Id: "x"}, {Id: "y"}},
		Weights: []*routerpb.Weights{{Model: "m", Class: "interactive", Source: "us", Clusters: []*routerpb.ClusterWeight{{Cluster: "a", Weight: share}, {Cluster: "b", Weight: 1 - share}}}},
	}
	for _, name := range tenants {
		table.Tenants = append(table.GetTenants(), &routerpb.Tenant{Id: name})
	}
	if len(tenants) > 1 {
		r := table.GetRules()
		r[0], r[1] = r[1], r[0]
	}
	s.node.Apply(&statepb.Command{Format: 1, Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: table}}})
	return s.node.View().Table().GetRef().GetRevision()
}

func TestHistoryOfTables(t *testing.T) {
	s := begin(t)
	if out, _ := s.do(0, "", "history", "tables"); len(words(out)) != 1 {
		t.Errorf("without any:\n%s", out)
	}
	first, second, third := s.publish(0.5, "old"), s.publish(0.75, "old"), s.publish(0.75, "acme", "globex")
	out, _ := s.do(0, "", "history", "tables")
	want := []string{
		"REVISION EPOCH AT WEIGHTS LARGEST MOVE OTHERWISE",
		fmt.Sprintf("%d 1 1970-01-01T00:00:00Z 0 - tenants +2 -1, rules reordered", third),
		fmt.Sprintf("%d 1 1970-01-01T00:00:00Z 1 m interactive from us to a: 50.0 %% → 75.0 %% -", second),
		fmt.Sprintf("%d 1 1970-01-01T00:00:00Z - - -", first),
	}
	if got := strings.Join(words(out), "\n"); got != strings.Join(want, "\n") {
		t.Errorf("tables:\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	out, _ = s.do(0, "", "history", "tables", "--diff")
	if !strings.Contains(out, "  m interactive from us to b: 50.0 % → 25.0 %\n") || !strings.Contains(out, "  tenants +2 -1\n") {
		t.Errorf("with differences:\n%s", out)
	}
	out, _ = s.do(0, "", "history", "tables", fmt.Sprint(third))
	if want := fmt.Sprintf("revision %d → %d\n  + tenants acme\n  + tenants globex\n  - tenants old\n  ~ rules in another order\n", second, third); out != want {
		t.Errorf("one:\n%s\nwant\n%s", out, want)
	}
	if out, _ = s.do(0, "", "history", "tables", fmt.Sprint(second)); !strings.Contains(out, "  m interactive from us to a: 50.0 % → 75.0 %\n") {
		t.Errorf("one:\n%s", out)
	}
	for _, args := range [][]string{{"history", "tables", "-o", "json"}, {"history", "tables", fmt.Sprint(third), "-o", "json"}} {
		if out, _ = s.do(0, "", args...); !json.Valid([]byte(out)) {
			t.Errorf("%q: %s", args, out)
		}
	}
	if _, errs := s.do(exitRefused, "", "history", "tables", fmt.Sprint(first)); !strings.Contains(errs, "oldest table") {
		t.Errorf("the first: %s", errs)
	}
	if _, errs := s.do(exitFailed, "", "history", "tables", "newest"); !strings.Contains(errs, "is no number") {
		t.Errorf("which: %s", errs)
	}
}

func TestChangesAreColouredWhereColoursBelong(t *testing.T) {
	var out bytes.Buffer
	a := &app{out: &out, color: true}
	if err := a.printChanges([]policy.Change{{Field: "spec.tier", From: json.RawMessage(`"top"`)}}); err != nil {
		t.Fatal(err)
	}
	if want := "  spec.tier: \x1b[31m\"top\"\x1b[0m → \x1b[32m-\x1b[0m\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
