package rest

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"anabranch/controlplane/access"
)

// caller is someone who asks; role is empty for those who have none, whatever they send.
type caller struct{ name, token, role string }

// callers is one of every kind.
func callers() []caller {
	all := []caller{{name: "no token"}, {name: "an unknown token", token: "nobody"}}
	for _, role := range roles {
		all = append(all, caller{name: role, token: role, role: role})
	}
	return all
}

// TestEveryOperationLetsThroughWhomTheDocumentNames holds every operation to the right that the
// document asks for, and every right to the roles that the document gives it: whoever is not named
// is refused.
func TestEveryOperationLetsThroughWhomTheDocumentNames(t *testing.T) {
	d := newDouble(t)
	d.server.Drain() // watches end after what they have to tell at first
	for _, route := range slices.Sorted(maps.Keys(operations())) {
		needs := operations()[route].Needs
		if _, known := contract().Rights[needs]; !known && needs != "none" {
			t.Errorf("%s needs %q, which x-anabranch-rights does not list", route, needs)
			continue
		}
		method, path, _ := strings.Cut(route, " ")
		path = strings.NewReplacer("{name}", "x", "{id}", "r-0123456789abcdef").Replace(path)
		for _, c := range callers() {
			a := d.do(c.token, method, path, "")
			refused := a.status == 401 || a.status == 403
			switch {
			case needs == "none" || c.role != "" && slices.Contains(contract().Rights[needs], c.role):
				if refused {
					t.Errorf("%s refuses %s: %d", route, c.name, a.status)
				}
			case c.role == "":
				a.want(401, "unauthenticated")
				if a.header.Get("WWW-Authenticate") == "" {
					t.Errorf("%s refuses %s without a challenge", route, c.name)
				}
			case !refused:
				t.Errorf("%s lets %s through: %d", route, c.name, a.status)
			default:
				a.want(403, "forbidden")
			}
		}
	}
}

// TestRightsAreThoseOfTheDocument: the table above tells by what is answered, which would miss a right
// that no operation needs.
func TestRightsAreThoseOfTheDocument(t *testing.T) {
	listed := map[access.Right][]string{}
	for name, roles := range contract().Rights {
		listed[access.Right(name)] = roles
	}
	have := map[access.Right][]string{}
	for _, r := range access.Rights() {
		have[r] = r.Roles()
	}
	if !maps.EqualFunc(have, listed, slices.Equal) {
		t.Errorf("the server's rights are %v, the document's %v", have, listed)
	}
}

func TestAWatchOfOneKindNeedsAToken(t *testing.T) {
	newDouble(t).do("", "GET", "/v1/regions?watch=true", "").want(401, "unauthenticated")
}
