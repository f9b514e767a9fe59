package main

import (
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
)

// tailRetries is how often a tail that was cut off is begun again in a row, and tailPause the time
// before each.
const (
	tailRetries = 10
	tailPause   = time.Second
)

// tailWishes are what a tail is asked for.
type tailWishes struct {
	tenants, models, clusters, regions, classes, outcomes []string
	errors                                                bool
	attempts, rate, count                                 int
	last                                                  time.Duration
}

func (a *app) tail() *cobra.Command {
	var w tailWishes
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Follow what routers decide, as it happens",
		Long: `Follow what routers decide, as it happens: a line for each request that ends, where it went and how it
ended, of all routers that are connected to any node. ` + "`anabranch explain`" + ` tells more of one.

A filter may be given several times and fits if one of its values does; all filters must fit. Above the
rate requests are left out, and how many is told on standard error. The command goes on until it is
interrupted, --count requests have come or the time of --for is over.`,
		Example: `  anabranch tail
  anabranch tail --tenant acme --errors
  anabranch tail --cluster us-east-1-a --min-attempts 2 --for 30s -o json`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringSliceVar(&w.tenants, "tenant", nil, "of these tenants")
	f.StringSliceVar(&w.models, "model", nil, "for these models: base model, adapter, or the name that clients write")
	f.StringSliceVar(&w.clusters, "cluster", nil, "sent to one of these clusters")
	f.StringSliceVar(&w.regions, "region", nil, "taken in by the routers of these regions")
	f.StringSliceVar(&w.classes, "class", nil, "of these traffic classes")
	f.StringSliceVar(&w.outcomes, "outcome", nil, "answered, refused, failed or gone")
	f.BoolVar(&w.errors, "errors", false, "refused or failed")
	f.IntVar(&w.attempts, "min-attempts", 0, "with at least so many attempts")
	f.IntVar(&w.rate, "rate", 0, "requests a second at most, up to 1000; 0: 100")
	f.IntVar(&w.count, "count", 0, "end after so many requests; 0: never")
	f.DurationVar(&w.last, "for", 0, "end after this time; 0: never")
	cmd.MarkFlagsMutuallyExclusive("errors", "outcome")
	format := formats(cmd, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if w.attempts < 0 || w.rate < 0 || w.count < 0 || w.last < 0 {
			return errors.New("--min-attempts, --rate, --count and --for can't be below 0")
		}
		c, err := a.connect("")
		if err != nil {
			return err
		}
		ctx := cmd.Context()
		if w.last > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, w.last)
			defer cancel()
		}
		t := &tailing{app: a, format: *format, left: w.count}
		return t.run(ctx, c, w.query())
	}
	return cmd
}

func (w *tailWishes) query() url.Values {
	q := url.Values{}
	if w.errors {
		w.outcomes = []string{"refused", "failed"}
	}
	for name, values := range map[string][]string{
		"tenant": w.tenants, "model": w.models, "cluster": w.clusters, "region": w.regions, "class": w.classes, "outcome": w.outcomes,
	} {
		if len(values) > 0 {
			q[name] = values
		}
	}
	for name, n := range map[string]int{"minAttempts": w.attempts, "rate": w.rate} {
		if n > 0 {
			q.Set(name, strconv.Itoa(n))
		}
	}
	return q
}

// tailing is a tail on its way to the user.
type tailing struct {
	*app
	format string
	left   int // requests until the end; 0: no end
	widths []int
	heard  bool // since it was begun last
}

// errEnough ends a tail that has told what it was asked for.
var errEnough = errors.New("that was all")

// run tells until ctx ends or it is enough. A stream that was cut off is begun again at the next node:
// what happened meanwhile is missing, and the user is told so.
func (t *tailing) run(ctx context.Context, c *client.Client, query url.Values) error {
	begun := false
	for failures := 0; ; failures++ {
		t.heard = false
		err := c.Events(ctx, "/v1/decisions", query, t.event)
		begun = begun || t.heard
		if t.heard {
			failures = 0
		}
		var p *client.ProblemError
		switch {
		case errors.Is(err, errEnough), ctx.Err() != nil:
			return nil //nolint:nilerr // it is over as it should be
		case errors.As(err, &p) && p.Status < 500, !errors.Is(err, client.ErrStreamEnded) && !begun, failures >= tailRetries:
			return err
		}
		t.note("cut off, trying again: " + err.Error())
		again := time.NewTimer(tailPause)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return nil
		}
	}
}

