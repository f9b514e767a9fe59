package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
)

func (a *app) capacity() *cobra.Command {
	var survive, demand, cluster string
	cmd := &cobra.Command{
		Use:   "capacity MODEL",
		Short: "Say how many replicas a model needs where, and why",
		Long: `Say how many replicas each cluster needs, so that the first token comes within the objectives of the
model's classes, and why. Demand is placed by distance, price and rules as if there were room everywhere:
what is served far away only because home is full counts at home. LOAD is to what part the present replicas
would be used, MOST to what part they may be. A cluster's number is of all models that it serves together.

What is wanted rises at once and falls after five minutes in which less was enough. --survive wants enough
after the loss of any cluster or region, when what moves finds cold caches; without it the policies say.`,
		Example: `  anabranch capacity llama-3.1-70b
  anabranch capacity llama-3.1-70b --survive region
  anabranch capacity llama-3.1-70b --demand peak --cluster us-east-1-a -o json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeOne(func(ctx context.Context, begun string) []string { return a.names(ctx, "model", begun) }),
	}
	cmd.Flags().StringVar(&survive, "survive", "", "the `loss` to have enough for: none, cluster or region; without it as policies say")
	cmd.Flags().StringVar(&demand, "demand", "", "`now` with its rise (default), or peak: the largest of the last hour")
	cmd.Flags().StringVar(&cluster, "cluster", "", "only this `cluster`")
	a.completeFlag(cmd, "cluster", "cluster")
	for name, words := range map[string][]string{"survive": {policy.SurviveNone, policy.SurviveCluster, policy.SurviveRegion}, "demand": {"now", "peak"}} {
		if err := cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // the flag is there
		}
	}
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.connect("")
		if err != nil {
			return err
		}
		query := url.Values{}
		for name, value := range map[string]string{"survive": survive, "demand": demand, "cluster": cluster} {
			if value != "" {
				query.Set(name, value)
			}
		}
		var raw json.RawMessage
		if err := c.JSON(cmd.Context(), "/v1/models/"+url.PathEscape(args[0])+"/capacity", query, &raw); err != nil {
			return err
		}
		if *format != "table" {
			return a.write(*format, raw)
		}
		var advice plan.Advice
		if err := json.Unmarshal(raw, &advice); err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		return a.printCapacity(advice)
	}
	return cmd
}

// printCapacity prints advice: in a sentence, in a table, and the reasons.
func (a *app) printCapacity(x plan.Advice) error {
	if err := a.printf("%s", wrapped(capacitySentence(x), "", "  ")); err != nil {
		return err
	}
	var rows [][]string
	var reasons []string
	for _, c := range x.Clusters {
		measured := about(c.ReplicaPerS)
		if !c.Measured {
			measured += " believed"
		}
		rows = append(rows, []string{
			string(c.Cluster), strconv.Itoa(c.Replicas), strconv.Itoa(c.Wanted), signed(c.Wanted - c.Replicas), about(c.WorkPerS),
			measured, fmt.Sprintf("%.2f", c.Use), fmt.Sprintf("%.2f", c.MostUse), moneyAnHour(c.ChangePerHour, true),
		})
		reasons = append(reasons, wrapped(fmt.Sprintf("%s: %s", c.Cluster, strings.Join(c.Reasons, "; ")), "  ", "    "))
		if len(c.SharedWith) > 0 {
			var models []string
			for _, m := range c.SharedWith {
				models = append(models, string(m))
			}
			reasons = append(reasons, wrapped("its endpoints serve "+strings.Join(models, ", ")+" too", "    ", "    "))
		}
	}
	if len(rows) == 0 {
		return a.printf("No cluster serves it whose endpoints are known.\n")
	}
	if err := a.table([]string{"CLUSTER", "HAS", "WANTED", "CHANGE", "WORK/S", "A REPLICA", "LOAD", "MOST", "$ AN HOUR"}, rows); err != nil {
		return err
	}
	return a.printf("Because\n%s", strings.Join(reasons, ""))
}

// capacitySentence sums advice up.
func capacitySentence(x plan.Advice) string {
	d := x.Demand
	out := fmt.Sprintf("%s: %d replicas, %d wanted", x.Model, x.Replicas, x.Wanted)
	if x.Wanted != x.Replicas {
		out += ", " + moneyAnHour(x.ChangePerHour, true) + " an hour"
	}
	switch d.Basis {
	case plan.BasisPeak:
		out += fmt.Sprintf("; for %s work/s, the peak of the last hour (%s now)", about(d.CountedPerS), about(d.NowPerS))
	case plan.BasisRise:
		out += fmt.Sprintf("; for %s work/s now and %s that it rises (%s at its peak within the hour)", about(d.NowPerS), about(d.RisePerS), about(d.PeakPerS))
	default:
		out += fmt.Sprintf("; for %s work/s", about(d.CountedPerS))
	}
	if x.Survive != policy.SurviveNone {
		out += ", and after the loss of any " + x.Survive
	}
	if x.Held != "" {
		out += ". Nothing is lowered: " + x.Held
	}
	return out
}

// signed writes a change of a number.
func signed(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%+d", n)
}

// moneyAnHour writes money with what is to be known of it: ~ for an estimate, ? where a price is not known.
func moneyAnHour(m plan.Money, change bool) string {
	if m.Unpriced && m.USD == 0 {
		return "?"
	}
	if change && m.USD == 0 {
		return "-"
	}
	out := fmt.Sprintf("$%.2f", max(m.USD, -m.USD))
	if m.Estimate {
		out = "~" + out
	}
	switch {
	case change && m.USD > 0:
		out = "+" + out
	case m.USD < 0:
		out = "-" + out
	}
	if m.Unpriced {
		out += "+?"
	}
	return out
}

// sortedRegions are those of the clusters in a matrix.
func sortedRegions(s plan.Survival) []string {
	var out []string
	for _, r := range s.Rows {
		for _, h := range r.Clusters {
			out = append(out, string(h.Region))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
