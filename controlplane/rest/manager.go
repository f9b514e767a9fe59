package rest

import (
	"fmt"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
)

// headerManager is in whose name a resource is written; so is the parameter "manager".
const headerManager = "X-Anabranch-Manager"

// writer is in whose name a resource is written.
type writer struct {
	manager string // of an automation; empty: a person's
	force   bool
}

func writerOf(c echo.Context) (writer, error) {
	force, err := flag(c, "force")
	if err != nil {
		return writer{}, err
	}
	name, other := c.Request().Header.Get(headerManager), c.QueryParam("manager")
	switch {
	case name == "":
		name = other
	case other != "" && other != name:
		return writer{}, newProblem(codeInvalidRequest, headerManager+" and the parameter manager name different ones; send one of them.")
	}
	if name == "" || name == policy.Human {
		return writer{}, nil // people need no force
	}
	if err := policy.CheckManager(name); err != nil {
		return writer{}, newProblem(codeInvalidRequest, fmt.Sprintf("The %s.", err))
	}
	return writer{manager: name, force: force}, nil
}

// owned judges whether the writer may change what it would, and puts into the new version who has set its
// fields. While a cluster is being upgraded all fields are people's.
func owned(view *state.View, ch change) error {
	if view.FeatureLevel() < 3 {
		return nil
	}
	managers, claims := policy.Own(ch.old, ch.next, ch.by.manager, ch.by.force)
	if len(claims) > 0 {
		return problemOwned(claims)
	}
	if ch.next != nil {
		ch.next.Metadata.Managers = managers
	}
	return nil
}

// fixOwned is for both faces of the control plane.
const fixOwned = "leave it as it is, or take it over with force=true (--force on the command line)"

func problemOwned(claims []policy.Claim) *Problem {
	var fields []policy.Problem
	for _, c := range claims[:min(len(claims), policy.MaxProblems)] {
		fields = append(fields, policy.Problem{
			Field: c.Field, Reason: "was set by " + c.Manager,
			Fix: fixOwned,
		})
	}
	return newProblem(codeFieldOwned, state.Claims(claims)+".", fields...)
}
