package policy

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"
)

// Bounds of what is read.
const (
	// MaxDocument is the largest document in bytes.
	MaxDocument = 256 << 10
	// MaxDocuments is how many documents one stream may hold, and MaxStream its size in bytes.
	MaxDocuments = 1000
	MaxStream    = 8 << 20
	// MaxDepth is how deep values may nest.
	MaxDepth = 32
	// MaxProblems is how many problems of one document are told.
	MaxProblems = 100
)

// envelope is a resource before its kind is known.
type envelope struct {
	APIVersion string   `json:"apiVersion"`
	Kind       Kind     `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Spec       any      `json:"spec"`
	Status     any      `json:"status"`
}

// Parse reads one document in YAML or JSON, strictly, and fills in the defaults. The resource is nil
// when the document can't be read or its kind is unknown; with other problems it holds what could be
// understood, so that [Validate] can add to them, and must not be used otherwise. Metadata.Revision
// is kept as written, for clients that use it as their precondition; times, writers and status are
// dropped.
func Parse(doc []byte) (*Resource, []Problem) {
	root, bad := read(doc)
	if bad != nil {
		return nil, []Problem{*bad}
	}
	return parseTree(root)
}

func parseTree(root *node) (*Resource, []Problem) {
	if root.shape == isNull {
		return nil, []Problem{{Reason: "the document is empty", Fix: "give a resource in YAML or JSON"}}
	}
	if root.shape != isObject {
		return nil, []Problem{{
			Field: "", Reason: fmt.Sprintf("the document is %s, must be an object", root.shape), Line: root.line,
			Fix: "start with apiVersion: " + APIVersion + ", kind, metadata and spec",
		}}
	}
	var (
		d decoder
		e envelope
	)
	d.object(root, "", reflect.ValueOf(&e).Elem())
	return d.resource(root, e)
}

func (d *decoder) resource(root *node, e envelope) (*Resource, []Problem) {
	if e.APIVersion != APIVersion {
		d.problem(lineOf(root, "apiVersion"), "apiVersion", wrongValue(root.get("apiVersion"), e.APIVersion), "write "+APIVersion)
	}
	spec := NewSpec(e.Kind)
	if spec == nil {
		d.problem(lineOf(root, "kind"), "kind", wrongValue(root.get("kind"), string(e.Kind)), kindFix(string(e.Kind)))
		return nil, d.problems
	}
	r := &Resource{APIVersion: APIVersion, Kind: e.Kind, Metadata: e.Metadata, Spec: spec}
	r.Metadata.UpdatedBy, r.Metadata.Managers = "", nil
	written := root.get("spec")
	if written == nil || written.shape == isNull {
		written = &node{shape: isObject, line: root.line}
	}
	d.into(written, "spec", reflect.ValueOf(spec).Elem())
	if len(d.problems) == 0 {
		r.Written = written.canonical(nil)
	}
	Defaults(r)
	return r, d.problems
}

func lineOf(root *node, key string) *node {
	if n := root.get(key); n != nil {
		return n
	}
	return root
}

func wrongValue(n *node, value string) string {
	switch {
	case n == nil || n.shape == isNull:
		return "is missing"
	case value == "":
		return "is empty"
	}
	return fmt.Sprintf("%q is not known", clip(value))
}

// ParseAll reads a stream of YAML documents parted by "---" lines, or one JSON document. Problems
// name the document first, "doc[1].spec…", counted from 0, and lines count from the start of the
// stream. Resources that have problems are left out.
func ParseAll(docs []byte) ([]*Resource, []Problem) {
	if len(docs) > MaxStream {
		return nil, []Problem{tooLarge(len(docs), MaxStream)}
	}
	pieces := split(docs)
	if len(pieces) > MaxDocuments {
		return nil, []Problem{{Reason: fmt.Sprintf("holds %d documents, the limit is %d", len(pieces), MaxDocuments), Fix: "split it into several files"}}
	}
	var (
		out      []*Resource
		problems []Problem
	)
	for i, p := range pieces {
		r, bad := Parse(p.doc)
		for _, b := range bad {
			b.Field = strings.TrimSuffix(fmt.Sprintf("doc[%d].%s", i, b.Field), ".")
			if b.Line > 0 {
				b.Line += p.line - 1
			}
			problems = append(problems, b)
		}
		if len(bad) == 0 {
			out = append(out, r)
		}
	}
	return out, problems
}

// read makes a tree of a document in either notation.
func read(doc []byte) (*node, *Problem) {
	if len(doc) > MaxDocument {
		p := tooLarge(len(doc), MaxDocument)
		return nil, &p
	}
	if !utf8.Valid(doc) {
		return nil, &Problem{Reason: "is not valid UTF-8", Fix: "save the document as UTF-8"}
	}
	trimmed := bytes.TrimLeft(doc, " \t\r\n")
	if len(trimmed) == 0 {
		return nil, &Problem{Reason: "the document is empty", Fix: "give a resource in YAML or JSON"}
	}
	if jsonish(trimmed) {
		return readAs(doc, readJSON, "JSON")
	}
	return readAs(doc, readYAML, "YAML")
}

// jsonish: a brace and then a quote or brace is JSON; a brace and then anything else is a flow mapping
// of YAML, which lets keys go without quotes.
func jsonish(doc []byte) bool {
	rest, ok := bytes.CutPrefix(doc, []byte{'{'})
	rest = bytes.TrimLeft(rest, " \t\r\n")
	return ok && (len(rest) == 0 || rest[0] == '"' || rest[0] == '}')
}

func readAs(doc []byte, f func([]byte) (*node, int, error), notation string) (*node, *Problem) {
	n, line, err := f(doc)
	if err != nil {
		return nil, &Problem{Reason: fmt.Sprintf("is not readable as %s: %v", notation, err), Fix: "correct the " + notation, Line: line}
	}
	return n, nil
}

func tooLarge(size, limit int) Problem {
	return Problem{Reason: fmt.Sprintf("is %d bytes, the limit is %d", size, limit), Fix: "split it into smaller resources"}
}
