package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
	"anabranch/cmd/anabranch/dev"
)

// connect finds the control plane: flags, then environment, then the context that was named, then the
// demonstration of this folder, then the current context. A token that was found with servers is sent to
// no others.
func (a *app) connect(reason string) (*client.Client, error) {
	c := &client.Client{Servers: a.servers, Token: a.token, Reason: reason, Stale: a.stale}
	if len(c.Servers) == 0 && a.context == "" {
		for s := range strings.SplitSeq(os.Getenv("ANABRANCH_SERVER"), ",") {
			if s = strings.TrimSpace(s); s != "" {
				c.Servers = append(c.Servers, s)
			}
		}
	}
	if c.Token == "" && a.context == "" {
		c.Token = environment("ANABRANCH_TOKEN")
	}
	named := a.context
	if named == "" && len(c.Servers) == 0 {
		named = environment("ANABRANCH_CONTEXT")
	}
	if named != "" {
		if err := fromContext(c, named); err != nil {
			return nil, err
		}
	}
	if len(c.Servers) == 0 || c.Token == "" && named == "" {
		if err := fromRecord(c); err != nil {
			return nil, err
		}
	}
	for _, s := range c.Servers {
		if err := checkServer(s); err != nil {
			return nil, err
		}
	}
	c.Age = a.toldAge()
	return c, nil
}

// freshEnough is how long ago a node may have heard of the leader without this being worth a word.
const freshEnough = 2 * time.Second

// toldAge says once, beside what was asked for, how old that may be.
func (a *app) toldAge() func(time.Duration) {
	var once sync.Once
	return func(age time.Duration) {
		text := "note: the node has not heard of a leader since it started: what it has may be old"
		if age >= 0 {
			text = fmt.Sprintf("note: the node last heard of a leader %s ago", age.Round(time.Second))
		}
		if age < 0 || age > freshEnough {
			once.Do(func() { _, _ = fmt.Fprintln(a.err, text) }) // nowhere left to say it
		}
	}
}

// mayBeStale gives a command that reads the flag --stale: without a majority nothing else can be read.
func (a *app) mayBeStale(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.stale, "stale", false, "take what a node has, without asking a leader; it may be old")
}

func environment(name string) string { return os.Getenv(name) }

func checkServer(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("server %q is not a URL such as http://127.0.0.1:7100", s)
	}
	return nil
}

// fromContext fills in what is missing from a context.
func fromContext(c *client.Client, name string) error {
	all, err := loadContexts()
	if err != nil {
		return err
	}
	p, err := all.find(name)
	if err != nil {
		return err
	}
	known, err := p.client("")
	if err != nil {
		return err
	}
	c.Transport = known.Transport
	if len(c.Servers) == 0 {
		c.Servers = p.Servers
	}
	elsewhere := func(s string) bool { return !slices.Contains(p.Servers, trimURL(s)) }
	if c.Token == "" && !slices.ContainsFunc(c.Servers, elsewhere) {
		c.Token, err = p.secret(context.Background()) // bounded by itself, and over before the command begins
	}
	return err
}

// fromRecord fills in what is missing from dev.json, if there is one.
func fromRecord(c *client.Client) error {
	r, err := dev.Folder(dev.FolderName).Load()
	if errors.Is(err, os.ErrNotExist) {
		if len(c.Servers) > 0 {
			return nil
		}
		all, err := loadContexts()
		if err != nil {
			return err
		}
		if all.Current == "" {
			return errors.New("no control plane named: give --server (or ANABRANCH_SERVER), choose one with `anabranch context use`, or run where `anabranch dev` was started")
		}
		return fromContext(c, all.Current)
	}
	if err != nil {
		return err
	}
	var own []string
	for _, n := range r.ControlPlane {
		own = append(own, n.HTTP)
	}
	if len(c.Servers) == 0 {
		c.Servers = own
	}
	elsewhere := func(s string) bool { return !slices.Contains(own, strings.TrimRight(s, "/")) }
	if c.Token == "" && !slices.ContainsFunc(c.Servers, elsewhere) {
		c.Token = r.Tokens.Admin
	}
	return nil
}
