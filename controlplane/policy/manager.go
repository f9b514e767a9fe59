package policy

import (
	"cmp"
	"fmt"
	"slices"

	"anabranch/api/fleet"
)

// Human is the manager of every field that no automation has set.
const Human = "human"

// MaxManagers is how many managers the fields of one resource may have, people among them.
const MaxManagers = 16

// Manager is who has set some fields of a resource last.
type Manager struct {
	// Name of an automation, or [Human].
	Name string `json:"name"`
	// Fields are paths as in [Change], sorted. A list is one field, whatever is in it.
	Fields []string `json:"fields"`
}

// Claim is a field that a write would change and that somebody else has set.
type Claim struct {
	Field   string
	Manager string
}

// CheckManager says what is wrong with the name of a manager, or nil.
func CheckManager(name string) error {
	if name == Human {
		return nil
	}
	if err := fleet.CheckName(name); err != nil {
		return fmt.Errorf("manager %w", err)
	}
	return nil
}

// Own judges whether a writer may change a resource from one version to the next, and says who has set
// which of its fields afterwards; nil: people have set all of them. Nil for a version is one that does
// not exist. The managers so far are those in from's metadata.
//
// A person ([Human], or no name) may change everything, and what they change is theirs. An automation
// may change what it has set itself and add what is not there; anything else is a claim of somebody,
// unless it is forced, and with claims nothing is to change. What a write leaves as it is stays with
// whom it belongs to.
func Own(from, to *Resource, by string, force bool) ([]Manager, []Claim) {
	by = cmp.Or(by, Human)
	if by == Human && (from == nil || len(from.Metadata.Managers) == 0) {
		return nil, nil
	}
	before, after := ownable(from), ownable(to)
	owners := ownersOf(from)
	var claims []Claim
	claim := func(field string) {
		if owner := owners.of(field); by != Human && !force && owner != by {
			claims = append(claims, Claim{Field: field, Manager: owner})
		}
	}
	now := owners[:0:0]
	for len(before) > 0 || len(after) > 0 {
		switch order := compareFields(before, after); {
		case order < 0: // it goes
			claim(before[0].path)
			before = before[1:]
		case order > 0: // it is new
			now = append(now, owned{after[0].path, by})
			after = after[1:]
		default:
			owner := owners.of(after[0].path)
			if before[0].value != after[0].value {
				claim(after[0].path)
				owner = by
			}
			now = append(now, owned{after[0].path, owner})
			before, after = before[1:], after[1:]
		}
	}
	if len(claims) > 0 {
		return nil, claims
	}
	return now.managers(), nil
}

// compareFields orders the next fields of two sorted lists, of which one may be at its end.
func compareFields(before, after []field) int {
	switch {
	case len(before) == 0:
		return 1
	case len(after) == 0:
		return -1
	}
	return cmp.Compare(before[0].path, after[0].path)
}

// owned is a field and who has set it.
type owned struct{ path, manager string }

// ownership is sorted by field.
type ownership []owned

func ownersOf(r *Resource) ownership {
	var all ownership
	if r == nil {
		return all
	}
	for _, m := range r.Metadata.Managers {
		for _, f := range m.Fields {
			all = append(all, owned{f, m.Name})
		}
	}
	slices.SortFunc(all, func(a, b owned) int { return cmp.Compare(a.path, b.path) })
	return all
}

func (o ownership) of(path string) string {
	i, ok := slices.BinarySearchFunc(o, path, func(f owned, path string) int { return cmp.Compare(f.path, path) })
	if !ok {
		return Human
	}
	return o[i].manager
}

// managers groups the fields, by name of manager. Where people have set all of them there is nothing
// to tell.
func (o ownership) managers() []Manager {
	var all []Manager
	for _, f := range o {
		at, ok := slices.BinarySearchFunc(all, f.manager, func(m Manager, name string) int { return cmp.Compare(m.Name, name) })
		if !ok {
			all = slices.Insert(all, at, Manager{Name: f.manager})
		}
		all[at].Fields = append(all[at].Fields, f.path)
	}
	if len(all) == 1 && all[0].Name == Human {
		return nil
	}
	return all
}

// field is one value of a document that has an owner of its own, as canonical JSON.
type field struct{ path, value string }

// ownable lists the fields of labels and spec as written, sorted by path.
func ownable(r *Resource) []field {
	var all []field
	gather(root(canonicalOrNil(r)), "", &all)
	slices.SortStableFunc(all, func(a, b field) int { return cmp.Compare(a.path, b.path) })
	return slices.CompactFunc(all, func(a, b field) bool { return a.path == b.path })
}

func gather(n *node, path string, out *[]field) {
	switch n.shape {
	case isNull:
	case isObject:
		for _, m := range n.members {
			gather(m.value, join(path, m.key), out)
		}
	default:
		*out = append(*out, field{path, string(n.canonical(nil))})
	}
}
