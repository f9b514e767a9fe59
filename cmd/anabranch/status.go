package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

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
}

func (a *app) status() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the control plane: who leads, what revision, whether routers follow",
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
		ClusterID string            `json:"clusterId"`
		Epoch     uint64            `json:"epoch"`
		Revision  uint64            `json:"revision"`
		Leader    string            `json:"leader"`
		Frozen    bool              `json:"frozen"`
		Routers   []json.RawMessage `json:"routers"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("read status: %w; -o json shows it as it came", err)
	}
	return a.printf("cluster   %s, epoch %d\nleader    %s\nrevision  %d\nfrozen    %s\nrouters   %d\n\n",
		s.ClusterID, s.Epoch, dash(s.Leader), s.Revision, yes(s.Frozen), len(s.Routers))
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
		health := "unhealthy"
		if m.Healthy {
			health = "healthy"
		}
		rows = append(rows, []string{m.ID, m.Address, yes(m.Voter), yes(m.Leader), health, strconv.FormatUint(m.AppliedIndex, 10)})
	}
	return a.table([]string{"NODE", "ADDRESS", "VOTER", "LEADER", "HEALTH", "APPLIED"}, rows)
}

func (a *app) members() *cobra.Command {
	cmd := &cobra.Command{
		Use: "members", Short: "Show the nodes of the control plane",
		Example: "  anabranch members",
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

// trimURL takes the trailing slash from a URL that people type.
func trimURL(s string) string { return strings.TrimRight(s, "/") }
