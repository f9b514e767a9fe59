package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/policy"
)

func (a *app) apply() *cobra.Command {
	var files []string
	var dryRun bool
	var reason string
	var large bool
	var by manager
	var others consent
	cmd := &cobra.Command{
		Use:   "apply -f FILE|DIR|-",
		Short: "Create resources, or replace what differs",
		Long: `Create resources, or replace what differs.

All documents are read and checked before the first is sent; one mistake, and nothing changes. They
are sent in an order in which references point backwards; the first that is refused ends it.

Automation names itself with --manager. It may change fields that it has set itself and add others; a
field that a person or another automation has set it may change with --force only.

A document with metadata.revision, as get writes it, replaces that revision only: if somebody has
changed the resource since, nothing changes. Without it the present one is replaced, whatever it is.`,
		Example: `  anabranch apply -f tenant.yaml
  anabranch apply -f policies/ --dry-run
  sed s/standard/top/ tenant.yaml | anabranch apply -f - --reason "contract renewed"`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil, "file, folder, or - for standard input; repeatable")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would change, and change nothing")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail")
	cmd.Flags().BoolVar(&large, "allow-large-change", false, "move more of the traffic at once than the safety rules allow; needs --reason")
	by.flags(cmd)
	others.flags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(files) == 0 {
			return errNoFiles
		}
		rs, err := a.documents(files)
		if err != nil {
			return err
		}
		c, err := a.connect(reason)
		if err != nil {
			return err
		}
		c.LargeChange = large
		by.of(c)
		others.of(c)
		if dryRun {
			return a.rehearse(cmd.Context(), c, rs)
		}
		changed := false
		for _, r := range rs {
			done, changes, err := c.Apply(cmd.Context(), r)
			if waits, err := a.proposed(cmd.Context(), c, title(r.Kind, r.Metadata.Name), err, others.wait); waits {
				if err != nil {
					return err
				}
				continue
			}
			if client.IsStatus(err, http.StatusPreconditionFailed) && r.Metadata.Revision != 0 {
				return fmt.Errorf("%s: %w\n  or: take metadata.revision, which is %d, out of the document, and it replaces whatever is there",
					title(r.Kind, r.Metadata.Name), err, r.Metadata.Revision)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", title(r.Kind, r.Metadata.Name), err)
			}
			changed = changed || done != client.Unchanged
			if err := a.printOutcome(r, done, "", changes); err != nil {
				return err
			}
		}
		if changed {
			a.noteHeldBack(cmd.Context(), c)
		}
		return nil
	}
	return cmd
}

// rehearse says what apply would do, and changes nothing.
func (a *app) rehearse(ctx context.Context, c *client.Client, rs []*policy.Resource) error {
	shelf, err := c.Shelf(ctx)
	if err != nil {
		return err
	}
	claims := shelf.Claims(rs, c.Manager, c.Force)
	offers := offersOf(ctx, c, slices.DeleteFunc(slices.Clone(rs), func(r *policy.Resource) bool { return r.Kind != policy.KindCluster }))
	before := warningsOf(shelf, offers, time.Now())
	steps, problems := shelf.Plan(rs)
	problems = append(problems, claims...)
	if len(problems) > 0 {
		return fmt.Errorf("this would be refused:%s", client.Fields(problems))
	}
	for _, s := range steps {
		if err := a.printOutcome(s.Resource, s.Outcome, " (dry run)", s.Changes); err != nil {
			return err
		}
	}
	return a.printLint(brought(rs, before, warningsOf(shelf, offers, time.Now())))
}

// printOutcome says what became of a resource; what differs, if it was there before.
func (a *app) printOutcome(r *policy.Resource, done client.Outcome, note string, changes []policy.Change) error {
	if err := a.printf("%s %s%s\n", title(r.Kind, r.Metadata.Name), done, note); err != nil || done != client.Configured {
		return err
	}
	for _, ch := range changes {
		if err := a.printf("  %s: %s → %s\n", ch.Field, dash(string(ch.From)), dash(string(ch.To))); err != nil {
			return err
		}
	}
	return nil
}

// title names a resource in what is printed, as get takes it.
func title(kind policy.Kind, name string) string { return policy.Plural(kind) + "/" + name }

func (a *app) remove() *cobra.Command {
	var files []string
	var reason string
	var large bool
	var ignoreMissing bool
	var by manager
	var others consent
	cmd := &cobra.Command{
		Use:   "delete KIND NAME | delete -f FILE|DIR|-",
		Short: "Delete resources",
		Long: `Delete one resource, or all that stand in files, in the reverse of the order in which apply creates
them. What others still refer to is not deleted.`,
		Example: `  anabranch delete quota globex
  anabranch delete -f policies/ --ignore-missing`,
		Args: cobra.MaximumNArgs(2), ValidArgsFunction: a.completeResources,
	}
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil, "file, folder, or - for standard input; repeatable")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail")
	cmd.Flags().BoolVar(&large, "allow-large-change", false, "move more of the traffic at once than the safety rules allow; needs --reason")
	by.flags(cmd)
	others.flags(cmd)
	cmd.Flags().BoolVar(&ignoreMissing, "ignore-missing", false, "a resource that is not there is no failure")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		targets, err := a.targets(args, files)
		if err != nil {
			return err
		}
		c, err := a.connect(reason)
		if err != nil {
			return err
		}
		c.LargeChange = large
		by.of(c)
		others.of(c)
		for _, t := range targets {
			err := c.Delete(cmd.Context(), t.Kind, t.Metadata.Name)
			if waits, err := a.proposed(cmd.Context(), c, title(t.Kind, t.Metadata.Name)+" deletion", err, others.wait); waits {
				if err != nil {
					return err
				}
				continue
			}
			word := "deleted"
			if ignoreMissing && client.IsStatus(err, http.StatusNotFound) {
				word, err = "was not there", nil
			}
			if err != nil {
				return fmt.Errorf("%s: %w", title(t.Kind, t.Metadata.Name), err)
			}
			if err := a.printf("%s %s\n", title(t.Kind, t.Metadata.Name), word); err != nil {
				return err
			}
		}
		a.noteHeldBack(cmd.Context(), c)
		return nil
	}
	return cmd
}

// targets of delete: one by kind and name, or those of files with what refers to others first.
func (a *app) targets(args, files []string) ([]*policy.Resource, error) {
	switch {
	case len(files) > 0 && len(args) > 0:
		return nil, misused(errors.New("give either KIND NAME or -f, not both"))
	case len(files) > 0:
		rs, err := a.documents(files)
		slices.Reverse(rs)
		return rs, err
	case len(args) == 2:
		kind, err := kindOf(args[0])
		if err != nil {
			return nil, err
		}
		return []*policy.Resource{{Kind: kind, Metadata: policy.Metadata{Name: args[1]}}}, nil
	}
	return nil, misused(errors.New("name what to delete: KIND NAME, or -f FILE"))
}
