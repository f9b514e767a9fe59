package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"anabranch/controlplane/state/statepb"
)

// beginThird is a session with a cluster whose nodes all know tokens.
func beginThird(t *testing.T) session {
	t.Helper()
	s := begin(t)
	s.node.Apply(&statepb.Command{Format: 2, Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}}})
	return s
}

var ourSecret = regexp.MustCompile(`^anb_[a-z2-7]{59}\n$`)

func TestATokenComesRotatesAndGoes(t *testing.T) {
	s := beginThird(t)
	secret, note := s.do(0, "", "token", "create", "ci", "--role", "operator", "--tenant", "acme,other", "--model", "m", "--reason", "pipeline")
	if !ourSecret.MatchString(secret) {
		t.Fatalf("standard output holds more or less than the secret: %q", secret)
	}
	if !strings.Contains(note, "ci: operator of tenants acme, other; models m, expires 20") || strings.Contains(note, strings.TrimSpace(secret)) {
		t.Errorf("told: %s", note)
	}
	if got := time.Until(time.UnixMilli(s.node.View().Token("ci").GetExpiresUnixMs())); got < tokenLife-time.Minute || got > tokenLife {
		t.Errorf("it expires in %v", got)
	}
	t.Setenv("ANABRANCH_TOKEN", strings.TrimSpace(secret))
	if can, _ := s.do(0, "", "whoami", "--operations"); !regexp.MustCompile(`(?m)^listRegion +read +filtered +yes +-`).MatchString(can) || !regexp.MustCompile(`(?m)^listTokens +grant +whole +(yes +-|no +\S)`).MatchString(can) {
		t.Errorf("whoami --operations:\n%s", can)
	}
	me, _ := s.do(0, "", "whoami")
	if want := "name      ci (token)\nrole      operator\nscope     tenants acme, other; models m\nrights    read, write\nexpires   20"; !strings.HasPrefix(me, want) {
		t.Errorf("whoami:\n%s", me)
	}
	if _, errs := s.do(exitRefused, eu, "apply", "-f", "-"); !strings.Contains(errs, "out_of_scope") || !strings.Contains(errs, "metadata.name") {
		t.Errorf("out of scope: %s", errs)
	}
	if _, errs := s.do(exitRefused, "", "token", "list"); !strings.Contains(errs, "forbidden") {
		t.Errorf("an operator lists tokens: %s", errs)
	}
	t.Setenv("ANABRANCH_TOKEN", "admin-token")

	second, note := s.do(0, "", "token", "rotate", "ci", "--overlap", "1h", "--never-expires")
	if !ourSecret.MatchString(second) || second == secret || !strings.Contains(note, "the secret before is valid until 20") || !strings.Contains(note, "expires never") {
		t.Errorf("%q, %s", second, note)
	}
	table, _ := s.do(0, "", "token", "list")
	lines := strings.Split(strings.TrimSpace(table), "\n")
	if len(lines) != 6 || strings.Join(strings.Fields(lines[0]), " ") != "NAME ROLE SCOPE STATE EXPIRES SECRET BY" ||
		!strings.Contains(strings.Join(strings.Fields(table), " "), "ci operator tenants acme, other; models m active never "+second[:10]+"… admin") {
		t.Errorf("list:\n%s", table)
	}
	if out, _ := s.do(0, "", "token", "revoke", "ci", "--reason", "done"); out != "ci is revoked\n" {
		t.Errorf("revoke: %q", out)
	}
	if out, _ := s.do(0, "", "token", "get", "ci"); !strings.Contains(out, " revoked ") {
		t.Errorf("get:\n%s", out)
	}
	entries := s.node.View().Audit(0, 0)
	if e := entries[len(entries)-1]; e.GetAction() != "revoke" || e.GetReason() != "done" {
		t.Errorf("audited: %v", e)
	}
	t.Setenv("ANABRANCH_TOKEN", strings.TrimSpace(second))
	if _, errs := s.do(exitRefused, "", "whoami"); !strings.Contains(errs, "revoked") {
		t.Errorf("whoami of a revoked token: %s", errs)
	}
}

func TestTokensForPrograms(t *testing.T) {
	s := beginThird(t)
	out, _ := s.do(0, "", "token", "create", "ci", "--expires", "24h", "-o", "json")
	var made token
	if err := json.Unmarshal([]byte(out), &made); err != nil || !ourSecret.MatchString(made.Secret+"\n") || made.Role != "viewer" || !made.Scope.Everything() {
		t.Errorf("%v: %s", err, out)
	}
	var list struct{ Items []token }
	out, _ = s.do(0, "", "token", "list", "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Items) != 5 || strings.Contains(out, made.Secret) {
		t.Errorf("%v: %s", err, out)
	}
	if out, _ = s.do(0, "", "token", "get", "ci", "-o", "yaml"); !strings.Contains(out, "state: active\n") {
		t.Errorf("%s", out)
	}
	if out, _ = s.do(0, "", "whoami", "-o", "json"); !strings.Contains(out, `"grant"`) {
		t.Errorf("%s", out)
	}
	before := s.node.View().Token("ci").GetExpiresUnixMs()
	s.do(0, "", "token", "rotate", "ci", "--overlap", "0s")
	if got := s.node.View().Token("ci"); got.GetExpiresUnixMs() != before || len(got.GetPreviousSha256()) != 0 {
		t.Errorf("%v", got)
	}
	s.do(0, "", "token", "rotate", "ci", "--expires", "48h")
	if got := s.node.View().Token("ci"); got.GetExpiresUnixMs() <= before || len(got.GetPreviousSha256()) == 0 {
		t.Errorf("%v", got)
	}
}

func TestMistakesAboutTokens(t *testing.T) {
	s := beginThird(t)
	for name, c := range map[string]struct {
		code int
		args []string
		want string
	}{
		"no name":             {exitUsage, []string{"create"}, "accepts 1 arg"},
		"two expiries":        {exitFailed, []string{"create", "x", "--expires", "1h", "--never-expires"}, "none of the others can be"},
		"no life at all":      {exitFailed, []string{"create", "x", "--expires", "0s"}, "--never-expires"},
		"a life too long":     {exitRefused, []string{"create", "x", "--expires", "10000h"}, "expiresAt"},
		"an unknown role":     {exitRefused, []string{"create", "x", "--role", "root"}, "viewer, operator, approver, admin"},
		"a bad region":        {exitRefused, []string{"create", "x", "--region", "EU"}, "scope.regions[0]"},
		"a name taken":        {exitRefused, []string{"create", "viewer"}, "take another name"},
		"half a second":       {exitFailed, []string{"rotate", "viewer", "--overlap", "500ms"}, "whole seconds"},
		"an overlap too long": {exitRefused, []string{"rotate", "viewer", "--overlap", "200h"}, "overlapSeconds"},
		"nobody":              {exitRefused, []string{"rotate", "nobody"}, "not_found"},
		"the last admin":      {exitRefused, []string{"revoke", "admin"}, "make another token of an admin first"},
		"an odd format":       {exitUsage, []string{"list", "-o", "xml"}, "choose one of table, json, yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			s := session{t, s.node}
			if _, errs := s.do(c.code, "", append([]string{"token"}, c.args...)...); !strings.Contains(errs, c.want) {
				t.Errorf("it says %q", errs)
			}
		})
	}
}
