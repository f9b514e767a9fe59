package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
	"anabranch/failover/drill"
)

// Exit codes of what followed a drill to its end.
const (
	exitDrillFailed      = 5 // FAILED: it went beyond what its plan allows
	exitDrillInterrupted = 6 // INTERRUPTED: an incident, or somebody's word
	exitDrillNot         = 7 // BLOCKED, CAPACITY_CHECK_FAILED, EXPIRED: it moved nothing
)

const drillCodes = `

When it has followed the drill to its end it exits with 0 if that is SUCCEEDED, 5 if FAILED, 6 if INTERRUPTED
and 7 if it did not begin. Ctrl-C ends the following, and not the drill.`

func (a *app) drillRun() *cobra.Command {
	var reason, glass, seen string
	var watch bool
	var every int
	cmd := &cobra.Command{
		Use: "run ID", Short: "Begin a drill that is approved", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeItems("/v1/drills"),
		Long: `Begin a drill that is approved, and with --watch follow it.

With --break-glass it does not wait for approval: that stands in the audit trail and in the report, and
raises a metric.` + drillCodes,
		Example: "  anabranch drill run 4711 --watch\n  anabranch drill run 4711 --break-glass \"the auditor is here, and bob is not\"",
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail")
	cmd.Flags().StringVar(&seen, "sha256", "", "hash of the plan that you have looked at: another one is not begun")
	cmd.Flags().StringVar(&glass, "break-glass", "", "why the drill does not wait for approval")
	cmd.Flags().BoolVar(&watch, "watch", false, "follow the drill to its end")
	format := drillFlags(cmd, &every)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.connect(reason)
		if err != nil {
			return err
		}
		c.BreakGlass = glass
		d, err := c.Drill(cmd.Context(), args[0])
		switch {
		case err != nil:
			return err
		case seen != "" && !strings.EqualFold(seen, d.PlanSHA256):
			return fmt.Errorf("drill %s has the plan %s: look at it again with `anabranch drill show %s`", d.ID, dash(d.PlanSHA256), d.ID)
		}
		if d, err = c.DecideSeenDrill(cmd.Context(), d, "start"); err != nil {
			return fmt.Errorf("run drill %s: %w", args[0], err)
		}
		if watch {
			return a.followDrill(cmd.Context(), c, d.ID, *format, every)
		}
		return a.printf("drill %s is to begin now; `anabranch drill watch %s` follows it\n", d.ID, d.ID)
	}
	return cmd
}

func (a *app) drillWatch() *cobra.Command {
	var every int
	cmd := &cobra.Command{
		Use: "watch [ID]", Short: "Follow a drill to its end, the one under way if none is named", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeItems("/v1/drills"),
		Long: `Follow a drill to its end, the one under way if none is named.

A line for each thing that happens, and for every fifth second: the share ordered away and answered
elsewhere, and what is measured beside what ends the drill.` + drillCodes,
		Example: "  anabranch drill watch\n  anabranch drill watch 4711 --every 1",
	}
	format := drillFlags(cmd, &every)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.connect("")
		if err != nil {
			return err
		}
		id, err := drillID(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		return a.followDrill(cmd.Context(), c, id, *format, every)
	}
	return cmd
}

func drillFlags(cmd *cobra.Command, every *int) *string {
	cmd.Flags().IntVar(every, "every", 5, "tell of every so many seconds; 0: only of what happens")
	return formats(cmd, "table", "json")
}

// drillFollowing is a drill on its way to the user.
type drillFollowing struct {
	*app
	format  string
	every   int
	id      string
	gates   gates
	now     client.Drill
	events  int // that were told
	seconds int // that came
	heard   bool
}

var errDrillEnded = errors.New("the drill has ended")

// followDrill tells of a drill until it ends. A stream that was cut off goes on at the next node: what was told is told no more.
func (a *app) followDrill(ctx context.Context, c *client.Client, id, format string, every int) error {
	f := &drillFollowing{app: a, format: format, every: every, id: id}
	if d, err := c.Drill(ctx, id); err == nil {
		f.gates = gatesOf(d)
	}
	for failures := 0; ; failures++ {
		f.heard = false
		query := url.Values{}
		if f.events > 0 || f.seconds > 0 {
			query.Set("after", strconv.FormatUint(uint64(f.events)<<32|uint64(f.seconds), 10)) //nolint:gosec // neither is negative
		}
		err := c.Events(ctx, client.DrillPath(id)+"/events", query, func(name string, data []byte) error { return f.event(ctx, c, name, data) })
		if f.heard {
			failures = 0
		}
		var p *client.ProblemError
		switch {
		case errors.Is(err, errDrillEnded):
			return f.end()
		case ctx.Err() != nil:
			_, _ = fmt.Fprintf(a.err, "drill %s goes on; `anabranch drill watch %s` follows it again, `anabranch drill abort %s` ends it\n", id, id, id)
			return &exitError{exitFailed, errQuiet}
		case errors.As(err, &p) && p.Status < 500, failures >= watchRetries:
			return err
		}
		again := time.NewTimer(watchPause)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
		}
	}
}

