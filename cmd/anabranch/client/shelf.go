package client

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"anabranch/controlplane/policy"
)

// Shelf is a copy of all resources. It is a [policy.Lookup].
type Shelf map[policy.Kind]map[string]*policy.Resource

// Get finds a resource by name.
func (s Shelf) Get(kind policy.Kind, name string) (*policy.Resource, bool) {
	r, ok := s[kind][name]
	return r, ok
}

// List gives those of a kind, sorted by name.
func (s Shelf) List(kind policy.Kind) []*policy.Resource {
	all := make([]*policy.Resource, 0, len(s[kind]))
	for _, name := range slices.Sorted(maps.Keys(s[kind])) {
		all = append(all, s[kind][name])
	}
	return all
}

func (s Shelf) put(r *policy.Resource) {
	if s[r.Kind] == nil {
		s[r.Kind] = map[string]*policy.Resource{}
	}
	s[r.Kind][r.Metadata.Name] = r
}

// Shelf reads all resources of all kinds.
func (c *Client) Shelf(ctx context.Context) (Shelf, error) {
	s := Shelf{}
	for _, kind := range policy.Kinds() {
		list, err := c.List(ctx, kind)
		if err != nil {
			return nil, err
		}
		for _, i := range list.Items {
			r, err := i.resource()
			if err != nil {
				return nil, err
			}
			s.put(r)
		}
	}
	return s, nil
}

// Planned is what applying one resource would do.
type Planned struct {
	Resource *policy.Resource
	Outcome  Outcome
	Changes  []policy.Change
}

// Plan says what applying the resources, one after the other, would do, and what would be wrong:
// each may refer to those before it.
func (s Shelf) Plan(rs []*policy.Resource) ([]Planned, []policy.Problem) {
	var steps []Planned
	var problems []policy.Problem
	for _, r := range rs {
		was, _ := s.Get(r.Kind, r.Metadata.Name)
		done, changes := compare(was, r)
		for _, p := range policy.Check(r, s) {
			p.Field = fmt.Sprintf("%s/%s %s", policy.Plural(r.Kind), r.Metadata.Name, p.Field)
			problems = append(problems, p)
		}
		s.put(r)
		steps = append(steps, Planned{r, done, changes})
	}
	return steps, problems
}

// Claims says which fields the resources would change that a manager may not, as the server would;
// an empty manager is a person, who may change all. It is to be asked before [Shelf.Plan].
func (s Shelf) Claims(rs []*policy.Resource, manager string, force bool) []policy.Problem {
	var problems []policy.Problem
	for _, r := range rs {
		was, _ := s.Get(r.Kind, r.Metadata.Name)
		_, claims := policy.Own(was, r, manager, force)
		for _, c := range claims {
			problems = append(problems, policy.Problem{
				Field: fmt.Sprintf("%s/%s %s", policy.Plural(r.Kind), r.Metadata.Name, c.Field), Reason: "was set by " + c.Manager,
				Fix: "leave it as it is, or take it over with --force",
			})
		}
	}
	return problems
}
