package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
)

// votesWithin is the default of --timeout of join: catching up takes ten quiet seconds at least, and
// longer where a large state has to travel first.
const votesWithin = 5 * time.Minute

func (a *app) join() *cobra.Command {
	var reason string
	var wait bool
	var timeout, look time.Duration
	cmd := &cobra.Command{
		Use:   "join ID ADDRESS",
		Short: "Make a node that waits a member, or tell a member's new address",
		Long: `Make a node that waits a member, or tell a member's new address.

The node runs already, with an empty data folder and neither --peers nor --join; ADDRESS is its Raft
port as the other nodes reach it. The leader calls it there, adds it without a vote, and gives it one
when it has been at most 250 entries behind for ten seconds. A node that is started with --join asks
for this by itself.`,
		Example: `  anabranch controlplane join n4 10.0.0.4:7120
  anabranch controlplane join n4 10.0.0.4:7120 --wait --reason "replaces n2"`,
		Args: cobra.ExactArgs(2),
	}
	format := formats(cmd, "table", "json", "yaml")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the log")
	cmd.Flags().BoolVar(&wait, "wait", false, "return when the node votes")
	cmd.Flags().DurationVar(&timeout, "timeout", votesWithin, "how long --wait waits")
	cmd.Flags().DurationVar(&look, "interval", time.Second, "how often --wait looks")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.connect(reason)
		if err != nil {
			return err
		}
		body, err := json.Marshal(map[string]string{"id": args[0], "address": args[1]})
		if err != nil {
			return err
		}
		answer, err := c.Do(cmd.Context(), client.Call{Method: http.MethodPost, Path: "/v1/controlplane/members", Body: body})
		if err != nil {
			return fmt.Errorf("join %s: %w", args[0], err)
		}
		raw := json.RawMessage(answer.Body)
		if wait {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			if raw, err = a.untilVoter(ctx, c, args[0], max(look, 10*time.Millisecond)); err != nil {
				return err
			}
		}
		if *format != "table" {
			return a.write(*format, raw)
		}
		var m member
		if err := json.Unmarshal(raw, &m); err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		if m.Voter {
			return a.printf("%s is a member at %s and votes\n", m.ID, m.Address)
		}
		return a.printf("%s is a member at %s; it votes once it has caught up (`anabranch controlplane members`)\n", m.ID, m.Address)
	}
	return cmd
}

// untilVoter waits until a member votes and returns it as it came. That a node can't be asked for a
// while is no reason to give up.
func (a *app) untilVoter(ctx context.Context, c *client.Client, id string, look time.Duration) (json.RawMessage, error) {
	again := time.NewTicker(look)
	defer again.Stop()
	line := a.line()
	defer line.end()
	var last error
	for {
		var list struct {
			Items []json.RawMessage `json:"items"`
		}
		err := c.JSON(ctx, "/v1/controlplane/members", nil, &list)
		if err != nil && ctx.Err() == nil {
			last = err
		}
		for _, raw := range list.Items {
			var m member
			if json.Unmarshal(raw, &m) == nil && m.ID == id {
				if m.Voter {
					return raw, nil
				}
				last = fmt.Errorf("it is %d entries behind, healthy: %s", m.Behind, yes(m.Healthy))
				line.show("%s does not vote yet: %v", id, last)
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s was added and does not vote yet: %w (last seen: %w)", id, ctx.Err(), last)
		case <-again.C:
		}
	}
}

func (a *app) removeMember() *cobra.Command {
	var reason string
	var force bool
	cmd := &cobra.Command{
		Use:   "remove ID",
		Short: "Remove a node from the cluster",
		Long: `Remove a node from the cluster. A node that leads hands over first.

Three voters are left at least; to replace one of three, let the new node join first. --force is for a
dead node whose address its successor needs: it may leave two or one, but never so few living voters
that there is no majority. Stop the node afterwards, or before: its data folder is of no more use.`,
		Example: `  anabranch controlplane remove n2
  anabranch controlplane remove n2 --force --reason "machine lost; n4 takes its address"`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the log")
	cmd.Flags().BoolVar(&force, "force", false, "leave fewer than three voters")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.connect(reason)
		if err != nil {
			return err
		}
		query := url.Values{}
		if force {
			query.Set("force", "true")
		}
		_, err = c.Do(cmd.Context(), client.Call{Method: http.MethodDelete, Path: "/v1/controlplane/members/" + url.PathEscape(args[0]), Query: query})
		if err != nil {
			return fmt.Errorf("remove %s: %w", args[0], err)
		}
		return a.printf("%s is no member any more\n", args[0])
	}
	return cmd
}

func (a *app) transfer() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "transfer [ID]",
		Short: "Hand leadership to another node",
		Long: `Hand leadership to a node that votes; without ID to whichever is furthest. Writes wait meanwhile, for
about half a second at most. A node that is stopped does this by itself.`,
		Example: `  anabranch controlplane transfer
  anabranch controlplane transfer n3 --reason "n1 gets a new kernel"`,
		Args: cobra.MaximumNArgs(1),
	}
	format := formats(cmd, "table", "json", "yaml")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the log")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.connect(reason)
		if err != nil {
			return err
		}
		order := map[string]string{}
		if len(args) > 0 {
			order["to"] = args[0]
		}
		body, err := json.Marshal(order)
		if err != nil {
			return err
		}
		answer, err := c.Do(cmd.Context(), client.Call{Method: http.MethodPost, Path: "/v1/controlplane/transfer", Body: body})
		if err != nil {
			return fmt.Errorf("transfer leadership: %w", err)
		}
		if *format != "table" {
			return a.write(*format, json.RawMessage(answer.Body))
		}
		var now struct {
			Leader string `json:"leader"`
		}
		if err := json.Unmarshal(answer.Body, &now); err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		return a.printf("%s leads\n", now.Leader)
	}
	return cmd
}
