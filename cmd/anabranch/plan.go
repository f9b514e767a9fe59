package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
)

func (a *app) plan() *cobra.Command {
	var files []string
	var simulate bool
	cmd := &cobra.Command{
		Use:   "plan -f FILE|DIR|-",
		Short: "Say what applying files would do to traffic",
		Long: `Say what applying files would do, and change nothing: what differs, what about it is strange though
allowed, which shares of traffic would move, and what a simulation of the fleet makes of it with the
demand that routers report now.

Each document is judged by the control plane as if it alone were applied. One that refers to what
another document of the same call creates can't be: its differences are told, and no more.

plan explain says why traffic goes where it does, and plan what-if what a loss, other prices, demand or
capacities would do, which no file says. plan survive tells what would be left after each loss.`,
		Example: `  anabranch plan -f policy.yaml
  anabranch plan -f policies/ --simulate=false
  anabranch get cluster us-east-1-a -o yaml | sed 's/^spec:/&\n  drained: true/' | anabranch plan -f -`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(a.planExplain(), a.planWhatIf(), a.planSurvive())
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil, "file, folder, or - for standard input; repeatable")
	cmd.Flags().BoolVar(&simulate, "simulate", true, "compare routing tables, and simulate the fleet; takes seconds for each document")
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(files) == 0 {
			return errNoFiles
		}
		rs, err := a.documents(files)
		if err != nil {
			return err
		}
		c, err := a.connect("")
		if err != nil {
			return err
		}
		out, err := a.rehearseAll(cmd.Context(), c, rs, simulate)
		if err != nil {
			return err
		}
		if *format != "table" {
			return a.write(*format, out)
		}
		for _, r := range out {
			if err := a.printRehearsed(r); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

// rehearsed is what applying one resource would do, as json and yaml show it.
type rehearsed struct {
	difference
	Lint       []policy.Warning   `json:"lint,omitempty"`
	Simulation *client.Simulation `json:"simulation,omitempty"`
	// ApprovalsNeeded is how many others would have to approve it first.
	ApprovalsNeeded int `json:"approvalsNeeded,omitempty"`
	// Note says why the control plane was not asked, or could not judge it.
	Note string `json:"note,omitempty"`
}

func (a *app) rehearseAll(ctx context.Context, c *client.Client, rs []*policy.Resource, simulate bool) ([]rehearsed, error) {
	shelf, err := c.Shelf(ctx)
	if err != nil {
		return nil, err
	}
	steps, problems := shelf.Plan(rs)
	if len(problems) > 0 {
		return nil, errors.New("this would be refused:" + client.Fields(problems))
	}
	out := []rehearsed{}
	bar := a.progress("rehearsing")
	defer bar.end()
	for i, s := range steps {
		bar.tell(float64(i) / float64(len(steps)))
		r := rehearsed{difference: difference{title(s.Resource.Kind, s.Resource.Metadata.Name), s.Outcome, s.Changes}}
		if s.Outcome != client.Unchanged {
			judged, err := c.Rehearse(ctx, s.Resource, simulate)
			var p *client.ProblemError
			switch {
			case err == nil:
				r.Lint, r.Simulation, r.ApprovalsNeeded = judged.Lint, judged.Simulation, judged.ApprovalsNeeded
			case errors.As(err, &p) && p.Status == http.StatusUnprocessableEntity && i > 0:
				r.Note = "It needs documents before it to be applied first, so that nothing more can be told."
			default:
				return nil, fmt.Errorf("%s: %w", r.Resource, err)
			}
		}
		out = append(out, r)
	}
	return out, nil
}

func (a *app) printRehearsed(r rehearsed) error {
	if r.Outcome == client.Unchanged {
		return a.printf("%s %s\n", r.Resource, r.Outcome)
	}
	if err := a.printDifference(r.difference); err != nil {
		return err
	}
	if n := r.ApprovalsNeeded; n > 0 {
		if err := a.printf("  approval: it would be proposed, and needs that of others: %d\n", n); err != nil {
			return err
		}
	}
	if err := a.printLint(r.Lint); err != nil {
		return err
	}
	if r.Note != "" {
		return a.printf("  %s\n", r.Note)
	}
	if r.Simulation == nil {
		return nil
	}
	return a.printSimulation(r.Simulation)
}

func (a *app) printLint(warnings []policy.Warning) error {
	for _, w := range warnings {
		if err := a.printf("  %s %s %s: %s\n      fix: %s\n", a.tinted("33", "warning:"), w.Resource, w.Field, w.Reason, w.Fix); err != nil {
			return err
		}
	}
	return nil
}

// mostMoves is how many moves of weights are printed; -o json shows them all.
const mostMoves = 12

func (a *app) printSimulation(s *client.Simulation) error {
	if len(s.Clusters) == 0 && len(s.Weights) == 0 {
		if err := a.printf("  traffic: no share would move\n"); err != nil {
			return err
		}
	}
	if len(s.Clusters) > 0 {
		if err := a.printf("  share of all traffic:\n"); err != nil {
			return err
		}
		for _, c := range s.Clusters {
			if err := a.printf("    %-24s %6.2f %% → %6.2f %%\n", c.Cluster, 100*c.From, 100*c.To); err != nil {
				return err
			}
		}
	}
	if err := a.printMoves(s.Weights); err != nil {
		return err
	}
	if err := a.printTenants(s.Tenants); err != nil {
		return err
	}
	if err := a.printForecasts(s.Before, s.After); err != nil {
		return err
	}
	if s.Note != "" {
		return a.printf("  %s\n", s.Note)
	}
	return nil
}

// printMoves prints the shares that would move, those of the most traffic first.
func (a *app) printMoves(all []plan.Move) error {
	moves := slices.Clone(all)
	slices.SortStableFunc(moves, func(x, y plan.Move) int { return cmp.Compare(y.WorkPerS, x.WorkPerS) })
	for _, m := range moves[:min(len(moves), mostMoves)] {
		if err := a.printf("  %s, class %s, from %s:\n", m.Model, m.Class, m.Source); err != nil {
			return err
		}
		for _, c := range m.Clusters {
			if err := a.printf("    %-24s %6.2f %% → %6.2f %%\n", c.Cluster, 100*c.From, 100*c.To); err != nil {
				return err
			}
		}
	}
	if left := len(moves) - mostMoves; left > 0 {
		return a.printf("  and %d more; -o json shows them\n", left)
	}
	return nil
}

// printTenants prints who moves, those without a place first.
func (a *app) printTenants(all []plan.TenantMove) error {
	for _, t := range all[:min(len(all), mostMoves)] {
		line := fmt.Sprintf("  tenant %s: %.0f %% of its traffic moves", t.Tenant, 100*t.Moved)
		if len(t.Stranded) > 0 {
			models := make([]string, len(t.Stranded))
			for i, m := range t.Stranded {
				models[i] = string(m)
			}
			line += ", and it has no place for " + strings.Join(models, ", ")
		}
		if err := a.printf("%s\n", line); err != nil {
			return err
		}
	}
	if left := len(all) - mostMoves; left > 0 {
		return a.printf("  and %d more tenants; -o json shows them\n", left)
	}
	return nil
}

// printForecasts prints two forecasts side by side; those that there are.
func (a *app) printForecasts(before, after *client.Forecast) error {
	if before == nil && after == nil {
		return nil
	}
	if before == nil {
		before = &client.Forecast{}
	}
	if after == nil {
		after = &client.Forecast{}
	}
	milliseconds := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprintf("%.0f ms", *v)
	}
	money := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprintf("$%.6f", *v/1e6)
	}
	percent := func(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }
	rows := [][]string{
		{"  requests", strconv.Itoa(before.Requests), strconv.Itoa(after.Requests)},
		{"  first token, P50", milliseconds(before.TTFTP50Ms), milliseconds(after.TTFTP50Ms)},
		{"  first token, P99", milliseconds(before.TTFTP99Ms), milliseconds(after.TTFTP99Ms)},
		{"  within objective", percent(before.Goodput), percent(after.Goodput)},
		{"  shed", percent(before.Shed), percent(after.Shed)},
		{"  failed", percent(before.Failed), percent(after.Failed)},
		{"  cost per answer", money(before.MicroUSDPerAnswer), money(after.MicroUSDPerAnswer)},
	}
	return a.table([]string{"  SIMULATED", "BEFORE", "AFTER"}, rows)
}
