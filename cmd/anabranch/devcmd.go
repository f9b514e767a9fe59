package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/dev"
)

const folder = dev.Folder(dev.FolderName)

func (a *app) dev() *cobra.Command {
	var detach bool
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run the whole of Anabranch on this machine",
		Long: `Run the whole of Anabranch on this machine, on loopback: Redis, three control plane nodes, simulated
GPU clusters in three regions, and a router in each. State, logs and dev.json, which names every URL,
token and key, are in .anabranch of the current folder; a second start there goes on with them.

It makes no traffic and restarts nothing by itself. Ctrl-C ends everything; once more kills.`,
		Example: `  anabranch dev                              # in the foreground
  anabranch dev --detach                     # returns once it is ready
  anabranch dev load                         # traffic, with a live line for each region
  anabranch dev break region us-east-1       # SIGKILL to its clusters
  anabranch dev heal region us-east-1
  anabranch dev stop`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			o := dev.Options{Folder: folder, Program: a.program, Self: self, Out: a.out}
			if detach {
				return dev.Detach(cmd.Context(), o)
			}
			return dev.Run(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&detach, "detach", false, "run in the background, and return once everything is ready")
	cmd.AddCommand(a.devStatus(), a.devStop(), a.devBreak(), a.devHeal(), a.devLoad(), a.devPrice())
	return cmd
}

func (a *app) devStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Short: "Show every process of the demonstration",
		Long: `Show every process of the demonstration.

Nodes of the control plane, routers, model servers and Redis: where each listens, and whether it answers.`,
		Example: "  anabranch dev status -o json",
		Args:    cobra.NoArgs,
	}
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, err := folder.Status(cmd.Context())
		if err != nil {
			return err
		}
		if *format != "table" {
			return a.write(*format, s)
		}
		if err := a.printf("anabranch dev is %s (pid %d), led by %s\n\n", s.Phase, s.PID, dash(s.Leader)); err != nil {
			return err
		}
		rows := make([][]string, 0, len(s.Units))
		for _, u := range s.Units {
			since, pid := "-", "-"
			if !u.Since.IsZero() {
				since = time.Since(u.Since).Round(time.Second).String()
			}
			if u.PID != 0 {
				pid = strconv.Itoa(u.PID)
			}
			rows = append(rows, []string{string(u.Kind), u.Name, u.State, since, pid, u.Address, u.Reason})
		}
		if err := a.table([]string{"KIND", "NAME", "STATE", "SINCE", "PID", "ADDRESS", ""}, rows); err != nil {
			return err
		}
		for _, u := range s.Units {
			if u.Orders == "" {
				continue
			}
			if err := a.printf("orders to %s %s: %s-router order --socket %s\n", u.Kind, u.Name, a.program, u.Orders); err != nil {
				return err
			}
		}
		for _, at := range slices.Sorted(maps.Keys(s.Faults)) {
			if err := a.printf("fault %s on %s\n", s.Faults[at], at); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

func (a *app) devStop() *cobra.Command {
	return &cobra.Command{
		Use: "stop", Short: "End the demonstration of this folder",
		Long:    "End the demonstration of this folder, and wait until nothing of it is left.\n\nIts state stays for the next start.",
		Example: "  anabranch dev stop",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pid, err := dev.Stop(cmd.Context(), folder)
			if err != nil {
				return err
			}
			return a.printf("ended (pid %d)\n", pid)
		},
	}
}
