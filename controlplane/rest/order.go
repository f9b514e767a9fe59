package rest

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
)

// order is what a list is sorted by, with names to tell equals apart. The zero value is by name.
type order[T any] struct {
	text string // as it was given
	down bool
	key  func(T) int64 // nil: by name
	name func(T) string
}

// orderOf reads sort: one of the keys or "name", with "-" before it for the largest first.
func orderOf[T any](c echo.Context, name func(T) string, keys map[string]func(T) int64) (order[T], error) {
	o := order[T]{text: c.QueryParam("sort"), name: name}
	by, down := strings.CutPrefix(o.text, "-")
	o.down = down
	if o.text == "" || by == "name" {
		return o, nil
	}
	var known bool
	if o.key, known = keys[by]; !known {
		all := []string{"name"}
		for k := range keys {
			all = append(all, k)
		}
		slices.Sort(all)
		return o, newProblem(codeInvalidRequest, fmt.Sprintf("sort is %.40q; use %s, with a - before it for the opposite.", o.text, strings.Join(all, ", ")))
	}
	return o, nil
}

// compare two by key, then by name.
func (o order[T]) compare(a T, key int64, name string) int {
	var n int
	if o.key != nil {
		n = cmp.Compare(o.key(a), key)
	}
	if n == 0 {
		n = cmp.Compare(o.name(a), name)
	}
	if o.down {
		return -n
	}
	return n
}

// page sorts what fits, and cuts out the page after the cursor. What does not change meanwhile stands on
// exactly one page, whatever else comes and goes: a cursor names the last item, not a number of items.
func (o order[T]) page(all []T, from cursor, limit int, fits func(T) bool) (items []T, next string) {
	var kept []T
	for _, item := range all {
		if (from.After == "" || o.compare(item, from.Key, from.After) > 0) && fits(item) {
			kept = append(kept, item)
		}
	}
	if o.down || o.key != nil { // by name they come sorted
		slices.SortFunc(kept, func(a, b T) int { return o.compare(a, o.keyOf(b), o.name(b)) })
	}
	if len(kept) <= limit {
		return kept, ""
	}
	last := kept[limit-1]
	return kept[:limit], cursor{After: o.name(last), Key: o.keyOf(last), Of: from.Of}.String()
}

func (o order[T]) keyOf(item T) int64 {
	if o.key == nil {
		return 0
	}
	return o.key(item)
}

// listed reads the cursor of a list that is sorted and filtered: it goes on with the same list only.
func listed(c echo.Context) (cursor, error) {
	from, err := sameList(c, "name", "label", "field", "sort", "region", "connected", "behind")
	if err == nil && c.QueryParam("cursor") != "" && from.After == "" {
		err = problemOtherList()
	}
	return from, err
}

// sameList reads a cursor and holds it to the parameters that make a list another one.
func sameList(c echo.Context, names ...string) (cursor, error) {
	q := url.Values{}
	for _, name := range names {
		if v := c.QueryParams()[name]; len(v) > 0 {
			q[name] = v
		}
	}
	var of uint32
	if len(q) > 0 {
		h := fnv.New32a()
		_, _ = h.Write([]byte(q.Encode())) // never fails
		of = max(h.Sum32(), 1)
	}
	from, err := cursorOf(c)
	if err != nil {
		return from, err
	}
	if c.QueryParam("cursor") != "" && from.Of != of {
		return from, problemOtherList()
	}
	from.Of = of
	return from, nil
}

func problemOtherList() *Problem {
	return newProblem(codeInvalidRequest, "cursor is of a list with another filter or order; start again without it, or ask as before.")
}
