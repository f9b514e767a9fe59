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
	"anabranch/controlplane/policy"
)

// revision is one revision of a resource as its history tells it.
type revision struct {
	Revision   uint64          `json:"revision"`
	Action     string          `json:"action"`
	At         time.Time       `json:"at"`
	Author     string          `json:"author"`
	Manager    string          `json:"manager"`
	Reason     string          `json:"reason"`
	RollbackTo uint64          `json:"rollbackTo"`
	ApprovedBy []string        `json:"approvedBy"`
	BreakGlass bool            `json:"breakGlass"`
	Diff       []policy.Change `json:"diff"`
}

func (a *app) history() *cobra.Command {
	var withDiff bool
	var one uint64
	cmd := &cobra.Command{
		Use:   "history KIND NAME | history tables [REVISION]",
		Short: "Show who changed a resource, when and why; or the routing tables",
		Long: `Show the revisions kept of a resource, newest first: who made each, when, why, and with --diff what it
changed. A deleted resource has a history too. The newest 20 revisions of each are kept.

"known" is what was there when history began, with the upgrade to the version that keeps it.

history tables shows the routing tables kept, at most 51, and what each did differently from the one before;
with a revision, the differences of that one in full.`,
		Example: `  anabranch history tenant acme --diff
  anabranch history tenant acme --revision 41 > acme-41.yaml
  anabranch history tables
  anabranch history tables 1205 -o json`,
		Args: cobra.RangeArgs(1, 2), ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			all, directive := a.completeResources(cmd, args, begun)
			if len(args) == 0 {
				all = append(all, beginning([]string{"tables"}, begun)...)
			}
			return all, directive
		},
	}
	cmd.Flags().BoolVar(&withDiff, "diff", false, "show what each revision changed")
	cmd.Flags().Uint64Var(&one, "revision", 0, "show the whole resource as this revision left it")
	a.mayBeStale(cmd)
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if args[0] == "tables" || args[0] == "table" {
			return a.tableHistory(cmd.Context(), append(args, "")[1], withDiff, *format)
		}
		kind, err := kindOf(args[0])
		if err != nil {
			return fmt.Errorf("%w, or tables", err)
		}
		if len(args) == 1 {
			return misused(fmt.Errorf("name the resource: anabranch history %s NAME", args[0]))
		}
		c, err := a.connect("")
		if err != nil {
			return err
		}
		path := resourcePath(kind, args[1]) + "/history"
		if one != 0 {
			return a.resourceAsOf(cmd.Context(), c, path, one, *format)
		}
		return a.resourceHistory(cmd.Context(), c, path, withDiff, *format)
	}
	return cmd
}

// resourcePath is where a resource is.
func resourcePath(kind policy.Kind, name string) string {
	return "/v1/" + policy.Plural(kind) + "/" + url.PathEscape(name)
}

func (a *app) resourceAsOf(ctx context.Context, c *client.Client, path string, revision uint64, format string) error {
	var doc json.RawMessage
	if err := c.JSON(ctx, path+"/"+strconv.FormatUint(revision, 10), nil, &doc); err != nil {
		return err
	}
	if format == "table" {
		format = "yaml" // as it can be applied
	}
	return a.write(format, doc)
}

func (a *app) resourceHistory(ctx context.Context, c *client.Client, path string, withDiff bool, format string) error {
	query := url.Values{}
	if withDiff {
		query.Set("diff", "true")
	}
	var raw json.RawMessage
	if err := c.JSON(ctx, path, query, &raw); err != nil { // fewer are kept than a page holds
		return err
	}
	if format != "table" {
		return a.write(format, raw)
	}
	var list struct{ Items []revision }
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("read history: %w; -o json shows it as it came", err)
	}
	if withDiff {
		return a.printDiffs(list.Items)
	}
	var rows [][]string
	for _, r := range list.Items {
		rows = append(rows, []string{
			strconv.FormatUint(r.Revision, 10), r.At.Format(time.RFC3339), r.did(), dash(r.Author), dash(r.Manager), dash(r.Reason),
		})
	}
	return a.table([]string{"REVISION", "AT", "ACTION", "AUTHOR", "MANAGER", "REASON"}, rows)
}

// did is the action for people.
func (r *revision) did() string {
	switch {
	case r.BreakGlass:
		return r.Action + ", glass broken"
	case len(r.ApprovedBy) > 0:
		return r.Action + ", approved by " + strings.Join(r.ApprovedBy, ", ")
	}
	if r.RollbackTo != 0 {
		return fmt.Sprintf("%s to %d", r.Action, r.RollbackTo)
	}
	return r.Action
}

// printDiffs prints each revision with what it changed.
func (a *app) printDiffs(revisions []revision) error {
	for _, r := range revisions {
		who := dash(r.Author)
		if r.Manager != "" && r.Manager != policy.Human {
			who += " as " + r.Manager
		}
		line := fmt.Sprintf("revision %d, %s: %s by %s", r.Revision, r.At.Format(time.RFC3339), r.did(), who)
		if r.Reason != "" {
			line += " (" + r.Reason + ")"
		}
		if err := a.printf("%s\n", line); err != nil {
			return err
		}
		if err := a.printChanges(r.Diff); err != nil {
			return err
		}
	}
	return nil
}

