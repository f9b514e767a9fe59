package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"anabranch/cmd/anabranch/client/clienttest"
	"anabranch/cmd/anabranch/dev"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/rest"
)

// session is a user in an empty folder, whose environment names a node and the admin's token.
type session struct {
	t    *testing.T
	node *clienttest.Node
}

func begin(t *testing.T, change ...func(*rest.Options)) session {
	t.Helper()
	t.Chdir(t.TempDir())
	n := clienttest.Start(t, change...)
	t.Setenv("ANABRANCH_SERVER", n.URL)
	t.Setenv("ANABRANCH_TOKEN", "admin-token")
	t.Setenv("ANABRANCH_CONTEXT", "")
	t.Setenv("ANABRANCH_CONFIG", filepath.Join(t.TempDir(), "anabranch", "config.yaml"))
	return session{t, n}
}

// do runs a command line with input and wants the exit code; it returns output and errors.
func (s session) do(code int, in string, args ...string) (out, errs string) {
	s.t.Helper()
	var o, e bytes.Buffer
	got := run(s.t.Context(), append([]string{"anabranch"}, args...), strings.NewReader(in), &o, &e)
	if got != code {
		s.t.Errorf("anabranch %s = %d, want %d\n%s%s", strings.Join(args, " "), got, code, &o, &e)
	}
	return o.String(), e.String()
}

