// Package api holds the contracts of the control plane. The one between operators and the control
// plane is the OpenAPI document embedded here; the one between the planes is package routerpb.
package api

import _ "embed"

// OpenAPI is the description of the REST API, OpenAPI 3.1 in YAML.
//
//go:embed openapi.yaml
var OpenAPI []byte
