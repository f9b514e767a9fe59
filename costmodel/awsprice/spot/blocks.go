package spot

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"anabranch/costmodel"
	"anabranch/costmodel/awsprice"
	"anabranch/costmodel/awsprice/fault"
)

// blockHours is how long a block is asked for: a day is the shortest that is sold.
const blockHours = 24

// Bounds of a block that is believed.
const (
	maxMinutes = 366 * 24 * 60
	maxFee     = 1_000_000_000 * costmodel.Dollar
)

// Blocks is a source of capacity blocks that can be had in one region: one instance for a day. Each offer
// holds from its block's beginning to its end, and its price per hour is the fee by its hours, rounded up.
type Blocks struct {
	o      Options
	config aws.Config
	call   call[ec2.DescribeCapacityBlockOfferingsInput, ec2.DescribeCapacityBlockOfferingsOutput]
}

// NewBlocks calls nobody, like [New].
func NewBlocks(config aws.Config, o Options) (*Blocks, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	config.Region = o.Place.Code
	client := ec2.NewFromConfig(config)
	call := func(ctx context.Context, in *ec2.DescribeCapacityBlockOfferingsInput) (*ec2.DescribeCapacityBlockOfferingsOutput, error) {
		return client.DescribeCapacityBlockOfferings(ctx, in)
	}
	return &Blocks{o: o, config: config, call: call}, nil
}

// Name is "aws capacity blocks" and the region.
func (b *Blocks) Name() string { return "aws capacity blocks " + b.o.Place.Code }

// Offers asks for one instance type after the other. Types that are not sold in blocks there have none.
// Without credentials the error is a pricelist.ErrAbsent.
func (b *Blocks) Offers(ctx context.Context) ([]costmodel.Offer, error) {
	if err := awsprice.Credentials(ctx, b.config); err != nil {
		return nil, err
	}
	var all []costmodel.Offer
	for _, i := range b.o.Instances {
		if !i.Blocks {
			continue
		}
		offers, err := b.ask(ctx, i)
		if notSold(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("capacity blocks of %s in %s: %w", i.Type, b.o.Place.Code, fault.Plain(err))
		}
		all = append(all, offers...)
	}
	return all, nil
}

// notSold says whether EC2 refuses an instance type, as it does in regions that don't have it:
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
func notSold(err error) bool {
	var e smithy.APIError
	if !errors.As(err, &e) {
		return false
	}
	switch e.ErrorCode() {
	case "Unsupported", "UnsupportedOperation", "InvalidInstanceType", "InvalidParameterValue":
		return true
	}
	return false
}

func (b *Blocks) ask(ctx context.Context, i awsprice.Instance) ([]costmodel.Offer, error) {
	in := &ec2.DescribeCapacityBlockOfferingsInput{
		CapacityDurationHours: aws.Int32(blockHours), InstanceCount: aws.Int32(1), InstanceType: &i.Type,
	}
	var all []costmodel.Offer
	for range maxPages {
		page, err := b.call(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, block := range page.CapacityBlockOfferings {
			if aws.ToString(block.InstanceType) != i.Type {
				continue
			}
			perHour, err := hour(block)
			if err != nil {
				return nil, err
			}
			all = append(all, costmodel.Offer{
				Class: i.Class, Instance: i.Type, GPUs: i.GPUs, Region: b.o.Place.Name(), Zone: aws.ToString(block.AvailabilityZone),
				Purchase: costmodel.CapacityBlock, PerHour: perHour, From: aws.ToTime(block.StartDate), Until: aws.ToTime(block.EndDate),
				Origin: costmodel.Live, Source: "EC2 capacity block offerings", AsOf: b.o.Now(),
			})
		}
		if aws.ToString(page.NextToken) == "" {
			return all, nil
		}
		in.NextToken = page.NextToken
	}
	return nil, errPages
}

// hour is what an hour of one instance of a block costs.
func hour(block types.CapacityBlockOffering) (costmodel.Micros, error) {
	if currency := aws.ToString(block.CurrencyCode); currency != "USD" {
		return 0, fmt.Errorf("a block is sold in %.10q, not in dollars", currency)
	}
	fee, err := costmodel.ParseUSD(aws.ToString(block.UpfrontFee))
	if err != nil {
		return 0, err
	}
	minutes := int64(aws.ToInt32(block.CapacityBlockDurationHours))*60 + int64(aws.ToInt32(block.CapacityBlockDurationMinutes))
	instances := int64(aws.ToInt32(block.InstanceCount))
	if minutes <= 0 || instances <= 0 || minutes > maxMinutes || fee > maxFee {
		return 0, fmt.Errorf("a block of %d instances for %d minutes costs %s", instances, minutes, fee)
	}
	parts := costmodel.Micros(minutes * instances)
	return (fee*60 + parts - 1) / parts, nil
}
