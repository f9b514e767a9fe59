package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/google/uuid"
)

// A register is a tenant whose label holds the value: small, and of no consequence to anything else.

// put writes a register if it is still as its ETag says, "" if it is to be made, and sends the write
// again with the same key while it is not known what came of it. done and mismatch are both false if
// that stays unknown; never says that it certainly was not done.
func (c *cluster) put(ctx context.Context, random *rand.Rand, name, etag, value string) (at string, done, mismatch, never bool) {
	return c.putAt(ctx, c.nodes, random, name, etag, value)
}

// putAt is put by way of one of some nodes.
func (c *cluster) putAt(ctx context.Context, nodes []*process, random *rand.Rand, name, etag, value string) (at string, done, mismatch, never bool) {
	body := fmt.Sprintf(`{"apiVersion":"anabranch/v1","kind":"Tenant","metadata":{"name":%q,"labels":{"value":%q}},"spec":{}}`, name, value)
	condition := []string{"If-Match", etag}
	if etag == "" {
		condition = []string{"If-None-Match", "*"}
	}
	header := append(condition, "Idempotency-Key", uuid.NewString())
	never = true
	for range 3 {
		p := nodes[random.IntN(len(nodes))]
		a := c.call(ctx, p, http.MethodPut, "/v1/tenants/"+name, body, header...)
		switch {
		case a.err == nil && a.status < 300:
			return a.etag, true, false, false
		case a.err == nil && (a.code == "precondition" || a.code == "exists" || a.code == "not_found"):
			return "", false, true, false
		case a.err == nil && (a.code == "no_leader" || a.code == "busy" || a.code == "read_only"), a.never:
			// Certainly not done by this request; one before may have been.
		default:
			never = false
		}
		select {
		case <-ctx.Done():
			return "", false, false, never
		case <-time.After(time.Duration(50+random.IntN(100)) * time.Millisecond):
		}
	}
	return "", false, false, never
}

// get reads a register strongly by way of a node: "" and no ETag if it was never written.
func (c *cluster) get(ctx context.Context, p *process, name string) (value, etag string, ok bool) {
	a := c.call(ctx, p, http.MethodGet, "/v1/tenants/"+name+"?consistency=strong", "")
	switch {
	case a.err == nil && a.status == http.StatusOK:
		return a.doc.Metadata.Labels["value"], a.etag, true
	case a.err == nil && a.status == http.StatusNotFound:
		return "", "", true
	}
	return "", "", false
}
