package rest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"anabranch/controlplane/access"
)

func TestRate(t *testing.T) {
	now := epoch
	r := newRate(func() time.Time { return now }, 2, 3)
	for _, step := range []struct {
		name  string
		after time.Duration
		took  int           // before it has to wait
		wait  time.Duration // then
	}{
		{"a", 0, 3, 500 * time.Millisecond},
		{"b", 0, 3, 500 * time.Millisecond},
		{"a", 250 * time.Millisecond, 0, 250 * time.Millisecond},
		{"a", 250 * time.Millisecond, 1, 500 * time.Millisecond},
		{"a", -time.Hour, 0, 500 * time.Millisecond}, // a clock that is put back gives nothing
		{"a", 2 * time.Hour, 3, 500 * time.Millisecond},
	} {
		now = now.Add(step.after)
		took := 0
		for r.wait(step.name) == 0 {
			if r.take(step.name) != 0 {
				t.Fatal("there was one, and it could not be taken")
			}
			took++
		}
		if got := r.take(step.name); took != step.took || got != step.wait {
			t.Errorf("%s after %v: took %d and waits %v, want %d, %v", step.name, step.after, took, got, step.took, step.wait)
		}
	}
}

func TestNoRateIsNoLimit(t *testing.T) {
	r := newRate(time.Now, -1, 0)
	for range 1000 {
		if r.take("a") != 0 || r.wait("a") != 0 {
			t.Fatal("limited")
		}
	}
}

func TestARateRemembersABoundedNumberOfNames(t *testing.T) {
	now := epoch
	r := newRate(func() time.Time { return now }, 1, 2)
	r.most = 10
	for i := range 10 {
		r.take(fmt.Sprint(i))
	}
	// No room: the next share what is left, and can't get around the rate by more names.
	taken := 0
	for i := range 20 {
		if r.take(fmt.Sprint("late", i)) == 0 {
			taken++
		}
	}
	if taken != 2 || len(r.buckets) > r.most+1 {
		t.Errorf("%d were let through, %d names are remembered", taken, len(r.buckets))
	}
	// What is full again makes room.
	now = now.Add(time.Second)
	r.take("fresh")
	if len(r.buckets) != 2 || r.buckets["fresh"].level != 1 {
		t.Errorf("remembered: %v", r.buckets)
	}
}

func TestAddresses(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:1234": "192.0.2.1", "[::ffff:192.0.2.1]:5": "192.0.2.1", "[2001:db8:1:2:3::4]:80": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:80": "fe80::/64", "pipe": "pipe", "unix:1": "unix",
	} {
		if got := address(&http.Request{RemoteAddr: remote}); got != want {
			t.Errorf("%s: %s, want %s", remote, got, want)
		}
	}
}

func TestCallersArePaced(t *testing.T) {
	r := prometheus.NewRegistry()
	d := newDouble(t, func(o *Options) { o.ReadRate, o.WriteRate, o.Registerer = 5, 1, r })
	for range 10 {
		d.do("viewer", "GET", "/v1/status", "").want(200, "")
	}
	a := d.do("viewer", "GET", "/v1/status", "").want(429, "too_many_requests")
	if a.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q", a.header.Get("Retry-After"))
	}
	d.do("operator", "GET", "/v1/status", "").want(200, "")
	for range 5 {
		d.do("viewer", "DELETE", "/v1/regions/us", "").want(403, "forbidden")
	}
	d.do("viewer", "DELETE", "/v1/regions/us", "").want(429, "too_many_requests")
	d.advance(200 * time.Millisecond)
	d.do("viewer", "GET", "/v1/status", "").want(200, "")
	d.do("viewer", "GET", "/v1/status", "").want(429, "")
	d.do("", "GET", "/healthz", "").want(200, "")
	d.do("", "GET", "/v1/status", "").want(401, "")
	d.do("nobody", "GET", "/v1/status", "").want(401, "")
	want := `
		# HELP anabranch_controlplane_auth_total Requests by whether their sender was let in: ok, none (no token), unknown, expired, revoked, forbidden (role), out_of_scope, limited (rate of the caller), attempts (rate of wrong tokens of the address), id_token (not good), sign_in_away, catching_up, not_initialised, other.
		# TYPE anabranch_controlplane_auth_total counter
		anabranch_controlplane_auth_total{result="forbidden"} 5
		anabranch_controlplane_auth_total{result="limited"} 3
		anabranch_controlplane_auth_total{result="none"} 1
		anabranch_controlplane_auth_total{result="ok"} 12
		anabranch_controlplane_auth_total{result="unknown"} 1
	`
	if err := testutil.GatherAndCompare(r, strings.NewReader(want), "anabranch_controlplane_auth_total"); err != nil {
		t.Error(err)
	}
}

func TestWhoTriesTokensIsSlowedDown(t *testing.T) {
	d := newDouble(t)
	good := access.NewSecret([access.SecretBytes]byte{1})
	d.token("made", "viewer", access.Scope{}, withSecret(good))
	const tries = 40
	slowed := 0
	for i := range tries {
		if d.do(fmt.Sprint("guess", i), "GET", "/v1/status", "").status == 429 {
			slowed++
		}
	}
	if slowed != tries-attemptBurst {
		t.Errorf("%d of %d tries were slowed down", slowed, tries)
	}
	// From then on not even a right guess is looked at, but who holds a secret that can't be guessed.
	a := d.do("viewer", "GET", "/v1/status", "").want(429, "too_many_requests")
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	d.do("", "GET", "/v1/status", "", "Authorization: Bearer "+good).want(200, "")
	d.do("", "GET", "/v1/status", "").want(401, "unauthenticated") // no token is no try
	d.advance(time.Second)
	d.do("viewer", "GET", "/v1/status", "").want(200, "")
	// Whole secrets that nobody has count as well.
	d.do("", "GET", "/v1/status", "", "Authorization: Bearer "+access.NewSecret([access.SecretBytes]byte{2})).want(401, "unauthenticated")
	d.do("", "GET", "/v1/status", "", "Authorization: Bearer "+access.NewSecret([access.SecretBytes]byte{3})).want(429, "too_many_requests")
}
