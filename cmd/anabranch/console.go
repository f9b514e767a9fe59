package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
)

// opening bounds how long the program that opens a browser may take to say that it can't.
const opening = 10 * time.Second

func (a *app) console() *cobra.Command {
	var open bool
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Print a link that opens the web console, signed in as you",
		Long: `Print a link that opens the web console, signed in as you.

The link holds a code and not your token. It is good once, within a minute, on the node that it leads
to, and leaves the browser with a session of twelve hours, or as long as your token if that is less.
Signing out in the console ends the session; the token stays as good as it was. With --open the browser
is opened by $BROWSER, or by what the system has for it.`,
		Example: "  anabranch console\n  anabranch console --open",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&open, "open", false, "open it in a browser")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.connect("")
		if err != nil {
			return err
		}
		link, err := consoleLink(cmd.Context(), c)
		if err != nil {
			return err
		}
		if open {
			if err := openBrowser(cmd.Context(), link); err != nil {
				_, _ = fmt.Fprintf(a.err, "no browser was opened (%v): open the link yourself, within a minute\n", err) // said below as well
			}
		}
		return a.printf("%s\n", link)
	}
	return cmd
}

// consoleLink has a node make a code, and gives the address of its console with it. A node that can't is passed
// over: codes are good where they were made.
func consoleLink(ctx context.Context, c *client.Client) (string, error) {
	var failed []error
	for _, server := range c.Servers {
		one := *c
		one.Servers = []string{server}
		answer, err := one.Do(ctx, client.Call{Method: http.MethodPost, Path: "/v1/session/codes"})
		if errors.Is(err, client.ErrUnreachable) || client.IsStatus(err, http.StatusServiceUnavailable) {
			failed = append(failed, err)
			continue
		}
		if err != nil {
			return "", err
		}
		var made struct {
			Path string `json:"path"`
		}
		if err := json.Unmarshal(answer.Body, &made); err != nil || made.Path == "" {
			return "", fmt.Errorf("read answer to POST /v1/session/codes: %w", cmp.Or(err, errors.New("it has no path")))
		}
		return trimURL(server) + made.Path, nil
	}
	return "", errors.Join(failed...)
}

// openBrowser opens a link. The link stands on a command line for a moment, where others on the machine may see
// it: by then the browser uses its code up, which is good once.
func openBrowser(ctx context.Context, link string) error {
	ctx, cancel := context.WithTimeout(ctx, opening)
	defer cancel()
	program, args := cmp.Or(environment("BROWSER"), "xdg-open"), []string{link}
	switch {
	case environment("BROWSER") != "":
	case runtime.GOOS == "darwin":
		program = "open"
	case runtime.GOOS == "windows":
		program, args = "rundll32", []string{"url.dll,FileProtocolHandler", link}
	}
	if err := exec.CommandContext(ctx, program, args...).Run(); err != nil { //nolint:gosec // the user's own browser
		return fmt.Errorf("%s: %w", program, err)
	}
	return nil
}