// event takes one event of the stream.
func (t *tailing) event(name string, data []byte) error {
	t.heard = true
	switch name {
	case "decision":
		if err := t.decision(data); err != nil {
			return err
		}
		if t.left > 0 {
			if t.left--; t.left == 0 {
				return errEnough
			}
		}
	case "dropped":
		var d struct {
			Dropped uint64 `json:"dropped"`
		}
		if err := json.Unmarshal(data, &d); err != nil {
			return fmt.Errorf("read event %s: %w", name, err)
		}
		t.note(fmt.Sprintf("%d left out", d.Dropped))
	case "routers":
		return t.followed(data)
	}
	return nil // or of a newer version
}

// followed tells whom the tail follows.
func (t *tailing) followed(data []byte) error {
	var f struct {
		Following int      `json:"following"`
		Unable    []string `json:"unable"`
		Missing   []string `json:"missing"`
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return fmt.Errorf("read event routers: %w", err)
	}
	t.note(join("; ", fmt.Sprintf("following %d routers", f.Following),
		prefixed("not followed, for they are too old or too busy: ", strings.Join(f.Unable, ", "), ""),
		prefixed("not those of node ", strings.Join(f.Missing, ", "), ", which does not answer")))
	return nil
}

// note says something that is no decision.
func (t *tailing) note(text string) {
	_, _ = fmt.Fprintln(t.err, "anabranch: "+text) // nowhere left to say it
}

// tailHeader is over the columns of a tail.
var tailHeader = []string{"TIME", "RESULT", "TENANT", "MODEL", "ROUTER", "PLACE", "TRIES", "FIRST", "TOTAL", "REQUEST"}

// tailWidths are what these need as a rule: nobody knows what comes.
var tailWidths = []int{12, 6, 10, 16, 12, 24, 5, 7, 7, 0}

func (t *tailing) decision(data []byte) error {
	if t.format == "json" {
		return t.printf("%s\n", data)
	}
	var d struct {
		record
		From struct {
			Router string `json:"router"`
		} `json:"from"`
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return fmt.Errorf("read a decision: %w; -o json shows it as it came", err)
	}
	if t.widths == nil {
		t.widths = append(t.widths, tailWidths...)
		for i, text := range d.row(d.From.Router) { // so that the names of columns stand above the first
			t.widths[i] = max(t.widths[i], len([]rune(visible(text))))
		}
		if err := t.line(tailHeader, ""); err != nil {
			return err
		}
	}
	return t.line(d.row(d.From.Router), d.shade())
}

// row is a request for people.
func (r *record) row(router string) []string {
	at := ""
	if n := len(r.Attempts); n > 0 {
		at = place(&r.Attempts[n-1])
	}
	first := ""
	if r.Stream {
		first = some(r.FirstByteMs)
	}
	model := r.Model
	if r.Adapter != "" {
		model = r.Adapter
	}
	return []string{
		r.At.Local().Format("15:04:05.000"), join(" ", strconv.Itoa(r.Status), r.Code, when(r.Broken, "broken")),
		dash(r.Tenant), dash(join("", model, when(model == "", r.Asked))), router, dash(at),
		strconv.Itoa(len(r.Attempts)), dash(first), ms(r.TotalMs), r.ID,
	}
}

// shade is the colour of how a request ended.
func (r *record) shade() string {
	switch {
	case r.Status >= 500, r.Broken && !r.ClientGone:
		return "31"
	case r.Status >= 400, r.ClientGone:
		return "33"
	}
	return "32"
}

// line prints columns; one that is wider than those before makes its column wider from there on. The
// second is in colour on a terminal.
func (t *tailing) line(columns []string, color string) error {
	var b strings.Builder
	for i, text := range columns {
		text = visible(text)
		n := len([]rune(text))
		t.widths[i] = max(t.widths[i], n)
		padding := strings.Repeat(" ", t.widths[i]-n+2)
		if i == len(columns)-1 {
			padding = ""
		}
		if i == 1 && t.color && color != "" {
			text = "\x1b[" + color + "m" + text + "\x1b[0m"
		}
		b.WriteString(text + padding)
	}
	return t.printf("%s\n", strings.TrimRight(b.String(), " "))
}

// visible is text without what moves a terminal's cursor: clients write names of models.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, text)
}
