package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"anabranch/api/fleet"
	"anabranch/sim/report"
	"anabranch/sim/scenario"
	"anabranch/sim/workload"
)

const (
	// maxTrace bounds a file of traces, compressed or not.
	maxTrace = 256 << 20
	// measured is how many requests are looked at before they are sent, and answerTakes what each is
	// taken to need then, for clients that wait.
	measured    = 30_000
	answerTakes = 3 * time.Second
)

// replayWork is what is to be sent.
type replayWork struct {
	// name of the trace or the scenario, for files and titles.
	name string
	// begin starts the workload from its beginning, as it was published or written.
	begin func() (workload.Source, error)
	// change is made to every request; nil: none. Nothing comes at end or later; 0: no end.
	change func(*workload.Request)
	end    time.Duration
	// warmup is not reported. Objectives by model are the scenario's; nil: it is a trace.
	warmup     time.Duration
	objectives map[string]report.Objective
	stats      workload.Stats
	// unlisted says which models the target doesn't list, which it may serve all the same: an alias.
	// Empty: it lists all, or has no list.
	unlisted string
}

// total is how many requests come; 0: it is not known.
func (w *replayWork) total() int {
	if w.stats.Requests == measured {
		return 0
	}
	return w.stats.Requests
}

// open starts the workload as it is to be sent.
func (w *replayWork) open() (workload.Source, error) {
	source, err := w.begin()
	if err != nil {
		return nil, err
	}
	return &changed{Peeker: workload.Ahead(source), work: w}, nil
}

// changed is a workload with other names and another end.
type changed struct {
	workload.Peeker
	work *replayWork
}

// Peek is the time of the request that Next would give.
func (c *changed) Peek() (time.Duration, bool) {
	at, ok := c.Peeker.Peek()
	if !ok || c.work.end > 0 && at >= c.work.end {
		return 0, false
	}
	return at, true
}

// Next is the next request.
func (c *changed) Next() (workload.Request, bool) {
	if _, ok := c.Peek(); !ok {
		return workload.Request{}, false
	}
	r, ok := c.Peeker.Next()
	if c.work.change != nil {
		c.work.change(&r)
	}
	return r, ok
}

// Ended says that nothing will come any more.
func (c *changed) Ended() bool {
	at, ok := c.Peeker.Peek()
	return c.Peeker.Ended() || ok && c.work.end > 0 && at >= c.work.end
}

// Err is what the workload ended with too soon, or nil.
func (c *changed) Err() error { return workload.Err(c.Peeker) }

// traceFormats are the formats of traces.
var traceFormats = []string{"mooncake", "azure", "servegen"}

// work finds out what is meant, and makes sure that it can be read.
func (f *replayFlags) work(cmd *cobra.Command, what string) (*replayWork, error) {
	var w *replayWork
	var err error
	switch ext := filepath.Ext(strings.TrimSuffix(what, ".gz")); {
	case f.format == "" && (slices.Contains(scenario.Examples(), what) || ext == ".yaml" || ext == ".yml"):
		w, err = f.ofScenario(cmd, what)
	case f.format == "" && ext == "" && !present(what):
		return nil, fmt.Errorf("%s is neither a file nor a scenario: %s are shipped", what, strings.Join(scenario.Examples(), ", "))
	default:
		w, err = f.ofTrace(cmd, what, cmp.Or(f.format, formatOf(ext, f.lengths)))
	}
	if err != nil {
		return nil, err
	}
	source, err := w.begin()
	if err != nil {
		return nil, err
	}
	if _, ok := workload.Ahead(source).Peek(); !ok {
		return nil, cmp.Or(workload.Err(source), fmt.Errorf("%s has no requests: check --from, --length and --thin", what))
	}
	return w, nil
}

