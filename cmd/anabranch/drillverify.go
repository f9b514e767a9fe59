package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
	"anabranch/failover/drill"
)

func (a *app) drillVerify() *cobra.Command {
	var all, server bool
	cmd := &cobra.Command{
		Use: "verify [FILE...]", Short: "Check that reports are what was written, and that none is missing",
		Long: `Check that reports of drills are what was written when the drills ended, and that none of them is missing.

Each report names the one before by its SHA-256. Files, as ` + "`anabranch drill report ID --json`" + ` writes them,
are held to each other without any server, in whatever order they are named; with --server-too each is also
held to the hash that the control plane keeps. --all checks all that the control plane has. The first report
where the chain breaks is named, with exit code 1.`,
		Example: "  anabranch drill verify reports/*.json\n  anabranch drill verify --all\n  anabranch drill verify report.json --server-too",
	}
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if all == (len(args) > 0) {
			return errors.New("name files of reports, or --all")
		}
		return nil
	}
	cmd.Flags().BoolVar(&all, "all", false, "check all reports that the control plane keeps")
	cmd.Flags().BoolVar(&server, "server-too", false, "hold files to what the control plane knows of them as well")
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var links []drill.Link
		for _, file := range args {
			text, err := os.ReadFile(filepath.Clean(file))
			if err != nil {
				return err
			}
			links = append(links, drill.Link{Name: file, JSON: text})
		}
		if all || server {
			c, err := a.connect("")
			if err != nil {
				return err
			}
			if links, err = keptLinks(cmd, c, links, all); err != nil {
				return err
			}
		}
		heads, err := drill.VerifyChain(links)
		if err != nil {
			return fmt.Errorf("the chain breaks: %w", err)
		}
		if *format != "table" {
			return a.write(*format, map[string]any{"items": heads})
		}
		var rows [][]string
		for _, h := range heads {
			rows = append(rows, []string{strconv.FormatUint(h.ID, 10), string(h.Outcome), h.SHA256})
		}
		if len(rows) > 0 {
			if err := a.table([]string{"DRILL", "OUTCOME", "SHA256"}, rows); err != nil {
				return err
			}
		}
		return a.printf("%d reports hold together\n", len(heads))
	}
	return cmd
}

// keptLinks adds what the control plane knows: all reports that it keeps, or the hashes of those that are there.
func keptLinks(cmd *cobra.Command, c *client.Client, links []drill.Link, all bool) ([]drill.Link, error) {
	list, err := c.Drills(cmd.Context(), nil)
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	for _, d := range list {
		sums[d.ID] = d.ReportSHA256
		if !all || d.ReportSHA256 == "" {
			continue
		}
		raw, err := c.DrillReport(cmd.Context(), d.ID)
		if client.IsStatus(err, 404) { // of those that ended long ago only the hash is kept
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the report of drill %s: %w", d.ID, err)
		}
		links = append(links, drill.Link{Name: "drill " + d.ID, JSON: raw, SHA256: d.ReportSHA256})
	}
	for i, l := range links {
		r, err := drill.Decode(l.JSON)
		if err != nil || all {
			continue // the chain says what is wrong
		}
		sum, known := sums[strconv.FormatUint(r.ID, 10)]
		if !known || sum == "" {
			return nil, fmt.Errorf("%s is of drill %d, which the control plane does not remember: check it without --server-too", strings.TrimSpace(l.Name), r.ID)
		}
		links[i].SHA256 = sum
	}
	return links, nil
}
