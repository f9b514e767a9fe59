package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
)

// aRollout is one as /v1/rollouts tells it.
type aRollout struct {
	ID         string    `json:"id"`
	Stage      string    `json:"stage"`
	Paused     bool      `json:"paused"`
	Canary     string    `json:"canary"`
	Region     string    `json:"region"`
	Changes    []string  `json:"changes"`
	StartedAt  time.Time `json:"startedAt"`
	StageSince time.Time `json:"stageSince"`
	Reason     string    `json:"reason"`
	Actor      string    `json:"actor"`
	Retried    bool      `json:"retried"`
	Cohort     *struct {
		Expected int `json:"expected"`
		Known    int `json:"known"`
		Holding  int `json:"holding"`
		Refused  int `json:"refused"`
	} `json:"cohort"`
	Bake *aBake `json:"bake"`
}

func (r *aRollout) stage() string {
	switch {
	case r.Paused:
		return r.Stage + " (paused)"
	case r.Retried:
		return r.Stage + " (retried)"
	}
	return r.Stage
}

// reached says how many routers have the table, of how many.
func (r *aRollout) reached() string {
	if r.Cohort == nil {
		return "-"
	}
	out := fmt.Sprintf("%d of %d", r.Cohort.Holding, max(r.Cohort.Expected, r.Cohort.Known))
	if r.Cohort.Refused > 0 {
		out += fmt.Sprintf(", %d refused", r.Cohort.Refused)
	}
	return out
}

func (r *aRollout) line() string {
	out := fmt.Sprintf("rollout %s: %s", r.ID, r.stage())
	if r.Cohort != nil {
		out += ", " + r.reached() + " routers have it"
	}
	if r.Reason != "" {
		out += ": " + r.Reason
	}
	return out + "\n"
}

func (a *app) rollouts() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "Show and steer how changes of configuration come to routers",
		Long: `Show and steer how changes of configuration come to routers.

With a SafetyRule that says rollout, a change goes to one router first, then to the routers of that
one's region, then to all, with a bake after each step. It is taken back when a router refuses it, when
errors rise, or when routers that got it fall out of sight. What failovers and drains displace waits for
nothing. Such a rule, with bakes shorter than by default:

  apiVersion: anabranch/v1
  kind: SafetyRule
  metadata: {name: staged}
  spec:
    rollout:
      canary: {bakeSeconds: 30}
      region: {bakeSeconds: 60}`,
		Example: `  anabranch rollout watch
  anabranch rollout pause --reason "INC-42"
  anabranch rollout return 4711 --reason "slower than before"`,
	}
	cmd.AddCommand(
		a.rolloutList(), a.rolloutStatus(), a.rolloutRouters(), a.rolloutWatch(),
		a.rolloutAct("promote", "Give the table to all routers now, without waiting for what is left of its bakes", "is with all routers"),
		a.rolloutAct("return", "Take the table back: all routers get the one from before", "is taken back"),
		a.rolloutAct("pause", "Keep a rollout in its stage; it may still go back", "is paused"),
		a.rolloutAct("resume", "Let a paused rollout go on", "goes on"),
		a.rolloutAct("retry", "Try what a returned rollout brought again as it is", "may be tried again"),
	)
	return cmd
}

func (a *app) rolloutList() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the rollouts that are remembered, newest first", Args: cobra.NoArgs,
		Long: `List the rollouts that are remembered, newest first.

For each: how far it came, which router and region it began with, how many routers hold its table, and
why it ended.`,
		Example: "  anabranch rollout list\n  anabranch rollout list -o json",
	}
	a.mayBeStale(cmd)
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.connect("")
		if err != nil {
			return err
		}
		var list struct {
			Items []aRollout `json:"items"`
		}
		if tabled, err := a.answer(cmd.Context(), c, "/v1/rollouts", nil, *format, &list); !tabled {
			return err
		}
		var rows [][]string
		for _, r := range list.Items {
			rows = append(rows, []string{r.ID, r.stage(), r.Canary, r.Region, r.reached(), r.StartedAt.Format(time.RFC3339), dash(strings.Join(r.Changes, ",")), dash(r.Reason)})
		}
		return a.table([]string{"ID", "STAGE", "CANARY", "REGION", "REACHED", "STARTED", "CHANGES", "REASON"}, rows)
	}
	return cmd
}

