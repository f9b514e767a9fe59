package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
)

const pathBills = "/v1/costs/bills"

// billsAnswer is what was billed, as /v1/costs/bills tells it.
type billsAnswer struct {
	Days []struct {
		Day        string `json:"day"`
		Source     string `json:"source"`
		Estimate   bool   `json:"estimate"`
		Incomplete bool   `json:"incomplete"`
		billedRow
		Goods []struct {
			Region   string `json:"region"`
			Instance string `json:"instance"`
			billedRow
		} `json:"goods"`
		LeftOut []string `json:"leftOut"`
	} `json:"days"`
}

// billedRow sets what was billed beside what was counted.
type billedRow struct {
	BilledUSD  amountUSD `json:"billedUSD"`
	CountedUSD amountUSD `json:"countedUSD"`
	DriftRatio *float64  `json:"driftRatio"`
}

func (r *billedRow) cells() []string {
	drift := "-"
	if r.DriftRatio != nil {
		drift = fmt.Sprintf("%+.1f%%", 100**r.DriftRatio)
	}
	return []string{r.BilledUSD.String(), r.CountedUSD.String(), drift}
}

func (a *app) costBills() *cobra.Command {
	var days int
	cmd := &cobra.Command{
		Use:   "bills",
		Short: "Show what the cloud billed beside what was counted",
		Long: `Show what instances were billed with on each of the last days, beside what the account counted for them.
DRIFT is how much more was billed than counted. It says that a price, the number of instances or the way
they are bought is not as configured; nothing changes by it.

Bills are asked for by control planes that run with --aws-bills, two days after a day has ended.`,
		Example: "  anabranch cost bills\n  anabranch cost bills --days 30 -o json",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().IntVar(&days, "days", 7, "show so many, the newest first")
	a.mayBeStale(cmd)
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if days < 1 {
			return misused(fmt.Errorf("--days: %d is out of range; use 1 or more", days))
		}
		c, err := a.connect("")
		if err != nil {
			return err
		}
		if *format == "table" {
			return a.showBills(cmd.Context(), c, days)
		}
		var raw struct {
			Days []json.RawMessage `json:"days"`
		}
		if err := c.JSON(cmd.Context(), pathBills, nil, &raw); err != nil {
			return err
		}
		raw.Days = raw.Days[:min(days, len(raw.Days))]
		return a.write(*format, raw)
	}
	return cmd
}

// showBills prints a table with a line for each kind of instance, and notes.
func (a *app) showBills(ctx context.Context, c *client.Client, days int) error {
	var all billsAnswer
	if err := c.JSON(ctx, pathBills, nil, &all); err != nil {
		return err
	}
	if len(all.Days) == 0 {
		_, err := fmt.Fprintln(a.err, "note: nobody has asked for bills so far; start the nodes of the control plane with --aws-bills, and wait until a day is two days old")
		return err
	}
	var rows [][]string
	var notes []string
	for _, d := range all.Days[:min(days, len(all.Days))] {
		day := d.Day
		if d.Estimate {
			day, notes = "~"+day, append(notes, "~ "+d.Day+": what was billed may still change")
		}
		if d.Incomplete {
			notes = append(notes, d.Day+": the account has not counted the whole day")
		}
		if len(d.LeftOut) > 0 {
			notes = append(notes, d.Day+": left out, as they name no instance type in spec.gpus or its price is not known: "+strings.Join(d.LeftOut, ", "))
		}
		for _, g := range d.Goods {
			rows = append(rows, append([]string{day, g.Region, g.Instance}, g.cells()...))
		}
		rows = append(rows, append([]string{day, "TOTAL", ""}, d.cells()...))
	}
	if err := a.table([]string{"DAY", "REGION", "INSTANCE", "BILLED", "COUNTED", "DRIFT"}, rows); err != nil {
		return err
	}
	for _, note := range notes {
		if _, err := fmt.Fprintln(a.err, "note: "+note); err != nil {
			return err
		}
	}
	return nil
}
