package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
)

func (a *app) planExplain() *cobra.Command {
	query := map[string]*string{}
	cmd := &cobra.Command{
		Use:   "explain MODEL",
		Short: "Say why the traffic for a model goes where it does, and what would change it",
		Long: `Say why the traffic for a model goes where it does: for each source region first in a sentence, then what
each cluster costs and has to do, then what keeps shares where they are, and what would change them.

The cost of one more unit of work is in milliseconds: the distance, what the price is worth to the policy
(its objective, from latency first to cost first), and by how much it would delay itself and others there.
Traffic goes where the sum is least; a cluster that gets nothing is dearer, or a rule or its health keeps
traffic away. NOW is the share in force, WANTED the one that the weights move to. LOAD is a part of OF
WORK/S, which is what routers measured, or what the cluster is believed to do as far as they have not.

What would change it are the nearest prices, capacities and demand that move a point of the traffic, and
what a cluster would get without the rules that bind it.`,
		Example: `  anabranch plan explain gpt-oss-120b
  anabranch plan explain gpt-oss-120b --source eu-west-1 --class interactive
  anabranch plan explain gpt-oss-120b --source eu-west-1 --cluster us-east-1-a -o yaml`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeOne(func(ctx context.Context, begun string) []string { return a.names(ctx, "model", begun) }),
	}
	for name, of := range map[string]string{"class": "traffic `class`", "source": "`region` whose clients ask", "cluster": "`cluster` that could serve"} {
		query[name] = cmd.Flags().String(name, "", "only this "+of)
	}
	a.completeFlag(cmd, "source", "region")
	a.completeFlag(cmd, "cluster", "cluster")
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.connect("")
		if err != nil {
			return err
		}
		given := url.Values{}
		for name, value := range query {
			if *value != "" {
				given.Set(name, *value)
			}
		}
		var raw json.RawMessage
		if err := c.JSON(cmd.Context(), "/v1/models/"+url.PathEscape(args[0])+"/plan", given, &raw); err != nil {
			return err
		}
		if *format != "table" {
			return a.write(*format, raw)
		}
		var answer client.PlanAnswer
		if err := json.Unmarshal(raw, &answer); err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		return a.printPlan(answer)
	}
	return cmd
}

// completeFlag completes a flag with the names of a kind of resource.
func (a *app) completeFlag(cmd *cobra.Command, flag, kind string) {
	names := func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return a.names(cmd.Context(), kind, begun), cobra.ShellCompDirectiveNoFileComp
	}
	if err := cmd.RegisterFlagCompletionFunc(flag, names); err != nil {
		panic(err) // the flag is there
	}
}
