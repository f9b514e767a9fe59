package main

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
)

// member is one control plane node as /v1/controlplane/members tells it.
type member struct {
	ID           string `json:"id"`
	Address      string `json:"address"`
	Voter        bool   `json:"voter"`
	Leader       bool   `json:"leader"`
	Healthy      bool   `json:"healthy"`
	AppliedIndex uint64 `json:"appliedIndex"`
	Behind       uint64 `json:"behind"`
	// LastContactMs is -1 for never.
	LastContactMs int64  `json:"lastContactMs"`
	Version       string `json:"version"`
	// FeatureLevel is 0 while it is not known.
	FeatureLevel uint32 `json:"featureLevel"`
}

func (a *app) printMembers(ctx context.Context, c *client.Client) error {
	var list struct {
		Items []member `json:"items"`
	}
	if err := c.JSON(ctx, "/v1/controlplane/members", nil, &list); err != nil {
		return err
	}
	rows := make([][]string, 0, len(list.Items))
	for _, m := range list.Items {
		rows = append(rows, m.row())
	}
	return a.table([]string{"NODE", "ADDRESS", "VOTER", "LEADER", "HEALTH", "APPLIED", "BEHIND", "HEARD", "VERSION", "LEVEL"}, rows)
}

// row shows the member in a table.
func (m member) row() []string {
	health, heard, level := "unhealthy", "never", "-"
	if m.Healthy {
		health = "healthy"
	}
	if m.LastContactMs >= 0 {
		heard = (time.Duration(m.LastContactMs) * time.Millisecond).Round(100 * time.Millisecond).String()
	}
	if m.FeatureLevel > 0 {
		level = strconv.FormatUint(uint64(m.FeatureLevel), 10)
	}
	return []string{
		m.ID, m.Address, yes(m.Voter), yes(m.Leader), health, strconv.FormatUint(m.AppliedIndex, 10),
		strconv.FormatUint(m.Behind, 10), heard, dash(m.Version), level,
	}
}

func (a *app) members() *cobra.Command {
	cmd := &cobra.Command{
		Use: "members", Short: "Show the nodes of the control plane",
		Long: `Show the nodes of the control plane.

For each: its address, whether it leads, votes and was heard lately, how many entries of the log it is
behind, its version, and the newest format of commands that it applies: the lowest of the voters is what
the cluster as a whole can do.`,
		Example: "  anabranch controlplane members\n  anabranch members -o json            # the same, for short",
		Args:    cobra.NoArgs,
	}
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.connect("")
		if err != nil {
			return err
		}
		if *format == "table" {
			return a.printMembers(cmd.Context(), c)
		}
		var raw json.RawMessage
		if err := c.JSON(cmd.Context(), "/v1/controlplane/members", nil, &raw); err != nil {
			return err
		}
		return a.write(*format, raw)
	}
	return cmd
}
