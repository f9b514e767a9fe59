package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
)

// proposalHelp stands in the help of commands whose changes others may have to approve.
const proposalHelp = `

What a SafetyRule protects with approval is not changed at once: it is proposed, which is a success. Others
look at it with ` + "`anabranch proposal show ID`" + ` and approve it; --wait waits for that, and fails if it is not
applied in the end. In an emergency --break-glass applies it at once, whatever it moves: that stands in the
audit trail, in history and in the status, and raises a metric. It lifts no freeze and skips no stage.`

// consent is what a command does where others have to approve a change.
type consent struct {
	glass string // why it does not wait for them; empty: it does
	wait  bool
}

func (o *consent) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.glass, "break-glass", "", "why the change is to hold at once, without the approval that it needs")
	cmd.Flags().BoolVar(&o.wait, "wait", false, "where others have to approve the change, wait until they have decided")
	cmd.Long += proposalHelp
	run := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("break-glass") && strings.TrimSpace(o.glass) == "" {
			return errors.New("--break-glass needs a reason: what is the emergency?")
		}
		if run != nil {
			return run(cmd, args)
		}
		return nil
	}
}

func (o *consent) of(c *client.Client) { c.BreakGlass = o.glass }

// proposed says that a change has become a proposal, and how to go on; then done is true. Any other error
// comes back as it is. With wait it waits for the decision.
func (a *app) proposed(ctx context.Context, c *client.Client, what string, err error, wait bool) (done bool, _ error) {
	var p *client.ProposedError
	if !errors.As(err, &p) {
		return false, err
	}
	who := "somebody else has"
	if p.ApprovalsNeeded > 1 {
		who = fmt.Sprintf("%d others have", p.ApprovalsNeeded)
	}
	if err := a.printf("%s proposed as %s: %s to approve it until %s\n  anabranch proposal show %s\n", what, p.ID, who, p.ExpiresAt.Local().Format("2006-01-02 15:04 MST"), p.ID); err != nil || !wait {
		return true, err
	}
	now, err := c.Decided(ctx, p.ID)
	switch {
	case err != nil:
		return true, fmt.Errorf("wait for proposal %s: %w", p.ID, err)
	case now.State != client.Applied:
		return true, fmt.Errorf("%s: proposal %s is %s", what, p.ID, now.Outcome())
	}
	return true, a.printf("%s %s\n", what, now.Outcome())
}
