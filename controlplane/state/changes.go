package state

import (
	"bytes"
	"crypto/sha256"

	"anabranch/controlplane/policy"
)

// Change is one resource that a command created, updated or deleted.
type Change struct {
	Revision uint64 // index of the command
	Kind     policy.Kind
	Name     string
	Deleted  bool
}

// Changes gives the changes of resources above a revision, oldest first, each resource once at its
// newest change. False: the history kept does not reach that far back, or the revision is not of this
// state's past; whoever asked must list anew.
func (v *View) Changes(after uint64) ([]Change, bool) {
	if after > v.index {
		return nil, false
	}
	if after < v.resources && !v.remembers(after) {
		return nil, false
	}
	type key struct {
		kind policy.Kind
		name string
	}
	var out []Change
	seen := map[key]bool{}
	entries := v.Audit(after, 0)
	for i := len(entries) - 1; i >= 0; i-- {
		e := entries[i]
		kind := policy.Kind(e.GetKind())
		if policy.Plural(kind) == "" || !isChange(e.GetAction()) || seen[key{kind, e.GetName()}] {
			continue
		}
		seen[key{kind, e.GetName()}] = true
		out = append(out, Change{Revision: e.GetIndex(), Kind: kind, Name: e.GetName(), Deleted: e.GetAction() == "delete"})
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out, true
}

func isChange(action string) bool {
	return action == "create" || action == "update" || action == "delete"
}

// remembers: every entry above the index is still kept.
func (v *View) remembers(after uint64) bool {
	if v.audit.kept == 0 {
		return false
	}
	oldest := v.audit.at(0)
	return after >= oldest.GetIndex() || bytes.Equal(oldest.GetPreviousSha256(), make([]byte, sha256.Size))
}
