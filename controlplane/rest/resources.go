package rest

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
)

// resources serves one kind.
type resources struct {
	*Server
	kind policy.Kind
}

// headerRevision tells the revision of the state that a list was read from: where a watch goes on.
const headerRevision = "X-Anabranch-Revision"

func (r resources) listOrWatch(c echo.Context) error {
	if yes, err := flag(c, "watch"); err != nil {
		return err
	} else if yes {
		if err := refuseFilter(c); err != nil {
			return err
		}
		return r.watch(c, []policy.Kind{r.kind})
	}
	return timed(r.list)(c)
}

// resourceKeys are what resources can be sorted by, beside their names.
var resourceKeys = map[string]func(*policy.Resource) int64{
	"revision":  func(r *policy.Resource) int64 { return int64(r.Metadata.Revision) }, //nolint:gosec // indexes of the log stay far below
	"createdAt": func(r *policy.Resource) int64 { return r.Metadata.CreatedAt.UnixMilli() },
	"updatedAt": func(r *policy.Resource) int64 { return r.Metadata.UpdatedAt.UnixMilli() },
}

func nameOfResource(r *policy.Resource) string { return r.Metadata.Name }

func (r resources) list(c echo.Context) error {
	limit, err := limitOf(c)
	if err != nil {
		return err
	}
	wanted, err := filterOf(c, r.kind)
	if err != nil {
		return err
	}
	order, err := orderOf(c, nameOfResource, resourceKeys)
	if err != nil {
		return err
	}
	from, err := listed(c)
	if err != nil {
		return err
	}
	view, err := r.view(c)
	if err != nil {
		return err
	}
	scope := identity(c).Scope
	items, next := order.page(view.List(r.kind), from, limit, func(r *policy.Resource) bool { return scope.Sees(r) && wanted.fits(r) })
	dressed := r.dresser(view)
	page := List[*policy.Resource]{Items: []*policy.Resource{}, NextCursor: next}
	for _, item := range items {
		page.Items = append(page.Items, dressed(item))
	}
	h := c.Response().Header()
	h.Set("ETag", etag(view.Revision(r.kind)))
	h.Set(headerRevision, strconv.FormatUint(view.Index(), 10))
	return c.JSON(http.StatusOK, page)
}

func (r resources) get(c echo.Context) error {
	view, err := r.view(c)
	if err != nil {
		return err
	}
	name := nameOf(c)
	item, ok := view.Get(r.kind, name)
	if !ok || !identity(c).Scope.Sees(item) { // who may not see it is not told that it is there
		return notFound(r.kind, name)
	}
	c.Response().Header().Set("ETag", etag(item.Metadata.Revision))
	return c.JSON(http.StatusOK, r.dresser(view)(item))
}

// nameOf is the name in the path. A model's may hold "/", written %2F.
func nameOf(c echo.Context) string {
	name := c.Param("name")
	if c.Request().URL.RawPath != "" {
		if plain, err := url.PathUnescape(name); err == nil {
			return plain
		}
	}
	return name
}

// target names what a request is about, for the audit trail.
func target(c echo.Context) (kind, name string) {
	path := c.Path()
	for _, k := range policy.Kinds() {
		all := "/v1/" + policy.Plural(k)
		if path == all || path == all+"/:name" || strings.HasPrefix(path, all+"/:name/") {
			return string(k), nameOf(c)
		}
	}
	if strings.HasPrefix(path, "/v1/tokens") {
		return state.KindToken, nameOf(c)
	}
	if strings.HasPrefix(path, "/v1/proposals/:id") {
		return state.KindProposal, c.Param("id")
	}
	if strings.HasPrefix(path, "/v1/controlplane/members") {
		return kindMember, nameOf(c)
	}
	return "", path
}

// flag reads a query parameter that is true or false; false if it is not there.
func flag(c echo.Context, name string) (bool, error) { return flagOr(c, name, false) }

// flagOr is the same with another default.
func flagOr(c echo.Context, name string, missing bool) (bool, error) {
	switch text := c.QueryParam(name); text {
	case "":
		return missing, nil
	case "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, newProblem(codeInvalidRequest, name+" must be true or false.")
	}
}
