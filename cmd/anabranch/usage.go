package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// misused makes an error one of usage.
func misused(err error) error { return &exitError{exitUsage, err} }

// execute runs the command line that root was given. What is wrong about the command line itself is an error
// that says how the command is used.
func (a *app) execute(ctx context.Context, root *cobra.Command, args []string) error {
	if err := unknownCommand(root, args); err != nil {
		return misused(err)
	}
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil || a.begun {
		return err
	}
	if cmd.HasSubCommands() {
		return fmt.Errorf("%w\n  usage: `%s --help` lists the commands", err, cmd.CommandPath())
	}
	return fmt.Errorf("%w\n  usage: %s; `%s --help` tells more", err, cmd.UseLine(), cmd.CommandPath())
}

// unknownCommand is an error if a group of commands is asked for one that it doesn't have: cobra would print
// the group's help and call that a success, so a script would not notice.
func unknownCommand(root *cobra.Command, args []string) error {
	group, rest, err := root.Find(args)
	var word string
	if err == nil && group != root && !group.Runnable() && group.HasSubCommands() && group.ParseFlags(rest) == nil {
		word = group.Flags().Arg(0)
	}
	if word == "" {
		return nil // as cobra tells it
	}
	var all []string
	for _, c := range group.Commands() {
		if c.IsAvailableCommand() {
			all = append(all, c.Name())
		}
	}
	group.SuggestionsMinimumDistance = 2 // letters, as cobra has it for the root
	if near := group.SuggestionsFor(word); len(near) > 0 {
		return fmt.Errorf("unknown command %q for %q; did you mean %s?", word, group.CommandPath(), strings.Join(near, " or "))
	}
	return fmt.Errorf("unknown command %q for %q; there are %s", word, group.CommandPath(), strings.Join(all, ", "))
}