func (s session) file(name, text string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

const acme = `apiVersion: anabranch/v1
kind: Tenant
metadata: {name: acme}
spec: {tier: top, residency: [eu]}
`

const quota = `apiVersion: anabranch/v1
kind: Quota
metadata: {name: acme}
spec: {tenant: acme, limits: [{kind: requests, perMinute: 60}]}
`

const eu = `apiVersion: anabranch/v1
kind: Region
metadata: {name: eu-west-1}
spec: {zone: eu, rttMs: {us-east-1: 70}}
---
apiVersion: anabranch/v1
kind: Region
metadata: {name: us-east-1}
spec: {zone: us}
`

func TestApplyAFolderGetAndDeleteIt(t *testing.T) {
	s := begin(t)
	s.file("all/a-quota.yaml", quota)
	s.file("all/b.yml", eu+"---\n"+acme)
	s.file("all/notes.txt", "not a resource")
	dry, _ := s.do(0, "", "apply", "-f", "all", "--dry-run")
	if want := "regions/eu-west-1 created (dry run)\nregions/us-east-1 created (dry run)\ntenants/acme created (dry run)\nquotas/acme created (dry run)\n"; dry != want {
		t.Errorf("dry run:\n%swant\n%s", dry, want)
	}
	if n := len(s.node.View().List(policy.KindRegion)); n != 0 {
		t.Errorf("a dry run made %d regions", n)
	}
	out, _ := s.do(0, "", "apply", "-f", "all", "--reason", "first")
	if want := strings.ReplaceAll(dry, " (dry run)", ""); out != want {
		t.Errorf("apply:\n%swant\n%s", out, want)
	}
	if out, _ = s.do(0, "", "apply", "-f", "all"); strings.Count(out, " unchanged\n") != 4 {
		t.Errorf("second apply:\n%s", out)
	}
	out, _ = s.do(0, strings.Replace(acme, "top", "batch", 1), "apply", "-f", "-")
	if want := "tenants/acme configured\n  spec.tier: \"top\" → \"batch\"\n"; out != want {
		t.Errorf("apply of a change: %q, want %q", out, want)
	}

	table, _ := s.do(0, "", "get", "tenants")
	lines := strings.Split(table, "\n")
	if strings.Join(strings.Fields(lines[0]), " ") != "NAME TIER RESIDENCY KEYS REVISION" ||
		!strings.HasPrefix(strings.Join(strings.Fields(lines[1]), " "), "acme batch eu 0 ") {
		t.Errorf("table:\n%s", table)
	}
	if out, _ = s.do(0, "", "get", "region", "eu-west-1", "-o", "yaml"); !strings.Contains(out, "zone: eu\n") || !strings.Contains(out, "us-east-1: 70\n") {
		t.Errorf("yaml:\n%s", out)
	}
	var list struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	out, _ = s.do(0, "", "get", "Region", "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Items) != 2 {
		t.Errorf("json: %v\n%s", err, out)
	}

	if _, errs := s.do(exitRefused, "", "delete", "tenant", "acme"); !strings.Contains(errs, "in_use") {
		t.Errorf("delete in use: %s", errs)
	}
	out, _ = s.do(0, "", "delete", "-f", "all")
	if want := "quotas/acme deleted\ntenants/acme deleted\nregions/us-east-1 deleted\nregions/eu-west-1 deleted\n"; out != want {
		t.Errorf("delete:\n%swant\n%s", out, want)
	}
	if _, errs := s.do(exitRefused, "", "delete", "quota", "acme"); !strings.Contains(errs, "HTTP 404") {
		t.Errorf("delete of nothing: %s", errs)
	}
	if out, _ = s.do(0, "", "delete", "quota", "acme", "--ignore-missing"); out != "quotas/acme was not there\n" {
		t.Errorf("delete of nothing, ignored: %q", out)
	}
}

func TestWhatGetPrintsCanBeApplied(t *testing.T) {
	s := begin(t)
	s.do(0, eu+"---\n"+acme, "apply", "-f", "-")
	for _, format := range []string{"json", "yaml"} {
		text, _ := s.do(0, "", "get", "tenant", "acme", "-o", format)
		if out, _ := s.do(0, text, "apply", "-f", "-"); out != "tenants/acme unchanged\n" {
			t.Errorf("%s: %q", format, out)
		}
	}
}

func TestMistakesAreNamedAndNothingChanges(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		code int
		want []string
	}{
		"bad YAML":       {"kind: [", exitFailed, []string{"bad.yaml:", "line "}},
		"unknown field":  {strings.Replace(acme, "tier", "teir", 1), exitFailed, []string{"bad.yaml:", "line 4", "spec.teir", "fix: "}},
		"negative":       {strings.Replace(quota, "60", "-1", 1), exitFailed, []string{"quotas/acme spec.limits[0].perMinute", "fix: "}},
		"one of several": {acme + "---\n" + strings.Replace(quota, "requests", "wishes", 1), exitFailed, []string{"spec.limits[0].kind"}},
		"twice":          {acme + "---\n" + acme, exitFailed, []string{"Tenant/acme stands in bad.yaml too"}},
		"reference":      {quota, exitRefused, []string{"quotas/acme: ", "spec.tenant", "fix: "}},
		"nothing":        {"", exitFailed, []string{"there is no document in bad.yaml: "}},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			s.file("bad.yaml", c.text)
			before := s.node.View().Index()
			_, errs := s.do(c.code, "", "apply", "-f", "bad.yaml")
			for _, want := range c.want {
				if !strings.Contains(errs, want) {
					t.Errorf("error lacks %q:\n%s", want, errs)
				}
			}
			if s.node.View().ResourcesRevision() > before {
				t.Error("something changed")
			}
		})
	}
	s := begin(t)
	if _, errs := s.do(exitFailed, "kind: [", "apply", "-f", "-"); !strings.HasPrefix(errs, "anabranch: standard input:\n") {
		t.Errorf("standard input is called %s", errs)
	}
	if _, errs := s.do(exitFailed, quota, "apply", "-f", "-", "--dry-run"); !strings.Contains(errs, "this would be refused:\n  quotas/acme spec.tenant") {
		t.Errorf("dry run of a bad reference: %s", errs)
	}
}

func TestADocumentOfAnEarlierRevisionSaysHowToReplaceAnyway(t *testing.T) {
	s := begin(t)
	s.do(0, eu+"---\n"+acme, "apply", "-f", "-")
	old, _ := s.do(0, "", "get", "tenant", "acme", "-o", "yaml")
	s.do(0, strings.Replace(old, "top", "batch", 1), "apply", "-f", "-")
	_, errs := s.do(exitRefused, strings.Replace(old, "top", "standard", 1), "apply", "-f", "-")
	if !strings.Contains(errs, "HTTP 412") || !strings.Contains(errs, "\n  or: take metadata.revision, which is ") {
		t.Errorf("refused with %s", errs)
	}
}

