package access

import (
	"slices"
	"testing"
)

func TestRolesAndRights(t *testing.T) {
	want := map[string][]Right{
		"viewer":   {Read},
		"operator": {Read, Write},
		"approver": {Read},
		"admin":    {Grant, Keep, Manage, Read, Write},
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

func TestWhoReadsTheRolesCannotChangeThem(t *testing.T) {
	roles := Read.Roles()
	roles[0] = "nobody"
	if (&Identity{Role: "nobody"}).May(Read) || Right("fly").Roles() != nil {
		t.Error("rights can be given from outside")
	}
}
