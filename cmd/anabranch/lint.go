package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/policy"
	"anabranch/costmodel"
)

var errWarnings = errors.New("there are warnings")

func (a *app) lint() *cobra.Command {
	var files []string
	var strict bool
	cmd := &cobra.Command{
		Use: "lint", Short: "Say what the resources allow and nobody can mean", Args: cobra.NoArgs,
		Long: `Say what the resources allow and nobody can mean: residency that leaves a tenant nowhere when one region
is lost, failover that can't be reached, models that nothing serves, policies that do nothing, missing
prices.

With -f, as it would be with what the files say. Nothing is changed. What there is room for is told by
plan survive.`,
		Example: "  anabranch lint\n  anabranch lint -f policies/ --strict",
	}
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil, "file, folder, or - for standard input; repeatable")
	cmd.Flags().BoolVar(&strict, "strict", false, "end with exit code 1 if there are warnings")
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var rs []*policy.Resource
		var err error
		if len(files) > 0 {
			if rs, err = a.documents(files); err != nil {
				return err
			}
		}
		c, err := a.connect("")
		if err != nil {
			return err
		}
		shelf, err := c.Shelf(cmd.Context())
		if err != nil {
			return err
		}
		if _, problems := shelf.Plan(rs); len(problems) > 0 {
			return fmt.Errorf("this would be refused:%s", client.Fields(problems))
		}
		warnings := warningsOf(shelf, offersOf(cmd.Context(), c, shelf.List(policy.KindCluster)), time.Now())
		switch {
		case *format != "table":
			err = a.write(*format, map[string]any{"items": warnings})
		case len(warnings) == 0:
			err = a.printf("nothing to warn of\n")
		default:
			err = a.printLint(warnings)
		}
		if err == nil && strict && len(warnings) > 0 {
			err = errWarnings
		}
		return err
	}
	return cmd
}

// warningsOf is all that lint has to say of some resources. It is never nil.
func warningsOf(all policy.Lookup, offers []costmodel.Offer, now time.Time) []policy.Warning {
	return append(append([]policy.Warning{}, policy.Lint(all, offers...)...), policy.LintFailover(all, now)...)
}

// offersOf are the prices that the control plane knows of clusters.
func offersOf(ctx context.Context, c *client.Client, clusters []*policy.Resource) []costmodel.Offer {
	var out []costmodel.Offer
	for _, r := range clusters {
		out = append(out, pricesOf(ctx, c, policy.KindCluster, r.Metadata.Name)...)
	}
	return out
}

// brought are the warnings that some resources bring to a fleet: those about them, and new ones.
func brought(rs []*policy.Resource, before, after []policy.Warning) []policy.Warning {
	var out []policy.Warning
	for _, r := range rs {
		for _, w := range policy.Brought(r.Kind, r.Metadata.Name, before, after) {
			if !slices.Contains(out, w) {
				out = append(out, w)
			}
		}
	}
	return out
}
