package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"anabranch/cmd/anabranch/dev"
	"anabranch/controlplane/policy"
)

// keys are a tenant's as the server keeps them, by id.
func (s session) keys(tenant string) map[string]policy.APIKeySpec {
	s.t.Helper()
	out, _ := s.do(0, "", "key", "list", tenant, "-o", "json")
	var list []policy.APIKeySpec
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	keys := map[string]policy.APIKeySpec{}
	for _, k := range list {
		keys[k.ID] = k
	}
	return keys
}

func TestKeysOfATenantComeRotateAndGo(t *testing.T) {
	s := begin(t)
	s.file("acme.yaml", eu+"---\n"+acme)
	s.do(0, "", "apply", "-f", "acme.yaml")

	out, _ := s.do(0, "", "key", "add", "acme", "--id", "laptop", "--reason", "new", "-o", "json")
	var made madeKey
	if err := json.Unmarshal([]byte(out), &made); err != nil || made.Tenant != "acme" || made.ID != "laptop" || made.ExpiresAt != "" {
		t.Fatalf("add: %v %s", err, out)
	}
	if k := s.keys("acme")["laptop"]; k.SHA256 != dev.HashKey(made.Key) || !strings.HasPrefix(made.Key, k.Prefix) || len(k.Prefix) != shownPrefix {
		t.Errorf("the server keeps %+v of %s", k, made.Key)
	}
	s.do(0, "", "key", "add", "acme", "--id", "visitor", "--expires-in", "72h")
	before := s.keys("acme")["visitor"].Expires()
	if in := time.Until(before); in < 71*time.Hour || in > 72*time.Hour {
		t.Errorf("the visitor's key ends in %s", in)
	}

	rotatedAt := time.Now()
	out, errs := s.do(0, "", "key", "rotate", "acme", "--id", "laptop", "--overlap", "1h")
	if !strings.HasPrefix(out, "ab-") || strings.Count(out, "\n") != 1 || !strings.Contains(errs, "laptop serves until ") {
		t.Errorf("rotate: %s%s", out, errs)
	}
	keys := s.keys("acme")
	if in := keys["laptop"].Expires().Sub(rotatedAt); len(keys) != 3 || in < time.Hour || in > time.Hour+time.Minute {
		t.Errorf("after a rotation: %+v", keys)
	}
	s.do(0, "", "key", "rotate", "acme", "--id", "visitor", "--new-id", "visitor-2", "--overlap", "1000h")
	if got := s.keys("acme")["visitor"].Expires(); !got.Equal(before) {
		t.Errorf("a rotation has put off the end of a key from %s to %s", before, got)
	}
	s.do(0, "", "key", "rotate", "acme", "--id", "visitor-2", "--new-id", "visitor-3", "--overlap", "0s")
	list, _ := s.do(0, "", "key", "list", "acme")
	if !strings.Contains(list, "expired") || !strings.Contains(list, "active, ends in ") || !strings.Contains(list, "never") || strings.Contains(list, made.Key) {
		t.Errorf("list:\n%s", list)
	}

	s.do(0, "", "key", "revoke", "acme", "--id", "laptop")
	if _, there := s.keys("acme")["laptop"]; there {
		t.Error("a revoked key is still there")
	}
	// The rest of the tenant is as it was.
	if out, _ := s.do(0, "", "get", "tenant", "acme", "-o", "json"); !strings.Contains(out, `"top"`) || !strings.Contains(out, `"eu"`) {
		t.Errorf("the tenant has become %s", out)
	}
}

func TestKeyCommandsThatMakeNoSense(t *testing.T) {
	s := begin(t)
	s.file("acme.yaml", eu+"---\n"+acme)
	s.do(0, "", "apply", "-f", "acme.yaml")
	s.do(0, "", "key", "add", "acme", "--id", "laptop")
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"without a name":      {[]string{"add", "acme"}, exitUsage, "name the key with --id"},
		"revoke which":        {[]string{"revoke", "acme"}, exitUsage, "`anabranch key list TENANT`"},
		"rotate which":        {[]string{"rotate", "acme"}, exitUsage, "name the key with --id"},
		"a bad new name":      {[]string{"rotate", "acme", "--id", "laptop", "--new-id", "A B"}, exitFailed, "--new-id: "},
		"twice the same":      {[]string{"add", "acme", "--id", "laptop"}, exitFailed, `there is a key "laptop" already`},
		"gone before it came": {[]string{"add", "acme", "--id", "x", "--expires-in", "-1h"}, exitFailed, "--expires-in"},
		"rotate nothing":      {[]string{"rotate", "acme", "--id", "nobody"}, exitFailed, "there are laptop\n"},
		"rotate to itself":    {[]string{"rotate", "acme", "--id", "laptop", "--new-id", "laptop"}, exitFailed, "already"},
		"overlap backwards":   {[]string{"rotate", "acme", "--id", "laptop", "--overlap", "-1s"}, exitFailed, "0s ends the old key now"},
		"revoke nothing":      {[]string{"revoke", "acme", "--id", "nobody"}, exitFailed, `no key "nobody"`},
		"no such tenant":      {[]string{"list", "globex"}, exitRefused, "globex"},
	} {
		t.Run(name, func(t *testing.T) {
			before := s.keys("acme")
			if _, errs := s.do(c.code, "", append([]string{"key"}, c.args...)...); !strings.Contains(errs, c.says) {
				t.Errorf("errors: %s", errs)
			}
			if after := s.keys("acme"); len(after) != len(before) || after["laptop"] != before["laptop"] {
				t.Error("something has changed")
			}
		})
	}
}
