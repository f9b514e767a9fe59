package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
)

// leastInterval is how often a watch asks at most.
const leastInterval = 200 * time.Millisecond

func (a *app) quotaWatch() *cobra.Command {
	var filter quotaFilter
	var interval time.Duration
	var count, top int
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Follow how limits are used, the fullest first",
		Long: `Follow how limits are used, the fullest first, until it is interrupted.

On a terminal the picture is drawn anew each time. Elsewhere it is lines, each with its time, of limits
that are used or refuse somebody; with -o json one line each time, with all limits.`,
		Example: `  anabranch quota watch
  anabranch quota watch --tenant acme --interval 1s
  anabranch quota watch --count 1 -o json | jq '.items[].use'`,
		Args: cobra.NoArgs,
	}
	filter.flags(a, cmd)
	cmd.Flags().DurationVar(&interval, "interval", 2*time.Second, "time from one look to the next")
	cmd.Flags().IntVar(&count, "count", 0, "end after so many looks; 0: never")
	cmd.Flags().IntVar(&top, "top", 20, "show so many limits; 0: all")
	format := formats(cmd, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case interval < leastInterval:
			return misused(fmt.Errorf("--interval: %s is too short: use %s or more", interval, leastInterval))
		case count < 0, top < 0:
			return misused(errors.New("--count and --top can't be below 0"))
		}
		c, err := a.connect("")
		if err != nil {
			return err
		}
		w := quotaWatching{app: a, client: c, filter: filter, format: *format, top: top, screen: terminal(a.out)}
		return w.run(cmd.Context(), interval, count)
	}
	return cmd
}

// quotaWatching is a watch of limits.
type quotaWatching struct {
	*app
	client *client.Client
	filter quotaFilter
	format string
	top    int
	screen bool // it can be drawn anew
	failed int  // looks in a row
}

// run looks until ctx ends or it is enough. Looks that fail after the first are made up for by later ones.
func (w *quotaWatching) run(ctx context.Context, interval time.Duration, count int) error {
	again := time.NewTicker(interval)
	defer again.Stop()
	for looks := 1; ; looks++ {
		err := w.look(ctx)
		var p *client.ProblemError
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			w.failed = 0
		case looks == 1, errors.As(err, &p) && p.Status < 500, w.failed >= watchRetries:
			return err
		default:
			w.failed++
			if _, err := fmt.Fprintf(w.err, "%v; trying again\n", err); err != nil {
				return err
			}
		}
		if looks == count {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// look shows how limits stand now.
func (w *quotaWatching) look(ctx context.Context) error {
	all, raw, err := limitUses(ctx, w.client, w.filter.query())
	if err != nil {
		return err
	}
	now := time.Now()
	if w.format == "json" {
		line, err := json.Marshal(map[string]any{"at": now.UTC().Format(time.RFC3339Nano), "items": raw.Items})
		if err != nil {
			return fmt.Errorf("write limits: %w", err)
		}
		return w.printf("%s\n", line)
	}
	slices.SortFunc(all, compareLimits)
	shown := all
	if w.top > 0 {
		shown = all[:min(w.top, len(all))]
	}
	if !w.screen {
		return w.lines(now, shown)
	}
	if _, err := io.WriteString(w.out, "\x1b[H\x1b[2J"); err != nil {
		return err
	}
	if err := w.printf("%s  %d of %d limits, the fullest first; Ctrl-C ends it\n\n", now.Format("15:04:05"), len(shown), len(all)); err != nil {
		return err
	}
	return w.limits(shown)
}

// lines prints a line for each limit that is used, or refuses somebody.
func (w *quotaWatching) lines(now time.Time, shown []limitUse) error {
	for i := range shown {
		l := &shown[i]
		if l.Use == 0 && l.DeniedPerMinute == 0 && l.WouldDenyPerMin == 0 && l.DegradedRouters == 0 {
			continue
		}
		if err := w.printf("%s %s use %s left %s denied/min %s degraded %s\n", now.Format("15:04:05"), l.ID, l.used(), l.left(), l.denied(), l.away()); err != nil {
			return err
		}
	}
	return nil
}