func (a *app) rolloutStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use: "status [ID]", Short: "Show a rollout, the newest if none is named", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeItems("/v1/rollouts"),
		Long: `Show a rollout, the newest if none is named.

With what it changes, why it stands where it does, and how many of the routers that are to have its table
have it.`,
		Example: "  anabranch rollout status\n  anabranch rollout status 4711 -o yaml",
	}
	a.mayBeStale(cmd)
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.connect("")
		if err != nil {
			return err
		}
		id, err := rolloutID(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		var r aRollout
		if tabled, err := a.answer(cmd.Context(), c, "/v1/rollouts/"+url.PathEscape(id), nil, *format, &r); !tabled {
			return err
		}
		return a.printf("rollout   %s\nstage     %s since %s\n%scanary    %s in %s\nreached   %s\nchanges   %s\nstarted   %s\nby        %s\nreason    %s\n",
			r.ID, r.stage(), r.StageSince.Format(time.RFC3339), r.bakeLines(time.Now()), r.Canary, r.Region, r.reached(), dash(strings.Join(r.Changes, ", ")),
			r.StartedAt.Format(time.RFC3339), dash(r.Actor), dash(r.Reason))
	}
	return cmd
}

// rolloutID is the one named, or the newest.
func rolloutID(ctx context.Context, c *client.Client, args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	var list struct {
		Items []aRollout `json:"items"`
	}
	if err := c.JSON(ctx, "/v1/rollouts", nil, &list); err != nil {
		return "", err
	}
	if len(list.Items) == 0 {
		return "", errors.New("there was no rollout yet; a SafetyRule with `rollout: {}` makes changes go out in stages")
	}
	return list.Items[0].ID, nil
}

var errRolloutEnded = errors.New("the rollout has ended")

func (a *app) rolloutWatch() *cobra.Command {
	cmd := &cobra.Command{
		Use: "watch", Short: "Follow the newest rollout to its end", Args: cobra.NoArgs,
		Long: `Follow the newest rollout to its end; while a change waits for its rollout to begin, wait for that.

It ends with exit code 1 if the table was taken back.`,
		Example: "  anabranch apply -f policies && anabranch rollout watch",
	}
	format := formats(cmd, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.connect("")
		if err != nil {
			return err
		}
		if none, err := a.rolloutToCome(cmd.Context(), c); none || err != nil {
			return err
		}
		var last aRollout
		err = c.Events(cmd.Context(), "/v1/rollouts", url.Values{"watch": {"true"}}, func(name string, data []byte) error {
			if name != "rollout" {
				return nil
			}
			if err := json.Unmarshal(data, &last); err != nil {
				return fmt.Errorf("read rollout: %w", err)
			}
			out := last.line()
			if *format == "json" {
				out = string(data) + "\n"
			}
			if err := a.printf("%s", out); err != nil {
				return err
			}
			if last.Stage != "canary" && last.Stage != "region" {
				return errRolloutEnded
			}
			return nil
		})
		switch {
		case errors.Is(err, errRolloutEnded) && last.Stage == "returned":
			return fmt.Errorf("rollout %s was taken back: %s", last.ID, last.Reason)
		case errors.Is(err, errRolloutEnded):
			return nil
		}
		return err
	}
	return cmd
}

// rolloutAct makes a command that moves a rollout.
func (a *app) rolloutAct(act, short, done string) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: act + " [ID]", Short: short, Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeItems("/v1/rollouts"),
		Long:    short + ".\n\nWithout an ID it is the newest.",
		Example: fmt.Sprintf("  anabranch rollout %s --reason \"INC-42\"\n  anabranch rollout %s 4711", act, act),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.connect(reason)
		if err != nil {
			return err
		}
		id, err := rolloutID(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		if _, err := c.Do(cmd.Context(), client.Call{Method: http.MethodPost, Path: "/v1/rollouts/" + url.PathEscape(id) + "/" + act}); err != nil {
			return fmt.Errorf("%s rollout %s: %w", act, id, err)
		}
		return a.printf("rollout %s %s\n", id, done)
	}
	return cmd
}

func (a *app) freeze() *cobra.Command {
	return a.freezing("freeze", http.MethodPut, "changes are frozen\n", "Keep changes of configuration away from routers",
		`Keep changes of configuration away from routers.

What is written is kept and waits; weights no longer follow load and prices; a rollout under way stays
where it is, and may be returned. What health or a drain displaces still moves.`)
}

func (a *app) unfreeze() *cobra.Command {
	return a.freezing("unfreeze", http.MethodDelete, "changes go out again\n", "Let changes of configuration through again",
		"Let changes of configuration through again. What has waited goes out as any change does.")
}

func (a *app) freezing(use, method, done, short, long string) *cobra.Command {
	var reason string
	cmd := &cobra.Command{Use: use, Short: short, Long: long, Args: cobra.NoArgs, Example: "  anabranch " + use + " --reason \"end of the year\""}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := a.connect(reason)
		if err != nil {
			return err
		}
		if _, err := c.Do(cmd.Context(), client.Call{Method: method, Path: "/v1/freeze"}); err != nil {
			return fmt.Errorf("%s: %w", use, err)
		}
		return a.printf("%s", done)
	}
	return cmd
}
