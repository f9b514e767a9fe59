package rest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/policy"
)

// Bounds of a filter: terms, and bytes of one.
const (
	maxTerms = 16
	maxTerm  = 256
)

// filter says which resources of a kind a list is to hold: those for which all of it is true. The zero
// value wants all.
type filter struct {
	name   pattern
	labels []labelTerm
	fields []fieldTerm
}

// pattern is a name, or the beginning of names if it ends with "*". Empty: any.
type pattern string

func (p pattern) fits(name string) bool {
	if start, open := strings.CutSuffix(string(p), "*"); open {
		return strings.HasPrefix(name, start)
	}
	return p == "" || string(p) == name
}

// labelTerm is key=value, or a key that must be there.
type labelTerm struct {
	key, value string
	any        bool
}

// fieldTerm is path=value: one of the values at the path fits.
type fieldTerm struct {
	field policy.Field
	value pattern
}

// filterOf reads name, label and field.
func filterOf(c echo.Context, kind policy.Kind) (filter, error) {
	f := filter{name: pattern(c.QueryParam("name"))}
	q := c.QueryParams()
	if len(q["label"])+len(q["field"]) > maxTerms {
		return f, newProblem(codeInvalidRequest, fmt.Sprintf("There are more than %d terms of label and field.", maxTerms))
	}
	for _, text := range slices.Concat([]string{string(f.name)}, q["label"], q["field"]) {
		if len(text) > maxTerm {
			return f, newProblem(codeInvalidRequest, fmt.Sprintf("A term of the filter is %d bytes long, the limit is %d.", len(text), maxTerm))
		}
	}
	for _, text := range q["label"] {
		key, value, given := strings.Cut(text, "=")
		if key == "" {
			return f, newProblem(codeInvalidRequest, fmt.Sprintf("label is %.40q; write key=value, or key for any value.", text))
		}
		f.labels = append(f.labels, labelTerm{key, value, !given})
	}
	for _, text := range q["field"] {
		path, value, given := strings.Cut(text, "=")
		if !given || value == "" {
			return f, newProblem(codeInvalidRequest, fmt.Sprintf("field is %.40q; write path=value, such as spec.region=us-east-1.", text))
		}
		field, err := policy.FieldOf(kind, path)
		if err != nil {
			return f, newProblem(codeInvalidRequest, fmt.Sprintf("field %s.", err))
		}
		f.fields = append(f.fields, fieldTerm{field, pattern(value)})
	}
	return f, nil
}

func (f filter) fits(r *policy.Resource) bool {
	if !f.name.fits(r.Metadata.Name) {
		return false
	}
	for _, t := range f.labels {
		if value, ok := r.Metadata.Labels[t.key]; !ok || !t.any && value != t.value {
			return false
		}
	}
	for _, t := range f.fields {
		if !slices.ContainsFunc(t.field.Values(r), t.value.fits) {
			return false
		}
	}
	return true
}

// refuseFilter is for watches, which tell of everything: who has left a filter would have to be told too.
func refuseFilter(c echo.Context, more ...string) error {
	for _, name := range append([]string{"name", "label", "field", "sort", "limit", "cursor"}, more...) {
		if c.QueryParam(name) != "" {
			return newProblem(codeInvalidRequest, name+" is for lists; a watch tells of everything of its kind.")
		}
	}
	return nil
}