// printChanges prints what changes, a line for each field: the old value red and the new one green.
func (a *app) printChanges(changes []policy.Change) error {
	for _, ch := range changes {
		if err := a.printf("  %s: %s → %s\n", ch.Field, a.colored("31", dash(string(ch.From))), a.colored("32", dash(string(ch.To)))); err != nil {
			return err
		}
	}
	return nil
}

// colored puts text in a colour where colours belong.
func (a *app) colored(code, text string) string {
	if !a.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (a *app) rollback() *cobra.Command {
	var to uint64
	var dryRun bool
	var reason string
	var by manager
	var others consent
	cmd := &cobra.Command{
		Use:   "rollback KIND NAME --to REVISION",
		Short: "Make an earlier revision of a resource the present one",
		Long: `Make what a resource was at an earlier revision the present one. It becomes a new revision and is judged
as any change: what the old one refers to may be gone by now. A deleted resource comes back.

anabranch history KIND NAME lists the revisions.`,
		Example: `  anabranch rollback policy chat --to 41 --dry-run
  anabranch rollback policy chat --to 41 --reason "slower than before"`,
		Args: cobra.ExactArgs(2), ValidArgsFunction: a.completeResources,
	}
	cmd.Flags().Uint64Var(&to, "to", 0, "revision to go back to")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would change, and change nothing")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail and the history")
	by.flags(cmd)
	others.flags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		kind, err := kindOf(args[0])
		if err != nil {
			return err
		}
		if to == 0 {
			return fmt.Errorf("name the revision with --to; `anabranch history %s %s` lists them", args[0], args[1])
		}
		c, err := a.connect(reason)
		if err != nil {
			return err
		}
		by.of(c)
		others.of(c)
		old, etag, err := c.Get(cmd.Context(), kind, args[1])
		call := client.Call{Method: "POST", Path: resourcePath(kind, args[1]) + "/rollback", IfMatch: etag, Body: fmt.Appendf(nil, `{"revision":%d}`, to)}
		switch {
		case client.IsStatus(err, 404):
			call.IfMatch, call.IfNoneMatch = "", "*"
		case err != nil:
			return err
		}
		if dryRun {
			return a.rehearseRollback(cmd.Context(), c, call, title(kind, args[1]), to)
		}
		answer, err := c.Do(cmd.Context(), call)
		if err != nil {
			return err
		}
		if waits, err := a.proposed(cmd.Context(), c, title(kind, args[1])+" rollback", client.ProposedIn(answer), others.wait); waits || err != nil {
			return err
		}
		var now client.Item
		if err := json.Unmarshal(answer.Body, &now); err != nil {
			return fmt.Errorf("read answer to the rollback: %w", err)
		}
		if now.Metadata.Revision == old.Metadata.Revision {
			return a.printf("%s is as it was at revision %d already\n", title(kind, args[1]), to)
		}
		if err := a.printf("%s rolled back to revision %d by revision %d\n", title(kind, args[1]), to, now.Metadata.Revision); err != nil {
			return err
		}
		var done struct{ Diff []policy.Change }
		err = c.JSON(cmd.Context(), resourcePath(kind, args[1])+"/diff", url.Values{"to": {strconv.FormatUint(now.Metadata.Revision, 10)}}, &done)
		if err != nil {
			return fmt.Errorf("it is done; what it changed could not be read: %w", err)
		}
		if err := a.printChanges(done.Diff); err != nil {
			return err
		}
		a.noteHeldBack(cmd.Context(), c)
		return nil
	}
	return cmd
}

func (a *app) rehearseRollback(ctx context.Context, c *client.Client, call client.Call, what string, to uint64) error {
	call.Query = url.Values{"dry_run": {"true"}, "simulate": {"false"}}
	answer, err := c.Do(ctx, call)
	if err != nil {
		return err
	}
	var would struct{ Diff []policy.Change }
	if err := json.Unmarshal(answer.Body, &would); err != nil {
		return fmt.Errorf("read answer to the rollback: %w", err)
	}
	if err := a.printf("%s would be rolled back to revision %d (dry run)\n", what, to); err != nil {
		return err
	}
	return a.printChanges(would.Diff)
}

// manager is in whose name a command writes.
type manager struct {
	name  string
	force bool
}

func (m *manager) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&m.name, "manager", "", "name of the automation that writes; it may not change fields that others have set")
	cmd.Flags().BoolVar(&m.force, "force", false, "with --manager: take over fields that others have set")
	run := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if m.force && (m.name == "" || m.name == policy.Human) {
			return errors.New("--force is for automation, which names itself with --manager; people may change every field")
		}
		if run != nil {
			return run(cmd, args)
		}
		return nil
	}
}

func (m *manager) of(c *client.Client) { c.Manager, c.Force = m.name, m.force }

// counts says how many entries of a list differ.
func counts(list string, added, removed, changed int, reordered bool) string {
	var parts []string
	for _, of := range []struct {
		n    int
		sign string
	}{{added, "+"}, {removed, "-"}, {changed, "~"}} {
		if of.n > 0 {
			parts = append(parts, of.sign+strconv.Itoa(of.n))
		}
	}
	if reordered {
		parts = append(parts, "reordered")
	}
	return list + " " + strings.Join(parts, " ")
}
