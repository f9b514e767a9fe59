package api

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Parameters are those of an operation's query, by name; true: it may stand there several times.
type Parameters map[string]bool

// QueryParameters reads the parameters of each operation from an OpenAPI document; keys are a method
// and a path, as in "GET /v1/regions/{name}". An operation without any has an entry too.
func QueryParameters(document []byte) (map[string]Parameters, error) {
	type parameter struct {
		Ref    string `yaml:"$ref"`
		Name   string `yaml:"name"`
		In     string `yaml:"in"`
		Schema struct {
			Type string `yaml:"type"`
		} `yaml:"schema"`
	}
	var d struct {
		Paths      map[string]map[string]yaml.Node `yaml:"paths"`
		Components struct {
			Parameters map[string]parameter `yaml:"parameters"`
		} `yaml:"components"`
	}
	if err := yaml.Unmarshal(document, &d); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	all := map[string]Parameters{}
	for path, methods := range d.Paths {
		for method, node := range methods {
			if method == "parameters" { // of the path: none is of the query
				continue
			}
			var o struct {
				Parameters []parameter `yaml:"parameters"`
			}
			if err := node.Decode(&o); err != nil {
				return nil, fmt.Errorf("read %s %s of the OpenAPI document: %w", method, path, err)
			}
			known := Parameters{}
			for _, p := range o.Parameters {
				if p.Ref != "" {
					ref := p.Ref
					if p = d.Components.Parameters[ref[strings.LastIndexByte(ref, '/')+1:]]; p.Name == "" {
						return nil, fmt.Errorf("read %s %s of the OpenAPI document: %s leads nowhere", method, path, ref)
					}
				}
				if p.In == "query" {
					known[p.Name] = p.Schema.Type == "array"
				}
			}
			all[strings.ToUpper(method)+" "+path] = known
		}
	}
	return all, nil
}
