package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"anabranch/controlplane/plan"
)

// PlanAnswer is why the traffic for a model goes where it does.
type PlanAnswer struct {
	At            time.Time `json:"at"`
	TableRevision uint64    `json:"tableRevision"`
	plan.Explanation
}

// WhatIfAnswer is what a change would do.
type WhatIfAnswer struct {
	At time.Time `json:"at"`
	plan.Effect
	// Simulation is nil unless it was asked for.
	Simulation *SupposedSimulation `json:"simulation"`
}

// SupposedSimulation is what a simulated fleet makes of a change. Before and After are nil if nothing was
// simulated.
type SupposedSimulation struct {
	Note   string    `json:"note"`
	Before *Forecast `json:"before"`
	After  *Forecast `json:"after"`
}

// WhatIf asks what a change would do, and changes nothing. The answer is as the server wrote it.
func (c *Client) WhatIf(ctx context.Context, change plan.Change, simulate bool) (json.RawMessage, error) {
	body, err := json.Marshal(change)
	if err != nil {
		return nil, fmt.Errorf("write what is supposed: %w", err)
	}
	answer, err := c.Do(ctx, Call{
		Method: http.MethodPost, Path: "/v1/plan/what-if", Body: body, Query: url.Values{"simulate": {strconv.FormatBool(simulate)}},
	})
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}
