package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/audit"
)

// audits is the parent of what is done with the audit trail.
func (a *app) audits() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Read, check and follow the audit trail",
		Long: `Read, check and follow the audit trail: every change, and every attempt at one that was refused, with
who it was, why, and what changed. Each entry carries the hash of the one before it.`,
		Example: `  anabranch audit list --actor ann --from 24h
  anabranch audit verify --anchor audit.anchor
  anabranch audit tail`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(a.listAudit(), a.showAudit(), a.verifyAudit(), a.exportAudit(), a.tailAudit())
	return cmd
}

// auditQuery holds the flags that choose entries.
type auditQuery struct {
	actor, role, action, kind, name, code, requestID string
	from, to                                         string
	since                                            uint64
}

func (q *auditQuery) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&q.actor, "actor", "", "who did it")
	f.StringVar(&q.role, "role", "", "in which role")
	f.StringVar(&q.action, "action", "", "what was done: create, update, delete, publish, denied, refused, …")
	f.StringVar(&q.kind, "kind", "", "kind of what it was done to, such as Cluster")
	f.StringVar(&q.name, "name", "", "its name, or the beginning of one with * after it")
	f.StringVar(&q.code, "code", "", "code of a refusal")
	f.StringVar(&q.requestID, "request-id", "", "X-Request-Id of the request")
	f.StringVar(&q.from, "from", "", "not before this time, as 2026-11-30T08:00:00Z or 2 days ago as 2d")
	f.StringVar(&q.to, "to", "", "before this time, written alike")
	f.Uint64Var(&q.since, "since", 0, "only after this revision")
}

// values are the parameters of the API.
func (q *auditQuery) values(now time.Time) (url.Values, error) {
	v := url.Values{}
	if k, err := kindOf(q.kind); err == nil { // others are no kinds of resources, and are asked for as they are
		q.kind = string(k)
	}
	for name, text := range map[string]string{
		"actor": q.actor, "role": q.role, "action": q.action, "kind": q.kind, "name": q.name, "code": q.code, "requestId": q.requestID,
	} {
		if text != "" {
			v.Set(name, text)
		}
	}
	for name, text := range map[string]string{"from": q.from, "to": q.to} {
		if text == "" {
			continue
		}
		at, err := instant(text, now)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", name, err)
		}
		v.Set(name, at.UTC().Format(time.RFC3339))
	}
	if q.since > 0 {
		v.Set("since", strconv.FormatUint(q.since, 10))
	}
	return v, nil
}

// instant reads a time, or how long ago it was.
func instant(text string, now time.Time) (time.Time, error) {
	if ago, err := parseSpan(text); err == nil {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("%q is no time; write 2026-11-30T08:00:00Z, or 24h or 1d for a day ago", text)
	}
	return at, nil
}

// auditEntries gets up to limit entries, all if it is 0.
func auditEntries(ctx context.Context, c *client.Client, query url.Values, limit int) ([]audit.Entry, error) {
	entries := []audit.Entry{}
	for {
		if left := limit - len(entries); limit > 0 && left < 1000 {
			query.Set("limit", strconv.Itoa(left))
		}
		var page struct {
			Items      []audit.Entry `json:"items"`
			NextCursor string        `json:"nextCursor"`
		}
		if err := c.JSON(ctx, "/v1/audit", query, &page); err != nil {
			return nil, err
		}
		entries = append(entries, page.Items...)
		if page.NextCursor == "" || limit > 0 && len(entries) >= limit {
			return entries, nil
		}
		query.Set("cursor", page.NextCursor)
	}
}

