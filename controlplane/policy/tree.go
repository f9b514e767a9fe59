package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// shape is what a value of a document is.
type shape uint8

const (
	isNull shape = iota
	isBool
	isNumber
	isText
	isList
	isObject
)

func (s shape) String() string {
	return [...]string{"null", "true or false", "a number", "text", "a list", "an object"}[s]
}

// node is one value of a document. Unlike a Go map it keeps order and repeated keys, so that the
// decoder can point at them.
type node struct {
	shape   shape
	text    string // isText: the text; isNumber: a JSON number, or "NaN", "+Inf", "-Inf"; isBool: "true" or "false"
	items   []*node
	members []member
	line    int
}

type member struct {
	key   string
	line  int
	value *node
}

// get gives the first member of that key, or nil.
func (n *node) get(key string) *node {
	for i := range n.members {
		if n.members[i].key == key {
			return n.members[i].value
		}
	}
	return nil
}

// set replaces or adds a member.
func (n *node) set(key string, value *node) {
	for i := range n.members {
		if n.members[i].key == key {
			n.members[i].value = value
			return
		}
	}
	n.members = append(n.members, member{key: key, value: value})
}

// remove drops every member of that key.
func (n *node) remove(key string) {
	n.members = slices.DeleteFunc(n.members, func(m member) bool { return m.key == key })
}

var errTooDeep = fmt.Errorf("is nested more than %d levels deep", MaxDepth)

// readJSON reads one JSON value that fills doc.
func readJSON(doc []byte) (*node, int, error) {
	r := jsonReader{dec: json.NewDecoder(bytes.NewReader(doc)), doc: doc}
	r.dec.UseNumber()
	n, err := r.value(0)
	if err != nil {
		return nil, r.line(), err
	}
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, r.line(), errors.New("something follows the JSON value")
	}
	return n, 0, nil
}

type jsonReader struct {
	dec *json.Decoder
	doc []byte
	at  int // offset up to which lines are counted
	n   int
}

// line gives the line of the token just read.
func (r *jsonReader) line() int {
	if end := min(int(r.dec.InputOffset()), len(r.doc)); end > r.at {
		r.n += bytes.Count(r.doc[r.at:end], []byte{'\n'})
		r.at = end
	}
	return r.n + 1
}

func (r *jsonReader) value(depth int) (*node, error) {
	if depth > MaxDepth {
		return nil, errTooDeep
	}
	t, err := r.dec.Token()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	n := &node{line: r.line()}
	switch t := t.(type) {
	case nil:
		n.shape = isNull
	case bool:
		n.shape, n.text = isBool, strconv.FormatBool(t)
	case json.Number:
		n.shape, n.text = isNumber, t.String()
	case string:
		n.shape, n.text = isText, t
	case json.Delim:
		if t == '[' {
			n.shape = isList
			err = r.list(n, depth)
		} else {
			n.shape = isObject
			err = r.object(n, depth)
		}
	}
	return n, err
}

func (r *jsonReader) list(n *node, depth int) error {
	for r.dec.More() {
		item, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	_, err := r.dec.Token()
	return err
}

func (r *jsonReader) object(n *node, depth int) error {
	for r.dec.More() {
		t, err := r.dec.Token()
		if err != nil {
			return err
		}
		key, ok := t.(string)
		if !ok {
			return fmt.Errorf("key %v is not text", t)
		}
		m := member{key: key, line: r.line()}
		if m.value, err = r.value(depth + 1); err != nil {
			return err
		}
		n.members = append(n.members, m)
	}
	_, err := r.dec.Token()
	return err
}

// canonical appends the value as JSON without white space, members sorted by key, nulls of members
// left out.
func (n *node) canonical(b []byte) []byte {
	switch n.shape {
	case isNull:
		return append(b, "null"...)
	case isBool, isNumber:
		return append(b, n.text...)
	case isText:
		return appendText(b, n.text)
	case isList:
		b = append(b, '[')
		for i, item := range n.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.canonical(b)
		}
		return append(b, ']')
	}
	members := slices.Clone(n.members)
	slices.SortStableFunc(members, func(x, y member) int { return bytes.Compare([]byte(x.key), []byte(y.key)) })
	b = append(b, '{')
	first := true
	for _, m := range members {
		if m.value.shape == isNull {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(appendText(b, m.key), ':')
		b = m.value.canonical(b)
	}
	return append(b, '}')
}

func appendText(b []byte, s string) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil { // a string always encodes
		panic(err)
	}
	return append(b, bytes.TrimSuffix(out.Bytes(), []byte{'\n'})...)
}
