package rest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"anabranch/controlplane/oidc/oidctest"
)

func TestShownTokensAreBoundedAndForgotten(t *testing.T) {
	var s shownTokens
	if s.has("a", epoch) {
		t.Error("an empty one has a token")
	}
	for i := range maxShown {
		s.remember(fmt.Sprint(i), epoch.Add(time.Duration(i/(maxShown/2)+1)*time.Minute), epoch)
	}
	s.remember("late", epoch.Add(time.Hour), epoch)
	s.remember("0", epoch.Add(time.Hour), epoch) // it is known
	if s.has("late", epoch) || !s.has("0", epoch.Add(59*time.Minute)) || !s.has("1", epoch) || s.has("1", epoch.Add(time.Minute)) || len(s.until) != maxShown {
		t.Errorf("%d remembered", len(s.until))
	}
	now := epoch.Add(time.Minute)
	s.remember("later", epoch.Add(time.Hour), now)
	if !s.has("later", now) || len(s.until) != maxShown/2+2 {
		t.Errorf("%d remembered after a minute", len(s.until))
	}
}

// exhaust tries tokens until the address is slowed down.
func (d *double) exhaust() {
	d.t.Helper()
	for i := range int(2 * attemptBurst) {
		if d.do(fmt.Sprint("guess", i), "GET", "/v1/status", "").status == http.StatusTooManyRequests {
			return
		}
	}
	d.t.Fatal("tries are not slowed down")
}

// A proxy in front gives everybody one address: who tries tokens through it locks out no one who has
// signed in, and nobody's token that has expired counts as a try.
func TestPeopleWhoHaveSignedInAreNotLockedOut(t *testing.T) {
	d, idp := signing(t)
	d.clock = time.Now() // the provider's
	good, other := "Authorization: Bearer "+idp.IDToken(oidctest.CLI, nil), "Authorization: Bearer "+idp.IDToken(oidctest.CLI, map[string]any{"sub": "somebody-else"})
	old := "Authorization: Bearer " + idp.IDToken(oidctest.CLI, map[string]any{"exp": time.Now().Add(-time.Hour).Unix()})
	for range int(3 * attemptBurst) {
		d.do("", "GET", "/v1/regions", "", old).want(401, "unauthenticated")
	}
	d.do("", "GET", "/v1/regions", "", good).want(200, "")
	d.exhaust()
	d.do("", "GET", "/v1/regions", "", good).want(200, "")
	d.do("", "GET", "/v1/regions", "", other).want(429, "too_many_requests")
	d.do("", "GET", "/v1/regions", "", old).want(429, "too_many_requests")
}

// Forged tokens make the provider's keys be fetched, so they are tries.
func TestForgedIDTokensAreTries(t *testing.T) {
	d, idp := signing(t)
	forged := "Authorization: Bearer " + idp.IDToken(oidctest.CLI, map[string]any{"aud": "another-client"})
	slowed := 0
	for range int(attemptBurst + 5) {
		if d.do("", "GET", "/v1/regions", "", forged).status == http.StatusTooManyRequests {
			slowed++
		}
	}
	if slowed < 4 {
		t.Errorf("%d were slowed down", slowed)
	}
}

func TestANodeThatIsNotReadyDoesNotSayThatATokenIsWrong(t *testing.T) {
	d := bare(t)
	d.ready = false
	a := d.do("admin", "GET", "/v1/regions", "").want(503, "catching_up")
	if a.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q", a.header.Get("Retry-After"))
	}
	// It has a snapshot, and lacks what came after: those who are in it are served, as far as that goes.
	d.initialised()
	d.do("admin", "GET", "/v1/regions?consistency=stale", "").want(200, "")
	d.do("made-later", "GET", "/v1/regions?consistency=stale", "").want(503, "catching_up")
	d.do("", "GET", "/v1/regions", "").want(401, "unauthenticated")
	d.exhaust() // it is still no place to try tokens
	d.mu.Lock()
	d.ready = true
	d.mu.Unlock()
	d.advance(time.Hour)
	d.do("made-later", "GET", "/v1/regions", "").want(401, "unauthenticated")
}

// TestWhoIsRefusedIsToldWhetherATokenCame: to somebody who has sent one, how to send it is no help.
func TestWhoIsRefusedIsToldWhetherATokenCame(t *testing.T) {
	d := newDouble(t)
	for header, want := range map[string]string{
		"Authorization: Bearer guess": `"detail":"This is no token of this control plane."`,
		"Accept: */*":                 `"detail":"Send the header Authorization: Bearer TOKEN with a token of this control plane."`,
	} {
		if a := d.do("", "GET", "/v1/regions", "", header).want(401, "unauthenticated"); !strings.Contains(string(a.body), want) {
			t.Errorf("%s: %s", header, a.body)
		}
	}
}
