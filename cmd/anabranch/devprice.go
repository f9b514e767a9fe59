package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"anabranch/cmd/anabranch/client"
	"anabranch/cmd/anabranch/dev/seed"
	"anabranch/controlplane/policy"
	"anabranch/costmodel"
)

// objectives are the words for what a policy aims for.
var objectives = []string{policy.LatencyFirst, policy.LatencyLeaning, policy.Balanced, policy.CostLeaning, policy.CostFirst}

func (a *app) devPrice() *cobra.Command {
	var class, objective string
	cmd := &cobra.Command{
		Use:   "price REGION USD",
		Short: "Change what a GPU-hour costs in a region of the demonstration",
		Long: `Change what a GPU-hour costs in a region of the demonstration: writes the price into its rate card. What
clusters cost, and bills, are other ones from then on. Traffic follows if the policy cares for money, which it
does not at first: --objective says how much. A policy that has changed moves it at once, and a price by 20
points a minute at most, so the objective is set first, and the price once there are weights for it.

` + "`anabranch prices`" + ` shows prices, ` + "`anabranch cost`" + ` what is paid, and ` + "`anabranch plan explain MODEL`" + `
why traffic goes where it does.`,
		Example: `  anabranch dev price us-east-1 30 --objective cost-leaning
  anabranch dev price us-east-1 6.88 --class h100
  anabranch plan explain llama-3.1-8b`,
		Args: cobra.ExactArgs(2),
		ValidArgsFunction: completeOne(func(ctx context.Context, begun string) []string {
			return a.names(ctx, "region", begun)
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			usd, err := costmodel.ParseUSD(args[1])
			if err != nil {
				return misused(err)
			}
			if objective != "" && !slices.Contains(objectives, objective) {
				return misused(fmt.Errorf("--objective: %q is unknown; choose one of %s", objective, strings.Join(objectives, ", ")))
			}
			c, err := a.connect("")
			if err != nil {
				return err
			}
			if objective != "" {
				if err := a.aim(cmd.Context(), c, objective); err != nil {
					return err
				}
			}
			if err := a.reprice(cmd.Context(), c, args[0], class, usd); err != nil {
				return err
			}
			return a.follows(cmd.Context(), c)
		},
	}
	cmd.Flags().StringVar(&class, "class", "", "of this class of GPU only (default: all)")
	cmd.Flags().StringVar(&objective, "objective", "", "what the policy is to aim for, as latency-first, balanced or cost-first (default: as it is)")
	_ = cmd.RegisterFlagCompletionFunc("objective", cobra.FixedCompletions(objectives, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

// reprice writes a price into the demonstration's rate card.
func (a *app) reprice(ctx context.Context, c *client.Client, region, class string, usd costmodel.Micros) error {
	var spec policy.RateCardSpec
	card, err := specOf(ctx, c, policy.KindRateCard, seed.RateCard, &spec)
	if err != nil {
		return err
	}
	var known, told []string
	for i := range spec.GPUs {
		g := &spec.GPUs[i]
		known = append(known, g.Class+" in "+g.Region)
		if g.Region != region || class != "" && g.Class != class {
			continue
		}
		told = append(told, fmt.Sprintf("%s in %s: %s for a GPU-hour instead of %s", g.Class, g.Region, usd, costmodel.FromUSD(g.USDPerHour)))
		g.USDPerHour = usd.USD()
	}
	if len(told) == 0 {
		return fmt.Errorf("rate card %s has no price for that; it has %s", seed.RateCard, strings.Join(slices.Compact(known), ", "))
	}
	if err := applySpec(ctx, c, card); err != nil {
		return err
	}
	return a.printf("%s\n", strings.Join(told, "\n"))
}

// aim sets what the policy aims for, and waits for the weights that this makes, if any.
func (a *app) aim(ctx context.Context, c *client.Client, objective string) error {
	var spec policy.TrafficPolicySpec
	r, err := specOf(ctx, c, policy.KindTrafficPolicy, seed.Policy, &spec)
	if err != nil || spec.Objective == objective {
		return err
	}
	spec.Objective, spec.CostPreference = objective, 0 // which the word stands for
	if err := applySpec(ctx, c, r); err != nil {
		return err
	}
	if err := a.printf("policy %s is %s now: traffic goes by that at once\n", seed.Policy, objective); err != nil {
		return err
	}
	if r, err = specOf(ctx, c, policy.KindTrafficPolicy, seed.Policy, &spec); err != nil {
		return err
	}
	return weighed(ctx, c, r.Metadata.Revision)
}

// plansWithin is how long after a change there are weights that it makes, and some more.
const plansWithin = 3 * time.Second

// weighed waits until the weights in force are newer than a revision. A change that moves none, or a control plane
// without weights, is nothing to wait for.
func weighed(ctx context.Context, c *client.Client, revision uint64) error {
	again := time.NewTicker(plansWithin / 20)
	defer again.Stop()
	end := time.Now().Add(plansWithin)
	for {
		var e struct {
			TableRevision uint64 `json:"tableRevision"`
		}
		err := c.JSON(ctx, "/v1/models/"+seed.SmallModel+"/plan", nil, &e)
		if err != nil || e.TableRevision > revision || time.Now().After(end) {
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		}
	}
}

// follows tells whether traffic follows prices.
func (a *app) follows(ctx context.Context, c *client.Client) error {
	var spec policy.TrafficPolicySpec
	r, err := specOf(ctx, c, policy.KindTrafficPolicy, seed.Policy, &spec)
	if err != nil {
		return err
	}
	policy.Defaults(r)
	preference := r.Spec.(*policy.TrafficPolicySpec).CostPreference
	if preference <= 0 {
		return a.printf("policy %s goes by latency alone, so traffic stays where it is: --objective cost-leaning lets it follow\n", seed.Policy)
	}
	return a.printf("policy %s goes by cost (%g of 1): `anabranch plan explain %s` tells where traffic goes, and why\n", seed.Policy, preference, seed.SmallModel)
}

// specOf reads a resource as this program knows it, to be changed by its spec.
func specOf(ctx context.Context, c *client.Client, kind policy.Kind, name string, spec any) (*policy.Resource, error) {
	item, _, err := c.Get(ctx, kind, name)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(item.Spec, spec); err != nil {
		return nil, fmt.Errorf("read %s: %w", title(kind, name), err)
	}
	return &policy.Resource{
		APIVersion: policy.APIVersion, Kind: kind, Spec: spec,
		Metadata: policy.Metadata{Name: name, Revision: item.Metadata.Revision, Labels: item.Metadata.Labels},
	}, nil
}

// applySpec writes a resource whose spec has been changed.
func applySpec(ctx context.Context, c *client.Client, r *policy.Resource) error {
	doc, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write %s: %w", title(r.Kind, r.Metadata.Name), err)
	}
	r, problems := policy.Parse(doc)
	if len(problems) == 0 {
		problems = policy.Validate(r)
	}
	if len(problems) > 0 {
		return misused(fmt.Errorf("this is not valid:%s", client.Fields(problems)))
	}
	_, _, err = c.Apply(ctx, r)
	return err
}
