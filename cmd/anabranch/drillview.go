package main

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
	"anabranch/failover/drill"
)

func (a *app) drillList() *cobra.Command {
	var state, plan, outcome string
	cmd := &cobra.Command{
		Use: "list", Short: "List the drills that are remembered, newest first", Args: cobra.NoArgs,
		Long:    "List the drills that are remembered, newest first: what they did, where they stand, and how they ended.",
		Example: "  anabranch drill list\n  anabranch drill list --plan lose-eu --outcome FAILED -o json",
	}
	cmd.Flags().StringVar(&state, "state", "", "only those in this state, as in PENDING_APPROVAL")
	cmd.Flags().StringVar(&plan, "plan", "", "only runs of this DrillPlan")
	cmd.Flags().StringVar(&outcome, "outcome", "", "only those that ended so, as in SUCCEEDED")
	a.mayBeStale(cmd)
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		query := url.Values{}
		for name, v := range map[string]string{"state": strings.ToUpper(state), "plan": plan, "outcome": strings.ToUpper(outcome)} {
			if v != "" {
				query.Set(name, v)
			}
		}
		c, err := a.connect("")
		if err != nil {
			return err
		}
		list, err := c.Drills(cmd.Context(), query)
		if err != nil {
			return err
		}
		if *format != "table" {
			return a.write(*format, map[string]any{"items": list})
		}
		var rows [][]string
		for _, d := range list {
			rows = append(rows, []string{
				d.ID, dash(d.Plan), d.Kind, string(d.State), dash(string(d.Outcome)), dash(d.Cause), d.Creator.Name,
				fmt.Sprintf("%d of %d", len(d.Approvals), d.ApprovalsNeeded), timeOr(d.StartedAt, "-"), timeOr(d.EndedAt, "-"),
			})
		}
		return a.table([]string{"ID", "PLAN", "KIND", "STATE", "OUTCOME", "CAUSE", "BY", "APPROVED", "STARTED", "ENDED"}, rows)
	}
	return cmd
}

func timeOr(at time.Time, none string) string {
	if at.IsZero() {
		return none
	}
	return at.Format(time.RFC3339)
}

func (a *app) drillShow() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show [ID]", Short: "Show a drill, the one under way if none is named", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeItems("/v1/drills"),
		Long:    "Show a drill, the one under way if none is named: what the dry run found, who has approved it, and what has\nhappened since.",
		Example: "  anabranch drill show\n  anabranch drill show 4711 -o yaml",
	}
	a.mayBeStale(cmd)
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.connect("")
		if err != nil {
			return err
		}
		id, err := drillID(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		d, err := c.Drill(cmd.Context(), id)
		if err != nil {
			return err
		}
		if *format != "table" {
			return a.write(*format, d)
		}
		return a.printDrill(d)
	}
	return cmd
}

func (a *app) printDrill(d *client.Drill) error {
	state := fmt.Sprintf("%s since %s", d.State, d.StateSince.Format(time.RFC3339))
	if d.Outcome != "" {
		state = join(" ", string(d.Outcome), prefixed("(", d.Cause, ")")) + ", " + state
	}
	var approved []string
	for _, w := range d.Approvals {
		approved = append(approved, join(" ", w.Name, prefixed("(", w.Reason, ")")))
	}
	if d.BrokenGlass != nil {
		approved = append(approved, fmt.Sprintf("the glass was broken by %s: %s", d.BrokenGlass.Actor, d.BrokenGlass.Reason))
	}
	err := a.printf("drill     %s%s\nkind      %s\nstate     %s\nreason    %s\nby        %s at %s\napproved  %d of %d%s\nplan      %s\n",
		d.ID, prefixed(" of ", d.Plan, ""), d.Kind, state, dash(d.Reason), d.Creator.Name, d.CreatedAt.Format(time.RFC3339),
		len(d.Approvals), d.ApprovalsNeeded, prefixed(", ", strings.Join(approved, ", "), ""), dash(d.PlanSHA256))
	if err != nil {
		return err
	}
	if d.Forecast != nil {
		if err := a.printDryRun(d.Resolved, d.Forecast); err != nil {
			return err
		}
	}
	for _, e := range d.Events {
		if err := a.printf("%s\n", eventLine(e)); err != nil {
			return err
		}
	}
	return nil
}

func eventLine(e client.DrillEvent) string {
	return visible(join("  ", e.At.Local().Format("15:04:05"), fmt.Sprintf("%-12s", e.State), fmt.Sprintf("%-10s", e.Kind), e.Text, prefixed("by ", e.Actor, "")))
}

