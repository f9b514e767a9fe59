package api

import (
	"maps"
	"strings"
	"testing"
)

func TestParametersOfTheQueryAreFound(t *testing.T) {
	got, err := Operations([]byte(`
paths:
  /v1/things/{name}:
    parameters: [{name: name, in: path, schema: {type: string}}]
    get:
      operationId: getThing
      x-anabranch-needs: read
      x-anabranch-scope: filtered
      parameters:
        - $ref: '#/components/parameters/label'
        - {name: limit, in: query, schema: {type: integer}}
        - {name: If-Match, in: header, schema: {type: string}}
    delete: {}
components:
  parameters:
    label: {name: label, in: query, schema: {type: array}}
`))
	if err != nil {
		t.Fatal(err)
	}
	if o := got["GET /v1/things/{name}"]; !maps.Equal(o.Query, Parameters{"label": true, "limit": false}) || o.ID != "getThing" || o.Needs != "read" || o.Scope != "filtered" {
		t.Errorf("get is %+v", o)
	}
	if o, ok := got["DELETE /v1/things/{name}"]; !ok || len(o.Query) > 0 || o.Scope != "" || len(got) != 2 {
		t.Errorf("got %v", got)
	}
}

func TestDocumentsThatCannotBeRead(t *testing.T) {
	for document, want := range map[string]string{
		"paths: [":                                        "read the OpenAPI document",
		"paths: {/x: {get: {parameters: text}}}":          "read get /x",
		"paths: {/x: {get: {parameters: [{$ref: a/b}]}}}": "a/b leads nowhere",
	} {
		if _, err := Operations([]byte(document)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", document, err, want)
		}
	}
}

func TestTheDocumentIsReadWhole(t *testing.T) {
	got, err := Operations(OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) < 40 || !got["GET /v1/tenants"].Query["label"] || got["GET /v1/tenants"].Query["limit"] {
		t.Errorf("%d operations; tenants take %v", len(got), got["GET /v1/tenants"])
	}
}