func (a *app) listAudit() *cobra.Command {
	var (
		q      auditQuery
		limit  int
		oldest bool
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List entries of the audit trail, newest first",
		Long: `List entries of the audit trail, newest first.

All filters that are given must fit. An entry's number is what ` + "`audit show`" + ` takes.`,
		Example: `  anabranch audit list
  anabranch audit list --kind Cluster --name 'us-*' --from 24h
  anabranch audit list --action refused --limit 0 -o json`,
		Args: cobra.NoArgs,
	}
	q.flags(cmd)
	cmd.Flags().IntVar(&limit, "limit", 50, "how many at most; 0: all")
	cmd.Flags().BoolVar(&oldest, "oldest-first", false, "begin with the oldest")
	a.mayBeStale(cmd)
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if limit < 0 {
			return errors.New("--limit is negative; 0 is all")
		}
		c, err := a.connect("")
		if err != nil {
			return err
		}
		query, err := q.values(time.Now())
		if err != nil {
			return err
		}
		if oldest {
			query.Set("order", "asc")
		}
		entries, err := auditEntries(cmd.Context(), c, query, limit)
		if err != nil {
			return err
		}
		if *format != "table" {
			return a.write(*format, map[string]any{"items": entries})
		}
		rows := make([][]string, 0, len(entries))
		for _, e := range entries {
			rows = append(rows, auditRow(e))
		}
		return a.table([]string{"NUMBER", "TIME", "ACTOR", "ROLE", "ACTION", "WHAT", "CODE", "REASON"}, rows)
	}
	return cmd
}

// maxReasonShown bounds the reason in a row, in characters.
const maxReasonShown = 80

// auditRow is an entry for people.
func auditRow(e audit.Entry) []string {
	reason := []rune(strings.Join(strings.Fields(e.Reason), " "))
	if len(reason) > maxReasonShown {
		reason = append(reason[:maxReasonShown-1], '…')
	}
	return []string{
		strconv.FormatUint(e.Sequence, 10), e.At.Format(time.DateTime), dash(plain(e.Actor)), dash(plain(e.Role)), e.Action,
		dash(plain(join("/", e.Kind, e.Name))), dash(e.Code), dash(plain(string(reason))),
	}
}

// plain keeps what others wrote from moving the cursor.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '�'
		}
		return r
	}, s)
}

func (a *app) showAudit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show NUMBER",
		Short: "Show one entry of the audit trail with what it changed",
		Long: `Show one entry of the audit trail with what it changed.

What a change did is told field by field, before and after, with who asked for it, how they were
known, and the hash that chains the entry to the one before.`,
		Example: "  anabranch audit show 4711\n  anabranch audit show 4711 -o json",
		Args:    cobra.ExactArgs(1),
	}
	a.mayBeStale(cmd)
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if n, err := strconv.ParseUint(args[0], 10, 64); err != nil || n == 0 {
			return fmt.Errorf("%q is not the number of an entry; `anabranch audit list` shows them", args[0])
		}
		c, err := a.connect("")
		if err != nil {
			return err
		}
		entries, err := auditEntries(cmd.Context(), c, url.Values{"sequence": {args[0]}}, 1)
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			return fmt.Errorf("there is no entry %s: it is not written yet, or not kept any more", args[0])
		}
		if *format != "table" {
			return a.write(*format, entries[0])
		}
		return a.printAudit(entries[0])
	}
	return cmd
}

func (a *app) printAudit(e audit.Entry) error {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-10s%s\n", name, plain(value))
		}
	}
	line("entry", fmt.Sprintf("%d, of revision %d", e.Sequence, e.Index))
	line("time", e.At.Format("2006-01-02T15:04:05.000Z07:00"))
	line("actor", strings.TrimSpace(e.Actor+" "+e.Credential))
	line("role", e.Role)
	line("action", e.Action)
	line("what", join("/", e.Kind, e.Name))
	line("code", e.Code)
	line("reason", e.Reason)
	line("request", e.RequestID)
	line("before", e.BeforeSHA256)
	line("after", e.AfterSHA256)
	line("sha256", e.SHA256)
	line("previous", e.PreviousSHA256)
	for _, c := range e.Changes {
		fmt.Fprintf(&b, "  %s: %s → %s\n", plain(c.Field), dash(plain(c.From)), dash(plain(c.To)))
	}
	if e.ChangesOmitted > 0 {
		fmt.Fprintf(&b, "  and %d more, which there was no room for\n", e.ChangesOmitted)
	}
	return a.printf("%s", b.String())
}
