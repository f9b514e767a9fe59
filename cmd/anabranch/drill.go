package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"anabranch/cmd/anabranch/client"
	"anabranch/failover/drill"
	"anabranch/sim/report/rehearsal"
)

func (a *app) drills() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drill",
		Short: "Rehearse a failover, with guard rails and evidence",
		Long: `Rehearse a failover, with guard rails and evidence.

A DrillPlan says what is taken out and how. A drill is one run of it: create makes it with a dry run,
somebody else approves what that found, run begins it. Traffic is shifted in steps, held, brought back and
compared with what it was before; a drill that goes beyond what its plan allows is rolled back by itself
within seconds, and one that nobody renews reverts on every router by itself. Its report is kept, and chained
to the one before.`,
		Example: `  anabranch drill plan lose-eu
  anabranch drill create lose-eu --reason "quarterly exercise"
  anabranch drill run 4711 --watch
  anabranch drill report 4711 --html report.html`,
	}
	cmd.AddCommand(
		a.drillPlan(), a.drillCreate(), a.drillValidate(), a.drillApprove(), a.drillRun(), a.drillWatch(), a.drillList(), a.drillShow(), a.drillReport(), a.drillVerify(), a.drillReadiness(), a.drillCalendar(),
		a.drillAct("pause", "Keep a drill where it is, for at most five minutes", "is paused"),
		a.drillAct("resume", "Let a drill that is paused go on", "goes on"),
		a.drillAct("abort", "End a drill: routers take back at once what it has moved", "is ended"),
	)
	return cmd
}

// drillSource is where the plan of a drill comes from.
type drillSource struct{ file, start string }

func (o *drillSource) flags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.file, "file", "f", "", "read the plan from this `file` instead, a DrillPlan or its spec; - is standard input")
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if (o.file == "") == (len(args) == 0) || len(args) > 1 {
			return errors.New("name one DrillPlan, or a file with -f")
		}
		return nil
	}
}

// drill is what the server is to make.
func (a *app) newDrill(o drillSource, args []string) (client.NewDrill, error) {
	n := client.NewDrill{}
	if o.start != "" {
		at, err := time.Parse(time.RFC3339, o.start)
		if err != nil {
			return n, fmt.Errorf("--start-at %q is no time; write it as 2026-12-01T04:00:00Z", o.start)
		}
		n.StartAt = at
	}
	if o.file == "" {
		n.Plan = args[0]
		return n, nil
	}
	text, err := a.read(o.file)
	if err != nil {
		return n, err
	}
	var whole struct {
		Kind string          `json:"kind"`
		Spec json.RawMessage `json:"spec"`
	}
	doc, err := yaml.YAMLToJSON(text)
	if err != nil {
		return n, fmt.Errorf("read %s: %w", called(o.file), err)
	}
	if err := json.Unmarshal(doc, &whole); err != nil {
		return n, fmt.Errorf("read %s: it is no DrillPlan: %w", called(o.file), err)
	}
	n.Spec = doc
	if whole.Spec != nil {
		if whole.Kind != "DrillPlan" {
			return n, fmt.Errorf("%s holds a %s, and not a DrillPlan", called(o.file), dash(whole.Kind))
		}
		n.Spec = whole.Spec
	}
	return n, nil
}

func (a *app) drillPlan() *cobra.Command {
	var o drillSource
	cmd := &cobra.Command{
		Use: "plan [PLAN]", Short: "Show what a drill would do, and make none", ValidArgsFunction: a.completeDrillPlans(),
		Long: `Show what a drill would do, and make none: the places that stay with their load now and with the drill, at
the highest traffic of the last hour and with caches cold; tenants that would have no legal place; the cost;
and whether rules are in its way.

It ends with exit code 1 if the drill would be refused.`,
		Example: "  anabranch drill plan lose-eu\n  anabranch drill plan -f lose-eu.yaml -o json",
	}
	o.flags(cmd)
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		n, err := a.newDrill(o, args)
		if err != nil {
			return err
		}
		c, err := a.connect("")
		if err != nil {
			return err
		}
		found, err := c.RehearseDrill(cmd.Context(), n)
		if err != nil {
			return fmt.Errorf("plan drill: %w", err)
		}
		if *format != "table" {
			err = a.write(*format, found)
		} else {
			err = a.printDryRun(&found.Resolved, &found.Forecast)
		}
		if err == nil && found.Refused != "" {
			err = fmt.Errorf("it would be refused: %s (%s): %s", found.Refused, found.Cause, found.Reason)
		}
		return err
	}
	return cmd
}

