package main

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completionTimeout bounds what a shell waits for when it asks for names.
const completionTimeout = 2 * time.Second

// maxCompletions is how many names a shell is given.
const maxCompletions = 100

// completions lets shells complete what the command line takes; cobra writes their scripts.
func (a *app) completions(root *cobra.Command) {
	flag := func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return completeContexts(cmd, nil, begun)
	}
	if err := root.RegisterFlagCompletionFunc("context", flag); err != nil {
		panic(err) // the flag is there
	}
}

// completion is what cobra asks when a shell wants to know what an argument may be.
type completion = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective)

// completeOne completes the only argument of commands with what find gives.
func completeOne(find func(ctx context.Context, begun string) []string) completion {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		return find(ctx, begun), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeTenants completes the name of a tenant.
func (a *app) completeTenants() completion {
	return completeOne(func(ctx context.Context, begun string) []string { return a.names(ctx, "tenant", begun) })
}

// completeItems completes what the lists at a path call their items: by name, or by id.
func (a *app) completeItems(path string) completion {
	return completeOne(func(ctx context.Context, begun string) []string {
		ctx, cancel := context.WithTimeout(ctx, completionTimeout)
		defer cancel()
		c, err := a.connect("")
		if err != nil {
			return nil
		}
		var list struct {
			Items []struct{ Name, ID string }
		}
		if c.JSON(ctx, path, url.Values{"consistency": {"stale"}}, &list) != nil {
			return nil
		}
		var found []string
		for _, i := range list.Items[:min(len(list.Items), maxCompletions)] {
			found = append(found, cmp.Or(i.ID, i.Name))
		}
		return beginning(found, begun)
	})
}

// completeResources completes KIND, then NAME from the server. What can't be known is not offered.
func (a *app) completeResources(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return beginning(plurals(), begun), cobra.ShellCompDirectiveNoFileComp
	case 1:
		return a.names(cmd.Context(), args[0], begun), cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// beginning are the words that begin so.
func beginning(words []string, begun string) []string {
	return slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, begun) })
}

// names are those of a kind that begin so.
func (a *app) names(ctx context.Context, word, begun string) []string {
	kind, err := kindOf(word)
	if err != nil {
		return nil
	}
	c, err := a.connect("")
	if err != nil {
		return nil
	}
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	page, err := c.Page(ctx, kind, url.Values{"name": {begun + "*"}, "consistency": {"stale"}, "limit": {"100"}})
	if err != nil {
		return nil
	}
	var names []string
	for _, i := range page.Items[:min(len(page.Items), maxCompletions)] {
		names = append(names, i.Metadata.Name)
	}
	return names
}

// completeContexts completes the name of a context.
func completeContexts(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	c, err := loadContexts()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, p := range c.Contexts {
		if strings.HasPrefix(p.Name, begun) {
			names = append(names, p.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
