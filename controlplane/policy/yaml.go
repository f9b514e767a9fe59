package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// readYAML reads one YAML document. Anchors, aliases and merge keys are refused: they save typing
// and cost every reader, and they are how a small document grows without bound.
func readYAML(doc []byte) (*node, int, error) {
	var y yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(doc))
	if err := dec.Decode(&y); err != nil && !errors.Is(err, io.EOF) {
		line, err := yamlError(err)
		return nil, line, err
	}
	switch err := dec.Decode(new(yaml.Node)); {
	case err == nil:
		return nil, 0, errors.New("holds more than one document")
	case !errors.Is(err, io.EOF):
		line, err := yamlError(err)
		return nil, line, err
	}
	if y.Kind != yaml.DocumentNode || len(y.Content) == 0 {
		return &node{shape: isNull, line: 1}, 0, nil
	}
	return fromYAML(y.Content[0], 0)
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// yamlError parts the parser's message from its line; 0: it names none.
func yamlError(err error) (int, error) {
	text := err.Error()
	m := yamlLine.FindStringSubmatch(text)
	if m == nil {
		return 0, err
	}
	line, _ := strconv.Atoi(m[1]) // empty: 0, no line
	return line, errors.New(text[len(m[0]):])
}

func fromYAML(y *yaml.Node, depth int) (*node, int, error) {
	if depth > MaxDepth {
		return nil, y.Line, errTooDeep
	}
	if y.Kind == yaml.AliasNode || y.Anchor != "" {
		return nil, y.Line, errors.New("uses an anchor or alias; write the value out")
	}
	n := &node{line: y.Line}
	switch y.Kind {
	case yaml.SequenceNode:
		n.shape = isList
		for _, c := range y.Content {
			item, line, err := fromYAML(c, depth+1)
			if err != nil {
				return nil, line, err
			}
			n.items = append(n.items, item)
		}
		return n, 0, nil
	case yaml.MappingNode:
		n.shape = isObject
		return yamlMembers(n, y, depth)
	}
	return yamlScalar(n, y)
}

func yamlMembers(n *node, y *yaml.Node, depth int) (*node, int, error) {
	for i := 0; i+1 < len(y.Content); i += 2 {
		k, v := y.Content[i], y.Content[i+1]
		switch {
		case k.ShortTag() == "!!merge":
			return nil, k.Line, errors.New(`uses the merge key "<<"; write the values out`)
		case k.Kind != yaml.ScalarNode || k.Anchor != "" || k.ShortTag() == "!!null":
			return nil, k.Line, errors.New("a key is not text")
		}
		value, line, err := fromYAML(v, depth+1)
		if err != nil {
			return nil, line, err
		}
		n.members = append(n.members, member{key: k.Value, line: k.Line, value: value})
	}
	return n, 0, nil
}

func yamlScalar(n *node, y *yaml.Node) (*node, int, error) {
	switch y.ShortTag() {
	case "!!str", "!!timestamp":
		n.shape, n.text = isText, y.Value
	case "!!null":
		n.shape = isNull
	case "!!bool":
		var b bool
		if err := y.Decode(&b); err != nil {
			return nil, y.Line, fmt.Errorf("%q is not a boolean", y.Value)
		}
		n.shape, n.text = isBool, strconv.FormatBool(b)
	case "!!int", "!!float":
		text, err := yamlNumber(y)
		if err != nil {
			return nil, y.Line, err
		}
		n.shape, n.text = isNumber, text
	default:
		return nil, y.Line, fmt.Errorf("has the tag %s, which is not supported", y.Tag)
	}
	return n, 0, nil
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// yamlNumber gives the number in JSON's spelling, or "NaN", "+Inf", "-Inf".
func yamlNumber(y *yaml.Node) (string, error) {
	if jsonNumber.MatchString(y.Value) {
		return y.Value, nil
	}
	var i int64
	if y.ShortTag() == "!!int" && y.Decode(&i) == nil {
		return strconv.FormatInt(i, 10), nil
	}
	var f float64
	if err := y.Decode(&f); err != nil {
		return "", fmt.Errorf("%q is not a number", y.Value)
	}
	return strconv.FormatFloat(f, 'g', -1, 64), nil
}

// split cuts a stream of YAML documents at its "---" lines, which YAML allows nowhere else at the
// start of a line, and drops documents that hold only comments. Each piece knows its first line.
func split(docs []byte) []piece {
	var (
		out   []piece
		start = piece{line: 1}
		line  int
	)
	flush := func() {
		if !blank(start.doc) {
			out = append(out, start)
		}
	}
	for l := range bytes.Lines(docs) {
		line++
		if marker(l) {
			flush()
			start = piece{line: line + 1}
			if rest := bytes.TrimSpace(l[3:]); len(rest) > 0 && rest[0] != '#' {
				start = piece{doc: append([]byte(nil), l[3:]...), line: line}
			}
			continue
		}
		start.doc = append(start.doc, l...)
	}
	flush()
	return out
}

type piece struct {
	doc  []byte
	line int // of its first byte, from 1
}

func marker(l []byte) bool {
	return bytes.HasPrefix(l, []byte("---")) && (len(l) == 3 || l[3] == ' ' || l[3] == '\t' || l[3] == '\n' || l[3] == '\r')
}

func blank(doc []byte) bool {
	for l := range bytes.Lines(doc) {
		if l = bytes.TrimSpace(l); len(l) > 0 && l[0] != '#' {
			return false
		}
	}
	return true
}