func (a *app) drillCreate() *cobra.Command {
	var o drillSource
	var reason string
	var draft bool
	cmd := &cobra.Command{
		Use: "create [PLAN]", Short: "Make a drill, with its dry run", ValidArgsFunction: a.completeDrillPlans(),
		Long: `Make a drill of a DrillPlan, or of a file, with its dry run. Nothing moves yet: others approve what the dry
run found, and run begins the drill, which --start-at has it do by itself.`,
		Example: "  anabranch drill create lose-eu --reason \"quarterly exercise\"\n  anabranch drill create -f lose-eu.yaml --start-at 2026-12-01T04:00:00Z",
	}
	o.flags(cmd)
	cmd.Flags().StringVar(&o.start, "start-at", "", "`time` when it begins by itself once it is approved, as in 2026-12-01T04:00:00Z")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail")
	cmd.Flags().BoolVar(&draft, "draft", false, "make no dry run yet: drill validate does")
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		n, err := a.newDrill(o, args)
		if err != nil {
			return err
		}
		c, err := a.connect(reason)
		if err != nil {
			return err
		}
		d, err := c.CreateDrill(cmd.Context(), n)
		if err != nil {
			return fmt.Errorf("create drill: %w", err)
		}
		if !draft {
			id := d.ID
			if d, err = c.DecideDrill(cmd.Context(), id, "validate"); err != nil {
				return fmt.Errorf("drill %s is made; validate it: %w", id, err)
			}
		}
		return a.drillMade(d, *format)
	}
	return cmd
}

// drillMade shows a drill with its dry run, and what is next.
func (a *app) drillMade(d *client.Drill, format string) error {
	switch {
	case format != "table":
		if err := a.write(format, d); err != nil {
			return err
		}
	case d.Forecast != nil:
		if err := a.printDryRun(d.Resolved, d.Forecast); err != nil {
			return err
		}
	}
	switch {
	case d.Outcome == drill.Succeeded: // of plan-only: the dry run is all of it
	case d.Outcome != "":
		return fmt.Errorf("drill %s is refused: %s (%s): %s", d.ID, d.Outcome, d.Cause, d.Reason)
	case format != "table":
		return nil
	}
	next := map[string]string{
		"DRAFT": "anabranch drill validate " + d.ID, "VALIDATED": "anabranch drill run " + d.ID + " --watch",
		"PENDING_APPROVAL": "somebody else: anabranch drill approve " + d.ID, "SCHEDULED": "anabranch drill run " + d.ID + " --watch",
	}[string(d.State)]
	return a.printf("drill %s is %s\nnext: %s\n", d.ID, d.State, dash(next))
}

func (a *app) drillValidate() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "validate ID", Short: "Make the dry run of a draft", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeItems("/v1/drills"),
		Long:    "Make the dry run of a draft, as drill create does unless it is told not to.\n\nWhat it found is what others approve; a drill that is to do something else is made anew.",
		Example: "  anabranch drill validate 4711",
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail")
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.connect(reason)
		if err != nil {
			return err
		}
		d, err := c.DecideDrill(cmd.Context(), args[0], "validate")
		if err != nil {
			return fmt.Errorf("validate drill %s: %w", args[0], err)
		}
		return a.drillMade(d, *format)
	}
	return cmd
}

func (a *app) drillApprove() *cobra.Command {
	var reason, seen string
	var yes, series bool
	cmd := &cobra.Command{
		Use: "approve ID", Short: "Approve somebody else's drill", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeItems("/v1/drills"),
		Long: `Approve somebody else's drill.

What is approved is shown first, and asked about unless --yes is given or --sha256 names it. The approval is
bound to that, and holds for eight hours unless a rule says otherwise; a drill that begins later is made
anew. --series approves all drills of the same schedule that do the same, for 90 days.`,
		Example: "  anabranch drill approve 4711\n  anabranch drill approve 4711 --yes --reason \"checked with capacity\"",
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail")
	cmd.Flags().StringVar(&seen, "sha256", "", "hash of the plan that you have looked at")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&series, "series", false, "approve all drills of its schedule that do the same")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.connect(reason)
		if err != nil {
			return err
		}
		d, err := c.Drill(cmd.Context(), args[0])
		switch {
		case err != nil:
			return err
		case d.PlanSHA256 == "":
			return fmt.Errorf("drill %s is %s: there is nothing to approve before `anabranch drill validate %s`", d.ID, d.State, d.ID)
		case seen != "" && !strings.EqualFold(seen, d.PlanSHA256):
			return fmt.Errorf("drill %s has the plan %s: look at it again with `anabranch drill show %s`", d.ID, d.PlanSHA256, d.ID)
		}
		if err := a.printDrill(d); err != nil {
			return err
		}
		if !yes && seen == "" {
			if err := a.sure(fmt.Sprintf("approve drill %s?", d.ID)); err != nil {
				return err
			}
		}
		if d, err = c.ApproveDrill(cmd.Context(), d, series); err != nil {
			return fmt.Errorf("approve drill %s: %w", args[0], err)
		}
		return a.printf("drill %s is %s, approved by %d of %d\n", d.ID, d.State, len(d.Approvals), d.ApprovalsNeeded)
	}
	return cmd
}

