package rest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/labstack/echo/v4"
)

// Page sizes.
const (
	defaultLimit = 500
	maxLimit     = 1000
)

// List is a page of a list. NextCursor is empty on the last page.
type List[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"nextCursor"`
}

func limitOf(c echo.Context) (int, error) {
	text := c.QueryParam("limit")
	if text == "" {
		return defaultLimit, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxLimit {
		return 0, newProblem(codeInvalidRequest, fmt.Sprintf("limit is %.40q; give a number from 1 to %d.", text, maxLimit))
	}
	return n, nil
}

// cursor is where a list goes on: after an item, or before or beyond an index of the audit trail. Callers
// see it as opaque text.
type cursor struct {
	// After is the name of the last item, and Key what the list is sorted by; 0: by names.
	After string `json:"a,omitempty"`
	Key   int64  `json:"k,omitempty"`
	// Of tells lists with other filters and orders apart; 0: neither.
	Of     uint32 `json:"f,omitempty"`
	Before uint64 `json:"b,omitempty"`
	Beyond uint64 `json:"y,omitempty"`
}

func (k cursor) String() string {
	b, err := json.Marshal(k)
	if err != nil { // text and a number always marshal
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func cursorOf(c echo.Context) (cursor, error) {
	var k cursor
	text := c.QueryParam("cursor")
	if text == "" {
		return k, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(b, &k)
	}
	if err != nil || k == (cursor{}) {
		return k, newProblem(codeInvalidRequest, "cursor is not one that a list of this API gave; start again without it.")
	}
	return k, nil
}