func present(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// formatOf is the format that a file's name tells. Empty: it doesn't.
func formatOf(ext, lengths string) string {
	switch ext {
	case ".jsonl", ".json":
		return "mooncake"
	case ".csv":
		if lengths != "" {
			return "servegen"
		}
		return "azure"
	}
	return ""
}

// ofScenario is the workload of a scenario, which says itself where its requests come from.
func (f *replayFlags) ofScenario(cmd *cobra.Command, name string) (*replayWork, error) {
	for _, flag := range []string{"from", "thin", "grid", "max-prompt", "max-output", "lengths", "region", "shift"} {
		if cmd.Flags().Changed(flag) {
			return nil, fmt.Errorf("--%s is for traces: a scenario says it itself; change a copy of it (`anabranch sim show`)", flag)
		}
	}
	s, err := readScenario(name)
	if err != nil {
		return nil, err
	}
	variant := cmp.Or(f.variant, s.Variants()[0])
	v, err := s.Variant(variant)
	if err != nil {
		return nil, fmt.Errorf("--variant: %w", err)
	}
	w := &replayWork{
		name: s.Name, warmup: v.Fleet.Warmup, end: v.Fleet.Duration, objectives: map[string]report.Objective{},
		begin: func() (workload.Source, error) {
			return s.Source(variant, f.trace.Seed, scenario.Options{Traces: f.traces, Requests: f.trace.Requests})
		},
	}
	if variant != "" {
		w.name += "-" + variant
	}
	if f.trace.Length > 0 {
		w.end = f.trace.Length
	}
	if len(f.tenants) > 1 {
		return nil, errors.New("--tenant: a scenario takes one, for the requests of which it names none")
	}
	for _, m := range v.Fleet.Models {
		w.objectives[string(f.asked(m.ID))] = report.Objective{FirstToken: m.FirstToken, InterToken: m.InterToken}
	}
	w.change = func(r *workload.Request) {
		r.Region = renamed(f.trace.RegionMap, r.Region)
		r.Tenant = renamed(f.trace.TenantMap, r.Tenant)
		if who := f.trace.Mix.Tenants; r.Tenant == "" && len(who) == 1 {
			r.Tenant = who[0].Value
		}
		f.rename(r)
	}
	return w, nil
}

// renamed is what a map makes of a name; what is not in it stays.
func renamed[N ~string](names map[string]N, name N) N { return cmp.Or(names[string(name)], name) }

// ofTrace is the workload of a trace.
func (f *replayFlags) ofTrace(cmd *cobra.Command, file, format string) (*replayWork, error) {
	if cmd.Flags().Changed("variant") {
		return nil, errors.New("--variant is for scenarios")
	}
	text, err := readTrace(file)
	if err != nil {
		return nil, err
	}
	o := f.trace
	w := &replayWork{name: strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".gz"), filepath.Ext(strings.TrimSuffix(file, ".gz")))}
	if f.model != "" {
		w.change = f.rename
	}
	if format != "servegen" && len(o.RegionMap)+len(o.TenantMap)+len(o.ModelMap) > 0 {
		return nil, errors.New("--region-map, --tenant-map, --model-map: this trace names neither clients nor models; use --region, --tenant and --model")
	}
	switch format {
	case "mooncake":
		w.begin = func() (workload.Source, error) { return source(workload.Mooncake(bytes.NewReader(text), o)) }
	case "azure":
		w.begin = func() (workload.Source, error) { return source(workload.Azure(bytes.NewReader(text), o)) }
	case "servegen":
		if f.lengths == "" {
			return nil, errors.New("--lengths: name ServeGen's table of lengths, beside that of clients")
		}
		lengths, err := readTrace(f.lengths)
		if err != nil {
			return nil, fmt.Errorf("--lengths: %w", err)
		}
		w.begin = func() (workload.Source, error) {
			return source(workload.ServeGen(bytes.NewReader(text), bytes.NewReader(lengths), o))
		}
	case "":
		return nil, fmt.Errorf("--format: the name %s doesn't tell it: set %s", filepath.Base(file), strings.Join(traceFormats, ", "))
	default:
		return nil, fmt.Errorf("--format: %q is not one of %s", format, strings.Join(traceFormats, ", "))
	}
	return w, nil
}

// source is a trace, or nothing and an error that names the flag.
func source[S workload.Source](s S, err error) (workload.Source, error) {
	if err != nil {
		return nil, named(err)
	}
	return s, nil
}

// readTrace reads a file whole, since it is played more than once.
func readTrace(file string) ([]byte, error) {
	from, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	text, err := io.ReadAll(io.LimitReader(from, maxTrace+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxTrace {
		return nil, fmt.Errorf("%s is longer than %d MiB: cut or compress it", file, maxTrace>>20)
	}
	return text, nil
}

// rename gives a request the model that is asked for.
func (f *replayFlags) rename(r *workload.Request) {
	r.Model = f.asked(r.Model)
	if f.model != "" {
		r.Adapter = ""
	}
}

// asked is what a model of a scenario is called at the target.
func (f *replayFlags) asked(name fleet.ModelID) fleet.ModelID {
	if f.model != "" {
		return fleet.ModelID(f.model)
	}
	return renamed(f.trace.ModelMap, name)
}
