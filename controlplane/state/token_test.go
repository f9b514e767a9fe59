package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/controlplane/state/statepb"
)

// hour is in ms, as commands count.
const hour = int64(time.Hour / time.Millisecond)

// secretHash is the hash of the n-th secret.
func secretHash(n int) []byte { return bytes.Repeat([]byte{byte(n), byte(n >> 8)}, 16) }

func newToken(name, role string, n int, change ...func(*statepb.PutToken)) *statepb.PutToken {
	p := &statepb.PutToken{Token: &statepb.Token{Name: name, Role: role, Sha256: secretHash(n), Prefix: "anb_abcdef"}}
	for _, f := range change {
		f(p)
	}
	return p
}

func until(ms int64) func(*statepb.PutToken) {
	return func(p *statepb.PutToken) { p.Token.ExpiresUnixMs = ms }
}

// rotated turns it into a rotation of a token as it is.
func rotated(t *statepb.Token, overlap int64) func(*statepb.PutToken) {
	return func(p *statepb.PutToken) {
		p.Rotate, p.IfRevision, p.OverlapMs = true, t.GetRevision(), overlap
	}
}

func (h *history) want(out *statepb.Outcome, code, field string) {
	h.t.Helper()
	if out.GetCode() != code || out.GetField() != field {
		h.t.Errorf("outcome %v, want %q at %q", out, code, field)
	}
}

func (h *history) lastEntry() *statepb.AuditEntry { return h.audit.last() }

func TestTokensAreMade(t *testing.T) {
	h := start(t)
	h.do(raise(3))
	p := newToken("ci", "operator", 1, until(1000+hour), func(p *statepb.PutToken) {
		p.Token.Scope = &statepb.TokenScope{Tenants: []string{"acme"}}
		// What only Apply says is not taken over.
		p.Token.Revision, p.Token.CreatedBy, p.Token.PreviousSha256, p.Token.PreviousUntilUnixMs = 99, "eve", secretHash(9), 1<<60
	})
	h.want(h.do(command(p)), "", "")
	want := &statepb.Token{
		Name: "ci", Role: "operator", Sha256: secretHash(1), Prefix: "anb_abcdef", Scope: &statepb.TokenScope{Tenants: []string{"acme"}},
		CreatedUnixMs: 1000, CreatedBy: "ann", ExpiresUnixMs: 1000 + hour, Revision: h.Index(),
	}
	if got := h.Token("ci"); !proto.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	e := h.lastEntry()
	if e.GetAction() != "create" || e.GetKind() != "Token" || e.GetName() != "ci" || e.GetReason() != "because; operator of tenants acme" || len(e.GetAfterSha256()) == 0 {
		t.Errorf("audited: %v", e)
	}
	// The first tokens stay as they are, and whoever has no scope has none written down.
	if ann := h.Token("ann"); ann.GetRevision() != 0 || ann.GetRole() != "admin" {
		t.Errorf("%v", ann)
	}
	h.want(h.do(command(newToken("deploy", "operator", 2, func(p *statepb.PutToken) { p.Token.Scope = &statepb.TokenScope{} }))), "", "")
	if got := h.Token("deploy"); got.Scope != nil || h.Token("nobody") != nil {
		t.Errorf("%v", got)
	}
	// A watch of resources hears nothing of tokens.
	if changes, ok := h.Changes(1); !ok || len(changes) != 0 {
		t.Errorf("%v, %v", changes, ok)
	}
	// All of it comes back from a snapshot.
	var b bytes.Buffer
	if err := Encode(h.View, &b); err != nil {
		t.Fatal(err)
	}
	again, err := Decode(&b)
	if err != nil || !Equal(again, h.View) || !proto.Equal(again.Token("ci"), want) {
		t.Errorf("%v, %v", again.Token("ci"), err)
	}
}

