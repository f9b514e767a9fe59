package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/policy"
)

// Exit codes of diff: those of diff(1).
const (
	diffDiffers = 1
	diffTrouble = 2
)

func (a *app) diff() *cobra.Command {
	var files []string
	cmd := &cobra.Command{
		Use:   "diff -f FILE|DIR|-",
		Short: "Compare files with what the control plane has",
		Long: `Compare files with what the control plane has, field by field: what would be created, and what would be
changed by apply. Nothing is changed.

Exit codes: 0 nothing differs, 1 something does, 2 it could not be compared.`,
		Example: `  anabranch diff -f policies/
  anabranch get tenant acme -o yaml | sed s/standard/top/ | anabranch diff -f -`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringArrayVarP(&files, "file", "f", nil, "file, folder, or - for standard input; repeatable")
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		differs, err := a.compare(cmd.Context(), files, *format)
		switch {
		case err != nil:
			return &exitError{diffTrouble, err}
		case differs:
			return &exitError{diffDiffers, errQuiet}
		}
		return nil
	}
	return cmd
}

// difference is how one resource of a file differs, as json and yaml show it.
type difference struct {
	Resource string          `json:"resource"`
	Outcome  client.Outcome  `json:"outcome"`
	Diff     []policy.Change `json:"diff"`
}

// compare prints what differs, and says whether anything does.
func (a *app) compare(ctx context.Context, files []string, format string) (bool, error) {
	if len(files) == 0 {
		return false, errNoFiles
	}
	rs, err := a.documents(files)
	if err != nil {
		return false, err
	}
	c, err := a.connect("")
	if err != nil {
		return false, err
	}
	shelf, err := c.Shelf(ctx)
	if err != nil {
		return false, err
	}
	steps, problems := shelf.Plan(rs)
	if len(problems) > 0 {
		return false, errors.New("this would be refused:" + client.Fields(problems))
	}
	out := []difference{}
	for _, s := range steps {
		if s.Outcome != client.Unchanged {
			out = append(out, difference{title(s.Resource.Kind, s.Resource.Metadata.Name), s.Outcome, s.Changes})
		}
	}
	if format != "table" {
		return len(out) > 0, a.write(format, out)
	}
	for _, d := range out {
		if err := a.printDifference(d); err != nil {
			return false, err
		}
	}
	return len(out) > 0, nil
}

// printDifference prints the changes of one resource, - before and + after.
func (a *app) printDifference(d difference) error {
	if err := a.printf("%s %s\n", d.Resource, d.Outcome); err != nil {
		return err
	}
	for _, ch := range d.Diff {
		if ch.From != nil {
			if err := a.printf("  %s\n", a.tinted("31", "- "+ch.Field+": "+string(ch.From))); err != nil {
				return err
			}
		}
		if ch.To != nil {
			if err := a.printf("  %s\n", a.tinted("32", "+ "+ch.Field+": "+string(ch.To))); err != nil {
				return err
			}
		}
	}
	return nil
}

// tinted colours text on a terminal.
func (a *app) tinted(code, text string) string {
	if !a.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
