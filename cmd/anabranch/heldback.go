package main

import (
	"context"
	"fmt"
	"time"

	"anabranch/cmd/anabranch/client"
)

// heldBack is what the control plane's status tells of changes that have not come to all routers.
type heldBack struct {
	Rollout  string `json:"rollout"` // under way
	HeldBack bool   `json:"heldBack"`
	Returned bool   `json:"returned"`
	Freeze   *struct {
		Actor  string `json:"actor"`
		Reason string `json:"reason"`
	} `json:"freeze"`
}

// frozen says who keeps changes back, and why.
func (h *heldBack) frozen() string {
	out := "changes are frozen by " + h.Freeze.Actor
	if h.Freeze.Reason != "" {
		out += ": " + h.Freeze.Reason
	}
	return out
}

// noteHeldBack says beside a change's outcome that routers don't have it yet, and what to do about that. The
// change is made: a status that can't be read is no failure of it.
func (a *app) noteHeldBack(ctx context.Context, c *client.Client) {
	var h heldBack
	if c.JSON(ctx, "/v1/status", nil, &h) != nil || !h.HeldBack {
		return
	}
	note := "this goes to routers in stages; `anabranch rollout watch` follows it"
	if h.Freeze != nil {
		note = h.frozen() + "; routers get this after `anabranch unfreeze`"
	}
	_, _ = fmt.Fprintln(a.err, "note: "+note) // beside what was asked for
}

// heldBackEvery is how often the status is asked for the beginning of a rollout: a leader begins one within
// about a second.
const heldBackEvery = 300 * time.Millisecond

// rolloutToCome waits while a change is held back for which no rollout has begun: until then the newest
// rollout is one of earlier changes. Where there never was a rollout, and none is to come, it says so.
func (a *app) rolloutToCome(ctx context.Context, c *client.Client) (none bool, err error) {
	// This asks the leader, so that the status, which does not, has all that was written before.
	var before struct{ Items []aRollout }
	if err := c.JSON(ctx, "/v1/rollouts", nil, &before); err != nil {
		return false, err
	}
	for told := false; ; told = true {
		var h heldBack
		if err := c.JSON(ctx, "/v1/status", nil, &h); err != nil {
			return false, err
		}
		if !h.HeldBack && h.Rollout == "" && len(before.Items) == 0 {
			_, err = fmt.Fprintln(a.err, "note: no rollout is under way: changes are with all routers")
			return true, err
		}
		if !h.HeldBack || h.Returned || h.Rollout != "" {
			return false, nil
		}
		if !told {
			note := "the change waits for its rollout to begin"
			if h.Freeze != nil {
				note = h.frozen()
			}
			_, _ = fmt.Fprintln(a.err, "note: "+note)
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(heldBackEvery):
		}
	}
}
