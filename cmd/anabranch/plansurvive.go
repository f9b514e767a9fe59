package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"anabranch/controlplane/plan"
)

func (a *app) planSurvive() *cobra.Command {
	var model string
	var pairs bool
	var most int
	cmd := &cobra.Command{
		Use:   "survive",
		Short: "Say what would be left after the loss of each region and each cluster",
		Long: `Say what would be left if each region and each cluster were lost, with the demand of now: the headroom of
each region that is left (what its clusters could do within the objectives beyond what they would get, as
a part of that), what moves, by how much cold caches add to it, how much further it goes, what is shed and
stranded, and what the hour would cost.

A row survives when all is served within its objectives, is degraded when batch traffic is shed or tenants
of the batch tier have no place, and fails beyond that. Clients of a region that is lost go on asking from
where they are.`,
		Example: `  anabranch plan survive
  anabranch plan survive --model llama-3.1-70b --pairs
  anabranch plan survive -o json`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&model, "model", "", "only clusters that serve this `model`, and what is asked for there")
	cmd.Flags().BoolVar(&pairs, "pairs", false, "also the loss of each two regions")
	cmd.Flags().IntVar(&most, "most", 0, "only the losses of the `n` regions that do most work now, for fleets of which all would be too much (default: all)")
	a.completeFlag(cmd, "model", "model")
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.connect("")
		if err != nil {
			return err
		}
		query := url.Values{}
		if model != "" {
			query.Set("model", model)
		}
		if pairs {
			query.Set("pairs", "true")
		}
		if most > 0 {
			query.Set("most", strconv.Itoa(most))
		}
		var raw json.RawMessage
		if err := c.JSON(cmd.Context(), "/v1/plan/survival", query, &raw); err != nil {
			return err
		}
		if *format != "table" {
			return a.write(*format, raw)
		}
		var s plan.Survival
		if err := json.Unmarshal(raw, &s); err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		return a.printSurvival(s)
	}
	return cmd
}

// printSurvival prints what is left, then what becomes of the rest, then why a loss is not survived.
func (a *app) printSurvival(s plan.Survival) error {
	if len(s.Silent) > 0 {
		var names []string
		for _, r := range s.Silent {
			names = append(names, string(r))
		}
		if err := a.printf("%s", wrapped(fmt.Sprintf("No fresh report from %s: what is asked for there is not known, or old.", strings.Join(names, ", ")), "", "  ")); err != nil {
			return err
		}
	}
	if s.Untried > 0 {
		if err := a.printf("%d regions do less work than these and were not tried.\n", s.Untried); err != nil {
			return err
		}
	}
	regions, left := fitting(s)
	header := append([]string{"WITHOUT", "VERDICT"}, regions...)
	var rows, rest [][]string
	var reasons []string
	for _, r := range s.Rows {
		row := []string{clipped(r.Lost.String()), string(r.Verdict)}
		for _, region := range regions {
			row = append(row, headroomOf(r, region))
		}
		rows = append(rows, row)
		rest = append(rest, consequences(r))
		if r.Verdict != plan.Survives {
			reasons = append(reasons, wrapped(fmt.Sprintf("%s: %s", r.Lost, r.Why), "  ", "    "))
		}
	}
	if err := a.printf("Headroom within the objectives\n"); err != nil {
		return err
	}
	if err := a.table(header, rows); err != nil {
		return err
	}
	if left > 0 {
		if err := a.printf("and %d regions more; -o json shows them\n", left); err != nil {
			return err
		}
	}
	if err := a.printf("\nWhat becomes of the rest, in work/s\n"); err != nil {
		return err
	}
	if err := a.table([]string{"WITHOUT", "MOVED", "COLD", "FURTHER", "SHED", "STRANDED", "AN HOUR"}, rest); err != nil {
		return err
	}
	if len(reasons) > 0 {
		return a.printf("\nNot survived whole\n%s", strings.Join(reasons, ""))
	}
	return nil
}

// fitting are the regions whose columns a terminal has room for, and how many more there are.
func fitting(s plan.Survival) (regions []string, left int) {
	taken := 0
	for _, r := range s.Rows {
		taken = max(taken, len([]rune(clipped(r.Lost.String()))))
	}
	taken = max(taken, len("WITHOUT")) + 3 + len(plan.Survives) + 3
	all := sortedRegions(s)
	for i, r := range all {
		if taken += max(len(r), len("-100%")) + 3; taken > pageWidth {
			return all[:i], len(all) - i
		}
	}
	return all, 0
}

// clipped keeps what is lost within a column.
func clipped(lost string) string {
	const most = 40
	if runes := []rune(lost); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return lost
}

// headroomOf a region in a row: that of its clusters together.
func headroomOf(r plan.SurvivalRow, region string) string {
	can, over := 0.0, 0.0
	for _, h := range r.Clusters {
		if string(h.Region) == region {
			can, over = can+h.CanPerS, over+h.HeadroomPerS
		}
	}
	if can <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*over/can)
}

// consequences of a loss, for people.
func consequences(r plan.SurvivalRow) []string {
	shed, stranded, further := 0.0, 0.0, "-"
	for _, t := range r.Shed {
		shed += t.PerS
	}
	for _, x := range r.Stranded {
		stranded += x.PerS
	}
	if r.MovedPerS > 0 {
		further = fmt.Sprintf("%+.0f ms", r.ExtraRTTMs)
	}
	where := about(stranded)
	if n := len(r.Tenants); n > 0 {
		where += fmt.Sprintf(", tenants %d", n)
	}
	return []string{clipped(r.Lost.String()), about(r.MovedPerS), "+" + about(r.ColdPerS), further, about(shed), where, moneyAnHour(r.SpendPerHour, false)}
}
