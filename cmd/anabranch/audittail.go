package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/audit"
)

// auditPause is the time before a watch that has ended is begun again.
const auditPause = time.Second

func (a *app) tailAudit() *cobra.Command {
	var (
		q    auditQuery
		last int
	)
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Show the newest entries of the audit trail, and those to come",
		Long: `Show the newest entries of the audit trail, and those to come, until it is interrupted. When a server goes
away the next one is asked, from the entry on that was shown last.`,
		Example: `  anabranch audit tail
  anabranch audit tail -n 0 --action denied -o json`,
		Args: cobra.NoArgs,
	}
	q.flags(cmd)
	cmd.Flags().IntVarP(&last, "lines", "n", 10, "how many entries of before to begin with")
	format := formats(cmd, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if last < 0 {
			return errors.New("--lines is negative; 0 begins with the next entry")
		}
		c, err := a.connect("")
		if err != nil {
			return err
		}
		return a.followAudit(cmd.Context(), c, &auditTail{a: a, query: &q, json: *format == "json"}, last)
	}
	return cmd
}

// auditTail prints the entries of a watch that fit.
type auditTail struct {
	a     *app
	query *auditQuery
	json  bool
	at    uint64 // number of the last entry that was met
	// line and event are what has come of the event that is not complete.
	line  []byte
	event string
}

// followAudit begins with the last entries that fit, and follows until ctx ends.
func (a *app) followAudit(ctx context.Context, c *client.Client, t *auditTail, last int) error {
	newest, err := auditEntries(ctx, c, url.Values{}, 1)
	if err != nil {
		return err
	}
	if len(newest) > 0 {
		t.at = newest[0].Sequence
	}
	if last > 0 {
		query, err := t.query.values(time.Now())
		if err != nil {
			return err
		}
		entries, err := auditEntries(ctx, c, query, last)
		if err != nil {
			return err
		}
		slices.Reverse(entries)
		for _, e := range entries {
			if err := t.print(e); err != nil {
				return err
			}
			t.at = max(t.at, e.Sequence)
		}
	}
	for {
		t.line, t.event = nil, ""
		err := c.Download(ctx, "/v1/audit/watch", url.Values{"after": {strconv.FormatUint(t.at, 10)}}, t)
		var p *client.ProblemError
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // interrupted, as it is meant to end
		case errors.As(err, &p) && p.Status < http.StatusInternalServerError && p.Status != http.StatusTooManyRequests:
			return err
		case errors.As(err, new(*outputError)):
			return err
		}
		again := time.NewTimer(auditPause)
		select {
		case <-ctx.Done():
			again.Stop()
			return nil
		case <-again.C:
		}
	}
}

// outputError is one of what the entries are printed to, or of an entry: another server would not help.
type outputError struct{ err error }

func (e *outputError) Error() string { return e.err.Error() }
func (e *outputError) Unwrap() error { return e.err }

// maxEvent bounds a line of an event stream in bytes.
const maxEvent = audit.MaxLine

// Write takes a piece of the event stream.
func (t *auditTail) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		if len(t.line)+len(line) > maxEvent {
			return 0, &outputError{fmt.Errorf("follow the audit trail: a line has more than %d bytes", maxEvent)}
		}
		t.line = append(t.line, line...)
		rest = after
		if !ended {
			break
		}
		if err := t.take(string(t.line)); err != nil {
			return 0, &outputError{err}
		}
		t.line = t.line[:0]
	}
	return len(b), nil
}

// take reads one line of the event stream.
func (t *auditTail) take(line string) error {
	name, value, _ := strings.Cut(line, ": ")
	switch name {
	case "": // the event ends
		t.event = ""
	case "event":
		t.event = value
	case "data":
		if t.event != "entry" {
			return nil
		}
		var e audit.Entry
		if err := json.Unmarshal([]byte(value), &e); err != nil {
			return fmt.Errorf("follow the audit trail: %w", err)
		}
		if e.Sequence > t.at+1 {
			if _, err := fmt.Fprintf(t.a.err, "entries %d to %d were not shown: too many at once\n", t.at+1, e.Sequence-1); err != nil {
				return err
			}
		}
		t.at = e.Sequence
		if t.query.fits(e) {
			return t.print(e)
		}
	}
	return nil
}

// fits says of an entry of a watch what the API says of those of a list; times are in the past there.
func (q *auditQuery) fits(e audit.Entry) bool {
	for _, f := range [][2]string{
		{q.actor, e.Actor}, {q.role, e.Role}, {q.action, e.Action}, {q.kind, e.Kind}, {q.code, e.Code}, {q.requestID, e.RequestID},
	} {
		if f[0] != "" && f[0] != f[1] {
			return false
		}
	}
	if start, open := strings.CutSuffix(q.name, "*"); open {
		return strings.HasPrefix(e.Name, start)
	}
	return q.name == "" || q.name == e.Name
}

func (t *auditTail) print(e audit.Entry) error {
	if t.json {
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		return t.a.printf("%s\n", line)
	}
	row := auditRow(e)
	return t.a.printf("%6s  %s  %-16s %-10s %-9s %-32s %s\n", row[0], row[1], row[2], row[3], row[4], row[5], strings.TrimPrefix(join(": ", strings.TrimPrefix(row[6], "-"), row[7]), ": "))
}