func TestTokensThatAreRefused(t *testing.T) {
	h := start(t)
	h.do(raise(3))
	h.want(h.do(command(newToken("ci", "operator", 1))), "", "")
	h.want(h.do(command(newToken("ci", "operator", 2, rotated(h.Token("ci"), hour)))), "", "")
	ci := h.Token("ci")
	for name, tt := range map[string]struct {
		put         *statepb.PutToken
		code, field string
	}{
		"no name":               {newToken("", "viewer", 3), CodeInvalid, "name"},
		"a name of capitals":    {newToken("CI", "viewer", 3), CodeInvalid, "name"},
		"a name that is taken":  {newToken("ci", "viewer", 3), CodeExists, "name"},
		"a name of Init":        {newToken("ann", "viewer", 3), CodeExists, "name"},
		"no role":               {newToken("x", "", 3), CodeInvalid, "role"},
		"an unknown role":       {newToken("x", "root", 3), CodeInvalid, "role"},
		"a short hash":          {newToken("x", "viewer", 3, func(p *statepb.PutToken) { p.Token.Sha256 = []byte{1} }), CodeInvalid, "token.sha256"},
		"a known secret":        {newToken("x", "viewer", 2), CodeInvalid, "token.sha256"},
		"a secret of before":    {newToken("x", "viewer", 1), CodeInvalid, "token.sha256"},
		"a secret of Init":      {newToken("x", "viewer", 0), CodeInvalid, "token.sha256"},
		"a long prefix":         {newToken("x", "viewer", 3, func(p *statepb.PutToken) { p.Token.Prefix = strings.Repeat("x", 17) }), CodeInvalid, "token"},
		"a long answer":         {newToken("x", "viewer", 3, func(p *statepb.PutToken) { p.Answer = make([]byte, 64<<10+1) }), CodeInvalid, "token"},
		"an expiry of now":      {newToken("x", "viewer", 3, until(1000)), CodeInvalid, "expiresAt"},
		"an expiry far away":    {newToken("x", "viewer", 3, until(1001+366*24*hour)), CodeInvalid, "expiresAt"},
		"a scope of bad names":  {newToken("x", "viewer", 3, func(p *statepb.PutToken) { p.Token.Scope = &statepb.TokenScope{Regions: []string{"a", "B"}} }), CodeInvalid, "scope.regions[1]"},
		"rotation of nothing":   {newToken("x", "", 3, rotated(ci, 0)), CodeNotFound, "name"},
		"rotation of another":   {newToken("ci", "", 3, rotated(h.Token("ann"), 0)), CodePrecondition, "name"},
		"a long overlap":        {newToken("ci", "", 3, rotated(ci, 7*24*hour+1)), CodeInvalid, "overlapSeconds"},
		"a negative overlap":    {newToken("ci", "", 3, rotated(ci, -1)), CodeInvalid, "overlapSeconds"},
		"the secret of before":  {newToken("ci", "", 1, rotated(ci, 0)), CodeInvalid, "token.sha256"},
		"an end for the last":   {newToken("ann", "", 3, rotated(h.Token("ann"), 0), until(1000+hour)), CodeInUse, "expiresAt"},
		"an expiry that passed": {newToken("ci", "", 3, rotated(ci, 0), until(999)), CodeInvalid, "expiresAt"},
	} {
		t.Run(name, func(t *testing.T) {
			before := h.View
			h.want(h.do(command(tt.put)), tt.code, tt.field)
			if len(h.tokens) != len(before.tokens) || !proto.Equal(h.Token("ci"), ci) {
				t.Error("it changed something")
			}
		})
	}
	h.want(h.do(command(newToken("farthest", "viewer", 3, until(1000+366*24*hour)))), "", "")
}

