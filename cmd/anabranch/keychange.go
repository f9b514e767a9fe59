package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/policy"
)

// withKey adds a key.
func withKey(list []policy.APIKeySpec, k policy.APIKeySpec) ([]policy.APIKeySpec, error) {
	if find(list, k.ID) >= 0 {
		return nil, fmt.Errorf("there is a key %q already: give another --id, or rotate it", k.ID)
	}
	return append(slices.Clone(list), k), nil
}

// rotated adds a key and has an old one end, no later than it would by itself.
func rotated(list []policy.APIKeySpec, id string, k policy.APIKeySpec, ends time.Time) ([]policy.APIKeySpec, error) {
	i := find(list, id)
	if i < 0 {
		return nil, unknownKey(list, id)
	}
	out, err := withKey(list, k)
	if err != nil {
		return nil, err
	}
	if has := out[i].Expires(); has.IsZero() || has.After(ends) {
		out[i].ExpiresAt = moment(ends)
	}
	return out, nil
}

// withoutKey takes a key away.
func withoutKey(list []policy.APIKeySpec, id string) ([]policy.APIKeySpec, error) {
	i := find(list, id)
	if i < 0 {
		return nil, unknownKey(list, id)
	}
	return slices.Delete(slices.Clone(list), i, i+1), nil
}

func find(list []policy.APIKeySpec, id string) int {
	return slices.IndexFunc(list, func(k policy.APIKeySpec) bool { return k.ID == id })
}

func unknownKey(list []policy.APIKeySpec, id string) error {
	var ids []string
	for _, k := range list {
		ids = append(ids, k.ID)
	}
	if len(ids) == 0 {
		return fmt.Errorf("there is no key %q: the tenant has none", id)
	}
	return fmt.Errorf("there is no key %q; there are %s", id, strings.Join(ids, ", "))
}

// keysOf reads a tenant's keys and the version of the tenant that they are of.
func keysOf(ctx context.Context, c *client.Client, tenant string) ([]policy.APIKeySpec, string, error) {
	item, etag, err := c.Get(ctx, policy.KindTenant, tenant)
	if err != nil {
		return nil, "", err
	}
	var spec policy.TenantSpec
	if err := json.Unmarshal(item.Spec, &spec); err != nil {
		return nil, "", fmt.Errorf("read tenant %s: %w", tenant, err)
	}
	return spec.APIKeys, etag, nil
}

// changeKeys changes a tenant's keys and nothing else of it. If somebody else changes the tenant
// meanwhile it looks again.
func (a *app) changeKeys(ctx context.Context, tenant, reason string, change func([]policy.APIKeySpec) ([]policy.APIKeySpec, error)) error {
	c, err := a.connect(reason)
	if err != nil {
		return err
	}
	const attempts = 3
	for try := 1; ; try++ {
		list, etag, err := keysOf(ctx, c, tenant)
		if err != nil {
			return err
		}
		if list, err = change(list); err != nil {
			return err
		}
		body, err := json.Marshal(map[string]any{"spec": map[string]any{"apiKeys": list}})
		if err != nil {
			return fmt.Errorf("write keys: %w", err)
		}
		answer, err := c.Do(ctx, client.Call{
			Method: http.MethodPatch, Path: "/v1/" + policy.Plural(policy.KindTenant) + "/" + url.PathEscape(tenant), IfMatch: etag, Body: body,
		})
		if err == nil {
			err = client.ProposedIn(answer)
		}
		if !client.IsStatus(err, http.StatusPreconditionFailed) || try == attempts {
			return err
		}
	}
}
