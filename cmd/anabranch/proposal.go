package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
)

// proposalStates are what --state takes.
var proposalStates = []string{"pending", "applied", "rejected", "withdrawn", "stale", "expired", "all"}

func (a *app) proposalCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "proposal",
		Short: "Show and decide changes that others have to approve",
		Long: `Show and decide changes that others have to approve.

A SafetyRule with approval names what one person may not change alone. Such a change is proposed, whoever
sends it, and holds once others with the role approver or admin have approved it. Who proposed it can't be
one of them; as people are told apart by the names of their tokens, give each person one.

A proposal ends unapplied when the resource has changed since (stale), when nobody has decided in time
(expired), when it is rejected, or when whoever made it withdraws it.`,
		Example: `  anabranch proposal list
  anabranch proposal show 4711 --simulate
  anabranch proposal approve 4711 --reason "checked with capacity"`,
	}
	cmd.AddCommand(a.proposalList(), a.proposalShow(), a.proposalApprove(), a.proposalReject(), a.proposalWithdraw())
	return cmd
}

func (a *app) proposalList() *cobra.Command {
	var state, kind, proposer string
	cmd := &cobra.Command{
		Use: "list", Short: "List proposals, newest first", Args: cobra.NoArgs,
		Long:    "List proposals, newest first: those that are pending unless --state names others. Those that have ended are\nremembered for 30 days, at most 1,000 of them.",
		Example: "  anabranch proposal list\n  anabranch proposal list --state all --kind cluster\n  anabranch proposal list --proposer ci-deploy -o json",
	}
	cmd.Flags().StringVar(&state, "state", client.Pending, "only those in this state: "+strings.Join(proposalStates, ", "))
	cmd.Flags().StringVar(&kind, "kind", "", "only those about this kind")
	cmd.Flags().StringVar(&proposer, "proposer", "", "only those of this proposer")
	a.mayBeStale(cmd)
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		query := url.Values{}
		switch {
		case !slices.Contains(proposalStates, state):
			return fmt.Errorf("state %q is unknown; choose one of %s", state, strings.Join(proposalStates, ", "))
		case state != "all":
			query.Set("state", state)
		}
		if kind != "" {
			k, err := kindOf(kind)
			if err != nil {
				return err
			}
			query.Set("kind", string(k))
		}
		if proposer != "" {
			query.Set("proposer", proposer)
		}
		c, err := a.connect("")
		if err != nil {
			return err
		}
		list, err := c.Proposals(cmd.Context(), query)
		if err != nil {
			return err
		}
		if *format != "table" {
			return a.write(*format, map[string]any{"items": list})
		}
		var rows [][]string
		for _, p := range list {
			rows = append(rows, []string{
				p.ID, p.State, p.Action, title(p.Kind, p.Name), p.Proposer.Name, fmt.Sprintf("%d of %d", len(p.Approvals), p.ApprovalsNeeded),
				p.CreatedAt.Format(time.RFC3339), p.ExpiresAt.Format(time.RFC3339), dash(p.Reason),
			})
		}
		return a.table([]string{"ID", "STATE", "ACTION", "RESOURCE", "PROPOSER", "APPROVED", "CREATED", "EXPIRES", "REASON"}, rows)
	}
	return cmd
}

func (a *app) proposalShow() *cobra.Command {
	var simulate bool
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show a proposal with what it would change", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeProposals,
		Long: `Show a proposal with what it would change and, with --simulate, what that would do to traffic now.

With who proposed it and why, who has approved it, how many have to, and until when.`,
		Example: "  anabranch proposal show 4711\n  anabranch proposal show 4711 --simulate\n  anabranch proposal show 4711 -o yaml",
	}
	a.mayBeStale(cmd)
	cmd.Flags().BoolVar(&simulate, "simulate", false, "compare routing tables, and simulate the fleet; takes seconds")
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.connect("")
		if err != nil {
			return err
		}
		var raw json.RawMessage
		query := url.Values{}
		if simulate {
			query.Set("simulate", "true")
		}
		if err := c.JSON(cmd.Context(), "/v1/proposals/"+url.PathEscape(args[0]), query, &raw); err != nil {
			return err
		}
		if *format != "table" {
			return a.write(*format, raw)
		}
		var p client.Proposal
		if err := json.Unmarshal(raw, &p); err != nil {
			return fmt.Errorf("read proposal: %w; -o json shows it as it came", err)
		}
		return a.printProposal(&p)
	}
	return cmd
}

