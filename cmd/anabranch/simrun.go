package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"anabranch/sim/report"
	"anabranch/sim/scenario"
)

func (a *app) simRun() *cobra.Command {
	var o scenario.Options
	var out string
	var figures []string
	cmd := &cobra.Command{
		Use:   "run SCENARIO",
		Short: "Run a scenario with several policies, and compare them",
		Long: `Run a scenario with several policies, and compare them. SCENARIO is the name of one that is shipped
(see ` + "`anabranch sim list`" + `) or a file.

Every policy meets the same requests, once for each seed; figures are means with 95 % confidence
intervals over seeds. It fails (exit code 1) if something that the scenario expects does not hold.
Goals of a scenario are shown as met or missed, and fail nothing.

--out writes, for each variant, the report as text, Markdown, CSV, JSON and one HTML page that opens
without a network. Two JSON files are compared by ` + "`anabranch replay --compare`" + `.`,
		Example: `  anabranch sim run prefix-long
  anabranch sim run three-regions --variant load-85-news-5s --policy ours,greedy,aws-gig --seeds 10
  anabranch sim run uniform --policy all --out report/`,
		Args: cobra.ExactArgs(1), ValidArgs: scenario.Examples(),
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&o.Policies, "policy", nil, "policies to compare, or all (default those of the scenario)")
	fl.StringSliceVar(&o.Variants, "variant", nil, "variants to run (default all)")
	fl.IntVar(&o.Seeds, "seeds", 0, "how many seeds (default as the scenario says, mostly 5)")
	fl.IntVar(&o.Parallel, "parallel", 0, "how many runs go on at once (default one for each processor)")
	fl.StringVar(&o.Traces, "traces", os.Getenv("TRACES"), "folder of published traces; generators stand in for what isn't there (TRACES)")
	fl.StringVar(&out, "out", "", "folder to write reports to")
	fl.StringSliceVar(&figures, "figure", nil, "figures to show, such as ttftMs.p99 (default the most telling; all are in the files)")
	for flag, values := range map[string][]string{"policy": append([]string{"all"}, scenario.Policies()...), "figure": metricKeys()} {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := readScenario(args[0])
		if err != nil {
			return err
		}
		if slices.Equal(o.Policies, []string{"all"}) {
			o.Policies = scenario.Policies()
		}
		for _, key := range figures {
			if _, err := report.Lookup(key); err != nil {
				return fmt.Errorf("--figure: %w", err)
			}
		}
		if err := makeFolder(out); err != nil {
			return err
		}
		bar := a.progress("running " + s.Name)
		o.Progress = bar.tell
		played, err := s.Run(cmd.Context(), o)
		bar.end()
		if err != nil {
			return err
		}
		for i := range played.Variants {
			v := &played.Variants[i]
			v.Report.Command = commandLine(os.Args)
			if err := a.printVariant(v, i, figures); err != nil {
				return err
			}
			if err := writeReports(out, s, v); err != nil {
				return err
			}
		}
		if !played.Holds() {
			return errors.New("something that the scenario expects does not hold")
		}
		return nil
	}
	return cmd
}

func metricKeys() []string {
	var keys []string
	for _, m := range report.Metrics() {
		keys = append(keys, m.Key)
	}
	return keys
}

// commandLine is how the program was called, for those who want to do it again, without its token.
func commandLine(args []string) string {
	words := []string{filepath.Base(args[0])}
	hide := false
	for _, arg := range args[1:] {
		_, given := strings.CutPrefix(arg, "--token=")
		if !hide && !given && arg != "--token" {
			if strings.ContainsAny(arg, " \t\n'\"\\$&;|<>()*?`") {
				arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
			}
			words = append(words, arg)
		}
		hide = !hide && arg == "--token"
	}
	return strings.Join(words, " ")
}

