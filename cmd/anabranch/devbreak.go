package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/dev"
)

// order makes the command's arguments an order.
func order(args []string, o dev.Order) dev.Order {
	o.Kind = args[0]
	if len(args) > 1 {
		o.Name = args[1]
	}
	return o
}

// carryOut sends the order and prints what was done.
func (a *app) carryOut(ctx context.Context, act func(context.Context, dev.Order) ([]string, error), o dev.Order) error {
	done, err := act(ctx, o)
	for _, line := range done {
		if err := a.printf("%s\n", line); err != nil {
			return err
		}
	}
	return err
}

func (a *app) devBreak() *cobra.Command {
	var o dev.Order
	cmd := &cobra.Command{
		Use:   "break KIND [NAME]",
		Short: "Kill a part of the demonstration, or give it a fault",
		Long: `Kill a part of the demonstration with SIGKILL, or give model servers a fault. What is broken stays
broken until heal.

  region NAME              its clusters; with --with-router its router too
  cluster NAME             its one process; with --fault all its endpoints have the fault instead
  endpoint CLUSTER/NAME    has a fault (refuse unless --fault says otherwise)
  router REGION
  controlplane NODE        n1, n2, n3, leader or all
  redis

Faults: ` + strings.Join(dev.Faults, ", ") + `.`,
		Example: `  anabranch dev break region us-east-1
  anabranch dev break endpoint us-east-1-a/h100-1 --fault hang
  anabranch dev break cluster eu-west-1-a --fault slow --factor 3
  anabranch dev break controlplane leader`,
		Args: cobra.RangeArgs(1, 2), ValidArgs: dev.OrderKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.carryOut(cmd.Context(), folder.Break, order(args, o))
		},
	}
	cmd.Flags().BoolVar(&o.WithRouter, "with-router", false, "a region's router too")
	cmd.Flags().StringVar(&o.Fault, "fault", "", "fault of an endpoint or of a cluster's endpoints")
	cmd.Flags().Float64Var(&o.Factor, "factor", 0, "how much slower the fault slow makes it")
	cmd.Flags().Float64Var(&o.Ratio, "ratio", 0, "share of requests that the fault meets, 0 to 1 (default all)")
	return cmd
}

func (a *app) devHeal() *cobra.Command {
	return &cobra.Command{
		Use:   "heal KIND [NAME]",
		Short: "Start what is down again, and take faults away",
		Long: `Start what is down again, and take faults away. Takes what break takes, and "all". A region is healed
with its router. dev.json then names the new processes.`,
		Example: `  anabranch dev heal region us-east-1
  anabranch dev heal endpoint us-east-1-a/h100-1
  anabranch dev heal all`,
		Args: cobra.RangeArgs(1, 2), ValidArgs: append([]string{"all"}, dev.OrderKinds...),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.carryOut(cmd.Context(), folder.Heal, order(args, dev.Order{}))
		},
	}
}
