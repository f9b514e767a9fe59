package scenario

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxDepth bounds how deep documents nest.
const maxDepth = 20

// plain refuses what costs readers more than it saves writers, and makes keys lower-case, by which
// the fields of structs are found.
func plain(n *yaml.Node, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("line %d: nests deeper than %d", n.Line, maxDepth)
	}
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return fmt.Errorf("line %d: uses an anchor or alias; write the value out", n.Line)
	}
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			if c.Value == "<<" {
				return fmt.Errorf("line %d: uses a merge key; write the value out", c.Line)
			}
			c.Value = strings.ToLower(c.Value)
		}
		if err := plain(c, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// child finds a value by a step of a path: a key of a mapping, or the number of an item from 0.
func child(n *yaml.Node, step string) *yaml.Node {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i]
		}
	}
	return nil
}

// set puts a value at a path such as "workload.0.rate". The last step may be a new key.
func set(root *yaml.Node, path string, value *yaml.Node) error {
	steps := strings.Split(strings.ToLower(path), ".")
	at := root
	for _, step := range steps[:len(steps)-1] {
		if at = child(at, step); at == nil {
			return fmt.Errorf("line %d: %s leads nowhere: there is no %q", value.Line, path, step)
		}
	}
	last := steps[len(steps)-1]
	if old := child(at, last); old != nil {
		*old = *value
		return nil
	}
	if at.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: %s leads nowhere: there is no %q", value.Line, path, last)
	}
	at.Content = append(at.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: last, Line: value.Line}, value)
	return nil
}

// clone copies a tree, so that variants don't change each other.
func clone(n *yaml.Node) *yaml.Node {
	c := *n
	c.Content = make([]*yaml.Node, len(n.Content))
	for i, x := range n.Content {
		c.Content[i] = clone(x)
	}
	return &c
}

// decode reads a tree into a struct, strictly.
func decode(n *yaml.Node, into any) error {
	if err := known(n, reflect.TypeOf(into).Elem(), ""); err != nil {
		return err
	}
	if err := n.Decode(into); err != nil {
		return readable(err)
	}
	return nil
}

// known says which key no struct has, and which there are. yaml.Node.Decode can't be strict.
func known(n *yaml.Node, t reflect.Type, path string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for i, c := range n.Content {
			if err := known(c, t.Elem(), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Map:
		for i := 0; i < len(n.Content); i += 2 {
			if err := known(n.Content[i+1], t.Elem(), path+"."+n.Content[i].Value); err != nil {
				return err
			}
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Struct && t != reflect.TypeFor[yaml.Node]():
		return knownFields(n, t, path)
	}
	return nil
}

func knownFields(n *yaml.Node, t reflect.Type, path string) error {
	fields := map[string]reflect.Type{}
	var names []string
	for _, f := range reflect.VisibleFields(t) {
		if !f.IsExported() || f.Anonymous || f.Type.Kind() == reflect.Func || f.Tag.Get("yaml") == "-" {
			continue
		}
		fields[strings.ToLower(f.Name)] = f.Type
		names = append(names, lowerFirst(f.Name))
	}
	seen := map[string]bool{}
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		ft, ok := fields[key.Value]
		if !ok {
			slices.Sort(names)
			return fmt.Errorf("line %d: %s has no field %q; it has %s", key.Line, where(path), key.Value, strings.Join(names, ", "))
		}
		if seen[key.Value] {
			return fmt.Errorf("line %d: %s has %q twice", key.Line, where(path), key.Value)
		}
		seen[key.Value] = true
		if err := known(n.Content[i+1], ft, path+"."+key.Value); err != nil {
			return err
		}
	}
	return nil
}

func where(path string) string {
	if path == "" {
		return "this part"
	}
	return strings.TrimPrefix(path, ".")
}

// lowerFirst is a field's name as people write it: FirstToken is firstToken, and ID id.
func lowerFirst(name string) string {
	if strings.ToUpper(name) == name {
		return strings.ToLower(name)
	}
	return strings.ToLower(name[:1]) + name[1:]
}

var typeNames = regexp.MustCompile("cannot unmarshal (!!\\w+) (`[^`]*`) into [\\w.\\[\\]*]+")

// readable takes the parser's words for types out of its messages.
func readable(err error) error {
	var te *yaml.TypeError
	if !errors.As(err, &te) || len(te.Errors) == 0 {
		return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	return errors.New(typeNames.ReplaceAllString(te.Errors[0], "$2 is not what is wanted here"))
}
