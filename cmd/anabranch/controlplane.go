package main

import (
	"strings"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch-controlplane/datadir"
)

// controlplane is the parent of what concerns the control plane's own nodes rather than what they
// keep.
func (a *app) controlplane() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "controlplane",
		Short:   "Look after the control plane's nodes",
		Long:    "Look after the control plane's nodes: who is a member, who leads; backups, and what to do without a majority.",
		Example: "  anabranch controlplane members\n  anabranch controlplane snapshot save anabranch.backup",
		Args:    cobra.NoArgs,
	}
	cmd.AddCommand(a.members(), a.join(), a.removeMember(), a.transfer())
	cmd.AddCommand(a.snapshots(), alias(datadir.Recover(), "anabranch-controlplane recover", "anabranch controlplane recover"))
	return cmd
}

// alias has a command of the other program give examples of itself here.
func alias(cmd *cobra.Command, there, here string) *cobra.Command {
	cmd.Example = strings.ReplaceAll(cmd.Example, there, here)
	return cmd
}