func (a *app) printProposal(p *client.Proposal) error {
	base := "nothing: it is to be created"
	if p.BaseRevision != 0 {
		base = fmt.Sprintf("revision %d", p.BaseRevision)
	}
	err := a.printf("proposal  %s\nstate     %s\nwould     %s %s, made from %s\nby        %s (%s) at %s\nreason    %s\nexpires   %s\napproved  %d of %d%s\nsha256    %s\n",
		p.ID, p.Outcome(), p.Action, title(p.Kind, p.Name), base, p.Proposer.Name, dash(p.Proposer.Role), p.CreatedAt.Format(time.RFC3339), dash(p.Reason),
		p.ExpiresAt.Format(time.RFC3339), len(p.Approvals), p.ApprovalsNeeded, approvedBy(p), p.SHA256)
	if err != nil {
		return err
	}
	if err := a.printChanges(p.Diff); err != nil {
		return err
	}
	if err := a.printLint(p.Lint); err != nil || p.Simulation == nil {
		return err
	}
	return a.printSimulation(p.Simulation)
}

// approvedBy says who, and why.
func approvedBy(p *client.Proposal) string {
	var all []string
	for _, w := range p.Approvals {
		text := w.Name
		if w.Reason != "" {
			text += " (" + w.Reason + ")"
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		return ""
	}
	return ", by " + strings.Join(all, ", ")
}

func (a *app) proposalApprove() *cobra.Command {
	var reason, seen string
	var large bool
	cmd := &cobra.Command{
		Use: "approve ID", Short: "Approve somebody else's proposal", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeProposals,
		Long: `Approve somebody else's proposal. It is applied at once if that was the last approval that it needs.

What is approved is printed, and is bound to its sha256. With --sha256, as ` + "`anabranch proposal show`" + ` tells
it, nothing else is.`,
		Example: "  anabranch proposal approve 4711 --reason \"checked with capacity\"\n  anabranch proposal approve 4711 --sha256 9f2c…",
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail")
	cmd.Flags().StringVar(&seen, "sha256", "", "hash of what you have looked at")
	cmd.Flags().BoolVar(&large, "allow-large-change", false, "move more of the traffic at once than the safety rules allow; needs --reason")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.connect(reason)
		if err != nil {
			return err
		}
		c.LargeChange = large
		p, err := c.Proposal(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if seen != "" && !strings.EqualFold(seen, p.SHA256) {
			return fmt.Errorf("proposal %s has the sha256 %s: look at it again with `anabranch proposal show %s`", p.ID, p.SHA256, p.ID)
		}
		now, err := c.Approve(cmd.Context(), p.ID, p.SHA256)
		if err != nil {
			return fmt.Errorf("approve proposal %s: %w", p.ID, err)
		}
		text := now.Outcome()
		if now.State == client.Pending {
			text = fmt.Sprintf("approved by %d of %d", len(now.Approvals), now.ApprovalsNeeded)
		}
		if err := a.printf("proposal %s, %s %s: %s\n", now.ID, now.Action, title(now.Kind, now.Name), text); err != nil {
			return err
		}
		return a.printChanges(p.Diff)
	}
	return cmd
}

func (a *app) proposalReject() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "reject ID", Short: "Reject a proposal", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeProposals,
		Long: `Reject a proposal.

It ends there: a change that is wanted all the same is proposed anew.`,
		Example: "  anabranch proposal reject 4711 --reason \"not before the audit\"",
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for whoever proposed it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if strings.TrimSpace(reason) == "" {
			return errors.New("say why with --reason, for whoever proposed it")
		}
		c, err := a.connect(reason)
		if err != nil {
			return err
		}
		now, err := c.Reject(cmd.Context(), args[0])
		if err != nil {
			return fmt.Errorf("reject proposal %s: %w", args[0], err)
		}
		return a.printf("proposal %s, %s %s: %s\n", now.ID, now.Action, title(now.Kind, now.Name), now.Outcome())
	}
	return cmd
}

func (a *app) proposalWithdraw() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "withdraw ID", Short: "Take back a proposal of your own", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeProposals,
		Long: `Take back a proposal of your own.

Nobody else can do that; others reject it.`,
		Example: "  anabranch proposal withdraw 4711",
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit trail")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.connect(reason)
		if err != nil {
			return err
		}
		now, err := c.Withdraw(cmd.Context(), args[0])
		if err != nil {
			return fmt.Errorf("withdraw proposal %s: %w", args[0], err)
		}
		return a.printf("proposal %s, %s %s: %s\n", now.ID, now.Action, title(now.Kind, now.Name), now.Outcome())
	}
	return cmd
}

// completeProposals completes the ids of those that are pending.
func (a *app) completeProposals(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	c, err := a.connect("")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, err := c.Proposals(ctx, url.Values{"state": {client.Pending}, "consistency": {"stale"}, "limit": {"100"}})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var ids []string
	for _, p := range list[:min(len(list), maxCompletions)] {
		if strings.HasPrefix(p.ID, begun) {
			ids = append(ids, p.ID)
		}
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}