// printVariant shows one variant's report and how its checks came out.
func (a *app) printVariant(v *scenario.PlayedVariant, i int, figures []string) error {
	if i > 0 {
		if err := a.printf("\n\n"); err != nil {
			return err
		}
	}
	if err := v.Report.Text(a.out, report.Options{Columns: figures, Bold: a.color}); err != nil {
		return err
	}
	if text := v.PeakText(); text != "" {
		if err := a.printf("\n%s\n", text); err != nil {
			return err
		}
	}
	for _, policy := range scenario.Policies() {
		if v.Found[policy] == nil {
			continue
		}
		if err := a.printf("\n%s was searched: %s\n", policy, v.FoundText(policy)); err != nil {
			return err
		}
	}
	if len(v.Verdicts) > 0 {
		if err := a.printf("\n"); err != nil {
			return err
		}
	}
	for _, j := range v.Verdicts {
		if err := a.printf("%s\n", j.Text()); err != nil {
			return err
		}
	}
	return nil
}

// writeReports writes a variant's report in all formats into a folder. Out empty: it does nothing.
func writeReports(out string, s *scenario.Scenario, v *scenario.PlayedVariant) error {
	name := s.Name
	if v.Name != "" {
		name += "-" + v.Name
	}
	return writeReport(out, name, v.Report)
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		_ = f.Close() // the first error counts
		return fmt.Errorf("write %s: %w", path, err)
	}
	return f.Close()
}

func (a *app) simExplain() *cobra.Command {
	var o scenario.Options
	var policy, variant string
	var seed uint64
	cmd := &cobra.Command{
		Use:   "explain SCENARIO REQUEST",
		Short: "Say where a request of a simulation went and why",
		Long: `Say where a request of a simulation went and why. REQUEST is its number, from 1 in the order of the
workload. The scenario is run again as it was: the same seed gives the same result.`,
		Example: `  anabranch sim explain prefix-long 4711 --variant skew-1.0
  anabranch sim explain three-regions 100 --variant load-85-news-5s --policy greedy --seed 3`,
		Args: cobra.ExactArgs(2),
	}
	fl := cmd.Flags()
	fl.StringVar(&policy, "policy", scenario.Ours, "whose decisions")
	fl.StringVar(&variant, "variant", "", "which variant (default the first)")
	fl.Uint64Var(&seed, "seed", 1, "which seed")
	fl.StringVar(&o.Traces, "traces", os.Getenv("TRACES"), "folder of published traces (TRACES)")
	_ = cmd.RegisterFlagCompletionFunc("policy", cobra.FixedCompletions(scenario.Policies(), cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	format := formats(cmd, "text", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := readScenario(args[0])
		if err != nil {
			return err
		}
		id, err := strconv.ParseUint(args[1], 10, 64)
		if err != nil {
			return fmt.Errorf("request %q is no number", args[1])
		}
		bar := a.progress("running " + s.Name)
		o.Progress = bar.tell
		told, err := s.Explain(cmd.Context(), o, variant, policy, seed, id)
		bar.end()
		if err != nil {
			return err
		}
		if *format != "text" {
			return a.write(*format, told)
		}
		return told.Print(a.out)
	}
	return cmd
}

// progress is a bar on a terminal, and nothing elsewhere.
type progress struct{ bar *progressbar.ProgressBar }

func (a *app) progress(what string) progress {
	if !terminal(a.err) {
		return progress{}
	}
	return progress{progressbar.NewOptions(
		progressSteps,
		progressbar.OptionSetWriter(a.err), progressbar.OptionSetDescription(what), progressbar.OptionClearOnFinish(),
		progressbar.OptionShowDescriptionAtLineEnd(), progressbar.OptionSetWidth(30), progressbar.OptionSetPredictTime(true),
	)}
}

const progressSteps = 1000

func (p progress) tell(done float64) {
	if p.bar != nil {
		_ = p.bar.Set(int(done * progressSteps)) // a bar that can't be shown is no reason to stop
	}
}

func (p progress) end() {
	if p.bar != nil {
		_ = p.bar.Finish() // as above
	}
}
