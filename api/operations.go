package api

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Parameters are those of an operation's query, by name; true: it may stand there several times.
type Parameters map[string]bool

// Operation is what an OpenAPI document says of one, as far as programs go by it.
type Operation struct {
	// ID is its operationId.
	ID string
	// Needs is the right that callers need, of x-anabranch-needs; none: no token.
	Needs string
	// Scope is what the scope of a caller means, of x-anabranch-scope: any, filtered or within; empty: the
	// operation is for callers whose scope is everything.
	Scope string
	// Query are the parameters of its query.
	Query Parameters
}

// Operations reads those of an OpenAPI document; keys are a method and a path, as in
// "GET /v1/regions/{name}".
func Operations(document []byte) (map[string]Operation, error) {
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
	all := map[string]Operation{}
	for path, methods := range d.Paths {
		for method, node := range methods {
			if method == "parameters" { // of the path: none is of the query
				continue
			}
			var o struct {
				ID         string      `yaml:"operationId"`
				Needs      string      `yaml:"x-anabranch-needs"`
				Scope      string      `yaml:"x-anabranch-scope"`
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
			all[strings.ToUpper(method)+" "+path] = Operation{ID: o.ID, Needs: o.Needs, Scope: o.Scope, Query: known}
		}
	}
	return all, nil
}