// printDryRun tells what a dry run found.
func (a *app) printDryRun(r *drill.Resolved, f *drill.Forecast) error {
	if r != nil {
		if err := a.printf("takes out %s\n", dash(joined(r.Clusters))); err != nil {
			return err
		}
	}
	if err := a.printf("verdict   %s: a moved request is %.2g times the work\ncost      %+.4f $ a minute\n", f.Verdict, f.ColdFactor, float64(f.MicrosPerMinuteMore)/1e6); err != nil {
		return err
	}
	if f.TTFTP95Ms > 0 {
		if err := a.printf("ttft p95  %.0f ms before, %.0f ms with the drill, of what moves\n", f.TTFTP95BeforeMs, f.TTFTP95Ms); err != nil {
			return err
		}
	}
	var rows [][]string
	for _, s := range f.Survivors {
		measured := "measured"
		if !s.Measured {
			measured = "configured"
		}
		rows = append(rows, []string{string(s.Cluster), string(s.Region), fmt.Sprintf("%.0f %%", 100*s.Before), fmt.Sprintf("%.0f %%", 100*s.With), measured})
	}
	if len(rows) > 0 {
		if err := a.table([]string{"STAYS", "REGION", "LOAD NOW", "WITH DRILL", "CAPACITY"}, rows); err != nil {
			return err
		}
	}
	for _, s := range f.Stranded {
		if err := a.printf("stranded  tenant %s has no legal place for %s: %s\n", s.Tenant, s.Model, s.Why); err != nil {
			return err
		}
	}
	for _, s := range f.Slower {
		if err := a.printf("slower    %s: first tokens of %s, %s from %s at %.0f ms, %.0f ms of it by distance, and owed within %.0f ms\n",
			cmp.Or(string(s.Tenant), "everybody"), s.Model, s.Class, s.Source, s.TTFTMs, s.AddedMs, s.ObjectiveMs); err != nil {
			return err
		}
	}
	for _, n := range append(append([]string{}, f.Quotas...), f.Notes...) {
		if err := a.printf("note      %s\n", n); err != nil {
			return err
		}
	}
	return nil
}

func joined[T ~string](names []T) string {
	var all []string
	for _, n := range names {
		all = append(all, string(n))
	}
	return strings.Join(all, ", ")
}

// printReport tells the most important of a report.
func (a *app) printReport(raw []byte) error {
	r, err := drill.Decode(raw)
	if err != nil {
		return err
	}
	sum, err := drill.Sum(raw)
	if err != nil {
		return err
	}
	all := r.During.All
	if err := a.printf("drill     %d%s, %s\noutcome   %s%s\nrecovery  detect %s, decide %s, propagate %s, 50 %% away %s, 99 %% away %s\nrequests  %d: %d retried and answered, %d shed, %d over quota, %d lost, %d ended mid-stream\npeak      %.0f %% at %s\nextra     %s\nsha256    %s\nbefore    %s\n",
		r.ID, prefixed(" of ", r.Plan, ""), r.Kind, r.Outcome, prefixed(" (", r.Cause, ")"),
		took(r.Recovery.DetectMs), took(r.Recovery.DecideMs), took(r.Recovery.PropagateMs), took(r.Recovery.HalfMs), took(r.Recovery.NinetyNineMs),
		all.Total, all.Retried, all.Shed, all.Limited, all.Lost, all.Broken,
		100*r.During.PeakSaturation, dash(string(r.During.PeakCluster)), micros(r.Money.Extra), hex.EncodeToString(sum[:]), dash(r.PreviousSHA256)); err != nil {
		return err
	}
	for _, w := range r.Wrong {
		if err := a.printf("wrong     %s\n", w.Text); err != nil {
			return err
		}
	}
	var rows [][]string
	for _, p := range []struct {
		name string
		drill.Phase
	}{{"before", r.Before}, {"during", r.During}, {"after", r.After}} {
		for _, t := range p.Tiers {
			if q := t.TTFT; q != nil {
				rows = append(rows, []string{t.Tier, p.name, strconv.FormatInt(t.Total, 10), fmt.Sprintf("%.0f", q.P50), fmt.Sprintf("%.0f", q.P95), fmt.Sprintf("%.0f", q.P99)})
			}
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return a.table([]string{"TIER", "PART", "REQUESTS", "TTFT P50 MS", "P95", "P99"}, rows)
}

// took is a time of a recovery.
func took(v *int64) string {
	if v == nil {
		return "-"
	}
	return (time.Duration(*v) * time.Millisecond).String()
}

// micros is money, in micro-dollars.
func micros(v *int64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.4f $", float64(*v)/1e6)
}
