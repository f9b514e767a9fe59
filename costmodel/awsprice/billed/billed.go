// Package billed asks AWS Cost Explorer what GPU instances were billed with, to hold it against what was
// counted from prices and configuration. Each page of an answer costs a cent, so it is for once a night.
package billed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/costexplorer"
	"github.com/aws/aws-sdk-go-v2/service/costexplorer/types"

	"anabranch/costmodel"
	"anabranch/costmodel/awsprice"
	"anabranch/costmodel/awsprice/fault"
)

const (
	// explorerRegion is where Cost Explorer answers for all of AWS's commercial regions.
	explorerRegion = "us-east-1"
	// maxPages and maxInstances bound what one question may cost.
	maxPages     = 20
	maxInstances = 200
	// Metric is how costs are counted: what is paid ahead, for reserved instances and savings plans, is spread
	// over the time that it is for.
	Metric = "AmortizedCost"
	// Lag is how long after its end a day's costs may still change:
	// https://docs.aws.amazon.com/cost-management/latest/userguide/ce-exploring-data.html
	Lag = 48 * time.Hour
)

// usage are the kinds of records that running instances make. Taxes, credits, refunds and fees paid ahead are
// others, and no price says anything of them.
func usage() []string { return []string{"Usage", "DiscountedUsage", "SavingsPlanCoveredUsage"} }

// Name of the source.
const Name = "AWS Cost Explorer"

// Explorer asks. It is made by New.
type Explorer struct {
	config aws.Config
	client *costexplorer.Client
}

// New calls nobody. The configuration is [awsprice.Load]'s; its region does not matter.
func New(config aws.Config) *Explorer {
	config.Region = explorerRegion
	return &Explorer{config: config, client: costexplorer.NewFromConfig(config)}
}

// Day asks what instances of these types were billed with on the day of a time, by region and type. Days that
// ended less than Lag ago are not complete. Without credentials the error is a pricelist.ErrAbsent.
func (e *Explorer) Day(ctx context.Context, day time.Time, instances []string) (costmodel.Billed, error) {
	var out costmodel.Billed
	switch {
	case len(instances) == 0:
		return out, nil
	case len(instances) > maxInstances:
		return out, fmt.Errorf("costs of %d instance types: the most that is asked for are %d", len(instances), maxInstances)
	}
	if err := awsprice.Credentials(ctx, e.config); err != nil {
		return out, err
	}
	from := day.UTC().Truncate(24 * time.Hour)
	in := &costexplorer.GetCostAndUsageInput{
		TimePeriod:  &types.DateInterval{Start: aws.String(from.Format(time.DateOnly)), End: aws.String(from.AddDate(0, 0, 1).Format(time.DateOnly))},
		Granularity: types.GranularityDaily,
		Metrics:     []string{Metric},
		GroupBy: []types.GroupDefinition{
			{Type: types.GroupDefinitionTypeDimension, Key: aws.String(string(types.DimensionRegion))},
			{Type: types.GroupDefinitionTypeDimension, Key: aws.String(string(types.DimensionInstanceType))},
		},
		Filter: &types.Expression{And: []types.Expression{
			oneOf(types.DimensionInstanceType, slices.Sorted(slices.Values(instances))),
			oneOf(types.DimensionRecordType, usage()),
		}},
	}
	for range maxPages {
		page, err := e.client.GetCostAndUsage(ctx, in)
		if err != nil {
			return costmodel.Billed{}, fmt.Errorf("costs of %s: %w", from.Format(time.DateOnly), fault.Plain(err))
		}
		if err := read(&out, page); err != nil {
			return costmodel.Billed{}, fmt.Errorf("costs of %s: %w", from.Format(time.DateOnly), err)
		}
		if aws.ToString(page.NextPageToken) == "" {
			slices.SortFunc(out.Charges, func(a, b costmodel.Charge) int {
				return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Instance, b.Instance))
			})
			return out, nil
		}
		in.NextPageToken = page.NextPageToken
	}
	return costmodel.Billed{}, fmt.Errorf("costs of %s: there are more than %d pages", from.Format(time.DateOnly), maxPages)
}

func oneOf(d types.Dimension, values []string) types.Expression {
	return types.Expression{Dimensions: &types.DimensionValues{Key: d, Values: values}}
}

// read adds a page.
func read(d *costmodel.Billed, page *costexplorer.GetCostAndUsageOutput) error {
	for _, result := range page.ResultsByTime {
		d.Estimate = d.Estimate || result.Estimated
		for _, g := range result.Groups {
			if len(g.Keys) != 2 {
				return fmt.Errorf("a group has the keys %q, not a region and an instance type", g.Keys)
			}
			amount := g.Metrics[Metric]
			if unit := aws.ToString(amount.Unit); unit != "USD" {
				return fmt.Errorf("amounts are in %.10q: only US dollars can be compared", unit)
			}
			cost, err := dollars(aws.ToString(amount.Amount))
			if err != nil {
				return fmt.Errorf("%s in %s: %w", g.Keys[1], g.Keys[0], err)
			}
			d.Charges = append(d.Charges, costmodel.Charge{Region: g.Keys[0], Instance: g.Keys[1], Cost: cost})
		}
	}
	return nil
}

// dollars reads an amount, which may have an exponent.
func dollars(text string) (costmodel.Micros, error) {
	amount, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(amount, 0) || math.IsNaN(amount) {
		return 0, errors.New("an amount is no number of dollars")
	}
	return costmodel.FromUSD(amount), nil
}
