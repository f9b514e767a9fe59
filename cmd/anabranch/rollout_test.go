package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"anabranch/api/routerpb"
	"anabranch/controlplane/state/statepb"
)

// rolling is a session with a cluster in which a rollout to router r-1 is under way.
func rolling(t *testing.T) session {
	t.Helper()
	s := begin(t)
	table := func(zone string) *routerpb.Table {
		return &routerpb.Table{Regions: []*routerpb.Region{{Id: "us", Zone: zone}}, Clusters: []*routerpb.Cluster{{Id: "c"}}}
	}
	for _, cmd := range []*statepb.Command{
		{Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}}},
		{Op: &statepb.Command_Publish{Publish: &statepb.Publish{Table: table("a")}}},
	} {
		if out := s.node.Apply(cmd); out.GetCode() != "" {
			t.Fatal(out)
		}
	}
	s.file("rule.yaml", "apiVersion: anabranch/v1\nkind: SafetyRule\nmetadata: {name: careful}\nspec: {rollout: {canary: {bakeSeconds: 5}}, changeLimit: {maxMovedShare: 0.25}}\n")
	s.do(0, "", "apply", "-f", "rule.yaml")
	s.do(0, eu, "apply", "-f", "-", "--allow-large-change", "--reason", "more regions")
	out := s.node.Apply(&statepb.Command{Op: &statepb.Command_StartRollout{StartRollout: &statepb.StartRollout{
		ConfigRevision: s.node.View().Config().Revision(), Table: table("b"), Canary: "r-1", Region: "us", Expected: 1,
	}}})
	if out.GetCode() != "" {
		t.Fatal(out)
	}
	return s
}

// fields joins the words of each line by single spaces.
func fields(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

func TestRolloutsAreListedShownAndFollowed(t *testing.T) {
	s := rolling(t)
	out, _ := s.do(0, "", "get", "safetyrules")
	if !strings.Contains(fields(out), "careful yes - 5s, 120s 25 %") {
		t.Errorf("rules:\n%s", out)
	}
	out, _ = s.do(0, "", "rollout", "list")
	if got := fields(out); !strings.HasPrefix(got, "ID STAGE CANARY REGION REACHED STARTED CHANGES REASON\n") || !strings.Contains(got, " canary r-1 us 0 of 1 ") || !strings.Contains(got, "Region/eu-west-1,Region/us-east-1 -") {
		t.Errorf("list:\n%s", out)
	}
	out, _ = s.do(0, "", "rollout", "status")
	if !strings.Contains(fields(out), "canary r-1 in us") || !strings.Contains(fields(out), "stage canary since ") {
		t.Errorf("status:\n%s", out)
	}
	if out, _ = s.do(0, "", "status"); !strings.Contains(fields(out), "changes on their way in rollout ") {
		t.Errorf("status:\n%s", out)
	}
	if out, _ = s.do(0, "", "rollout", "pause", "--reason", "lunch"); !strings.HasSuffix(out, " is paused\n") {
		t.Errorf("pause: %q", out)
	}
	if out, _ = s.do(0, "", "rollout", "status"); !strings.Contains(out, "canary (paused)") {
		t.Errorf("status:\n%s", out)
	}
	s.do(0, "", "rollout", "resume")
	if out, _ = s.do(0, "", "rollout", "return", "--reason", "no"); !strings.HasSuffix(out, " is taken back\n") {
		t.Errorf("return: %q", out)
	}
	out, errs := s.do(exitFailed, "", "rollout", "watch")
	if !strings.Contains(out, ": returned: by admin\n") || !strings.Contains(errs, "was taken back: by admin") {
		t.Errorf("watch: %s%s", out, errs)
	}
	if out, _ = s.do(0, "", "status"); !strings.Contains(fields(out), "changes taken back; held") {
		t.Errorf("status:\n%s", out)
	}
	if _, errs = s.do(exitRefused, "", "rollout", "promote"); !strings.Contains(errs, "not_under_way") {
		t.Errorf("promote: %s", errs)
	}
	s.do(0, "", "rollout", "retry")
	if out, _ = s.do(0, "", "rollout", "list", "-o", "yaml"); !strings.Contains(out, "retried: true") {
		t.Errorf("yaml:\n%s", out)
	}
	if _, errs = s.do(exitRefused, "", "rollout", "status", "7777"); !strings.Contains(errs, "HTTP 404") {
		t.Errorf("status of none: %s", errs)
	}
}

func TestAPromotedRolloutIsASuccess(t *testing.T) {
	s := rolling(t)
	if out, _ := s.do(0, "", "rollout", "promote"); !strings.HasSuffix(out, " is with all routers\n") {
		t.Errorf("promote: %q", out)
	}
	if out, _ := s.do(0, "", "rollout", "watch", "-o", "json"); !strings.Contains(out, `"stage":"settled"`) {
		t.Errorf("watch: %s", out)
	}
}

// theRule is what the help of rollout shows.
func theRule(t *testing.T) string {
	t.Helper()
	_, rule, _ := strings.Cut((&app{}).rollouts().Long, "\n\n  apiVersion")
	return "  apiVersion" + rule
}

func TestARolloutIsFollowedFromBeforeItBegins(t *testing.T) {
	s := rolling(t)
	s.do(0, "", "rollout", "promote")
	_, errs := s.do(0, theRule(t), "apply", "-f", "-")
	if errs != "" {
		t.Errorf("a rule that no router sees: %s", errs)
	}
	if _, errs = s.do(0, acme, "apply", "-f", "-"); errs != "note: this goes to routers in stages; `anabranch rollout watch` follows it\n" {
		t.Errorf("a change that goes out in stages: %s", errs)
	}
	if _, errs = s.do(0, acme, "apply", "-f", "-"); errs != "" {
		t.Errorf("no change: %s", errs)
	}
	told, say := io.Pipe()
	var out bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(t.Context(), []string{"anabranch", "rollout", "watch"}, strings.NewReader(""), &out, say)
		_ = say.Close()
	}()
	line, err := bufio.NewReader(told).ReadString('\n') // it has looked, and found no rollout of this change
	if err != nil || line != "note: the change waits for its rollout to begin\n" {
		t.Errorf("while it waits: %q %v", line, err)
	}
	made := s.node.Apply(&statepb.Command{Op: &statepb.Command_StartRollout{StartRollout: &statepb.StartRollout{
		ConfigRevision: s.node.View().Config().Revision(), Table: &routerpb.Table{Regions: []*routerpb.Region{{Id: "us", Zone: "c"}}, Clusters: []*routerpb.Cluster{{Id: "c"}}}, Canary: "r-1", Region: "us", Expected: 1,
	}}})
	if made.GetCode() != "" {
		t.Fatal(made)
	}
	s.do(0, "", "rollout", "promote")
	if code := <-ended; code != 0 || !strings.Contains(out.String(), fmt.Sprintf("rollout %d: settled: by admin\n", made.GetRevision())) {
		t.Errorf("watch = %d:\n%s", code, &out)
	}
}

