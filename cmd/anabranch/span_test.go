package main

import (
	"strings"
	"testing"
	"time"
)

func TestSpansMayBeInDays(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90d": 90 * day, "-1d": -day, "0d": 0, "1h30m": 90 * time.Minute, "106751d": 106751 * day, "36h": 36 * time.Hour,
	} {
		var s span
		if err := s.Set(text); err != nil || time.Duration(s) != want {
			t.Errorf("%s is %s: %v", text, time.Duration(s), err)
		}
	}
	for _, text := range []string{"", "d", "1.5d", "106752d", "99999999999999999999d", "1d12h", "soon"} {
		s := span(time.Hour)
		if err := s.Set(text); err == nil || !strings.Contains(err.Error(), "is no length of time: write 90d, 12h or 30m") || time.Duration(s) != time.Hour {
			t.Errorf("%q is %s: %v", text, time.Duration(s), err)
		}
	}
	for want, d := range map[string]time.Duration{"90d": 90 * day, "0s": 0, "36h0m0s": 36 * time.Hour} {
		s := span(d)
		if got := s.String(); got != want {
			t.Errorf("%s is shown as %s", d, got)
		}
	}
}

func TestSecretsLiveForDays(t *testing.T) {
	s := begin(t)
	s.do(0, eu+"---\n"+acme, "apply", "-f", "-")
	out, _ := s.do(0, "", "token", "create", "--help")
	if !strings.Contains(out, "at most 366d (default 90d)") {
		t.Errorf("help: %s", out)
	}
	_, errs := s.do(0, "", "token", "create", "ci", "--expires", "30d")
	if want := time.Now().UTC().Add(30 * day).Format("2006-01-02T15"); !strings.Contains(errs, "expires "+want) {
		t.Errorf("made %s, want %s", errs, want)
	}
	s.do(0, "", "token", "rotate", "ci", "--overlap", "2d", "--expires", "60d")
	s.do(0, "", "key", "add", "acme", "--id", "k", "--expires-in", "7d")
	s.do(0, "", "key", "rotate", "acme", "--id", "k", "--overlap", "1d")
	if in := time.Until(s.keys("acme")["k"].Expires()); in < day-time.Minute || in > day+time.Minute {
		t.Errorf("the old key serves for %s", in)
	}
	if out, _ = s.do(0, "", "audit", "list", "--from", "2d", "--kind", "Token"); !strings.Contains(out, "Token/ci") {
		t.Errorf("audit: %s", out)
	}
}
