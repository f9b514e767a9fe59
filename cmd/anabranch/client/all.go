package client

import (
	"context"
	"net/url"
)

// All reads what a list of the API has, page after page, in its order; never nil. The query is left as it is, and may be
// nil.
func All[T any](ctx context.Context, c *Client, path string, query url.Values) ([]T, error) {
	query, all := cloned(query), []T{}
	for {
		var page struct {
			Items      []T    `json:"items"`
			NextCursor string `json:"nextCursor"`
		}
		if err := c.JSON(ctx, path, query, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.NextCursor == "" || page.NextCursor == query.Get("cursor") {
			return all, nil
		}
		query.Set("cursor", page.NextCursor)
	}
}
