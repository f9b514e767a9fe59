package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"anabranch/controlplane/policy"
)

// ProblemError is a refusal by the control plane: a problem document of RFC 9457.
type ProblemError struct {
	Type   string `json:"type,omitempty"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Code is stable, for programs: "not_found", "precondition", …
	Code string `json:"code,omitempty"`
	// Errors name each field that is wrong, why, and what would be right.
	Errors []policy.Problem `json:"errors,omitempty"`
	// Server is the node that said so.
	Server string `json:"-"`

	keyed bool          // the server keeps keys
	after time.Duration // of Retry-After; 0: it does not say
}

// problem reads the answer as a problem document, or makes one of whatever it is.
func problem(resp *http.Response, body []byte, server string) *ProblemError {
	p := &ProblemError{}
	if err := json.Unmarshal(body, p); err != nil || p.Title == "" && p.Detail == "" {
		text := strings.TrimSpace(string(body))
		var plain struct{ Error string } // as routers' admin pages say it
		if json.Unmarshal(body, &plain) == nil && plain.Error != "" {
			text = plain.Error
		}
		p = &ProblemError{Title: http.StatusText(resp.StatusCode), Detail: text[:min(len(text), 300)]}
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		p.after = time.Duration(seconds) * time.Second
	}
	p.Status, p.Server, p.keyed = resp.StatusCode, server, resp.Header.Get("Idempotency-Key") != ""
	return p
}

// Error says all of it, a line for each field.
func (p *ProblemError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (HTTP %d", p.Title, p.Status)
	if p.Code != "" {
		fmt.Fprintf(&b, ", %s", p.Code)
	}
	b.WriteString(")")
	if p.Detail != "" && len(p.Errors) == 0 { // else they say it
		b.WriteString(": " + p.Detail)
	}
	b.WriteString(Fields(p.Errors))
	if fix := p.fix(); fix != "" {
		b.WriteString("\n  fix: " + fix)
	}
	return b.String()
}

// fix is what the caller can do about refusals that are not about a field.
func (p *ProblemError) fix() string {
	if len(p.Errors) > 0 {
		return ""
	}
	switch p.Status {
	case http.StatusUnauthorized:
		return "give a valid token with ANABRANCH_TOKEN, or keep it with `anabranch context set NAME --token-file FILE`; `anabranch login` gets one"
	case http.StatusForbidden:
		return "use a token of a role and scope that may do this; `anabranch whoami` shows yours"
	case http.StatusTooManyRequests:
		return "slow down; --read-rate and --write-rate of the node say how much one caller may ask"
	case http.StatusPreconditionFailed:
		return "somebody else changed it; look at it again and repeat"
	case http.StatusServiceUnavailable:
		switch p.Code {
		case "upgrade_needed":
			return "upgrade the nodes that `anabranch members` shows with a lower level"
		case "read_only":
			return "make room on the disk of the node that `anabranch members` shows as leader, or transfer the leadership"
		case "catching_up":
			return "name another node with --server, or try again in a few seconds"
		case "no_leader":
			return "try again in a few seconds; `anabranch members` shows who leads, and commands that read take --stale"
		}
		return "try again in a few seconds; `anabranch members` shows who leads"
	}
	return ""
}

// elsewhere says that another node may well do what this one can't now, which has done nothing: one that is
// cut off from the leader or from the OpenID provider, or has just started.
func elsewhere(err error) bool {
	var p *ProblemError
	if !errors.As(err, &p) || p.Status != http.StatusServiceUnavailable {
		return false
	}
	switch p.Code {
	case "no_leader", "catching_up", "not_initialised", "sign_in_away":
		return true
	}
	return false
}

// Fields writes problems with fields, a line each, starting with a line break.
func Fields(problems []policy.Problem) string {
	var b strings.Builder
	for _, f := range problems {
		b.WriteString("\n  ")
		if f.Line > 0 {
			fmt.Fprintf(&b, "line %d: ", f.Line)
		}
		if f.Field != "" {
			b.WriteString(f.Field + ": ")
		}
		b.WriteString(f.Reason)
		if f.Fix != "" {
			fmt.Fprintf(&b, "\n    fix: %s", f.Fix)
		}
	}
	return b.String()
}

// IsStatus says whether the error is a problem with that HTTP status.
func IsStatus(err error, status int) bool {
	var p *ProblemError
	return errors.As(err, &p) && p.Status == status
}

// connecting says whether the call failed before anything was sent.
func connecting(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
