package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Change is one difference of two versions of a resource.
type Change struct {
	// Field is a path as in [Problem].
	Field string `json:"field"`
	// From and To are the values as JSON; absent where there is none.
	From json.RawMessage `json:"from,omitempty"`
	To   json.RawMessage `json:"to,omitempty"`
}

// Diff gives what changes from one version to the next, labels and spec as written, in the order of
// field names. Lists are compared place by place. A nil resource is one that does not exist: all of
// the other is new, or gone.
func Diff(from, to *Resource) []Change {
	return DiffCanonical(canonicalOrNil(from), canonicalOrNil(to))
}

func canonicalOrNil(r *Resource) []byte {
	if r == nil {
		return nil
	}
	return Canonical(r)
}

// DiffCanonical is [Diff] of two documents as [Canonical] gives them; nil: there is none. What is not
// one counts as none. Its answer is part of the replicated audit trail: another one is a new format.
func DiffCanonical(from, to []byte) []Change {
	changes := []Change{}
	compare(root(from), root(to), "", &changes)
	return changes
}

func root(doc []byte) *node {
	n := &node{shape: isObject}
	if doc == nil {
		return n
	}
	full, _, err := readJSON(doc)
	if err != nil {
		return n
	}
	if labels := full.get("labels"); labels != nil {
		n.set("metadata", &node{shape: isObject, members: []member{{key: "labels", value: labels}}})
	}
	n.set("spec", full.get("spec"))
	return n
}

func compare(from, to *node, path string, out *[]Change) {
	switch {
	case from != nil && to != nil && from.shape == isObject && to.shape == isObject:
		for _, key := range keys(from, to) {
			compare(from.get(key), to.get(key), join(path, key), out)
		}
	case from != nil && to != nil && from.shape == isList && to.shape == isList:
		for i := range max(len(from.items), len(to.items)) {
			compare(item(from, i), item(to, i), fmt.Sprintf("%s[%d]", path, i), out)
		}
	default:
		a, b := raw(from), raw(to)
		if !bytes.Equal(a, b) {
			*out = append(*out, Change{Field: path, From: a, To: b})
		}
	}
}

func keys(from, to *node) []string {
	set := map[string]bool{}
	for _, n := range []*node{from, to} {
		for _, m := range n.members {
			set[m.key] = true
		}
	}
	return sortedKeys(set)
}

func item(n *node, i int) *node {
	if i < len(n.items) {
		return n.items[i]
	}
	return nil
}

func raw(n *node) json.RawMessage {
	if n == nil {
		return nil
	}
	return n.canonical(nil)
}
