package policy

import (
	"fmt"
	"slices"
)

// Merge applies a JSON merge patch (RFC 7396), in YAML or JSON, to a resource and reads the result as
// strictly as [Parse]. The patch has the shape of a resource: null removes a field, so that its
// default holds again; lists are replaced whole. It may not change apiVersion, kind or name.
func Merge(r *Resource, patch []byte) (*Resource, []Problem) {
	p, bad := read(patch)
	if bad != nil {
		return nil, []Problem{*bad}
	}
	if p.shape != isObject {
		return nil, []Problem{{Reason: "the patch is " + p.shape.String() + ", must be an object", Fix: "give the fields that change, e.g. {\"spec\": {…}}", Line: p.line}}
	}
	metadata := &node{shape: isObject, members: []member{{key: "name", value: &node{shape: isText, text: r.Metadata.Name}}}}
	target := root(Canonical(r))
	if m := target.get("metadata"); m != nil {
		metadata.members = append(metadata.members, m.members...)
	}
	target.set("metadata", metadata)
	target.set("apiVersion", &node{shape: isText, text: APIVersion})
	target.set("kind", &node{shape: isText, text: string(r.Kind)})

	var d decoder
	d.repeated(p, "")
	if len(d.problems) > 0 {
		return nil, d.problems
	}
	merged := mergePatch(target, p)
	out, problems := parseTree(merged)
	if out != nil && (out.Kind != r.Kind || out.Metadata.Name != r.Metadata.Name) {
		problems = append(problems, Problem{Field: "metadata.name", Reason: "the patch changes the kind or name", Fix: "create another resource instead"})
	}
	return out, problems
}

// repeated complains of repeated keys anywhere, which a merge would silently fold.
func (d *decoder) repeated(n *node, path string) {
	d.members(n, path, func(m member) { d.repeated(m.value, join(path, clip(m.key))) })
	for i, item := range n.items {
		d.repeated(item, fmt.Sprintf("%s[%d]", path, i))
	}
}

func mergePatch(target, patch *node) *node {
	if patch.shape != isObject {
		return patch
	}
	out := &node{shape: isObject, line: patch.line}
	if target != nil && target.shape == isObject {
		out.members = slices.Clone(target.members)
	}
	for _, m := range patch.members {
		if m.value.shape == isNull {
			out.remove(m.key)
			continue
		}
		merged := mergePatch(out.get(m.key), m.value)
		out.set(m.key, merged)
		for i := range out.members {
			if out.members[i].key == m.key {
				out.members[i].line = m.line
			}
		}
	}
	return out
}