// sure asks a question; anything but yes is an error.
func (a *app) sure(question string) error {
	if _, err := fmt.Fprint(a.err, question+" [y/N] "); err != nil {
		return err
	}
	var answer string
	_, _ = fmt.Fscanln(a.in, &answer) // nothing is no
	if answer = strings.ToLower(answer); answer == "y" || answer == "yes" {
		return nil
	}
	return errors.New("not approved; --yes does not ask")
}

// drillAct makes a command that says something to a drill.
func (a *app) drillAct(act, short, done string) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: act + " [ID]", Short: short, Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeItems("/v1/drills"),
		Long:    short + ".\n\nWithout an ID it is the drill under way.",
		Example: fmt.Sprintf("  anabranch drill %s --reason \"INC-42\"\n  anabranch drill %s 4711", act, act),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.connect(reason)
		if err != nil {
			return err
		}
		id, err := drillID(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		d, err := decideDrill(cmd.Context(), c, id, act)
		if err != nil {
			return fmt.Errorf("%s drill %s: %w", act, id, err)
		}
		return a.printf("drill %s %s: %s\n", d.ID, done, d.State)
	}
	return cmd
}

// decideDrill says something to a drill. What brings traffic back into motion is about the drill as it was just seen; what
// stops it is to work whatever has become of it.
func decideDrill(ctx context.Context, c *client.Client, id, act string) (*client.Drill, error) {
	if act != "resume" {
		return c.DecideDrill(ctx, id, act)
	}
	seen, err := c.Drill(ctx, id)
	if err != nil {
		return nil, err
	}
	return c.DecideSeenDrill(ctx, seen, act)
}

// drillID is the one named, or the one under way.
func drillID(ctx context.Context, c *client.Client, args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	list, err := c.Drills(ctx, url.Values{"active": {"true"}})
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "", errors.New("no drill is under way; name one, as `anabranch drill list` shows them")
	}
	return list[0].ID, nil
}

func (a *app) drillReport() *cobra.Command {
	var page, file string
	cmd := &cobra.Command{
		Use: "report ID", Short: "Read the report of a drill that is over", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeItems("/v1/drills"),
		Long: `Read the report of a drill that is over.

--html writes a page for people that needs nothing else, --json the bytes that ` + "`anabranch drill verify`" + `
checks.`,
		Example: "  anabranch drill report 4711\n  anabranch drill report 4711 --html report.html --json report.json",
	}
	cmd.Flags().StringVar(&page, "html", "", "write the report as a page to this `file`")
	cmd.Flags().StringVar(&file, "json", "", "write the report as it was hashed to this `file`")
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.connect("")
		if err != nil {
			return err
		}
		raw, err := c.DrillReport(cmd.Context(), args[0])
		if err != nil {
			return fmt.Errorf("read the report of drill %s: %w", args[0], err)
		}
		if file != "" {
			if err := os.WriteFile(file, raw, 0o600); err != nil {
				return err
			}
		}
		if page != "" {
			html, err := rehearsal.HTML(raw)
			if err != nil {
				return err
			}
			if err := os.WriteFile(page, html, 0o600); err != nil {
				return err
			}
		}
		switch {
		case *format != "table":
			return a.write(*format, json.RawMessage(raw))
		case page != "" || file != "":
			return nil
		}
		return a.printReport(raw)
	}
	return cmd
}

func (a *app) completeDrillPlans() completion {
	return completeOne(func(ctx context.Context, begun string) []string { return a.names(ctx, "drillplan", begun) })
}
