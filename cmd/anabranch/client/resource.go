package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"anabranch/controlplane/policy"
)

// Item is a resource as the server tells it. Spec and status stay as they came, so that an older
// client shows what a newer server knows.
type Item struct {
	APIVersion string          `json:"apiVersion"`
	Kind       policy.Kind     `json:"kind"`
	Metadata   policy.Metadata `json:"metadata"`
	Spec       json.RawMessage `json:"spec"`
	Status     json.RawMessage `json:"status,omitempty"`
}

// List is a page of resources, or all of them.
type List struct {
	Items      []Item `json:"items"`
	NextCursor string `json:"nextCursor"`
}

// Outcome is what [Client.Apply] did.
type Outcome string

// The outcomes.
const (
	Created    Outcome = "created"
	Configured Outcome = "configured"
	Unchanged  Outcome = "unchanged"
)

func pathOf(kind policy.Kind, name string) string {
	p := "/v1/" + policy.Plural(kind)
	if name != "" {
		p += "/" + url.PathEscape(name)
	}
	return p
}

// Get reads one resource and its ETag.
func (c *Client) Get(ctx context.Context, kind policy.Kind, name string) (Item, string, error) {
	a, err := c.Do(ctx, Call{Method: http.MethodGet, Path: pathOf(kind, name)})
	if err != nil {
		return Item{}, "", err
	}
	var i Item
	if err := json.Unmarshal(a.Body, &i); err != nil {
		return Item{}, "", fmt.Errorf("read %s %s: %w", kind, name, err)
	}
	return i, a.ETag, nil
}

// List reads all resources of a kind, page after page.
func (c *Client) List(ctx context.Context, kind policy.Kind) (List, error) {
	all, query := List{Items: []Item{}}, url.Values{}
	for {
		var page List
		if err := c.JSON(ctx, pathOf(kind, ""), query, &page); err != nil {
			return List{}, err
		}
		all.Items = append(all.Items, page.Items...)
		if page.NextCursor == "" || page.NextCursor == query.Get("cursor") {
			return all, nil
		}
		query.Set("cursor", page.NextCursor)
	}
}

// attempts is how often Apply looks again when somebody else changed the resource in between.
const attempts = 3

// Apply makes the resource on the server what r says: creates it, replaces it, or leaves it when it
// is the same already. With dryRun nothing is changed.
func (c *Client) Apply(ctx context.Context, r *policy.Resource, dryRun bool) (Outcome, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("write %s %s: %w", r.Kind, r.Metadata.Name, err)
	}
	for try := 1; ; try++ {
		done, call, err := c.compare(ctx, r)
		if err != nil || done == Unchanged || dryRun {
			return done, err
		}
		call.Method, call.Path, call.Body = http.MethodPut, pathOf(r.Kind, r.Metadata.Name), body
		_, err = c.Do(ctx, call)
		if err == nil || !IsStatus(err, http.StatusPreconditionFailed) || try == attempts {
			return done, err
		}
	}
}

// compare says what applying r would do, and the precondition under which it would.
func (c *Client) compare(ctx context.Context, r *policy.Resource) (Outcome, Call, error) {
	old, etag, err := c.Get(ctx, r.Kind, r.Metadata.Name)
	switch {
	case IsStatus(err, http.StatusNotFound):
		return Created, Call{IfNoneMatch: "*"}, nil
	case err != nil:
		return "", Call{}, err
	}
	old.Status = nil
	doc, err := json.Marshal(old)
	if err != nil {
		return "", Call{}, fmt.Errorf("compare %s %s: %w", r.Kind, r.Metadata.Name, err)
	}
	// A spec that this client can't read is a newer server's: then it differs.
	was, problems := policy.Parse(doc)
	if len(problems) == 0 && bytes.Equal(policy.Canonical(was), policy.Canonical(r)) {
		return Unchanged, Call{}, nil
	}
	return Configured, Call{IfMatch: etag}, nil
}

// Create makes the resource unless one of its name is there already, which stays as it is.
func (c *Client) Create(ctx context.Context, r *policy.Resource) (made bool, err error) {
	body, err := json.Marshal(r)
	if err != nil {
		return false, fmt.Errorf("write %s %s: %w", r.Kind, r.Metadata.Name, err)
	}
	_, err = c.Do(ctx, Call{Method: http.MethodPut, Path: pathOf(r.Kind, r.Metadata.Name), IfNoneMatch: "*", Body: body})
	if IsStatus(err, http.StatusPreconditionFailed) || IsStatus(err, http.StatusConflict) {
		return false, nil
	}
	return err == nil, err
}

// Delete removes a resource as it stands now.
func (c *Client) Delete(ctx context.Context, kind policy.Kind, name string) error {
	_, etag, err := c.Get(ctx, kind, name)
	if err != nil {
		return err
	}
	_, err = c.Do(ctx, Call{Method: http.MethodDelete, Path: pathOf(kind, name), IfMatch: etag})
	return err
}

// Sort puts resources into an order in which references point backwards, so that they can be
// applied one after the other; those of one kind keep their order. Delete in reverse.
func Sort(rs []*policy.Resource) {
	order := policy.Kinds()
	rank := func(r *policy.Resource) int { return slices.Index(order, r.Kind) }
	slices.SortStableFunc(rs, func(a, b *policy.Resource) int { return rank(a) - rank(b) })
}
