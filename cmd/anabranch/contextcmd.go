package main

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"anabranch/api/fleet"
)

func (a *app) contextCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "context",
		Short: "Name control planes, and say which one is meant",
		Long: `Name control planes, and say which one is meant.

Contexts are kept in ~/.config/anabranch/config.yaml (or $XDG_CONFIG_HOME/anabranch/config.yaml, or the
file that ANABRANCH_CONFIG names), which only its owner may read. A context's token is sent to its own
servers only. --context NAME or ANABRANCH_CONTEXT means another than the current one for one command.`,
		Example: `  anabranch context set prod --server https://cp-1:7100,https://cp-2:7100 --ca-file ca.pem --token-file ~/.prod-token
  anabranch context use prod
  anabranch context list`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(a.listContexts(), a.useContext(), a.setContext(), a.deleteContext())
	return cmd
}

func (a *app) listContexts() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List contexts; the current one has a star", Aliases: []string{"ls"},
		Long: `List contexts; the current one has a star.

Tokens are not shown: only where each comes from.`,
		Example: "  anabranch context list -o yaml", Args: cobra.NoArgs,
	}
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(*cobra.Command, []string) error {
		c, err := loadContexts()
		if err != nil {
			return err
		}
		var rows [][]string
		for i := range c.Contexts {
			p := &c.Contexts[i]
			star, token := "", "none"
			switch {
			case p.SignIn != nil:
				token, p.SignIn = "of a login", nil // it is not shown
			case p.TokenFile != "":
				token = "in " + p.TokenFile
			case p.Token != "":
				token, p.Token = "kept", "(kept)" // it is not shown
			}
			if p.Name == c.Current {
				star = "*"
			}
			rows = append(rows, []string{star, p.Name, strings.Join(p.Servers, ","), token, dash(p.CAFile)})
		}
		if *format != "table" {
			return a.write(*format, c)
		}
		return a.table([]string{"", "NAME", "SERVERS", "TOKEN", "CA"}, rows)
	}
	return cmd
}

func (a *app) useContext() *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Make a context the current one",
		Long: `Make a context the current one.

Commands mean it from now on, unless --server, --context or a variable of the environment says otherwise.`,
		Example: "  anabranch context use prod", Args: cobra.ExactArgs(1), ValidArgsFunction: completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := loadContexts()
			if err != nil {
				return err
			}
			if _, err := c.find(args[0]); err != nil {
				return err
			}
			c.Current = args[0]
			if err := c.save(); err != nil {
				return err
			}
			return a.printf("context %s is the current one\n", args[0])
		},
	}
}

func (a *app) setContext() *cobra.Command {
	var p destination
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Make a context, or change what is given",
		Long: `Make a context, or change what is given of it. --server and --token are those of all commands. The first
context is the current one at once.

A token in a file is read each time; one that is given by --token or ANABRANCH_TOKEN is kept in the
contexts file.`,
		Example: `  anabranch context set prod --server https://cp-1:7100,https://cp-2:7100 --token-file ~/.prod-token
  ANABRANCH_TOKEN=… anabranch context set prod --keep-token`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeContexts,
	}
	var keep bool
	cmd.Flags().StringVar(&p.TokenFile, "token-file", "", "file with the bearer token")
	cmd.Flags().StringVar(&p.CAFile, "ca-file", "", "authorities, in PEM, that the servers' certificates are judged by")
	cmd.Flags().BoolVar(&keep, "keep-token", false, "keep the token of ANABRANCH_TOKEN")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if err := fleet.CheckName(args[0]); err != nil {
			return errors.New("context " + err.Error())
		}
		c, err := loadContexts()
		if err != nil {
			return err
		}
		now := destination{Name: args[0]}
		if was, err := c.find(args[0]); err == nil {
			now = *was
		}
		if err := now.change(a, p, keep); err != nil {
			return err
		}
		c.put(now)
		if len(c.Contexts) == 1 {
			c.Current = now.Name
		}
		if err := c.save(); err != nil {
			return err
		}
		return a.printf("context %s kept\n", now.Name)
	}
	return cmd
}

// change takes over what was given.
func (p *destination) change(a *app, given destination, keep bool) error {
	if len(a.servers) > 0 {
		p.Servers = nil
		for _, s := range a.servers {
			if err := checkServer(s); err != nil {
				return err
			}
			p.Servers = append(p.Servers, trimURL(s))
		}
	}
	token := a.token
	if keep || given.TokenFile != "" {
		p.SignIn = nil
	}
	if keep {
		token = environment("ANABRANCH_TOKEN")
	}
	switch {
	case given.TokenFile != "" && token != "":
		return errors.New("give either a token or --token-file, not both")
	case given.TokenFile != "":
		file, err := filepath.Abs(given.TokenFile)
		if err != nil {
			return err
		}
		p.TokenFile, p.Token = file, ""
	case token != "":
		p.TokenFile, p.Token = "", token
	case keep:
		return errors.New("ANABRANCH_TOKEN is empty: there is no token to keep")
	}
	if given.CAFile != "" {
		file, err := filepath.Abs(given.CAFile)
		if err != nil {
			return err
		}
		p.CAFile = file
	}
	if len(p.Servers) == 0 {
		return errors.New("a context needs servers: give --server URL, several separated by commas")
	}
	if _, err := p.authorities(); err != nil {
		return err
	}
	return nil
}

func (a *app) deleteContext() *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Short: "Forget a context",
		Long: `Forget a context.

What is kept of it here goes, its token included; the control plane itself is not told. Use
` + "`token revoke`" + ` for a token that nobody is to use any more.`,
		Example: "  anabranch context delete old", Args: cobra.ExactArgs(1), ValidArgsFunction: completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := loadContexts()
			if err != nil {
				return err
			}
			if _, err := c.find(args[0]); err != nil {
				return err
			}
			var left []destination
			for _, p := range c.Contexts {
				if p.Name != args[0] {
					left = append(left, p)
				}
			}
			c.Contexts = left
			if c.Current == args[0] {
				c.Current = ""
			}
			if err := c.save(); err != nil {
				return err
			}
			return a.printf("context %s deleted\n", args[0])
		},
	}
}
