package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
)

// Rehearsal is what the control plane says that a write would do.
type Rehearsal struct {
	Diff []policy.Change  `json:"diff"`
	Lint []policy.Warning `json:"lint"`
	// ApprovalsNeeded is how many others would have to approve it first.
	ApprovalsNeeded int `json:"approvalsNeeded,omitempty"`
	// Simulation is nil if none was asked for, or the server knows none.
	Simulation *Simulation `json:"simulation,omitempty"`
}

// Simulation is what would become of traffic: shares that would move, and what a simulated fleet does
// before and after.
type Simulation struct {
	Note     string           `json:"note"`
	Weights  []plan.Move      `json:"weights"`
	Clusters []plan.ShareMove `json:"clusters"`
	// Tenants that would move or have no place; nil: an older server tells of none.
	Tenants []plan.TenantMove `json:"tenants,omitempty"`
	// Before and After are nil if nothing was simulated.
	Before *Forecast `json:"before,omitempty"`
	After  *Forecast `json:"after,omitempty"`
}

// Forecast is what a simulated fleet did: times in milliseconds, shares of all requests 0..1. What is
// not known is nil.
type Forecast struct {
	Seconds           float64  `json:"seconds"`
	Requests          int      `json:"requests"`
	TTFTP50Ms         *float64 `json:"ttftP50Ms,omitempty"`
	TTFTP99Ms         *float64 `json:"ttftP99Ms,omitempty"`
	Goodput           float64  `json:"goodput"`
	Shed              float64  `json:"shed"`
	Failed            float64  `json:"failed"`
	MicroUSDPerAnswer *float64 `json:"microUSDPerAnswer,omitempty"`
}

// Rehearse asks what [Client.Apply] of the resource would do, and changes nothing.
func (c *Client) Rehearse(ctx context.Context, r *policy.Resource, simulate bool) (*Rehearsal, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("write %s %s: %w", r.Kind, r.Metadata.Name, err)
	}
	call := Call{
		Method: http.MethodPut, Path: pathOf(r.Kind, r.Metadata.Name), Body: body,
		Query: url.Values{"dry_run": {"true"}, "simulate": {strconv.FormatBool(simulate)}},
	}
	_, etag, err := c.Get(ctx, r.Kind, r.Metadata.Name)
	switch {
	case IsStatus(err, http.StatusNotFound):
		call.IfNoneMatch = "*"
	case err != nil:
		return nil, err
	case r.Metadata.Revision != 0:
		call.IfMatch = fmt.Sprintf("%q", strconv.FormatUint(r.Metadata.Revision, 10))
	default:
		call.IfMatch = etag
	}
	a, err := c.Do(ctx, call)
	if err != nil {
		return nil, err
	}
	var out Rehearsal
	if err := json.Unmarshal(a.Body, &out); err != nil {
		return nil, fmt.Errorf("read the rehearsal of %s %s: %w", r.Kind, r.Metadata.Name, err)
	}
	return &out, nil
}