func TestRotation(t *testing.T) {
	h := start(t)
	h.do(raise(3))
	h.do(command(newToken("ci", "operator", 1, func(p *statepb.PutToken) { p.Token.Scope = &statepb.TokenScope{Models: []string{"m"}} })))
	first := h.Token("ci")
	h.want(h.do(command(newToken("ci", "admin", 2, rotated(first, hour), until(1000+2*hour), func(p *statepb.PutToken) {
		p.Token.Scope, p.Token.Prefix = nil, "anb_second"
	}))), "", "")
	want := proto.CloneOf(first)
	want.Sha256, want.Prefix, want.ExpiresUnixMs = secretHash(2), "anb_second", 1000+2*hour
	want.PreviousSha256, want.PreviousUntilUnixMs, want.RotatedUnixMs, want.Revision = secretHash(1), 1000+hour, 1000, h.Index()
	if got := h.Token("ci"); !proto.Equal(got, want) {
		t.Errorf("role and scope must stay:\n%v\nwant\n%v", got, want)
	}
	if e := h.lastEntry(); e.GetAction() != "rotate" || e.GetName() != "ci" {
		t.Errorf("audited: %v", e)
	}
	// The next one ends the secret of before the last; without an overlap that of now too.
	h.want(h.do(command(newToken("ci", "", 3, rotated(h.Token("ci"), 0)))), "", "")
	if got := h.Token("ci"); got.PreviousSha256 != nil || got.PreviousUntilUnixMs != 0 || got.GetExpiresUnixMs() != 0 {
		t.Errorf("%v", got)
	}
	h.want(h.do(command(&statepb.RevokeToken{Name: "ci"})), "", "")
	h.want(h.do(command(newToken("ci", "", 4, rotated(h.Token("ci"), 0)))), CodeInvalid, "name")
}

func TestRevocation(t *testing.T) {
	h := start(t)
	h.do(raise(3))
	h.do(command(newToken("ci", "operator", 1)))
	h.want(h.do(command(&statepb.RevokeToken{Name: "nobody"})), CodeNotFound, "name")
	h.want(h.do(command(&statepb.RevokeToken{Name: "ci"})), "", "")
	got := h.Token("ci")
	if got.GetRevokedUnixMs() != 1000 || got.GetRevokedBy() != "ann" || got.GetRevision() != h.Index() || !TokenEnded(got, time.UnixMilli(0)) {
		t.Errorf("%v", got)
	}
	entries := h.audit.kept
	h.want(h.do(command(&statepb.RevokeToken{Name: "ci"})), "", "")
	if !proto.Equal(h.Token("ci"), got) || h.audit.kept != entries {
		t.Error("the second time something changed")
	}
	if out := h.do(command(newToken("ci", "viewer", 2))); out.GetCode() != CodeExists || !strings.Contains(out.GetMessage(), "was revoked") {
		t.Errorf("the name is free again: %v", out)
	}
}

// TestTheLastWayInIsKept: there is always an admin without scope and expiry, if there was one at first.
func TestTheLastWayInIsKept(t *testing.T) {
	h := start(t)
	h.do(raise(3))
	h.do(command(newToken("scoped", "admin", 1, func(p *statepb.PutToken) { p.Token.Scope = &statepb.TokenScope{Regions: []string{"eu"}} })))
	h.do(command(newToken("passing", "admin", 2, until(1000+hour))))
	h.do(command(newToken("weak", "operator", 3)))
	h.want(h.do(command(&statepb.RevokeToken{Name: "ann"})), CodeInUse, "name")
	for _, name := range []string{"scoped", "passing", "weak"} {
		h.want(h.do(command(&statepb.RevokeToken{Name: name})), "", "")
	}
	h.do(command(newToken("second", "admin", 4)))
	h.want(h.do(command(newToken("second", "", 5, rotated(h.Token("second"), 0), until(1000+hour)))), "", "")
	h.want(h.do(command(&statepb.RevokeToken{Name: "ann"})), CodeInUse, "name")
	h.want(h.do(command(newToken("second", "", 6, rotated(h.Token("second"), 0)))), "", "")
	h.want(h.do(command(&statepb.RevokeToken{Name: "ann"})), "", "")
	h.want(h.do(command(&statepb.RevokeToken{Name: "second"})), CodeInUse, "name")
}

