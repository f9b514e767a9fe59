package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/policy"
)

// watchPause is the time before a watch that was cut off goes on, and watchRetries how often in a row.
const (
	watchPause   = time.Second
	watchRetries = 30
)

func (a *app) watch() *cobra.Command {
	var changesOnly bool
	var count int
	cmd := &cobra.Command{
		Use:   "watch [KIND]",
		Short: "Follow changes of resources",
		Long: `Follow changes of resources, of one kind or all: a line for each that there is, then one for each change,
until it is interrupted. When the node fails the watch goes on at the next one, without a gap.

With -o json each line is one event, with the whole resource.`,
		Example: `  anabranch watch
  anabranch watch clusters --changes
  anabranch watch tenants -o json | jq .resource.spec`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return plurals(), cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.Flags().BoolVar(&changesOnly, "changes", false, "leave out what there is already")
	cmd.Flags().IntVar(&count, "count", 0, "end after so many lines; 0: never")
	format := formats(cmd, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if count < 0 {
			return errors.New("--count can't be below 0")
		}
		path, query := "/v1/watch", url.Values{}
		if len(args) == 1 {
			kind, err := kindOf(args[0])
			if err != nil {
				return err
			}
			path = "/v1/" + policy.Plural(kind)
			query.Set("watch", "true")
		}
		c, err := a.connect("")
		if err != nil {
			return err
		}
		w := &watching{app: a, format: *format, left: count, quiet: changesOnly}
		return w.run(cmd.Context(), c, path, query)
	}
	return cmd
}

// watching is a watch on its way to the user; at is the revision up to which it has told everything.
type watching struct {
	*app
	format string
	left   int // lines until the end; 0: no end
	quiet  bool
	at     uint64
	heard  bool // since it was begun last
}

// run tells until ctx ends or it is enough.
func (w *watching) run(ctx context.Context, c *client.Client, path string, query url.Values) error {
	for failures := 0; ; failures++ {
		w.heard = false
		err := c.Events(ctx, path, query, w.event)
		if w.heard {
			failures = 0
			query.Set("after", strconv.FormatUint(w.at, 10))
		}
		var p *client.ProblemError
		switch {
		case errors.Is(err, errEnough), ctx.Err() != nil:
			return nil //nolint:nilerr // the user has ended it, or there is enough
		case client.IsStatus(err, http.StatusGone):
			if _, e := fmt.Fprintln(w.err, "the history does not reach back to where the watch was cut off: all there is follows"); e != nil {
				return e
			}
			query.Del("after")
			continue
		case errors.As(err, &p) && p.Status < http.StatusInternalServerError, w.at == 0, failures >= watchRetries:
			return err
		}
		again := time.NewTimer(watchPause)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return nil
		}
	}
}

// event takes one event of the stream.
func (w *watching) event(name string, data []byte) error {
	var e struct {
		Kind     policy.Kind     `json:"kind"`
		Name     string          `json:"name"`
		Revision uint64          `json:"revision"`
		Resource json.RawMessage `json:"resource"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("read an event of the watch: %w", err)
	}
	w.heard, w.at = true, max(w.at, e.Revision)
	word := map[string]string{"put": "is", "delete": "deleted"}[name]
	switch {
	case name == "synced":
		w.quiet = false
	case name == "relist":
		w.at = e.Revision
		if _, err := fmt.Fprintln(w.err, "the watch fell behind further than the history reaches: changes are missing"); err != nil {
			return err
		}
	case word == "" || w.quiet: // bookmarks, and what a newer server tells
	case w.format == "json":
		line, err := json.Marshal(map[string]any{"event": name, "kind": e.Kind, "name": e.Name, "revision": e.Revision, "resource": e.Resource})
		if err != nil {
			return fmt.Errorf("write an event: %w", err)
		}
		return w.line(string(line))
	default:
		return w.line(fmt.Sprintf("%-40s %-8s revision %d", title(e.Kind, e.Name), word, e.Revision))
	}
	return nil
}

// line prints one line, and says whether it was the last.
func (w *watching) line(text string) error {
	if err := w.printf("%s\n", text); err != nil {
		return err
	}
	if w.left > 0 {
		if w.left--; w.left == 0 {
			return errEnough
		}
	}
	return nil
}
