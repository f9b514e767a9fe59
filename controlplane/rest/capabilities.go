package rest

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"anabranch/api"
	"anabranch/controlplane/access"
	"anabranch/controlplane/policy"
)

// Capabilities is what a caller may do, operation by operation.
type Capabilities struct {
	Whoami
	// Operations by their operationId.
	Operations map[string]Capability `json:"operations"`
}

// Capability is whether a caller may do an operation, and why not.
type Capability struct {
	Allowed bool `json:"allowed"`
	// Needs is the right that it takes, or none.
	Needs string `json:"needs"`
	// Scope is what the caller's scope means for it: none, any, filtered, within, or whole, where it has to be
	// everything. Within: a document that is out of scope is still refused.
	Scope string `json:"scope"`
	// Code is that of the refusal, forbidden or out_of_scope, Reason says it for people, and Roles are those that
	// have the right; absent where it is allowed.
	Code   string   `json:"code,omitempty"`
	Reason string   `json:"reason,omitempty"`
	Roles  []string `json:"roles,omitempty"`
}

// capabilities answers what a caller may do, by the document that the routes are held to.
func (s *Server) capabilities(c echo.Context) error {
	id := identity(c)
	out := Capabilities{whois(id), map[string]Capability{}}
	for route, o := range s.operations {
		out.Operations[o.ID] = capability(id, o, kindOfPath(route))
	}
	return c.JSON(http.StatusOK, out)
}

// capability is whether a caller may do an operation; kind is that of the resources that it is about, if it is.
func capability(id *access.Identity, o api.Operation, kind policy.Kind) Capability {
	if o.Needs == "none" {
		return Capability{Allowed: true, Needs: o.Needs, Scope: "none"}
	}
	out := Capability{Needs: o.Needs, Scope: cmp.Or(o.Scope, "whole")}
	need := access.Right(o.Needs)
	p := refusal(id, need, o.Scope != "")
	if p == nil && o.Scope == "within" && kind != "" && !id.Scope.Reaches(kind) {
		p = newProblem(codeOutOfScope, fmt.Sprintf("The token's scope is %.256s, which covers no %s.", id.Scope, kind))
	}
	if p == nil {
		out.Allowed = true
		return out
	}
	out.Code, out.Reason, out.Roles = p.Code, p.Detail, need.Roles()
	return out
}

// kindOfPath is the kind of the resources that a route of the document is about; empty: none.
func kindOfPath(route string) policy.Kind {
	_, path, _ := strings.Cut(route, " ")
	plural, _, _ := strings.Cut(strings.TrimPrefix(path, "/v1/"), "/")
	kind, _ := policy.KindOf(plural)
	return kind
}