func TestAChangeUnderAFreezeSaysSo(t *testing.T) {
	s := rolling(t)
	s.do(0, "", "rollout", "promote")
	s.do(0, acme, "apply", "-f", "-")
	s.do(0, "", "freeze", "--reason", "black friday")
	const want = "note: changes are frozen by admin: black friday; routers get this after `anabranch unfreeze`\n"
	t.Setenv("EDITOR", "sed -i s/top/batch/")
	first := fmt.Sprint(s.node.View().Index() - 1) // when acme was made, ahead of the freeze
	for _, args := range [][]string{{"edit", "tenant", "acme"}, {"delete", "tenant", "acme"}, {"rollback", "tenant", "acme", "--to", first}} {
		if _, errs := s.do(0, "", args...); errs != want {
			t.Errorf("%s: %s", args[0], errs)
		}
	}
}

func TestWithoutARolloutTheFixIsNamed(t *testing.T) {
	s := begin(t)
	if _, errs := s.do(exitFailed, "", "rollout", "status"); !strings.Contains(errs, "a SafetyRule with `rollout: {}`") {
		t.Errorf("errors: %s", errs)
	}
	// After an apply in a pipeline there is nothing to wait for.
	if _, errs := s.do(0, "", "rollout", "watch"); errs != "note: no rollout is under way: changes are with all routers\n" {
		t.Errorf("watch: %s", errs)
	}
}

func TestChangesAreFrozenAndLetThrough(t *testing.T) {
	s := rolling(t)
	if out, _ := s.do(0, "", "freeze", "--reason", "black friday"); out != "changes are frozen\n" {
		t.Errorf("freeze: %q", out)
	}
	if f := s.node.View().Frozen(); f.GetReason() != "black friday" || f.GetActor() != "admin" {
		t.Errorf("frozen %v", f)
	}
	if out, _ := s.do(0, "", "status"); !strings.Contains(fields(out), "frozen yes, by admin: black friday") {
		t.Errorf("status:\n%s", out)
	}
	if _, errs := s.do(exitRefused, "", "rollout", "promote"); !strings.Contains(errs, "frozen") {
		t.Errorf("promote: %s", errs)
	}
	if out, _ := s.do(0, "", "unfreeze"); out != "changes go out again\n" || s.node.View().Frozen() != nil {
		t.Errorf("unfreeze: %q", out)
	}
}
