package main

import (
	"os"

	"github.com/spf13/cobra"

	"anabranch/sim/report"
	"anabranch/sim/scenario"
)

func (a *app) simTradeoff() *cobra.Command {
	var o scenario.Options
	var out, variant string
	var preferences []float64
	cmd := &cobra.Command{
		Use:   "tradeoff SCENARIO",
		Short: "Show what latency costs: money against time to the first token",
		Long: `Play a scenario by Anabranch's policy once for each cost preference, from latency first (0) to cost first
(1), and show what the work of an answer costs beside the time to its first token. SCENARIO is the name of one
that is shipped or a file; what it says of cost preferences does not count.

The last row is the oracle's, which sees all queues and caches as they are and cares for no money: about the
least latency that there is. Cost over bound is held against the least that the same work could cost, whatever
becomes of latency.

Choose the objective of a TrafficPolicy by it: the first preference at which a step more saves little money or
costs more latency than its users should notice.`,
		Example: `  anabranch sim tradeoff day --variant frugal --traces ~/traces
  anabranch sim tradeoff three-regions --variant load-68-news-5s --preference 0,0.5,1 --seeds 3 -o markdown
  anabranch sim show day > mine.yaml && anabranch sim tradeoff mine.yaml --out report/`,
		Args: cobra.ExactArgs(1), ValidArgs: scenario.Examples(),
	}
	fl := cmd.Flags()
	fl.Float64SliceVar(&preferences, "preference", scenario.Preferences(), "cost preferences to play")
	fl.StringVar(&variant, "variant", "", "which variant (default the first)")
	fl.IntVar(&o.Seeds, "seeds", 0, "how many seeds (default as the scenario says, mostly 5)")
	fl.IntVar(&o.Parallel, "parallel", 0, "how many runs go on at once (default one for each processor)")
	fl.StringVar(&o.Traces, "traces", os.Getenv("TRACES"), "folder of published traces; generators stand in for what isn't there (TRACES)")
	fl.StringVar(&out, "out", "", "folder to write the report to, in all formats")
	format := formats(cmd, "text", "markdown")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := readScenario(args[0])
		if err != nil {
			return err
		}
		if variant != "" {
			o.Variants = []string{variant}
		}
		if err := makeFolder(out); err != nil {
			return err
		}
		bar := a.progress("running " + s.Name)
		o.Progress = bar.tell
		r, err := s.Tradeoff(cmd.Context(), o, preferences)
		bar.end()
		if err != nil {
			return err
		}
		r.Command = commandLine(os.Args)
		if err := writeReport(out, s.Name+"-tradeoff", r); err != nil {
			return err
		}
		if *format == "markdown" {
			for _, text := range r.About {
				if err := a.printf("%s\n\n", text); err != nil {
					return err
				}
			}
			return r.Table(a.out, scenario.TradeoffFigures())
		}
		return r.Text(a.out, report.Options{Columns: scenario.TradeoffFigures(), Bold: a.color})
	}
	return cmd
}
