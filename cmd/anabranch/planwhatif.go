package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"anabranch/api/fleet"
	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
)

// supposing are the flags of what-if.
type supposing struct {
	without, clusters, prices, demand, capacity []string
}

func (a *app) planWhatIf() *cobra.Command {
	var f supposing
	var simulate bool
	cmd := &cobra.Command{
		Use:   "what-if",
		Short: "Say what a loss, other prices, demand or capacities would do to traffic",
		Long: `Say what a loss, other prices, demand or capacities would do, and change nothing: which shares would move,
what clusters would have to do, what nothing could serve any more, and what it would cost. Both sides of
the comparison are weights that have settled, so that it is what the change alone does.

Flags are combined. Clients of a region that is lost go on asking, from where they are. A factor is 1.5x or
1.5; REGION=2x speaks of the clients of one region, 2x of all. A price is in dollars for an hour of one GPU,
of a cluster, in a region or, everywhere, of a class. With an x behind it is a factor of what it is now, and
2x alone of all prices.`,
		Example: `  anabranch plan what-if --without us-east-1
  anabranch plan what-if --without-cluster us-east-1-a --demand 1.5x
  anabranch plan what-if --price h100=2.40 --price us-east-1-a=9
  anabranch plan what-if --price us-east-1=2x
  anabranch plan what-if --demand eu-west-1=2x --capacity eu-west-1-a=0.5x --simulate -o json`,
		Args: cobra.NoArgs,
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&f.without, "without", nil, "`regions` that lose all their clusters")
	fl.StringSliceVar(&f.clusters, "without-cluster", nil, "`clusters` that are lost")
	fl.StringSliceVar(&f.prices, "price", nil, "what a GPU costs for an hour: `CLUSTER=USD`, REGION=USD or CLASS=USD, or a factor such as us-east-1=2x or 2x; repeatable")
	fl.StringSliceVar(&f.demand, "demand", nil, "`factor` of what is asked for, such as 1.5x, or REGION=2x; repeatable")
	fl.StringSliceVar(&f.capacity, "capacity", nil, "factor of what a cluster can do: `CLUSTER=0.5x`; repeatable")
	fl.BoolVar(&simulate, "simulate", false, "also simulate the fleet; takes seconds")
	a.completeFlag(cmd, "without", "region")
	a.completeFlag(cmd, "without-cluster", "cluster")
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		change, err := f.change()
		if err != nil {
			return misused(err)
		}
		if change.Empty() {
			return misused(errors.New("suppose what? give --without REGION, --without-cluster, --price, --demand or --capacity"))
		}
		c, err := a.connect("")
		if err != nil {
			return err
		}
		if err := nameOthers(cmd.Context(), c, change.Prices); err != nil {
			return err
		}
		raw, err := c.WhatIf(cmd.Context(), change, simulate)
		if err != nil {
			return err
		}
		if *format != "table" {
			return a.write(*format, raw)
		}
		var answer client.WhatIfAnswer
		if err := json.Unmarshal(raw, &answer); err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		return a.printWhatIf(answer)
	}
	return cmd
}

// change reads the flags. Prices name clusters: [nameOthers] finds those that are of something else.
func (f supposing) change() (c plan.Change, err error) {
	for _, r := range f.without {
		c.WithoutRegions = append(c.WithoutRegions, fleet.RegionID(r))
	}
	for _, id := range f.clusters {
		c.WithoutClusters = append(c.WithoutClusters, fleet.ClusterID(id))
	}
	for _, text := range f.prices {
		p, ok := priceOf(text)
		if !ok {
			return c, fmt.Errorf("--price: %q is no price: write CLUSTER=USD, REGION=USD or CLASS=USD, such as h100=2.40, or a factor, such as us-east-1=2x or 2x", text)
		}
		c.Prices = append(c.Prices, p)
	}
	for _, text := range f.demand {
		of, value, narrowed := strings.Cut(text, "=")
		if !narrowed {
			of, value = "", text
		}
		x, ok := factor(value)
		if !ok || narrowed && of == "" {
			return c, fmt.Errorf("--demand: %q is no factor: write 1.5x, or REGION=2x for the clients of one region", text)
		}
		c.Demand = append(c.Demand, plan.DemandChange{Region: fleet.RegionID(of), Factor: x})
	}
	for _, text := range f.capacity {
		of, value, _ := strings.Cut(text, "=")
		x, ok := factor(value)
		if !ok || of == "" || x <= 0 {
			return c, fmt.Errorf("--capacity: %q is no factor above 0: write CLUSTER=0.5x; --without-cluster takes one away", text)
		}
		c.Capacity = append(c.Capacity, plan.CapacityChange{Cluster: fleet.ClusterID(of), Factor: x})
	}
	return c, nil
}

// priceOf reads h100=2.40, h100=2x and 2x.
func priceOf(text string) (p plan.PriceChange, ok bool) {
	of, value, narrowed := strings.Cut(text, "=")
	if !narrowed {
		of, value = "", text
	}
	p.Cluster = fleet.ClusterID(of)
	if strings.HasSuffix(value, "x") {
		p.Factor, ok = factor(value)
		return p, ok && p.Factor > 0 && (of != "" || !narrowed)
	}
	usd, err := strconv.ParseFloat(strings.TrimPrefix(value, "$"), 64)
	p.USDPerHour = usd
	return p, err == nil && of != "" && usd >= 0 && !math.IsInf(usd, 0)
}

// factor reads 1.5x or 1.5.
func factor(text string) (float64, bool) {
	x, err := strconv.ParseFloat(strings.TrimSuffix(text, "x"), 64)
	return x, err == nil && x >= 0 && !math.IsInf(x, 0)
}

// nameOthers makes those prices that are of no cluster there is ones of a region, or of a class of GPU.
func nameOthers(ctx context.Context, c *client.Client, prices []plan.PriceChange) error {
	if len(prices) == 0 {
		return nil
	}
	known := map[policy.Kind]map[string]bool{policy.KindCluster: {}, policy.KindRegion: {}}
	for kind, names := range known {
		list, err := c.List(ctx, kind)
		if err != nil {
			return err
		}
		for _, r := range list.Items {
			names[r.Metadata.Name] = true
		}
	}
	for i, p := range prices {
		switch name := string(p.Cluster); {
		case name == "" || known[policy.KindCluster][name]:
		case known[policy.KindRegion][name]:
			prices[i].Region, prices[i].Cluster = fleet.RegionID(name), ""
		default:
			prices[i].Class, prices[i].Cluster = name, ""
		}
	}
	return nil
}
