package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"anabranch/costmodel"
	"anabranch/costmodel/awsprice"
	"anabranch/costmodel/awsprice/spot"
	"anabranch/costmodel/pricelist"
)

// priceFlags say whom to ask for what.
type priceFlags struct {
	regions, files, instances []string
	cards, shipped            bool
	class, region, purchase   string // what is shown; empty: all
	cluster                   string
	every                     time.Duration
	count                     int
}

func (a *app) prices() *cobra.Command {
	var f priceFlags
	cmd := &cobra.Command{
		Use:   "prices",
		Short: "Show what clusters cost and why, or ask AWS and price files from here",
		Long: `Show what the GPUs of each cluster cost now, how old each price is and where it is from, and why it is used
where several are known: an operator's (a rate card of the control plane) before a live one (AWS), that
before a price file's, and that before one that comes with the program. Then each source that the control
plane asks: how many prices it has, when they were read, what went wrong since, and when it is asked again,
which the node that leads knows.

With --aws, --file, --cards or --shipped nothing of that is shown, but what these sources say when they are
asked from here: to see whether credentials and files are good, or what other instances cost.

Of AWS each region is asked for prices on demand (Price List), on the spot market and in capacity blocks
(EC2). Credentials are found as AWS's own tools find them; to have none is no error. Needed are
pricing:GetProducts, ec2:DescribeSpotPriceHistory and ec2:DescribeCapacityBlockOfferings.

A price file is .csv, .yaml or .json with class, region and usdPerHour, and where known instance, gpus (that
usdPerHour buys), zone, purchase, from, until, asOf, source and estimate.

With --watch sources are asked again and again; the last good prices of one that fails stay.`,
		Example: `  anabranch prices
  anabranch prices --cluster eu-1 -o json
  anabranch prices --aws us-east-1,eu-central-1 --class h100
  anabranch prices --aws eu=eu-central-1 --instance p5.48xlarge,p9.48xlarge=x100:8 --purchase spot
  anabranch prices --cards --file contract.csv
  anabranch prices --aws us-east-1 --watch 1h -o json`,
		Args: cobra.NoArgs,
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&f.regions, "aws", nil, "`regions` of AWS; NAME=CODE where yours have other names, such as eu=eu-central-1")
	fl.StringSliceVar(&f.files, "file", nil, "price `files`")
	fl.BoolVar(&f.cards, "cards", false, "also rate cards of the control plane")
	fl.BoolVar(&f.shipped, "shipped", false, "also what AWS asked on demand when prices were last put into the program")
	fl.StringSliceVar(&f.instances, "instance", nil, "ask AWS for these instance `types` only; TYPE=CLASS:GPUS tells of one that is not known")
	fl.StringVar(&f.cluster, "cluster", "", "show only this cluster of the control plane")
	fl.StringVar(&f.class, "class", "", "show only this class of GPU")
	fl.StringVar(&f.region, "region", "", "show only this region")
	fl.StringVar(&f.purchase, "purchase", "", "show only what is bought so: "+strings.Join(purchases, ", "))
	fl.DurationVar(&f.every, "watch", 0, "ask again at this interval, until it is interrupted")
	fl.IntVar(&f.count, "count", 0, "end after asking so many times; 0: never. Of --watch")
	for flag, kind := range map[string]string{"cluster": "cluster", "region": "region"} {
		_ = cmd.RegisterFlagCompletionFunc(flag, completeEach(func(ctx context.Context, begun string) []string { return a.names(ctx, kind, begun) })) // the flag is there
	}
	_ = cmd.RegisterFlagCompletionFunc("purchase", cobra.FixedCompletions(purchases, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	format := formats(cmd, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		here := len(f.regions) > 0 || len(f.files) > 0 || f.cards || f.shipped
		switch {
		case !here && len(f.instances) > 0:
			return misused(errors.New("--instance says what to ask AWS from here: give --aws REGION too"))
		case here && f.cluster != "":
			return misused(errors.New("--cluster is of the control plane's prices: leave out --aws, --file, --cards and --shipped"))
		case f.purchase != "" && !slices.Contains(purchases, f.purchase):
			return misused(fmt.Errorf("--purchase: %q is unknown; choose one of %s", f.purchase, strings.Join(purchases, ", ")))
		case f.every != 0 && f.every < leastInterval:
			return misused(fmt.Errorf("--watch: %s is too short: use %s or more", f.every, leastInterval))
		case f.count < 0:
			return misused(errors.New("--count can't be below 0"))
		}
		if !here {
			return f.watch(cmd.Context(), func(ctx context.Context) error { return a.printPricesNow(ctx, f, *format) })
		}
		sources, err := a.priceSources(cmd.Context(), f)
		if err != nil {
			return err
		}
		list, err := pricelist.New(pricelist.Options{Sources: sources})
		if err != nil {
			return misused(err)
		}
		return a.showPrices(cmd.Context(), f, list, *format)
	}
	return cmd
}

// purchases are the ways to buy GPUs.
var purchases = []string{string(costmodel.OnDemand), string(costmodel.Spot), string(costmodel.Reserved), string(costmodel.CapacityBlock), string(costmodel.Owned)}

// priceSources are those that the flags name.
func (a *app) priceSources(ctx context.Context, f priceFlags) ([]pricelist.Source, error) {
	var all []pricelist.Source
	if f.cards {
		c, err := a.connect("")
		if err != nil {
			return nil, err
		}
		all = append(all, rateCards{c})
	}
	if f.shipped {
		all = append(all, shipped{})
	}
	for _, path := range f.files {
		all = append(all, pricelist.File{Path: path})
	}
	if len(f.regions) == 0 {
		return all, nil
	}
	var instances []awsprice.Instance
	for _, text := range f.instances {
		i, err := awsprice.ParseInstance(text)
		if err != nil {
			return nil, misused(fmt.Errorf("--instance: %w", err))
		}
		instances = append(instances, i)
	}
	config, err := awsprice.Load(ctx)
	if err != nil {
		return nil, err
	}
	for _, text := range f.regions {
		name, code, named := strings.Cut(text, "=")
		if !named {
			code = name
		}
		place := awsprice.Place{Code: code, Region: name}
		onDemand, err := awsprice.New(config, awsprice.Options{Place: place, Instances: instances})
		if err != nil {
			return nil, misused(fmt.Errorf("--aws: %w", err))
		}
		market, err := spot.New(config, spot.Options{Place: place, Instances: instances})
		if err != nil {
			return nil, misused(fmt.Errorf("--aws: %w", err))
		}
		blocks, err := spot.NewBlocks(config, spot.Options{Place: place, Instances: instances})
		if err != nil {
			return nil, misused(fmt.Errorf("--aws: %w", err))
		}
		all = append(all, onDemand, market, blocks)
	}
	return all, nil
}

// showPrices asks once, or at each interval. To be asked once and fail is an error; a watch goes on.
func (a *app) showPrices(ctx context.Context, f priceFlags, list *pricelist.List, format string) error {
	return f.watch(ctx, func(ctx context.Context) error {
		list.Refresh(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was interrupted, and what is known of it is not all
		}
		if err := a.printPrices(f, list, format); err != nil || f.every > 0 {
			return err
		}
		return failing(list.States())
	})
}

// watch shows once, or at each interval.
func (f priceFlags) watch(ctx context.Context, show func(context.Context) error) error {
	if f.every == 0 {
		return show(ctx)
	}
	again := time.NewTicker(f.every)
	defer again.Stop()
	for n := 1; ; n++ {
		if err := show(ctx); err != nil || n == f.count {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// failing is an error if a source fails.
func failing(states []pricelist.State) error {
	var names []string
	for _, s := range states {
		if s.Standing == pricelist.Failing {
			names = append(names, s.Source)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d sources of prices failed: %s", len(names), len(states), strings.Join(names, ", "))
}
