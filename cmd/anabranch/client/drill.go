package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"anabranch/failover/drill"
)

// Drill is a rehearsed failover, as the server tells it.
type Drill struct {
	Revision        uint64          `json:"revision"`
	ID              string          `json:"id"`
	Plan            string          `json:"plan"`
	Kind            string          `json:"kind"`
	State           drill.State     `json:"state"`
	Step            int             `json:"step"`
	StateSince      time.Time       `json:"stateSince"`
	Reason          string          `json:"reason"`
	Outcome         drill.Outcome   `json:"outcome"`
	Cause           string          `json:"cause"`
	PlanSHA256      string          `json:"planSha256"`
	Creator         Person          `json:"creator"`
	CreatedAt       time.Time       `json:"createdAt"`
	StartAt         time.Time       `json:"startAt"`
	StartedAt       time.Time       `json:"startedAt"`
	EndedAt         time.Time       `json:"endedAt"`
	NotAfter        time.Time       `json:"notAfter"`
	ApprovalsNeeded int             `json:"approvalsNeeded"`
	Approvals       []Approval      `json:"approvals"`
	ApprovedUntil   time.Time       `json:"approvedUntil"`
	Series          string          `json:"series"`
	ReportSHA256    string          `json:"reportSha256"`
	PreviousSHA256  string          `json:"previousSha256"`
	Spec            json.RawMessage `json:"spec"`
	Resolved        *drill.Resolved `json:"resolved"`
	Forecast        *drill.Forecast `json:"forecast"`
	Baseline        *drill.Baseline `json:"baseline"`
	Events          []DrillEvent    `json:"events"`
	BrokenGlass     *struct {
		Actor  string `json:"actor"`
		Reason string `json:"reason"`
	} `json:"brokenGlass"`
}

// DrillEvent is something that happened in a drill.
type DrillEvent struct {
	At    time.Time   `json:"at"`
	State drill.State `json:"state"`
	Step  int         `json:"step"`
	Kind  string      `json:"kind"`
	Text  string      `json:"text"`
	Actor string      `json:"actor"`
}

// DrillDryRun is what a dry run of a drill found; Refused is empty if it may go on.
type DrillDryRun struct {
	Spec     json.RawMessage `json:"spec"`
	Resolved drill.Resolved  `json:"resolved"`
	Forecast drill.Forecast  `json:"forecast"`
	Refused  string          `json:"refused"`
	Cause    string          `json:"cause"`
	Reason   string          `json:"reason"`
}

// DrillPath is where a drill is.
func DrillPath(id string) string { return "/v1/drills/" + url.PathEscape(id) }

// Drill reads one with its documents.
func (c *Client) Drill(ctx context.Context, id string) (*Drill, error) {
	var d Drill
	if err := c.JSON(ctx, DrillPath(id), nil, &d); err != nil {
		return nil, err
	}
	return &d, nil
}

// Drills reads the drills that a query asks for, newest first, page after page.
func (c *Client) Drills(ctx context.Context, query url.Values) ([]Drill, error) {
	return All[Drill](ctx, c, "/v1/drills", query)
}

// NewDrill is what a drill is made of: either Plan or Spec. StartAt zero: somebody starts it.
type NewDrill struct {
	Plan    string          `json:"plan,omitempty"`
	Spec    json.RawMessage `json:"spec,omitempty"`
	StartAt time.Time       `json:"startAt,omitzero"`
}

// CreateDrill makes a draft.
func (c *Client) CreateDrill(ctx context.Context, n NewDrill) (*Drill, error) {
	return asked[Drill](ctx, c, "/v1/drills", nil, n, "")
}

// RehearseDrill makes a dry run of what [Client.CreateDrill] would make, and makes nothing.
func (c *Client) RehearseDrill(ctx context.Context, n NewDrill) (*DrillDryRun, error) {
	return asked[DrillDryRun](ctx, c, "/v1/drills", url.Values{"dry_run": {"true"}}, n, "")
}

// DecideDrill validates, starts, pauses, resumes or aborts a drill, whatever has become of it. The client's BreakGlass starts
// it without approval. It gives the drill as it is then.
func (c *Client) DecideDrill(ctx context.Context, id, act string) (*Drill, error) {
	return asked[Drill](ctx, c, DrillPath(id)+":"+act, nil, nil, "")
}

// DecideSeenDrill is [Client.DecideDrill] of a drill as it was seen: if it has changed since, nothing happens and the error
// is a 412.
func (c *Client) DecideSeenDrill(ctx context.Context, seen *Drill, act string) (*Drill, error) {
	return asked[Drill](ctx, c, DrillPath(seen.ID)+":"+act, nil, nil, seen.etag())
}

// ApproveDrill approves a drill as it was seen, or all drills of its schedule that do the same. If it has changed since
// nothing is approved and the error is a 412.
func (c *Client) ApproveDrill(ctx context.Context, seen *Drill, series bool) (*Drill, error) {
	return asked[Drill](ctx, c, DrillPath(seen.ID)+":approve", nil, map[string]any{"planSha256": seen.PlanSHA256, "series": series}, seen.etag())
}

// etag names the drill as it was read.
func (d *Drill) etag() string { return fmt.Sprintf("%q", strconv.FormatUint(d.Revision, 10)) }

// asked posts something, about what has an ETag if one is given, and reads the answer.
func asked[T any](ctx context.Context, c *Client, path string, query url.Values, body any, etag string) (*T, error) {
	call := Call{Method: http.MethodPost, Path: path, Query: query, IfMatch: etag, glass: c.BreakGlass}
	if body != nil {
		var err error
		if call.Body, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("write the call of %s: %w", path, err)
		}
	}
	a, err := c.Do(ctx, call)
	if err != nil {
		return nil, err
	}
	out := new(T)
	if err := json.Unmarshal(a.Body, out); err != nil {
		return nil, fmt.Errorf("read answer to POST %s: %w", path, err)
	}
	return out, nil
}

// DrillReport reads the report of a drill as the bytes that were hashed.
func (c *Client) DrillReport(ctx context.Context, id string) ([]byte, error) {
	a, err := c.Do(ctx, Call{Method: http.MethodGet, Path: DrillPath(id) + "/report"})
	if err != nil {
		return nil, err
	}
	return bytes.TrimSpace(a.Body), nil
}
