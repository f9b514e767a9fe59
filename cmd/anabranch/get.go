package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/policy"
)

// kindOf reads a kind as people write it: clusters, cluster, Cluster, policy, TrafficPolicy.
func kindOf(word string) (policy.Kind, error) {
	plain := strings.ToLower(word)
	if plain == "policy" {
		plain = "policies"
	}
	var all []string
	for _, k := range policy.Kinds() {
		plural := policy.Plural(k)
		if plain == plural || plain == strings.ToLower(string(k)) || plain+"s" == plural {
			return k, nil
		}
		all = append(all, plural)
	}
	return "", misused(fmt.Errorf("kind %q is unknown; choose one of %s", word, strings.Join(all, ", ")))
}

func plurals() []string {
	var all []string
	for _, k := range policy.Kinds() {
		all = append(all, policy.Plural(k))
	}
	return all
}

// shows is what shows a kind of thing that is no resource; nil: the word means none.
func (a *app) shows(word string) func(ctx context.Context, c *client.Client, name, format string) error {
	switch word {
	case "router", "routers":
		return a.getRouters
	case "source", "sources":
		return a.getSources
	case "endpoint", "endpoints":
		return a.getEndpoints
	}
	return nil
}

func (a *app) get() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get KIND [NAME]",
		Short: "Show resources",
		Long: "Show the resources of a kind, or one by name.\n\nKinds: " + strings.Join(plurals(), ", ") + ";\n" +
			"routers, which are no resources: where each is connected, the table that it holds and what it\nsaid of the last; sources, perhaps of one cluster: the gateways and model servers that the control\nplane polls itself where no router reports, how old what it found is, and what went wrong; and endpoints, of\none cluster: each as a router of its region sees it now, with its queue, KV cache, adapters and learned rates.",
		Example: `  anabranch get regions
  anabranch get cluster us-east-1-a -o yaml
  anabranch get tenants -o json
  anabranch get routers
  anabranch get sources us-east-1-a
  anabranch get endpoints us-east-1-a`,
		Args: cobra.RangeArgs(1, 2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			all, directive := a.completeResources(cmd, args, begun)
			if len(args) == 0 {
				all = append(all, beginning([]string{"routers", "sources", "endpoints"}, begun)...)
			}
			if len(args) == 1 && strings.HasPrefix(args[0], "endpoint") {
				all = a.names(cmd.Context(), "cluster", begun)
			}
			return all, directive
		},
	}
	a.mayBeStale(cmd)
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if show := a.shows(args[0]); show != nil {
			c, err := a.connect("")
			if err != nil {
				return err
			}
			c.Stale = false // no leader is asked for these anyway
			return show(cmd.Context(), c, append(args, "")[1], *format)
		}
		kind, err := kindOf(args[0])
		if err != nil {
			return fmt.Errorf("%w, or routers, sources or endpoints", err)
		}
		c, err := a.connect("")
		if err != nil {
			return err
		}
		if len(args) == 2 {
			i, _, err := c.Get(cmd.Context(), kind, args[1])
			if err != nil {
				return err
			}
			if *format == "table" {
				return a.resources(kind, []client.Item{i})
			}
			return a.write(*format, i)
		}
		list, err := c.List(cmd.Context(), kind)
		if err != nil {
			return err
		}
		if *format == "table" {
			return a.resources(kind, list.Items)
		}
		return a.write(*format, list)
	}
	return cmd
}
