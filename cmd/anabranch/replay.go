package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"anabranch/sim/replay"
	"anabranch/sim/report"
	"anabranch/sim/workload"
)

// replayFlags are the flags of the command as they stand.
type replayFlags struct {
	options replay.Options
	trace   workload.TraceOptions

	// Where requests go, and as whom.
	targets []string
	keys    map[string]string

	// What is sent.
	format, lengths, variant, traces string
	model                            string
	regions, tenants                 []string
	shifts                           map[string]string
	regionMap, tenantMap, modelMap   map[string]string

	// What is told of it.
	warmup, firstToken, interToken time.Duration
	price                          float64
	name, out                      string
	figures                        []string
	compare                        bool
}

func (a *app) replay() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay TRACE | SCENARIO",
		Short: "Send a trace or a scenario's workload as real HTTP, on time",
		Long: `Send a trace, or the workload of a scenario, as real HTTP to routers or to any URL with OpenAI's API.

Requests are sent when they are due, whatever became of those before (but for clients that wait for
their answers), and latencies count from then, so that a target that is slow to accept can't hide it.
Prompts are made such that what shares blocks in the trace really shares text. The report is that of
` + "`anabranch sim run`" + `, so that a simulation and reality stand side by side: --compare sends nothing, and
sets two saved reports against each other.

TRACE is a file in the format of Mooncake (JSON lines) or Azure (CSV), or with --lengths the two
tables of ServeGen's clients; all may be compressed. SCENARIO is a name of ` + "`anabranch sim list`" + ` or a
file, whose workload is sent to a fleet of your own.

Without --target the routers of ` + "`anabranch dev`" + ` in this folder are asked, with the keys of its tenants.
API keys of other targets are read from ANABRANCH_API_KEY, or from a file for each tenant (--key); they
get into no report. Ctrl-C ends sending, and what was done until then is reported. The exit code is 1
then, and if nothing was answered.`,
		Example: `  anabranch replay conversation_trace.jsonl.gz --grid 3s --requests 500 --speedup 4
  anabranch replay code.csv --target http://127.0.0.1:8000 --model my-model --api completions
  anabranch replay clients.csv.gz --lengths lengths.csv.gz --length 10m --shift eu-west-1=6h
  anabranch replay prefix-long --variant even --model llama-3.1-8b --requests 300 --out report/
  anabranch replay --compare simulated.json replayed.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.compare && len(f.targets) > 0:
				return errors.New("--compare sends nothing: leave out --target")
			case f.compare:
				return cobra.ExactArgs(2)(cmd, args)
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
	}
	f.add(cmd)
	format := formats(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, key := range f.figures {
			if _, err := report.Lookup(key); err != nil {
				return fmt.Errorf("--figure: %w", err)
			}
		}
		if f.compare {
			return a.compareReports(args[0], args[1], &f, *format)
		}
		w, err := f.prepare(cmd, args[0])
		if err != nil {
			return err
		}
		return a.send(cmd.Context(), w, &f, *format)
	}
	return cmd
}

// add declares the flags.
func (f *replayFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringSliceVar(&f.targets, "target", nil, "URL to send to, or REGION=URL for each region (default the routers of anabranch dev)")
	fl.StringToStringVar(&f.keys, "key", nil, "TENANT=FILE that holds its API key, for each tenant (one for all: ANABRANCH_API_KEY)")
	fl.StringVar((*string)(&f.options.API), "api", string(replay.Chat), "chat or completions")
	fl.StringVar(&f.model, "model", "", "model to ask for, whatever the trace says (default its own, or the only one that is served)")
	fl.IntVar(&f.options.InFlight, "in-flight", 1024, "most requests on their way at once")
	fl.DurationVar(&f.options.Timeout, "timeout", 10*time.Minute, "longest that a request may take")
	fl.BoolVar(&f.options.IgnoreEOS, "ignore-eos", false, "ask for answers of just the trace's lengths, as vLLM and SGLang can")
	fl.BoolVar(&f.options.Priority, "priority", false, "send the workload's priorities")

	fl.Float64Var(&f.options.Speedup, "speedup", 1, "play so many times as fast")
	fl.IntVar(&f.trace.Requests, "requests", 0, "most requests to send (0: all)")
	fl.DurationVar(&f.trace.From, "from", 0, "begin so late in the trace")
	fl.DurationVar(&f.trace.Length, "length", 0, "use so much of the trace (0: to its end)")
	fl.Float64Var(&f.trace.Thin, "thin", 1, "share of the trace's requests to send; conversations stay whole")
	fl.Uint64Var(&f.trace.Seed, "seed", 1, "decides what the trace or the scenario leaves open")
	fl.DurationVar(&f.trace.Grid, "grid", 0, "step to which the trace's times were rounded down (3s in Mooncake's conversations)")
	fl.IntVar(&f.trace.Prompt.Cap, "max-prompt", 0, "cut the trace's prompts to so many tokens (0: don't)")
	fl.IntVar(&f.trace.Output.Cap, "max-output", 0, "cut the trace's answers to so many tokens (0: don't)")
	fl.StringVar(&f.format, "format", "", "mooncake, azure or servegen (default by the file's name)")
	fl.StringVar(&f.lengths, "lengths", "", "ServeGen's table of lengths")
	fl.StringVar(&f.traces, "traces", os.Getenv("TRACES"), "folder of published traces, for scenarios that use them (TRACES)")
	fl.StringVar(&f.variant, "variant", "", "variant of the scenario (default the first)")

	fl.StringSliceVar(&f.regions, "region", nil, "REGION=WEIGHT for each region that requests come from (default those of the targets)")
	fl.StringToStringVar(&f.shifts, "shift", nil, "REGION=DURATION by which a region's requests come later: its time zone")
	fl.StringSliceVar(&f.tenants, "tenant", nil, "TENANT=WEIGHT for each tenant that asks (default those of --key, or acme of anabranch dev)")
	fl.StringToStringVar(&f.regionMap, "region-map", nil, "NAME=REGION for ServeGen's clients, such as m-large/3=eu-west-1, or for a scenario's regions")
	fl.StringToStringVar(&f.tenantMap, "tenant-map", nil, "NAME=TENANT for ServeGen's clients, or for a scenario's tenants")
	fl.StringToStringVar(&f.modelMap, "model-map", nil, "NAME=MODEL for ServeGen's models, others are left out, or for a scenario's models")

	fl.DurationVar(&f.warmup, "warmup", 0, "leave so much of the beginning out of the report (default as the scenario says, unless little is sent after it)")
	fl.DurationVar(&f.firstToken, "ttft", 0, "objective of the time to first token, for goodput (default as the scenario says, or 2s)")
	fl.DurationVar(&f.interToken, "itl", 0, "objective of the mean time between tokens, for goodput (default as the scenario says, or 100ms)")
	fl.Float64Var(&f.price, "price", 0, "what all of the target's GPUs together cost, in dollars an hour (0: unknown)")
	fl.StringVar(&f.name, "name", "replay", "what the run is called beside policies, such as ours to compare it with a simulation")
	fl.StringVar(&f.out, "out", "", "folder to write reports to: text, Markdown, CSV, JSON and one HTML page")
	fl.StringSliceVar(&f.figures, "figure", nil, "figures to show, such as ttftMs.p99 (default the most telling; all are in the files)")
	fl.BoolVar(&f.compare, "compare", false, "send nothing; compare two JSON reports")
	for flag, values := range map[string][]string{"api": {string(replay.Chat), string(replay.Completions)}, "format": traceFormats, "figure": metricKeys()} {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	}
}

// prepare makes sure that all is there: what is to be sent, and who takes it.
func (f *replayFlags) prepare(cmd *cobra.Command, what string) (*replayWork, error) {
	if err := f.address(cmd.Context()); err != nil {
		return nil, err
	}
	if err := f.complete(); err != nil {
		return nil, err
	}
	w, err := f.work(cmd, what)
	if err != nil {
		return nil, err
	}
	served, err := f.reach(cmd.Context())
	if err != nil {
		return nil, err
	}
	return w, f.fit(w, served)
}

// complete checks the options, and puts into their place what flags have in forms of their own.
func (f *replayFlags) complete() error {
	if err := f.options.Validate(); err != nil {
		return named(err)
	}
	switch {
	case f.warmup < 0:
		return fmt.Errorf("--warmup: is %v: set 0 or more", f.warmup)
	case f.firstToken < 0 || f.interToken < 0:
		return fmt.Errorf("--ttft, --itl: are %v and %v: set 0 or more", f.firstToken, f.interToken)
	case !(f.price >= 0 && f.price <= 1e6):
		return fmt.Errorf("--price: is %v: set 0 to a million dollars an hour", f.price)
	case f.name == "":
		return errors.New("--name: is empty: call the run something")
	}
	if err := f.shares(); err != nil {
		return err
	}
	if err := f.trace.Validate(); err != nil {
		return named(err)
	}
	return nil
}

// send replays the workload and reports what came of it, also when it is ended before its end.
func (a *app) send(ctx context.Context, w *replayWork, f *replayFlags, format string) error {
	if err := makeFolder(f.out); err != nil {
		return err
	}
	source, err := w.open()
	if err != nil {
		return err
	}
	s := sent{work: w, flags: f}
	bar := progress{}
	switch {
	case w.total() > 0:
		bar = a.progress(fmt.Sprintf("sending %d requests", w.total()))
	case terminal(a.err):
		fmt.Fprintf(a.err, "sending more than %d requests; Ctrl-C ends it and reports\n", measured)
	}
	s.summary, err = replay.Run(ctx, source, f.options, func(r replay.Record) {
		s.records = append(s.records, r)
		bar.tell(float64(len(s.records)) / float64(max(w.total(), 1)))
	})
	bar.end()
	stopped := errors.Is(err, context.Canceled)
	if stopped {
		err = fmt.Errorf("stopped after %d requests", s.summary.Sent)
	}
	if s.summary.Sent == 0 {
		return cmp.Or(err, errors.New("the trace has no requests: check --from, --length and --thin"))
	}
	r := s.report()
	if e := a.tellReport(r, format, f.figures); e != nil {
		return errors.Join(err, e)
	}
	if e := writeReport(f.out, w.name, r); e != nil {
		return errors.Join(err, e)
	}
	if err == nil && s.summary.OK == 0 {
		err = errors.New(strings.TrimSpace("no request was answered: " + s.codes() + " " + w.unlisted))
	}
	return err
}

// tellReport prints a report.
func (a *app) tellReport(r *report.Report, format string, figures []string) error {
	if format == "json" {
		return r.WriteJSON(a.out)
	}
	return r.Text(a.out, report.Options{Columns: figures, Bold: a.color})
}
