package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

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

// Page reads one page of a kind; query holds filters and the like, and may be nil.
func (c *Client) Page(ctx context.Context, kind policy.Kind, query url.Values) (List, error) {
	var page List
	err := c.JSON(ctx, pathOf(kind, ""), query, &page)
	return page, err
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
// is the same already. The changes are of what was there. A revision in r's metadata, as get writes
// it, says which version r was made from: if the server's is another one, nothing changes and the
// error is a 412. Where others have to approve it the error is a *[ProposedError].
func (c *Client) Apply(ctx context.Context, r *policy.Resource) (Outcome, []policy.Change, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return "", nil, fmt.Errorf("write %s %s: %w", r.Kind, r.Metadata.Name, err)
	}
	for try := 1; ; try++ {
		old, etag, err := c.Get(ctx, r.Kind, r.Metadata.Name)
		call := Call{Method: http.MethodPut, Path: pathOf(r.Kind, r.Metadata.Name), IfMatch: etag, Body: body}
		var was *policy.Resource
		switch {
		case IsStatus(err, http.StatusNotFound):
			call.IfNoneMatch = "*"
		case err != nil:
			return "", nil, err
		default:
			if was, err = old.resource(); err != nil {
				return "", nil, err
			}
		}
		done, changes := compare(was, r)
		if done == Unchanged {
			return done, nil, nil
		}
		made := r.Metadata.Revision
		if was != nil && made != 0 {
			call.IfMatch = fmt.Sprintf("%q", strconv.FormatUint(made, 10))
		}
		_, err = c.write(ctx, call)
		if err == nil || !IsStatus(err, http.StatusPreconditionFailed) || made != 0 || try == attempts {
			return done, changes, err
		}
	}
}

// compare says what applying r over was, nil for nothing, would do.
func compare(was, r *policy.Resource) (Outcome, []policy.Change) {
	changes := policy.Diff(was, r)
	switch {
	case was == nil:
		return Created, changes
	case bytes.Equal(policy.Canonical(was), policy.Canonical(r)):
		return Unchanged, nil
	}
	return Configured, changes
}

// resource reads an item as what this program knows of its kind.
func (i Item) resource() (*policy.Resource, error) {
	i.Status = nil
	doc, err := json.Marshal(i)
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", i.Kind, i.Metadata.Name, err)
	}
	r, problems := policy.Parse(doc)
	if len(problems) > 0 {
		return nil, fmt.Errorf("read %s %s, which the server keeps: is this program older than the server?%s", i.Kind, i.Metadata.Name, Fields(problems))
	}
	r.Metadata.Managers = i.Metadata.Managers
	return r, nil
}

// Create makes the resource unless one of its name is there already, which stays as it is.
func (c *Client) Create(ctx context.Context, r *policy.Resource) (made bool, err error) {
	body, err := json.Marshal(r)
	if err != nil {
		return false, fmt.Errorf("write %s %s: %w", r.Kind, r.Metadata.Name, err)
	}
	_, err = c.write(ctx, Call{Method: http.MethodPut, Path: pathOf(r.Kind, r.Metadata.Name), IfNoneMatch: "*", Body: body})
	if IsStatus(err, http.StatusPreconditionFailed) || IsStatus(err, http.StatusConflict) {
		return false, nil
	}
	return err == nil, err
}

// Delete removes a resource as it stands now. Where others have to approve that the error is a
// *[ProposedError].
func (c *Client) Delete(ctx context.Context, kind policy.Kind, name string) error {
	_, etag, err := c.Get(ctx, kind, name)
	if err != nil {
		return err
	}
	_, err = c.write(ctx, Call{Method: http.MethodDelete, Path: pathOf(kind, name), IfMatch: etag})
	return err
}

// Sort puts resources into an order in which references point backwards, so that they can be
// applied one after the other; those of one kind keep their order. Delete in reverse.
func Sort(rs []*policy.Resource) {
	order := policy.Kinds()
	rank := func(r *policy.Resource) int { return slices.Index(order, r.Kind) }
	slices.SortStableFunc(rs, func(a, b *policy.Resource) int { return rank(a) - rank(b) })
}
