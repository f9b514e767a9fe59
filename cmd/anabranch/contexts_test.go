package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"anabranch/cmd/anabranch/client/clienttest"
	"anabranch/cmd/anabranch/dev"
)

// stranger is a user whose environment names no control plane.
func stranger(t *testing.T) session {
	t.Helper()
	s := begin(t)
	t.Setenv("ANABRANCH_SERVER", "")
	t.Setenv("ANABRANCH_TOKEN", "")
	return s
}

func TestContextsAreKeptUsedAndForgotten(t *testing.T) {
	s := stranger(t)
	other := clienttest.Start(t)
	s.file("viewer.token", "viewer-token\n")
	if out, _ := s.do(0, "", "context", "list"); strings.Count(out, "\n") != 1 {
		t.Errorf("at first: %q", out)
	}
	s.do(0, "", "context", "set", "here", "--server", "http://127.0.0.1:1,"+s.node.URL+"/", "--token", "admin-token")
	s.do(0, "", "context", "set", "there", "--server", other.URL, "--token-file", "viewer.token")
	file, err := contextsFile()
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	s.do(0, eu, "apply", "-f", "-") // here, which was the first: the first server does not answer
	if n := len(s.node.View().List("Region")); n != 2 {
		t.Errorf("%d regions here", n)
	}
	s.do(0, "", "get", "regions", "--context", "there")
	s.do(exitRefused, eu, "apply", "-f", "-", "--context", "there") // a viewer's token
	t.Setenv("ANABRANCH_CONTEXT", "there")
	s.do(exitRefused, eu, "apply", "-f", "-")
	t.Setenv("ANABRANCH_CONTEXT", "")
	s.do(0, "", "context", "use", "there")
	s.do(exitRefused, eu, "apply", "-f", "-")
	out, _ := s.do(0, "", "context", "list")
	if !strings.Contains(out, "*   there") || !strings.Contains(out, "kept") || strings.Contains(out, "admin-token") {
		t.Errorf("list:\n%s", out)
	}
	for _, format := range []string{"json", "yaml"} {
		if out, _ := s.do(0, "", "context", "list", "-o", format); strings.Contains(out, "admin-token") || !strings.Contains(out, "there") {
			t.Errorf("%s:\n%s", format, out)
		}
	}
	s.do(0, "", "context", "delete", "there")
	if _, errs := s.do(exitFailed, "", "get", "regions"); !strings.Contains(errs, "context use") {
		t.Errorf("without a current one: %s", errs)
	}
	if _, errs := s.do(exitFailed, "", "context", "use", "there"); !strings.Contains(errs, "there are here") {
		t.Errorf("use of none: %s", errs)
	}
	s.do(exitFailed, "", "context", "delete", "there")
}

func TestWithoutAContextTheFixIsNamed(t *testing.T) {
	s := stranger(t)
	if _, errs := s.do(exitFailed, "", "logout"); errs != "anabranch: there is no context; `anabranch context set NAME --server URL` makes one\n" {
		t.Errorf("without any: %s", errs)
	}
	s.do(0, "", "context", "set", "here", "--server", s.node.URL)
	s.do(0, "", "context", "set", "there", "--server", s.node.URL)
	s.do(0, "", "context", "delete", "here")
	if _, errs := s.do(exitFailed, "", "logout"); !strings.Contains(errs, "no context is the current one: name one of there, or ") {
		t.Errorf("without a current one: %s", errs)
	}
}

func TestATokenOfAContextGoesToItsServersOnly(t *testing.T) {
	s := stranger(t)
	other := clienttest.Start(t)
	s.do(0, "", "context", "set", "here", "--server", s.node.URL, "--token", "admin-token")
	s.do(exitRefused, "", "get", "regions", "--context", "here", "--server", other.URL)
	s.do(0, "", "get", "regions", "--context", "here", "--server", s.node.URL+"/")
	s.do(0, "", "get", "regions", "--context", "here", "--server", other.URL, "--token", "viewer-token")
}

