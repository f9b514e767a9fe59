package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	yamlv3 "go.yaml.in/yaml/v3"

	"anabranch/api"
)

// node is a part of the document as it was read: maps, lists and values.
type node = map[string]any

// rawDocument is the document, read once.
var rawDocument = sync.OnceValue(func() node {
	var d node
	if err := yamlv3.Unmarshal(api.OpenAPI, &d); err != nil {
		panic(err)
	}
	return d
})

// resolve follows a reference.
func resolve(n node) node {
	ref, ok := n["$ref"].(string)
	if !ok {
		return n
	}
	var at any = rawDocument()
	for step := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		at = at.(node)[step]
	}
	return resolve(at.(node))
}

// mismatches says where a value, as encoding/json reads it with numbers as they are, is not what a
// schema says; of the words of JSON Schema it knows those that the document uses.
func mismatches(schema node, v any, at string) []string {
	s := resolve(schema)
	if list, ok := s["oneOf"].([]any); ok {
		return oneOf(list, v, at)
	}
	var out []string
	add := func(format string, args ...any) { out = append(out, at+": "+fmt.Sprintf(format, args...)) }
	if c, ok := s["const"]; ok && !equal(c, v) {
		add("is %v, want %v", v, c)
	}
	if list, ok := s["enum"].([]any); ok && !slices.ContainsFunc(list, func(e any) bool { return equal(e, v) }) {
		add("%v is not in %v", v, list)
	}
	if t, ok := s["type"]; ok && !typed(t, v) {
		add("%v is no %v", v, t)
		return out
	}
	switch x := v.(type) {
	case string:
		n := utf8.RuneCountInString(x)
		if most, ok := s["maxLength"].(int); ok && n > most || n < number(s["minLength"], 0) {
			add("has a length of %d", n)
		}
		if p, ok := s["pattern"].(string); ok && !regexp.MustCompile(p).MatchString(x) {
			add("%q does not match %s", x, p)
		}
		if s["format"] == "date-time" {
			if _, err := time.Parse(time.RFC3339Nano, x); err != nil {
				add("%q is no time", x)
			}
		}
	case json.Number:
		f, _ := x.Float64()
		if least, ok := bound(s["minimum"]); ok && f < least {
			add("%s is below %v", x, least)
		}
		if most, ok := bound(s["maximum"]); ok && f > most {
			add("%s is above %v", x, most)
		}
	case []any:
		items, _ := s["items"].(node)
		for i, item := range x {
			if items != nil {
				out = append(out, mismatches(items, item, fmt.Sprintf("%s[%d]", at, i))...)
			}
		}
	case node:
		out = append(out, fields(s, x, at)...)
	}
	return out
}

