// Package access says who may do what in the control plane: the rights that an operation can need and
// the roles that have them, the scopes that narrow what a caller may touch, and the secrets of static
// tokens. It decides and does nothing else: who a caller is, package rest finds out; which tokens there
// are, package state keeps.
package access

import (
	"slices"
	"time"
)

// Right is what an operation needs.
type Right string

// The rights.
const (
	// Read is to see what there is.
	Read Right = "read"
	// Write is to change resources.
	Write Right = "write"
	// Keep is to take away everything there is, hashes of tokens included.
	Keep Right = "keep"
	// Manage is to change the control plane itself.
	Manage Right = "manage"
	// Approve is to decide what others propose.
	Approve Right = "approve"
	// Grant is to see, give and take away tokens.
	Grant Right = "grant"
)

// Rights gives every right, sorted.
func Rights() []Right { return []Right{Approve, Grant, Keep, Manage, Read, Write} }

// Roles are those that have the right; none has one that there isn't. An approver sees everything and
// decides what others propose, but proposes nothing.
func (r Right) Roles() []string {
	switch r {
	case Read:
		return []string{"viewer", "operator", "approver", "admin"}
	case Write:
		return []string{"operator", "admin"}
	case Approve:
		return []string{"approver", "admin"}
	case Keep, Manage, Grant:
		return []string{"admin"}
	}
	return nil
}

// Kind is how a caller became known.
type Kind string

// The kinds.
const (
	// KindToken is a static token of the control plane's own.
	KindToken Kind = "token"
	// KindOIDC is an ID token of the OpenID provider.
	KindOIDC Kind = "oidc"
)

// OIDCPrefix stands before the names of people whom the OpenID provider knows, so that nobody there can take
// the name of a static token.
const OIDCPrefix = "oidc:"

// Identity is a caller that is known.
type Identity struct {
	Kind Kind
	// Name stands in the audit trail, and is what limits are kept by.
	Name string
	Role string
	// Scope narrows what the role allows.
	Scope Scope
	// Expires is when the identity ends; zero: never.
	Expires time.Time
	// Credential is what may be shown of the secret that was sent; empty: nothing.
	Credential string
}

// May says whether the identity's role has a right, wherever.
func (i *Identity) May(r Right) bool { return slices.Contains(r.Roles(), i.Role) }

// Rights are those of the identity's role, sorted.
func (i *Identity) Rights() []Right {
	return slices.DeleteFunc(Rights(), func(r Right) bool { return !i.May(r) })
}