func TestExitCodes(t *testing.T) {
	s := begin(t)
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no such command":     {[]string{"frobnicate"}, exitUsage, "unknown command \"frobnicate\" for \"anabranch\"\n  usage: `anabranch --help` lists the commands\n"},
		"no such flag":        {[]string{"get", "regions", "--colour"}, exitUsage, "unknown flag: --colour\n  usage: anabranch get "},
		"missing argument":    {[]string{"get"}, exitUsage, "received 0\n  usage: anabranch get KIND [NAME] [flags]; `anabranch get --help` tells more\n"},
		"format":              {[]string{"get", "regions", "-o", "xml"}, exitUsage, "choose one of table, json, yaml"},
		"kind":                {[]string{"get", "planets"}, exitUsage, "choose one of regions, models, clusters, tenants, policies, quotas, ratecards, safetyrules, drillplans, or routers, sources or endpoints"},
		"kind of history":     {[]string{"history", "planets", "x"}, exitUsage, "drillplans, or tables"},
		"no such of a group":  {[]string{"token", "revke", "ci"}, exitUsage, `unknown command "revke" for "anabranch token"; did you mean revoke?`},
		"nothing like it":     {[]string{"--server", "http://127.0.0.1:1", "key", "--token", "x", "eat"}, exitUsage, "there are add, list, new, revoke, rotate"},
		"in a group":          {[]string{"controlplane", "snapshot", "inspct"}, exitUsage, "did you mean inspect?"},
		"a group":             {[]string{"token", "--help"}, 0, ""},
		"group alone":         {[]string{"rollout"}, 0, ""},
		"refused":             {[]string{"get", "regions", "--token", "guess"}, exitRefused, "HTTP 401"},
		"missing":             {[]string{"get", "region", "mars"}, exitRefused, "HTTP 404"},
		"unreachable":         {[]string{"get", "regions", "--server", "http://127.0.0.1:1"}, exitUnreachable, "connection refused"},
		"no URL":              {[]string{"get", "regions", "--server", "localhost:7100"}, exitFailed, "is not a URL such as"},
		"delete of what":      {[]string{"delete"}, exitUsage, "name what to delete"},
		"delete both ways":    {[]string{"delete", "quota", "x", "-f", "y"}, exitUsage, "not both"},
		"apply nothing":       {[]string{"apply"}, exitUsage, "no documents"},
		"no such file":        {[]string{"apply", "-f", "none.yaml"}, exitFailed, "none.yaml"},
		"explain which":       {[]string{"explain", "us-1"}, exitRefused, "unknown_request"},
		"explain unreachable": {[]string{"explain", "us-1", "--router", "http://127.0.0.1:1"}, exitUnreachable, "ask router http://127.0.0.1:1"},
		"no dev":              {[]string{"dev", "status"}, exitFailed, "start it with `anabranch dev`"},
		"no dev to stop":      {[]string{"dev", "stop"}, exitFailed, "not running here"},
		"no dev to load":      {[]string{"dev", "load"}, exitFailed, "needs a running `anabranch dev`"},
		"bad key id":          {[]string{"key", "new", "--id", "Two Words"}, exitFailed, "may hold only"},
	} {
		if _, errs := s.do(c.code, "", c.args...); !strings.Contains(errs, c.want) {
			t.Errorf("%s: error lacks %q: %s", name, c.want, errs)
		}
	}
}

func TestControlPlaneIsFoundInOrder(t *testing.T) {
	s := begin(t)
	s.do(0, eu+"---\n"+acme, "apply", "-f", "-")
	works := func(want bool, args ...string) {
		t.Helper()
		var o, e bytes.Buffer
		code := run(t.Context(), append([]string{"anabranch", "get", "tenants"}, args...), nil, &o, &e)
		if (code == 0) != want {
			t.Errorf("get %v = %d: %s", args, code, &e)
		}
	}
	works(true) // environment
	t.Setenv("ANABRANCH_SERVER", "http://127.0.0.1:1")
	works(false)
	works(true, "--server", "http://127.0.0.1:1,"+s.node.URL) // flag before environment
	t.Setenv("ANABRANCH_SERVER", "")
	t.Setenv("ANABRANCH_TOKEN", "")
	works(false)
	works(true, "--server", s.node.URL, "--token", "viewer-token")
	record := dev.Record{ControlPlane: []dev.NodeRecord{{ID: "n1", HTTP: s.node.URL}}, Tokens: dev.TokensRecord{Admin: "admin-token"}}
	b, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	s.file(filepath.Join(dev.FolderName, "dev.json"), string(b))
	works(true) // the demonstration of this folder
	works(true, "--server", s.node.URL+"/")
	other := clienttest.Start(t)
	works(false, "--server", other.URL) // whose token goes nowhere else
	s.file(filepath.Join(dev.FolderName, "dev.json"), "{")
	works(false)
}
