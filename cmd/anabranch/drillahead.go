package main

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"anabranch/failover/drill"
)

// readinessKinds are the kinds of drills that readiness is asked of.
var readinessKinds = []string{string(drill.Soft), string(drill.Hard), string(drill.Shadow), string(drill.FailbackOnly)}

func (a *app) drillReadiness() *cobra.Command {
	var kind string
	var regions []string
	cmd := &cobra.Command{
		Use: "readiness", Short: "Say which regions may be drilled now, and why others may not", Args: cobra.NoArgs,
		Long: `Say which regions may be drilled now, and why others may not: a dry run of each with the defaults of such a
plan, and all that a drill is held to before its start: safety rules, windows and blackouts, the error budget,
the health of all regions, orders in force, rollouts, and drills that are under way or ran lately.

FULLEST is the cluster that would be fullest without the region, at the highest traffic of the last hour and
with caches cold. OPENS is when times alone would let a drill begin. Of a large fleet only the first regions
are simulated, 24 at most; --region asks for others.`,
		Example: "  anabranch drill readiness\n  anabranch drill readiness --kind hard -o json",
	}
	cmd.Flags().StringVar(&kind, "kind", string(drill.Soft), "kind of drill: "+strings.Join(readinessKinds, ", "))
	cmd.Flags().StringSliceVar(&regions, "region", nil, "only these `regions`")
	a.completeFlag(cmd, "region", "region")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(readinessKinds, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	a.mayBeStale(cmd)
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.connect("")
		if err != nil {
			return err
		}
		var all struct {
			At    time.Time         `json:"at"`
			Items []drill.Readiness `json:"items"`
		}
		if tabled, err := a.answer(cmd.Context(), c, "/v1/drills/readiness", url.Values{"kind": {kind}, "region": regions}, *format, &all); !tabled {
			return err
		}
		return a.printReadiness(all.At, all.Items)
	}
	return cmd
}

func (a *app) printReadiness(at time.Time, items []drill.Readiness) error {
	var rows [][]string
	var reasons strings.Builder
	for _, r := range items {
		ready, opens, last := "yes", "now", "-"
		if !r.Ready {
			ready = "no"
		}
		if r.Opens.IsZero() {
			opens = "not within 8 days"
		} else if r.Opens.After(at) {
			opens = r.Opens.Format("Mon 2006-01-02 15:04 MST")
		}
		if l := r.Last; l != nil {
			last = fmt.Sprintf("%s %s, %s ago", l.Kind, l.Outcome, since(at, l.EndedAt))
		}
		rows = append(rows, []string{string(r.Region), ready, dash(r.Forecast.Verdict), fullest(r.Forecast), opens, last})
		for _, b := range r.Blocks {
			reasons.WriteString(wrapped(fmt.Sprintf("%s: %s: %s", r.Region, b.Cause, b.Text), "  ", "    "))
		}
	}
	if err := a.table([]string{"REGION", "READY", "DRY RUN", "FULLEST", "OPENS", "LAST DRILL"}, rows); err != nil || reasons.Len() == 0 {
		return err
	}
	return a.printf("\nWhat is against it\n%s", reasons.String())
}

// fullest is the survivor that would be, as "eu-a 71 %"; a dash where none is known.
func fullest(f drill.Forecast) string {
	if len(f.Survivors) == 0 {
		return "-"
	}
	return fmt.Sprintf("%s %.0f %%", f.Survivors[0].Cluster, 100*f.Survivors[0].With)
}

func (a *app) drillCalendar() *cobra.Command {
	var from, until string
	var limit int
	cmd := &cobra.Command{
		Use: "calendar [PLAN]", Short: "Show when schedules begin drills, and what would refuse them", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeDrillPlans(),
		Long: `Show when schedules of DrillPlans begin drills, and whether a window or a blackout of safety rules would
refuse one, as they are now. Times within a plan's own blackouts are not shown: nothing is made then. LOCAL is
the time that clocks of the schedule's time zone show.`,
		Example: "  anabranch drill calendar\n  anabranch drill calendar lose-eu --from 2027-03-01 --until 2027-04-01",
	}
	cmd.Flags().StringVar(&from, "from", "", "the beginning: 2026-12-01 or 2026-12-01T12:00:00Z; now, unless it is given")
	cmd.Flags().StringVar(&until, "until", "", "the end, which is no part of it; 31 days later, unless it is given")
	cmd.Flags().IntVar(&limit, "limit", 50, "show so many")
	a.mayBeStale(cmd)
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		query := url.Values{"limit": {strconv.Itoa(limit)}}
		for name, v := range map[string]string{"from": from, "until": until, "plan": strings.Join(args, "")} {
			if v != "" {
				query.Set(name, v)
			}
		}
		c, err := a.connect("")
		if err != nil {
			return err
		}
		var all drillsAhead
		if tabled, err := a.answer(cmd.Context(), c, "/v1/drills/calendar", query, *format, &all); !tabled {
			return err
		}
		return a.printCalendar(all)
	}
	return cmd
}

// drillsAhead are what schedules begin, as far as the command shows it.
type drillsAhead struct {
	Items []struct {
		Plan     string        `json:"plan"`
		Kind     string        `json:"kind"`
		At       time.Time     `json:"at"`
		Ends     time.Time     `json:"ends"`
		TimeZone string        `json:"timeZone"`
		Refused  []drill.Block `json:"refused"`
		ID       string        `json:"id"`
		State    string        `json:"state"`
		Approved bool          `json:"approved"`
	} `json:"items"`
	More bool `json:"more"`
}

func (a *app) printCalendar(all drillsAhead) error {
	if len(all.Items) == 0 {
		return a.printf("no schedule begins a drill in that time\n")
	}
	var rows [][]string
	var reasons strings.Builder
	for _, one := range all.Items {
		local := one.TimeZone
		if zone, err := time.LoadLocation(one.TimeZone); err == nil {
			local = one.At.In(zone).Format("Mon 15:04 ") + one.TimeZone
		}
		refused, approved := "-", "no"
		if len(one.Refused) > 0 {
			refused = string(one.Refused[0].Cause)
			reasons.WriteString(wrapped(fmt.Sprintf("%s at %s: %s", one.Plan, one.At.Format(time.RFC3339), one.Refused[0].Text), "  ", "    "))
		}
		if one.Approved {
			approved = "series"
		}
		rows = append(rows, []string{one.At.Format(time.RFC3339), local, one.Plan, one.Kind, one.Ends.Sub(one.At).Round(time.Minute).String(), refused, approved, dash(one.ID), dash(one.State)})
	}
	if err := a.table([]string{"AT", "LOCAL", "PLAN", "KIND", "TAKES", "REFUSED BY", "APPROVED", "DRILL", "STATE"}, rows); err != nil {
		return err
	}
	if all.More {
		if err := a.printf("there are more; --limit shows them\n"); err != nil {
			return err
		}
	}
	if reasons.Len() > 0 {
		return a.printf("\nWhat would refuse them\n%s", reasons.String())
	}
	return nil
}
