package main

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	orders "anabranch/api/order"
	"anabranch/controlplane/policy"
)

// pinCommand keeps clusters at a share of their weight.
func (a *app) pinCommand() *cobra.Command {
	var f placeFlags
	var percent float64
	var length string
	cmd := &cobra.Command{
		Use: "pin REGION|cluster/NAME", Short: "Keep a region or a cluster at a share of its weight for a time, whatever is seen of its health",
		Long: `Keep a region or a cluster at a share of its weight for a time, whatever is seen of its health.

With 100 it stays in use though evidence speaks against it; with 0 it gets nothing, and comes back by the
steps of a ramp when the pin ends. Its health is PINNED meanwhile. It is the Cluster's spec.pin: a drain and
an order to evacuate go before it, "restore" lifts one of less than 100, rules and residency hold as ever, and
routers still leave what is dead by themselves. "unpin" ends it before its time.`,
		Example: `  anabranch pin cluster/us-east-1-a --percent 100 --for 30m --reason "its canary is broken, it is not"
  anabranch pin us-east-1 --percent 25 --reason "new cooling, let it warm up"`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completePlaces(),
	}
	f.bind(cmd)
	cmd.Flags().Float64Var(&percent, "percent", 0, "share of its weight, 0 to 100 (required)")
	cmd.Flags().StringVar(&length, "for", "", "how long it holds, like 30m or 2h, at most 24h (default: 4h)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		term, err := orders.ParseTerm(length)
		switch {
		case err != nil:
			return misused(fmt.Errorf("--%w", err))
		case term <= 0 || term > orders.MaxTerm:
			return misused(fmt.Errorf("--for %s: give a time of at most %s, and pin it again when that is over", term, orders.MaxTerm))
		case !cmd.Flags().Changed("percent") || math.IsNaN(percent) || percent < 0 || percent > 100:
			return misused(errors.New("--percent is missing or out of range: say what share of its weight it is kept at, from 0 to 100"))
		}
		until := time.Now().Add(term).UTC().Truncate(time.Second)
		made := fmt.Sprintf("is pinned at %g %% until %s", percent, until.Local().Format("2006-01-02 15:04:05"))
		return a.changeClusters(cmd.Context(), &f, args[0], clusterChange{
			field: "pin", value: &policy.PinSpec{Percent: &percent, Until: until.Format(time.RFC3339)}, made: made, same: made,
		})
	}
	return cmd
}

func (a *app) unpinCommand() *cobra.Command {
	var f placeFlags
	cmd := &cobra.Command{
		Use: "unpin REGION|cluster/NAME", Short: "Take the pin of a region or a cluster back",
		Long: `Take the pin of a region or a cluster back.

Evidence decides again, five seconds later. What was kept below 100 comes back by the steps of a ramp; what
was out of use before, and got nothing meanwhile, is out of use again.`,
		Example: `  anabranch unpin cluster/us-east-1-a --reason "canary mended"`,
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completePlaces(),
	}
	f.bind(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.changeClusters(cmd.Context(), &f, args[0], clusterChange{field: "pin", made: "is no longer pinned", same: "has no pin"})
	}
	return cmd
}
