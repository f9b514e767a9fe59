package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"anabranch/cmd/anabranch/client"
	"anabranch/cmd/anabranch/dev"
)

// connect finds the control plane: flags, then environment, then the demonstration of this folder.
// The demonstration's admin token is sent to no other server.
func (a *app) connect(reason string) (*client.Client, error) {
	c := &client.Client{Servers: a.servers, Token: a.token, Reason: reason}
	if len(c.Servers) == 0 {
		for s := range strings.SplitSeq(os.Getenv("ANABRANCH_SERVER"), ",") {
			if s = strings.TrimSpace(s); s != "" {
				c.Servers = append(c.Servers, s)
			}
		}
	}
	if c.Token == "" {
		c.Token = os.Getenv("ANABRANCH_TOKEN")
	}
	if len(c.Servers) == 0 || c.Token == "" {
		if err := fromRecord(c); err != nil {
			return nil, err
		}
	}
	for _, s := range c.Servers {
		u, err := url.Parse(s)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("server %q is not a URL such as http://127.0.0.1:7100", s)
		}
	}
	return c, nil
}

// fromRecord fills in what is missing from dev.json, if there is one.
func fromRecord(c *client.Client) error {
	r, err := dev.Folder(dev.FolderName).Load()
	if errors.Is(err, os.ErrNotExist) {
		if len(c.Servers) == 0 {
			return errors.New("no control plane named: give --server (or ANABRANCH_SERVER), or run where `anabranch dev` was started")
		}
		return nil
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
