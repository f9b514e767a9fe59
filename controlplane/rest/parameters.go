package rest

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"

	"anabranch/api"
)

// documentedOperations are those of the OpenAPI document, read once.
var documentedOperations = sync.OnceValues(func() (map[string]api.Operation, error) { return api.Operations(api.OpenAPI) })

// strict refuses parameters that the document does not give the operation, so that a slip of the pen is
// no change of meaning. Paths that need no token take whatever probes and browsers add.
func (s *Server) strict(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		operation, ok := s.operations[c.Request().Method+" "+template(c.Path())]
		if !ok || !strings.HasPrefix(c.Path(), "/v1/") || c.Path() == pathOpenAPI {
			return next(c)
		}
		known := operation.Query
		given, err := url.ParseQuery(c.Request().URL.RawQuery)
		if err != nil {
			return newProblem(codeInvalidRequest, "The query can't be read; escape what stands in it.")
		}
		for _, name := range slices.Sorted(maps.Keys(given)) {
			several, ok := known[name]
			switch {
			case !ok && len(known) == 0:
				return newProblem(codeInvalidRequest, fmt.Sprintf("There is no parameter %.40q here: there are none.", name))
			case !ok:
				return newProblem(codeInvalidRequest, fmt.Sprintf("There is no parameter %.40q here; there are %s.", name, strings.Join(slices.Sorted(maps.Keys(known)), ", ")))
			case !several && len(given[name]) > 1:
				return newProblem(codeInvalidRequest, fmt.Sprintf("%s is given %d times; give it once.", name, len(given[name])))
			}
		}
		return next(c)
	}
}

// template writes a route as the OpenAPI document does: "/v1/regions/{name}", "/v1/drills/{id}:start".
func template(route string) string {
	route = strings.ReplaceAll(route, `/\:`, `\:`)
	parts := strings.Split(route, "/")
	for i, p := range parts {
		if name, ok := strings.CutPrefix(p, ":"); ok {
			name, verb, _ := strings.Cut(name, `\`)
			parts[i] = "{" + name + "}" + verb
		}
	}
	return strings.Join(parts, "/")
}
