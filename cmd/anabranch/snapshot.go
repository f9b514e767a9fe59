package main

import (
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch-controlplane/datadir"
	"anabranch/controlplane/backup"
	"anabranch/controlplane/state"
)

// snapshots is the parent of what is done with backups.
func (a *app) snapshots() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Save, inspect and restore backups of the control plane's state",
		Example: `  anabranch controlplane snapshot save anabranch.backup
  anabranch controlplane snapshot inspect anabranch.backup`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(a.saveSnapshot(), a.inspectSnapshot(), alias(datadir.Restore(), "anabranch-controlplane restore", "anabranch controlplane snapshot restore"))
	return cmd
}

func (a *app) saveSnapshot() *cobra.Command {
	var stale bool
	cmd := &cobra.Command{
		Use:   "save FILE",
		Short: "Download the control plane's whole state into a file",
		Long: `Download the control plane's whole state into a file.

Any node gives it, and it holds everything that was committed before. The file appears only when it has
come whole and its state could be loaded. It needs the role admin, and holds hashes of tokens: keep it
safe.`,
		Example: `  anabranch controlplane snapshot save anabranch-$(date +%F).backup
  anabranch controlplane snapshot save last.backup --stale    # when there is no leader any more`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&stale, "stale", false, "take what the node has, without asking a leader")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.connect("")
		if err != nil {
			return err
		}
		query := url.Values{}
		if stale {
			query.Set("consistency", "stale")
		}
		line := a.line()
		m, err := backup.Save(args[0], func(w io.Writer) error {
			return c.Download(cmd.Context(), "/v1/controlplane/snapshot", query, &counted{Writer: w, line: line, what: "state"})
		})
		line.end()
		if err != nil {
			return err
		}
		return a.printf("saved cluster %s, epoch %d, revision %d to %s\n", m.ClusterID, m.Epoch, m.Revision, args[0])
	}
	return cmd
}

// contents is what a backup holds, for people and programs.
type contents struct {
	backup.Meta
	TableRevision uint64         `json:"tableRevision"` // 0: none
	Tables        int            `json:"tables"`
	AuditEntries  int            `json:"auditEntries"`
	Tokens        int            `json:"tokens"`
	Resources     map[string]int `json:"resources"` // by plural
}

func contentsOf(m backup.Meta, v *state.View) contents {
	c := contents{
		Meta: m, TableRevision: v.Table().GetRef().GetRevision(), Tables: len(v.Tables()),
		AuditEntries: len(v.Audit(0, 0)), Tokens: len(v.Tokens()), Resources: map[string]int{},
	}
	for _, held := range datadir.Resources(v) {
		c.Resources[held.Plural] = held.Count
	}
	return c
}

func (a *app) inspectSnapshot() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Prove a backup good, and tell what is in it",
		Long: `Prove a backup good, and tell what is in it.

The file is read to its end: its checksum must be right, its state must load, and be the one that the
file claims to hold. It needs no control plane.`,
		Example: `  anabranch controlplane snapshot inspect anabranch.backup
  anabranch controlplane snapshot inspect anabranch.backup -o json`,
		Args: cobra.ExactArgs(1),
	}
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		m, v, err := backup.Load(args[0])
		if err != nil {
			return fmt.Errorf("%s: %w", args[0], err)
		}
		if *format != "table" {
			return a.write(*format, contentsOf(m, v))
		}
		if err := a.printf("cluster   %s, epoch %d\nrevision  %d\ntaken     %s on %s\nversion   %s\ntables    %d, the current one %d\naudit     %d entries\ntokens    %d\nsha256    %s\n\n",
			m.ClusterID, m.Epoch, m.Revision, m.At.Format(time.RFC3339), dash(string(m.Node)), dash(m.Version),
			len(v.Tables()), v.Table().GetRef().GetRevision(), len(v.Audit(0, 0)), len(v.Tokens()), m.StateSHA256); err != nil {
			return err
		}
		var rows [][]string
		for _, held := range datadir.Resources(v) {
			rows = append(rows, []string{held.Plural, strconv.Itoa(held.Count)})
		}
		return a.table([]string{"KIND", "COUNT"}, rows)
	}
	return cmd
}
