package policy

import (
	"encoding/json"
	"fmt"
)

// stored is the form in which a resource is replicated.
type stored struct {
	Labels map[string]string `json:"labels,omitempty"`
	Spec   json.RawMessage   `json:"spec"`
}

// Canonical gives {labels, spec} as JSON without white space and with sorted keys: the same bytes
// for the same resource, on every node. The spec is as written where that is known.
func Canonical(r *Resource) []byte {
	var labels *node
	if len(r.Metadata.Labels) > 0 {
		labels = &node{shape: isObject}
		for k, v := range r.Metadata.Labels {
			labels.members = append(labels.members, member{key: k, value: &node{shape: isText, text: v}})
		}
	}
	root := &node{shape: isObject}
	if labels != nil {
		root.set("labels", labels)
	}
	root.set("spec", specNode(r))
	return root.canonical(nil)
}

// specNode gives the spec as a tree. A spec that JSON can't hold (NaN, which Validate refuses) is empty.
func specNode(r *Resource) *node {
	raw := []byte(r.Written)
	if raw == nil {
		b, err := json.Marshal(r.Spec)
		if err != nil {
			return &node{shape: isObject}
		}
		raw = b
	}
	n, _, err := readJSON(raw)
	if err != nil || n.shape != isObject {
		return &node{shape: isObject}
	}
	return n
}

// FromCanonical is the inverse of [Canonical], with the defaults of this version filled in. It is
// lenient: fields that this version does not know are kept in Written and otherwise ignored, because
// a replica must be able to hold what a newer one accepted.
func FromCanonical(kind Kind, name string, doc []byte) (*Resource, error) {
	spec := NewSpec(kind)
	if spec == nil {
		return nil, fmt.Errorf("%s %q: unknown kind", kind, name)
	}
	var s stored
	if err := json.Unmarshal(doc, &s); err != nil {
		return nil, fmt.Errorf("%s %q: %w", kind, name, err)
	}
	if len(s.Spec) == 0 || string(s.Spec) == "null" {
		s.Spec = json.RawMessage("{}")
	}
	if err := json.Unmarshal(s.Spec, spec); err != nil {
		return nil, fmt.Errorf("%s %q: %w", kind, name, err)
	}
	r := &Resource{
		APIVersion: APIVersion, Kind: kind, Spec: spec, Written: s.Spec,
		Metadata: Metadata{Name: name, Labels: s.Labels},
	}
	Defaults(r)
	return r, nil
}

// MarshalJSON answers the spec as it was written where that is known, so that GET equals PUT.
func (r Resource) MarshalJSON() ([]byte, error) {
	type plain Resource // drops this method
	p := plain(r)
	if r.Written != nil {
		p.Spec = r.Written
	}
	return json.Marshal(p)
}

// UnmarshalJSON reads a resource as a server answered it: leniently, with its typed spec, its
// defaults and its status as plain JSON values. [Parse] is for what people write.
func (r *Resource) UnmarshalJSON(b []byte) error {
	var e struct {
		APIVersion string          `json:"apiVersion"`
		Kind       Kind            `json:"kind"`
		Metadata   Metadata        `json:"metadata"`
		Spec       json.RawMessage `json:"spec"`
		Status     any             `json:"status"`
	}
	if err := json.Unmarshal(b, &e); err != nil {
		return err
	}
	full, err := FromCanonical(e.Kind, e.Metadata.Name, Canonical(&Resource{Metadata: e.Metadata, Written: e.Spec}))
	if err != nil {
		return err
	}
	full.APIVersion, full.Metadata, full.Status = e.APIVersion, e.Metadata, e.Status
	*r = *full
	return nil
}