func TestTokensThatEndedMakeRoom(t *testing.T) {
	h := start(t)
	h.do(raise(3))
	for i := 1; i < MaxTokens; i++ {
		p := newToken(fmt.Sprint("t", i), "viewer", i)
		switch i {
		case 10:
			until(3000)(p)
		case 20:
			until(2000)(p)
		}
		h.View, _, _ = Apply(h.View, h.Index()+1, command(p))
	}
	h.want(h.do(command(newToken("more", "viewer", 5001))), CodeInvalid, "name")
	late := func(p *statepb.PutToken, at int64) *statepb.Command {
		cmd := command(p)
		cmd.AtUnixMs = at
		return cmd
	}
	h.want(h.do(late(newToken("more", "viewer", 5001), 4000)), "", "")
	if h.Token("t20") != nil || h.Token("t10") == nil || len(h.Tokens()) != MaxTokens {
		t.Error("not the one that ended first is forgotten")
	}
	h.do(late(newToken("again", "viewer", 5002), 4000))
	h.want(h.do(late(newToken("nomore", "viewer", 5003), 4000)), CodeInvalid, "name")
	revoke := command(&statepb.RevokeToken{Name: "t7"})
	h.want(h.do(revoke), "", "")
	h.want(h.do(late(newToken("nomore", "viewer", 5003), 4000)), "", "")
	if h.Token("t7") != nil || h.Token("ann") == nil {
		t.Error("not the revoked one is forgotten")
	}
}

func TestWhenATokenHasEnded(t *testing.T) {
	for _, tt := range []struct {
		token *statepb.Token
		at    int64
		want  bool
	}{
		{&statepb.Token{}, 1 << 50, false},
		{&statepb.Token{ExpiresUnixMs: 10}, 9, false},
		{&statepb.Token{ExpiresUnixMs: 10}, 10, true},
		{&statepb.Token{RevokedUnixMs: 10}, 5, true}, // clocks differ; revoked is revoked
		{&statepb.Token{RevokedUnixMs: 10, ExpiresUnixMs: 20}, 5, true},
	} {
		if got := TokenEnded(tt.token, time.UnixMilli(tt.at)); got != tt.want {
			t.Errorf("%v at %d: %v", tt.token, tt.at, got)
		}
	}
	if endedAt(&statepb.Token{RevokedUnixMs: 10, ExpiresUnixMs: 5}, 20) != 5 {
		t.Error("it ended when the first of both came")
	}
}

func TestTheAnswerThatHoldsASecretIsKeptSealed(t *testing.T) {
	h := start(t)
	h.do(raise(3))
	once := &statepb.Once{Key: "k", RequestSha256: make([]byte, 32)}
	cmd := command(newToken("ci", "operator", 1, func(p *statepb.PutToken) { p.Answer = []byte("sealed") }))
	cmd.Once = once
	h.want(h.do(cmd), "", "")
	made := h.Index()
	a := h.AnswerTo("ann", "k", time.UnixMilli(1000))
	if a.GetKind() != "Token" || a.GetName() != "ci" || string(a.GetDoc()) != "sealed" || !a.GetCreated() || a.GetRevision() != made {
		t.Fatalf("kept: %v", a)
	}
	// Sent again it makes no second token, whatever secret it would have made.
	cmd = command(newToken("ci", "operator", 2))
	cmd.Once = once
	if out := h.do(cmd); !proto.Equal(out.GetAnswer(), a) || h.Token("ci").GetRevision() != made {
		t.Errorf("%v", out)
	}
}

func TestTheTrailTellsNothingOfSecrets(t *testing.T) {
	doc := tokenDocument(&statepb.Token{
		Name: "ci", Role: "operator", Sha256: secretHash(65), PreviousSha256: secretHash(66), Prefix: "anb_abcdef",
		Scope: &statepb.TokenScope{Tenants: []string{"acme"}}, ExpiresUnixMs: 1000, RevokedUnixMs: 2000,
	})
	if want := `{"expiresAt":"1970-01-01T00:00:01Z","prefix":"anb_abcdef","revokedAt":"1970-01-01T00:00:02Z","role":"operator","scope":{"tenants":["acme"]}}`; string(doc) != want {
		t.Errorf("%s\nwant\n%s", doc, want)
	}
	if plain := tokenDocument(&statepb.Token{Role: "viewer"}); !json.Valid(plain) || string(plain) != `{"role":"viewer"}` {
		t.Errorf("%s", plain)
	}
}

func TestTokensNeedTheThirdFormat(t *testing.T) {
	for _, op := range []any{newToken("x", "viewer", 1), &statepb.RevokeToken{Name: "x"}} {
		if got := FormatOf(command(op)); got != 3 {
			t.Errorf("%T: %d", op, got)
		}
	}
}