func fields(s, x node, at string) (out []string) {
	properties, _ := s["properties"].(node)
	required, _ := s["required"].([]any)
	for _, r := range required {
		if _, ok := x[r.(string)]; !ok {
			out = append(out, at+": lacks "+r.(string))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(x)) {
		of, known := properties[key].(node)
		if !known {
			switch more := s["additionalProperties"].(type) {
			case bool:
				if !more {
					out = append(out, at+": has "+key)
				}
				continue
			case node:
				of = more
			default:
				continue
			}
		}
		out = append(out, mismatches(of, x[key], at+"."+key)...)
	}
	return out
}

func oneOf(list []any, v any, at string) []string {
	var best []string
	fit := 0
	for _, s := range list {
		wrong := mismatches(s.(node), v, at)
		if len(wrong) == 0 {
			fit++
		} else if best == nil || len(wrong) < len(best) {
			best = wrong
		}
	}
	switch fit {
	case 1:
		return nil
	case 0:
		return append([]string{at + ": fits none of several"}, best...)
	}
	return []string{fmt.Sprintf("%s: fits %d of several", at, fit)}
}

func number(v any, missing int) int {
	if n, ok := v.(int); ok {
		return n
	}
	return missing
}

func bound(v any) (float64, bool) {
	switch n := v.(type) {
	case int:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

// equal compares what YAML and JSON read.
func equal(a, b any) bool {
	if n, ok := b.(json.Number); ok {
		f, err := n.Float64()
		want, isNumber := bound(a)
		return err == nil && isNumber && f == want
	}
	return a == b
}

func typed(t, v any) bool {
	if list, ok := t.([]any); ok {
		return slices.ContainsFunc(list, func(t any) bool { return typed(t, v) })
	}
	switch x := v.(type) {
	case nil:
		return t == "null"
	case bool:
		return t == "boolean"
	case string:
		return t == "string"
	case json.Number:
		if t == "integer" {
			f, err := x.Float64()
			return err == nil && f == math.Trunc(f)
		}
		return t == "number"
	case []any:
		return t == "array"
	case node:
		return t == "object"
	}
	return false
}

// readBody decodes JSON with numbers as they are.
func readBody(b []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	return v, nil
}

// breaches says what is wrong with an answer to an operation of the document: its status, its type, its
// body. A route that is not found in the document is none's.
func breaches(o node, status int, contentType string, body []byte) []string {
	responses, _ := o["responses"].(node)
	response, ok := responses[strconv.Itoa(status)].(node)
	if !ok {
		return []string{fmt.Sprintf("status %d is not documented: %.300s", status, body)}
	}
	content, _ := resolve(response)["content"].(node)
	if len(content) == 0 || len(body) == 0 {
		return nil
	}
	media, _, _ := strings.Cut(contentType, ";")
	of, ok := content[media].(node)
	if !ok {
		return []string{fmt.Sprintf("status %d comes as %q, the document knows %v", status, media, slices.Sorted(maps.Keys(content)))}
	}
	schema, _ := of["schema"].(node)
	if !strings.HasSuffix(media, "json") || schema == nil {
		return nil
	}
	v, err := readBody(body)
	if err != nil {
		return []string{fmt.Sprintf("status %d: %v in %.300s", status, err, body)}
	}
	return mismatches(schema, v, fmt.Sprint(status))
}

// operationNode finds an operation of the document as it was read.
func operationNode(method, path string) (node, bool) {
	paths := rawDocument()["paths"].(node)
	path, _, _ = strings.Cut(path, "?")
	if n, ok := paths[path].(node); ok {
		o, ok := n[strings.ToLower(method)].(node)
		return o, ok
	}
	for _, template := range slices.Sorted(maps.Keys(paths)) {
		if o, ok := paths[template].(node)[strings.ToLower(method)].(node); ok && fits(strings.Split(template, "/"), strings.Split(path, "/")) {
			return o, true
		}
	}
	return nil, false
}

func TestAnswersThatAreNotAsDocumentedAreFound(t *testing.T) {
	o, ok := operationNode("GET", "/v1/regions/us?consistency=stale")
	if !ok {
		t.Fatal("no operation")
	}
	const json, problem = "application/json", "application/problem+json"
	region := func(more string) string {
		return `{"apiVersion":"anabranch/v1","kind":"Region","metadata":{"name":"us"}` + more + `}`
	}
	for name, tt := range map[string]struct {
		status      int
		media, body string
		want        string
	}{
		"as documented":     {200, json, region(`,"spec":{"zone":"eu","rttMs":{"eu":1.5}}`), ""},
		"status":            {302, json, "", "status 302 is not documented"},
		"type":              {200, "text/plain", "x", `comes as "text/plain"`},
		"no JSON":           {200, json, "{", "unexpected EOF"},
		"unknown field":     {200, json, region(`,"colour":1`), "has colour"},
		"missing field":     {200, json, `{"apiVersion":"anabranch/v1","kind":"Region"}`, "lacks metadata"},
		"constant":          {200, json, `{"apiVersion":"anabranch/v1","kind":"Model","metadata":{"name":"us"}}`, "is Model, want Region"},
		"type of a field":   {200, json, region(`,"spec":{"zone":7}`), "200.spec.zone: 7 is no string"},
		"type in a map":     {200, json, region(`,"spec":{"rttMs":{"eu":"far"}}`), "200.spec.rttMs.eu: far is no number"},
		"type in a list":    {200, json, region(`,"spec":{"peerURLs":[true]}`), "200.spec.peerURLs[0]: true is no string"},
		"a problem":         {404, problem, `{"type":"urn:x","title":"t","status":404,"code":"not_found"}`, ""},
		"a problem of none": {404, problem, `{"title":7}`, "title: 7 is no string"},
	} {
		got := strings.Join(breaches(o, tt.status, tt.media, []byte(tt.body)), "; ")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
