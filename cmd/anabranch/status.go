package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/policy"
)

func (a *app) status() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the control plane: who leads, what revision, whether routers follow",
		Long: `Show the control plane: who leads, what revision, whether routers follow.

Any node answers, also without a leader: it tells what it knows itself, and how long ago it heard from
the leader. The routers are those that are connected to any node.`,
		Example: `  anabranch status
  anabranch status -o json`,
		Args: cobra.NoArgs,
	}
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.connect("")
		if err != nil {
			return err
		}
		var raw json.RawMessage
		if err := c.JSON(cmd.Context(), "/v1/status", nil, &raw); err != nil {
			return err
		}
		if *format != "table" {
			return a.write(*format, raw)
		}
		if err := a.printStatus(raw); err != nil {
			return err
		}
		return a.printMembers(cmd.Context(), c)
	}
	return cmd
}

// printStatus prints what every version of the control plane tells.
func (a *app) printStatus(raw json.RawMessage) error {
	var s struct {
		ClusterID string `json:"clusterId"`
		Epoch     uint64 `json:"epoch"`
		Revision  uint64 `json:"revision"`
		Leader    string `json:"leader"`
		Frozen    bool   `json:"frozen"`
		Freeze    *struct {
			Actor  string `json:"actor"`
			Reason string `json:"reason"`
		} `json:"freeze"`
		Rollout  string `json:"rollout"`
		HeldBack bool   `json:"heldBack"`
		Returned bool   `json:"returned"`
		Pending  int    `json:"pendingProposals"`
		Broken   []struct {
			At     time.Time   `json:"at"`
			Actor  string      `json:"actor"`
			Kind   policy.Kind `json:"kind"`
			Name   string      `json:"name"`
			Reason string      `json:"reason"`
		} `json:"brokenGlass"`
		Drill     *client.Drill    `json:"drill"`
		Unwell    []unwell         `json:"unwell"`
		Emergency []emergencyOrder `json:"emergency"`
		Routers   []router         `json:"routers"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("read status: %w; -o json shows it as it came", err)
	}
	frozen, changes := yes(s.Frozen), "with all routers"
	if s.Freeze != nil {
		frozen = strings.TrimSuffix("yes, by "+s.Freeze.Actor+": "+s.Freeze.Reason, ": ")
	}
	switch {
	case s.Rollout != "":
		changes = "on their way in rollout " + s.Rollout
	case s.Returned:
		changes = "taken back; held until something changes, or `anabranch rollout retry`"
	case s.HeldBack:
		changes = "held back"
	}
	var also strings.Builder
	also.WriteString(linesOf(s.Unwell))
	for i := range s.Emergency {
		o := &s.Emergency[i]
		fmt.Fprintf(&also, "EMERGENCY %s by %s until %s: %s\n", &o.Order, o.Actor, o.Expires.Local().Format(time.RFC3339), o.Reason)
	}
	if d := s.Drill; d != nil {
		fmt.Fprintf(&also, "drill     %s is %s: anabranch drill show %s\n", d.ID, d.State, d.ID)
	}
	if s.Pending > 0 {
		fmt.Fprintf(&also, "proposals %d to be approved: anabranch proposal list\n", s.Pending)
	}
	for _, g := range s.Broken {
		fmt.Fprintf(&also, "glass     broken by %s at %s for %s: %s\n", g.Actor, g.At.Format(time.RFC3339), title(g.Kind, g.Name), g.Reason)
	}
	return a.printf("cluster   %s, epoch %d\nleader    %s\nrevision  %d\nfrozen    %s\nchanges   %s\n%srouters   %s\n\n",
		s.ClusterID, s.Epoch, dash(s.Leader), s.Revision, frozen, changes, &also, following(s.Routers))
}

// trimURL takes the trailing slash from a URL that people type.
func trimURL(s string) string { return strings.TrimRight(s, "/") }