func TestTheDemonstrationOfTheFolderComesBeforeTheCurrentContext(t *testing.T) {
	s := stranger(t)
	s.do(0, "", "context", "set", "gone", "--server", "http://127.0.0.1:1")
	s.do(exitUnreachable, "", "get", "regions")
	b, err := json.Marshal(dev.Record{ControlPlane: []dev.NodeRecord{{ID: "n1", HTTP: s.node.URL}}, Tokens: dev.TokensRecord{Admin: "admin-token"}})
	if err != nil {
		t.Fatal(err)
	}
	s.file(filepath.Join(dev.FolderName, "dev.json"), string(b))
	s.do(0, "", "get", "regions")
	s.do(exitUnreachable, "", "get", "regions", "--context", "gone")
}

func TestContextsThatAreWrong(t *testing.T) {
	s := stranger(t)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no server":       {[]string{"set", "x"}, "needs servers"},
		"no URL":          {[]string{"set", "x", "--server", "localhost:7100"}, "is not a URL"},
		"bad name":        {[]string{"set", "Not One", "--server", "http://a"}, "context"},
		"two tokens":      {[]string{"set", "x", "--server", "http://a", "--token", "t", "--token-file", "f"}, "not both"},
		"nothing to keep": {[]string{"set", "x", "--server", "http://a", "--keep-token"}, "no token to keep"},
		"no CA":           {[]string{"set", "x", "--server", "https://a", "--ca-file", "none.pem"}, "none.pem"},
	} {
		if _, errs := s.do(exitFailed, "", append([]string{"context"}, c.args...)...); !strings.Contains(errs, c.want) {
			t.Errorf("%s: %s", name, errs)
		}
	}
	s.file("no.pem", "nothing")
	if _, errs := s.do(exitFailed, "", "context", "set", "x", "--server", "https://a", "--ca-file", "no.pem"); !strings.Contains(errs, "no certificate") {
		t.Errorf("a file that is no CA: %s", errs)
	}
	t.Setenv("ANABRANCH_TOKEN", "admin-token")
	s.do(0, "", "context", "set", "x", "--server", s.node.URL, "--keep-token")
	t.Setenv("ANABRANCH_TOKEN", "")
	s.do(0, "", "get", "regions")
	file, err := contextsFile()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, errs := s.do(exitFailed, "", "get", "regions"); !strings.Contains(errs, "chmod 600") {
		t.Errorf("a file that others may read: %s", errs)
	}
	if err := os.WriteFile(file, []byte("contexts: [{nom: x}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs := s.do(exitFailed, "", "get", "regions"); !strings.Contains(errs, "unknown field") {
		t.Errorf("a file with a field that there is not: %s", errs)
	}
}

func TestNamesAreCompleted(t *testing.T) {
	s := rolling(t)
	rollout := s.node.View().Rollout()
	s.do(0, acme, "apply", "-f", "-")
	s.do(0, "", "context", "set", "prod", "--server", s.node.URL, "--token", "viewer-token")
	s.do(0, "", "token", "create", "ci")
	for line, want := range map[string]string{
		"get ":                    "regions",
		"get tenants ":            "acme",
		"describe region us":      "us-east-1",
		"delete region e":         "eu-west-1",
		"edit tenant x":           "",
		"watch ":                  "policies",
		"get planets ":            "",
		"context use ":            "prod",
		"get x --context ":        "prod",
		"get ro":                  "routers",
		"get tenants -o j":        "json",
		"history t":               "tenants",
		"history tenant ":         "acme",
		"rollback tenant ":        "acme",
		"key revoke ":             "acme",
		"key list acme ":          "",
		"token revoke c":          "ci",
		"token create x --role a": "approver",
		"rollout return ":         fmt.Sprint(rollout.GetId()),
	} {
		var out, errs bytes.Buffer
		run(t.Context(), append([]string{"anabranch", "__complete"}, strings.Split(line, " ")...), nil, &out, &errs)
		first := ""
		for l := range strings.Lines(out.String()) {
			if l = strings.TrimSpace(l); strings.HasPrefix(l, want) && !strings.HasPrefix(l, ":") && first == "" {
				first = l
			}
		}
		if want != first && (want == "" || !strings.HasPrefix(first, want)) {
			t.Errorf("%q is completed by %q, want %q", line, out.String(), want)
		}
	}
	if out, _ := s.do(0, "", "completion", "bash"); !strings.Contains(out, "__start_anabranch") {
		t.Error("no script for bash")
	}
}
