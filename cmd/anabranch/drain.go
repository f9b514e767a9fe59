package main

import "github.com/spf13/cobra"

// drainCommand takes clusters out of use in peace.
func (a *app) drainCommand() *cobra.Command {
	return a.placeCommand(&cobra.Command{
		Use: "drain REGION|cluster/NAME", Short: "Send a region or a cluster no new requests, from the next routing table on",
		Long: `Send a region or a cluster no new requests, from the next routing table on.

What is under way there ends in peace, and its health is DRAINING, then DRAINED. It stays so until "undrain".
It is the Cluster's spec.drained, and a change like any other: it comes to routers by stages where the
safety rules say so. "evacuate" is for emergencies: it needs no table, holds within two seconds and ends by
itself.`,
		Example: `  anabranch drain cluster/us-east-1-a --reason "new drivers"
  anabranch drain us-east-1 --reason "moves to another hall"`,
	}, clusterChange{field: "drained", value: true, made: "is drained: it gets no new requests", same: "is drained already"})
}

// undrainCommand brings them back.
func (a *app) undrainCommand() *cobra.Command {
	return a.placeCommand(&cobra.Command{
		Use: "undrain REGION|cluster/NAME", Short: "Use a region or a cluster again that was drained",
		Long: `Use a region or a cluster again that was drained.

Traffic comes back by the steps of a ramp, once its servers have what they need.`,
		Example: `  anabranch undrain cluster/us-east-1-a --reason "drivers are in"`,
	}, clusterChange{field: "drained", made: "is used again", same: "is not drained"})
}

// placeCommand completes a command that makes a change which has no flags of its own.
func (a *app) placeCommand(cmd *cobra.Command, change clusterChange) *cobra.Command {
	var f placeFlags
	cmd.Args, cmd.ValidArgsFunction = cobra.ExactArgs(1), a.completePlaces()
	f.bind(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.changeClusters(cmd.Context(), &f, args[0], change)
	}
	return cmd
}
