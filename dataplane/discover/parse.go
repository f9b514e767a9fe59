package discover

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"

	"go.yaml.in/yaml/v3"

	"anabranch/api/fleet"
	"anabranch/dataplane/table"
)

// keyName is how a key may look that an error repeats; other text could be anything.
var keyName = regexp.MustCompile(`^[A-Za-z_-]{1,32}$`)

// Parse reads a file of endpoints: a YAML or JSON list of mappings with the keys id and url, and
// optionally class and kvEventsURL, all strings. Unknown keys, keys that are there twice, aliases
// and second documents are refused, as are endpoints that can't be. Its errors name the line but
// repeat no values.
func Parse(text []byte) ([]table.Endpoint, error) {
	list, err := tree(text)
	if err != nil {
		return nil, err
	}
	if list.Kind != yaml.SequenceNode {
		return nil, errors.New("is not a list of endpoints")
	}
	items := list.Content
	if len(items) > MaxEndpoints {
		return nil, fmt.Errorf("%d endpoints, the limit is %d", len(items), MaxEndpoints)
	}
	out := make([]table.Endpoint, 0, len(items))
	for _, item := range items {
		e, err := parseOne(item)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return check(out, "")
}

// tree reads the only document of a file.
func tree(text []byte) (*yaml.Node, error) {
	if json.Valid(text) {
		return jsonTree(text)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF) || err == nil && len(doc.Content) != 1:
		return nil, errors.New("is empty: write [] for no endpoints")
	case err != nil:
		return nil, err
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("holds more than one document")
	}
	return doc.Content[0], nil
}

// jsonTree reads JSON, which YAML's reader doesn't: it knows neither tabs nor all escapes of it.
func jsonTree(text []byte) (*yaml.Node, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	line, seen := 1, 0
	var next func() (*yaml.Node, error)
	next = func() (*yaml.Node, error) {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		at := int(decoder.InputOffset())
		line, seen = line+bytes.Count(text[seen:at], []byte{'\n'}), at
		node := &yaml.Node{Kind: yaml.ScalarNode, Line: line}
		switch token := token.(type) {
		case string:
			node.Tag, node.Value = "!!str", token
			return node, nil
		case json.Delim:
			node.Kind = yaml.SequenceNode
			if token == '{' {
				node.Kind = yaml.MappingNode
			}
		default:
			return node, nil
		}
		for decoder.More() {
			child, err := next() // of a mapping, keys and values in turn
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, child)
		}
		_, err = decoder.Token()
		return node, err
	}
	return next()
}

func parseOne(node *yaml.Node) (e table.Endpoint, err error) {
	if node.Kind != yaml.MappingNode {
		return e, fmt.Errorf("line %d: is not an endpoint with id and url", node.Line)
	}
	var id string
	fields := map[string]*string{"id": &id, "url": &e.URL, "class": &e.Class, "kvEventsURL": &e.KVEventsURL}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		field, ok := fields[key.Value]
		switch {
		case !ok && keyName.MatchString(key.Value):
			return e, fmt.Errorf("line %d: unknown key %s, or it is there twice", key.Line, key.Value)
		case !ok:
			return e, fmt.Errorf("line %d: unknown key", key.Line)
		case value.Kind != yaml.ScalarNode || value.Tag != "!!str":
			return e, fmt.Errorf("line %d: %s is not a string", value.Line, key.Value)
		}
		*field = value.Value
		delete(fields, key.Value)
	}
	e.ID = fleet.EndpointID(id)
	return e, nil
}
