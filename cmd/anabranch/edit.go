package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/policy"
)

func (a *app) edit() *cobra.Command {
	var reason string
	var others consent
	cmd := &cobra.Command{
		Use:   "edit KIND NAME",
		Short: "Change a resource in an editor",
		Long: `Change a resource in the editor that VISUAL or EDITOR names (else vi).

What is wrong stands above the text when the editor opens again, until it is right or left unchanged.
A text that was refused in the end is kept, and its file named. If somebody else has changed the
resource meanwhile nothing is changed.`,
		Example: `  anabranch edit policy default
  EDITOR="code --wait" anabranch edit tenant acme --reason "contract renewed"`,
		Args: cobra.ExactArgs(2), ValidArgsFunction: a.completeResources,
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail")
	others.flags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		kind, err := kindOf(args[0])
		if err != nil {
			return err
		}
		c, err := a.connect(reason)
		if err != nil {
			return err
		}
		others.of(c)
		item, _, err := c.Get(cmd.Context(), kind, args[1])
		if err != nil {
			return err
		}
		return a.edited(cmd.Context(), c, item, others.wait)
	}
	return cmd
}

// edited lets the user change an item until it is taken, or left as it was.
func (a *app) edited(ctx context.Context, c *client.Client, item client.Item, wait bool) error {
	item.Status = nil
	raw, err := json.Marshal(item)
	if err != nil {
		return fmt.Errorf("write %s: %w", title(item.Kind, item.Metadata.Name), err)
	}
	text, err := yaml.JSONToYAML(raw)
	if err != nil {
		return fmt.Errorf("write %s: %w", title(item.Kind, item.Metadata.Name), err)
	}
	file, err := os.CreateTemp("", "anabranch-edit-*.yaml") // which is 0600
	if err != nil {
		return err
	}
	name := file.Name()
	if err := file.Close(); err != nil {
		return err
	}
	var wrong error // with the text as it is
	for {
		now, err := a.inEditor(ctx, name, withComments(text, wrong))
		if err != nil {
			return errors.Join(err, os.Remove(name))
		}
		if now = withoutComments(now); bytes.Equal(now, withoutComments(text)) {
			if wrong != nil {
				return fmt.Errorf("nothing was changed; the text is in %s: %w", name, wrong)
			}
			return errors.Join(a.printf("%s unchanged\n", title(item.Kind, item.Metadata.Name)), os.Remove(name))
		}
		text = now
		done, changes, r, err := a.take(ctx, c, item, text)
		if waits, err := a.proposed(ctx, c, title(item.Kind, item.Metadata.Name), err, wait); waits {
			return errors.Join(err, os.Remove(name))
		}
		if err == nil {
			err := a.printOutcome(r, done, "", changes)
			a.noteHeldBack(ctx, c)
			return errors.Join(err, os.Remove(name))
		}
		if client.IsStatus(err, 412) || errors.Is(err, client.ErrUnreachable) || ctx.Err() != nil {
			return fmt.Errorf("nothing was changed; the text is in %s: %w", name, err)
		}
		wrong = err
	}
}

// take judges a text and sends it.
func (a *app) take(ctx context.Context, c *client.Client, item client.Item, text []byte) (client.Outcome, []policy.Change, *policy.Resource, error) {
	r, problems := policy.Parse(text)
	if len(problems) == 0 {
		problems = policy.Validate(r)
	}
	if len(problems) > 0 {
		return "", nil, nil, errors.New("it is not valid:" + client.Fields(problems))
	}
	if r.Kind != item.Kind || r.Metadata.Name != item.Metadata.Name {
		return "", nil, nil, fmt.Errorf("it is %s now; kind and name must stay, use apply for another resource", title(r.Kind, r.Metadata.Name))
	}
	r.Metadata.Revision = item.Metadata.Revision
	done, changes, err := c.Apply(ctx, r)
	return done, changes, r, err
}

// inEditor shows the text in the user's editor and gives back what it has become.
func (a *app) inEditor(ctx context.Context, name string, text []byte) ([]byte, error) {
	if err := os.WriteFile(name, text, 0o600); err != nil {
		return nil, err
	}
	words := strings.Fields(cmp.Or(environment("VISUAL"), environment("EDITOR"), "vi"))
	if len(words) == 0 {
		return nil, errors.New("EDITOR names nothing; set it to the editor's command")
	}
	editor := exec.CommandContext(ctx, words[0], append(words[1:], name)...) //nolint:gosec // it is the user's own choice
	editor.Stdin, editor.Stdout, editor.Stderr = a.in, a.out, a.err
	if err := editor.Run(); err != nil {
		return nil, fmt.Errorf("editor %s: %w; set EDITOR to another", words[0], err)
	}
	return os.ReadFile(filepath.Clean(name))
}

// commentMark begins the lines that are ours.
const commentMark = "#| "

// withComments puts what is wrong above the text.
func withComments(text []byte, wrong error) []byte {
	var b bytes.Buffer
	say := func(s string) {
		for line := range strings.SplitSeq(s, "\n") {
			b.WriteString(commentMark + line + "\n")
		}
	}
	if wrong != nil {
		say(wrong.Error())
		say("Correct it, or leave the editor without a change to give up.")
	} else {
		say("Leave the editor without a change to leave the resource as it is.")
	}
	b.Write(text)
	return b.Bytes()
}

func withoutComments(text []byte) []byte {
	var b bytes.Buffer
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte(strings.TrimSpace(commentMark))) {
			b.Write(line)
		}
	}
	return bytes.TrimSpace(b.Bytes())
}
