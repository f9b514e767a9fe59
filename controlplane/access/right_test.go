package access

import (
	"slices"
	"testing"
)

func TestRolesAndRights(t *testing.T) {
	want := map[string][]Right{
		"viewer":   {Read},
		"operator": {Read, Write},
		"approver": {Approve, Read},
		"admin":    {Approve, Grant, Keep, Manage, Read, Write},
		"nobody":   nil,
		"":         nil,
	}
	for role, rights := range want {
		id := &Identity{Role: role}
		if got := id.Rights(); !slices.Equal(got, rights) {
			t.Errorf("%q has %v, want %v", role, got, rights)
		}
		for _, r := range append(Rights(), "fly") {
			if id.May(r) != slices.Contains(rights, r) {
				t.Errorf("%q may %s: %v", role, r, id.May(r))
			}
		}
	}
}

func TestEveryRightIsListedAndGiven(t *testing.T) {
	if !slices.IsSorted(Rights()) {
		t.Errorf("not sorted: %v", Rights())
	}
	for _, r := range Rights() {
		if !slices.Contains(r.Roles(), "admin") {
			t.Errorf("an admin lacks %s", r)
		}
	}
}
