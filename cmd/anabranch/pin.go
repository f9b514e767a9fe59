package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	orders "anabranch/api/order"
	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/policy"
)

// pinFlags are what pin and unpin take.
type pinFlags struct {
	percent float64
	term    string
	reason  string
	others  consent
}

// pinCommand keeps clusters at a share of their weight.
func (a *app) pinCommand() *cobra.Command {
	var f pinFlags
	cmd := &cobra.Command{
		Use: "pin REGION|cluster/NAME", Short: "Keep a region or a cluster at a share of its weight for a time, whatever is seen of its health",
		Long: `Keep a region or a cluster at a share of its weight for a time, whatever is seen of its health.

With 100 it stays in use though evidence speaks against it; with 0 it gets nothing, and comes back by the
steps of a ramp when the pin ends. Its health is PINNED meanwhile. It is the Cluster's spec.pin: a drain and
an order to evacuate go before it, "restore" lifts one of less than 100, rules and residency hold as ever, and
routers still leave what is dead by themselves. "unpin" ends it before its time.`,
		Example: `  anabranch pin cluster/us-east-1-a --percent 100 --for 30m --reason "its canary is broken, it is not"
  anabranch pin us-east-1 --percent 25 --reason "new cooling, let it warm up"`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: a.completePlaces(),
	}
	f.bind(cmd)
	cmd.Flags().Float64Var(&f.percent, "percent", 0, "share of its weight, 0 to 100 (required)")
	cmd.Flags().StringVar(&f.term, "for", "", "how long it holds, like 30m or 2h, at most 24h (default: 4h)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		term, err := orders.ParseTerm(f.term)
		switch {
		case err != nil:
			return misused(fmt.Errorf("--%w", err))
		case term <= 0 || term > orders.MaxTerm:
			return misused(fmt.Errorf("--for %s: give a time of at most %s, and pin it again when that is over", term, orders.MaxTerm))
		case !cmd.Flags().Changed("percent") || math.IsNaN(f.percent) || f.percent < 0 || f.percent > 100:
			return misused(errors.New("--percent is missing or out of range: say what share of its weight it is kept at, from 0 to 100"))
		}
		until := time.Now().Add(term).UTC().Truncate(time.Second)
		return a.pinAll(cmd.Context(), &f, args[0], &policy.PinSpec{Percent: &f.percent, Until: until.Format(time.RFC3339)})
	}
	return cmd
}

func (a *app) unpinCommand() *cobra.Command {
	var f pinFlags
	cmd := &cobra.Command{
		Use: "unpin REGION|cluster/NAME", Short: "Take the pin of a region or a cluster back",
		Long: `Take the pin of a region or a cluster back.

Evidence decides again, five seconds later. What was kept below 100 comes back by the steps of a ramp; what
was out of use before, and got nothing meanwhile, is out of use again.`,
		Example: `  anabranch unpin cluster/us-east-1-a --reason "canary mended"`,
		Args:    cobra.ExactArgs(1), ValidArgsFunction: a.completePlaces(),
	}
	f.bind(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.pinAll(cmd.Context(), &f, args[0], nil) }
	return cmd
}

func (f *pinFlags) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, for the audit trail (required)")
	f.others.flags(cmd)
}

func (a *app) completePlaces() completion {
	return completeOne(func(ctx context.Context, begun string) []string { return a.names(ctx, "region", begun) })
}

// pinAll sets the pin of each cluster that a target names, or takes it away with nil.
func (a *app) pinAll(ctx context.Context, f *pinFlags, target string, pin *policy.PinSpec) error {
	if strings.TrimSpace(f.reason) == "" {
		return misused(errors.New("--reason is missing: say why, for whoever looks"))
	}
	c, err := a.connect(f.reason)
	if err != nil {
		return err
	}
	f.others.of(c)
	items, err := clustersOf(ctx, c, target)
	if err != nil {
		return err
	}
	for i := range items {
		if err := a.pinOne(ctx, c, f, &items[i], pin); err != nil {
			return err
		}
	}
	return nil
}

// clustersOf are those that a target as of evacuate names; none is an error.
func clustersOf(ctx context.Context, c *client.Client, target string) ([]client.Item, error) {
	o := orders.Order{Target: placeOf(target)}
	what, name := o.Place()
	if what == "cluster" {
		item, _, err := c.Get(ctx, policy.KindCluster, name)
		return []client.Item{item}, err
	}
	list, err := c.List(ctx, policy.KindCluster)
	if err != nil {
		return nil, err
	}
	var out []client.Item
	for _, item := range list.Items {
		var spec struct {
			Region string `json:"region"`
		}
		if json.Unmarshal(item.Spec, &spec) == nil && spec.Region == name {
			out = append(out, item)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("there is no cluster in region %q: `anabranch get clusters` lists them; of one cluster write cluster/NAME", name)
	}
	return out, nil
}

// pinOne writes one cluster as it was read, but for its pin. If somebody else has changed it meanwhile nothing is.
func (a *app) pinOne(ctx context.Context, c *client.Client, f *pinFlags, item *client.Item, pin *policy.PinSpec) error {
	r, err := pinned(item, pin)
	if err != nil {
		return err
	}
	what := title(r.Kind, r.Metadata.Name)
	done, _, err := c.Apply(ctx, r)
	if waits, err := a.proposed(ctx, c, what, err, f.others.wait); waits {
		return err
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	case done == client.Unchanged && pin == nil:
		return a.printf("%s has no pin\n", what)
	case pin == nil:
		return a.printf("%s is no longer pinned\n", what)
	}
	return a.printf("%s is pinned at %g %% until %s\n", what, *pin.Percent, pin.Ends().Local().Format("2006-01-02 15:04:05"))
}

// pinned is a Cluster as it was read, but for its pin.
func pinned(item *client.Item, pin *policy.PinSpec) (*policy.Resource, error) {
	var spec map[string]json.RawMessage
	if err := json.Unmarshal(item.Spec, &spec); err != nil {
		return nil, fmt.Errorf("read cluster %s: %w", item.Metadata.Name, err)
	}
	delete(spec, "pin")
	if pin != nil {
		text, err := json.Marshal(pin)
		if err != nil {
			return nil, err
		}
		spec["pin"] = text
	}
	doc, err := json.Marshal(policy.Resource{
		APIVersion: policy.APIVersion, Kind: policy.KindCluster, Spec: spec,
		Metadata: policy.Metadata{Name: item.Metadata.Name, Revision: item.Metadata.Revision, Labels: item.Metadata.Labels},
	})
	if err != nil {
		return nil, err
	}
	r, problems := policy.Parse(doc)
	if len(problems) > 0 {
		return nil, fmt.Errorf("cluster %s can't be written:%s", item.Metadata.Name, client.Fields(problems))
	}
	return r, nil
}
