package main

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var link = regexp.MustCompile(`^(http://127\.0\.0\.1:\d+)/#code=([A-Za-z0-9_-]{32})\n$`)

// enter signs in by a link as the console does, and says with which status.
func enter(t *testing.T, out string) (status int, cookies []*http.Cookie) {
	t.Helper()
	parts := link.FindStringSubmatch(out)
	if parts == nil {
		t.Fatalf("no link: %q", out)
	}
	resp, err := http.Post(parts[1]+"/v1/session", "application/json", strings.NewReader(`{"code":"`+parts[2]+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode, resp.Cookies()
}

func TestConsolePrintsALinkThatSignsInOnce(t *testing.T) {
	s := begin(t)
	out, _ := s.do(0, "", "console")
	if strings.Contains(out, "secret") {
		t.Errorf("the token is in %s", out)
	}
	if status, cookies := enter(t, out); status != 200 || len(cookies) != 2 {
		t.Errorf("status %d, %v", status, cookies)
	}
	if status, _ := enter(t, out); status != 401 {
		t.Errorf("again: status %d", status)
	}
}

func TestConsoleGoesToTheNextNode(t *testing.T) {
	s := begin(t)
	t.Setenv("ANABRANCH_SERVER", "http://127.0.0.1:1,"+s.node.URL)
	out, _ := s.do(0, "", "console")
	if !strings.HasPrefix(out, s.node.URL+"/#code=") {
		t.Errorf("%s", out)
	}
	t.Setenv("ANABRANCH_SERVER", "http://127.0.0.1:1")
	s.do(exitUnreachable, "", "console")
	t.Setenv("ANABRANCH_SERVER", s.node.URL)
	t.Setenv("ANABRANCH_TOKEN", "nobody")
	s.do(exitRefused, "", "console")
}

func TestConsoleOpensABrowser(t *testing.T) {
	s := begin(t)
	folder := t.TempDir()
	program := filepath.Join(folder, "browser")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"$1\" >"+filepath.Join(folder, "opened")+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BROWSER", program)
	out, _ := s.do(0, "", "console", "--open")
	if opened, err := os.ReadFile(filepath.Join(folder, "opened")); err != nil || string(opened) != out {
		t.Errorf("opened %q, printed %q, %v", opened, out, err)
	}
	t.Setenv("BROWSER", filepath.Join(folder, "none"))
	out, errs := s.do(0, "", "console", "--open")
	if !strings.Contains(errs, "no browser was opened") || !link.MatchString(out) {
		t.Errorf("%q, %q", errs, out)
	}
}
