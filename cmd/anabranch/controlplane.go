package main

import "github.com/spf13/cobra"

// controlplane is the parent of what concerns the control plane's own nodes rather than what they
// keep.
func (a *app) controlplane() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "controlplane",
		Short:   "Look after the control plane's nodes",
		Long:    "Look after the control plane's nodes: who is a member, who leads.",
		Example: `  anabranch controlplane members`,
		Args:    cobra.NoArgs,
	}
	cmd.AddCommand(a.members())
	return cmd
}
