package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"anabranch/sim/quotas"
	"anabranch/sim/report"
	"anabranch/sim/scenario"
)

// ofQuotas names the proof of global quotas among the scenarios, and ofMoney what money buys in some of them.
const (
	ofQuotas = "quotas"
	ofMoney  = "money"
)

func (a *app) simProof() *cobra.Command {
	var o scenario.Options
	var out string
	cmd := &cobra.Command{
		Use:   "proof [SCENARIO…]",
		Short: "Run every scenario that is shipped, and write what came out",
		Long: `Run every scenario that is shipped (or those named) with all policies and seeds, and write what came
out as one Markdown document: what was expected and whether it holds, what does not improve, and the
tables. Named "` + ofMoney + `", and after all scenarios, some are played with several cost preferences, as sim tradeoff
does; named "` + ofQuotas + `", and last of all, global quotas are played beside the schemes that others use. It
fails (exit code 1) if something that is expected does not hold.`,
		Example: `  anabranch sim proof --out RESULTS.md
  anabranch sim proof --traces ~/traces --full mooncake-conversation day
  anabranch sim proof ` + ofQuotas,
		ValidArgs: append(scenario.Examples(), ofMoney, ofQuotas),
	}
	fl := cmd.Flags()
	fl.IntVar(&o.Seeds, "seeds", 0, "how many seeds (default as each scenario says, mostly 5)")
	fl.IntVar(&o.Parallel, "parallel", 0, "how many runs go on at once (default one for each processor)")
	fl.StringVar(&o.Traces, "traces", os.Getenv("TRACES"), "folder of published traces; generators stand in for what isn't there (TRACES)")
	fl.BoolVar(&o.Full, "full", false, "thin no trace; this may take hours")
	fl.StringVar(&out, "out", "", "file to write (default the standard output)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			args = append(scenario.Examples(), ofMoney, ofQuotas)
		}
		if out != "" {
			// What stays in the file until the end is what was there before.
			f, err := os.OpenFile(out, os.O_CREATE|os.O_WRONLY, 0o644)
			if err != nil {
				return fmt.Errorf("--out: %w", err)
			}
			_ = f.Close() // nothing was written
		}
		var all []*scenario.Played
		holds := true
		var limits *quotas.Proof
		var money []*report.Report
		for i, name := range args {
			if name == ofQuotas {
				var err error
				if limits, err = a.proveQuotas(cmd.Context(), o, fmt.Sprintf("%d of %d: %s", i+1, len(args), name)); err != nil {
					return err
				}
				holds = holds && limits.Holds()
				continue
			}
			if name == ofMoney {
				var err error
				if money, err = a.proveMoney(cmd.Context(), o, fmt.Sprintf("%d of %d: %s", i+1, len(args), name)); err != nil {
					return err
				}
				continue
			}
			s, err := readScenario(name)
			if err != nil {
				return err
			}
			began := time.Now()
			bar := a.progress(fmt.Sprintf("%d of %d: %s", i+1, len(args), s.Name))
			o.Progress = bar.tell
			played, err := s.Run(cmd.Context(), o)
			bar.end()
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintf(a.err, "%d of %d: %s: %s\n", i+1, len(args), s.Name, time.Since(began).Round(100*time.Millisecond)) // it is only news
			all, holds = append(all, played), holds && played.Holds()
		}
		write := func(w io.Writer) error { return writeProof(w, all, money, limits) }
		var err error
		if out == "" {
			err = write(a.out)
		} else {
			err = writeFile(out, write)
		}
		if err == nil && !holds {
			err = errors.New("something that the scenarios expect does not hold")
		}
		return err
	}
	return cmd
}

// proveQuotas plays global quotas.
func (a *app) proveQuotas(ctx context.Context, o scenario.Options, title string) (*quotas.Proof, error) {
	began := time.Now()
	bar := a.progress(title)
	p, err := quotas.Prove(ctx, quotas.Options{Seeds: o.Seeds, Parallel: o.Parallel, Progress: bar.tell})
	bar.end()
	if err != nil {
		return nil, fmt.Errorf("play %s: %w", ofQuotas, err)
	}
	_, _ = fmt.Fprintf(a.err, "%s: %s\n", title, time.Since(began).Round(100*time.Millisecond)) // it is only news
	return p, nil
}

// proveMoney plays the scenarios in which prices differ with several cost preferences.
func (a *app) proveMoney(ctx context.Context, o scenario.Options, title string) ([]*report.Report, error) {
	var out []*report.Report
	began := time.Now()
	for _, name := range scenario.Tradeoffs() {
		s, err := readScenario(name)
		if err != nil {
			return nil, err
		}
		bar := a.progress(title + ": " + name)
		o.Progress = bar.tell
		r, err := s.Tradeoff(ctx, o, scenario.Preferences())
		bar.end()
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	_, _ = fmt.Fprintf(a.err, "%s: %s\n", title, time.Since(began).Round(100*time.Millisecond)) // it is only news
	return out, nil
}

// writeProof writes what scenarios came to, what money buys unless it was not asked for, and global quotas unless
// limits is nil.
func writeProof(w io.Writer, all []*scenario.Played, money []*report.Report, limits *quotas.Proof) error {
	if len(all) > 0 {
		if err := scenario.WriteProof(w, all, commandLine(os.Args)); err != nil {
			return err
		}
	}
	if len(money) > 0 {
		if err := scenario.WriteTradeoffs(w, money); err != nil {
			return err
		}
	}
	if limits == nil {
		return nil
	}
	return limits.Write(w)
}