// event takes one event of the stream.
func (f *drillFollowing) event(ctx context.Context, c *client.Client, name string, data []byte) error {
	f.heard = true
	if f.format == "json" && (name == "drill" || name == "event" || name == "sample") {
		if err := f.printf("{\"event\":%q,\"data\":%s}\n", name, data); err != nil {
			return err
		}
	}
	switch name {
	case "drill", "end":
		var now client.Drill // whole: what it has no word of any more, as the cause of a pause, is over
		if err := json.Unmarshal(data, &now); err != nil {
			return fmt.Errorf("read event %s: %w", name, err)
		}
		f.now = now
		if name == "end" {
			return errDrillEnded
		}
	case "event":
		var e client.DrillEvent
		if err := json.Unmarshal(data, &e); err != nil {
			return fmt.Errorf("read event %s: %w", name, err)
		}
		f.events++
		if f.gates.baseline == nil && e.State == drill.Shifting { // there is a baseline now
			if d, err := c.Drill(ctx, f.id); err == nil {
				f.gates = gatesOf(d)
			}
		}
		if f.format != "table" {
			return nil
		}
		if err := f.printf("%s\n", eventLine(e)); err != nil || e.State != drill.Paused || e.Kind != drill.OfTransition {
			return err
		}
		return f.printf("  `anabranch drill resume %s` has it go on; at %s it is rolled back\n", f.id, e.At.Add(drill.PauseFor).Local().Format("15:04:05"))
	case "sample":
		var s drill.Sample
		if err := json.Unmarshal(data, &s); err != nil {
			return fmt.Errorf("read event %s: %w", name, err)
		}
		f.seconds++
		if f.format == "table" && f.every > 0 && f.seconds%f.every == 0 {
			return f.printf("%s\n", f.gates.line(s))
		}
	}
	return nil
}

// end says how it ended, by the exit code too.
func (f *drillFollowing) end() error {
	d := f.now
	if f.format == "table" {
		if err := f.printf("drill %s: %s%s%s\n", cmp.Or(d.ID, f.id), dash(string(d.Outcome)), prefixed(" (", d.Cause, ")"), prefixed(": ", visible(d.Reason), "")); err != nil {
			return err
		}
		if d.ReportSHA256 != "" {
			if err := f.printf("report: anabranch drill report %s --html drill-%s.html\n", d.ID, d.ID); err != nil {
				return err
			}
		}
	}
	switch d.Outcome {
	case drill.Succeeded:
		return nil
	case drill.Failed:
		return &exitError{exitDrillFailed, errQuiet}
	case drill.Blocked, drill.CapacityFailed, drill.Expired:
		return &exitError{exitDrillNot, errQuiet}
	case drill.Interrupted:
	}
	return &exitError{exitDrillInterrupted, errQuiet}
}

// gates are what a drill is held to; those that are not known are 0.
type gates struct {
	baseline                *drill.Baseline
	errors, ttft, saturated float64
}

// gatesOf reads them from the plan of a drill, and its baseline.
func gatesOf(d *client.Drill) gates {
	var spec struct {
		Abort struct {
			ErrorIncrease, TTFTFactor, SaturationSoft struct {
				Over float64 `json:"over"`
			}
		} `json:"abort"`
	}
	g := gates{baseline: d.Baseline}
	if json.Unmarshal(d.Spec, &spec) != nil {
		return g
	}
	g.saturated = spec.Abort.SaturationSoft.Over
	if b := d.Baseline; b != nil {
		g.errors = b.Errors + spec.Abort.ErrorIncrease.Over
		for _, t := range b.Tiers {
			if t.P95 > 0 {
				g.ttft = max(t.P95*spec.Abort.TTFTFactor.Over, b.ObjectiveMs)
				break
			}
		}
	}
	return g
}

// line tells of one second: what was measured, and after a slash what it may be.
func (g gates) line(s drill.Sample) string {
	away, errs, peak, ttft := "-", "-", "-", "-"
	if s.Scoped > 0 {
		away = fmt.Sprintf("%.0f %%", 100*float64(s.Away)/float64(s.Scoped))
	}
	var requests, failures int64
	var top drill.ClusterSample
	for _, c := range s.Clusters {
		if c.Drilled {
			continue
		}
		requests, failures = requests+c.Requests, failures+c.Failures
		if top.Cluster == "" || c.Saturation > top.Saturation {
			top = c
		}
	}
	if requests > 0 {
		errs = fmt.Sprintf("%.1f", 100*float64(failures)/float64(requests))
	}
	if top.Cluster != "" {
		peak = fmt.Sprintf("%.0f", 100*top.Saturation)
	}
	for _, t := range s.Tiers {
		if q := t.Quantiles(); q != nil {
			ttft = fmt.Sprintf("%.0f", q.P95)
			break
		}
	}
	return join("  ", time.UnixMilli(s.At).Local().Format("15:04:05"), fmt.Sprintf("%-12s", s.State),
		fmt.Sprintf("ordered %g %%, away %s", float64(s.Shifted)/1e4, away),
		"ttft p95 "+ttft+limit(g.ttft, 1)+" ms", "errors "+errs+limit(g.errors, 100)+" %", "peak "+peak+limit(g.saturated, 100)+" % "+string(top.Cluster),
		fmt.Sprintf("routers %d of %d", s.Obeying, s.Routers))
}

func limit(v, scale float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("/%.4g", scale*v)
}
