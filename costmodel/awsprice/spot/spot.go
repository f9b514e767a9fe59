// Package spot asks EC2 what GPU instances cost on the spot market and in capacity blocks. It is apart from
// package awsprice because the EC2 client behind it is the largest of the SDK: it takes a minute to compile.
// Only commands import it.
package spot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"anabranch/costmodel"
	"anabranch/costmodel/awsprice"
	"anabranch/costmodel/awsprice/fault"
)

// Bounds of one answer.
const (
	maxPages = 50
	perPage  = 1000
)

// Options of a Market. Place is required.
type Options struct {
	Place awsprice.Place
	// Instances that are asked for; default [awsprice.Instances].
	Instances []awsprice.Instance
	// Now tells the time; default time.Now.
	Now func() time.Time
}

var errPages = fmt.Errorf("there are more than %d pages", maxPages)

func (o Options) withDefaults() (Options, error) {
	if o.Place.Code == "" {
		return o, errors.New("prices of EC2: no region is named")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if len(o.Instances) == 0 {
		o.Instances = awsprice.Instances()
	}
	return o, nil
}

// Market is a source of spot prices for Linux in one region: of each instance type and zone the one in force.
type Market struct {
	o      Options
	config aws.Config
	ask    call[ec2.DescribeSpotPriceHistoryInput, ec2.DescribeSpotPriceHistoryOutput]
}

// call is one operation of the client. Nothing here may hold the client itself, not even a paginator: a type
// that can be reached by reflection keeps all of its methods in the binary, and each of the client's 700
// operations brings its own code.
type call[In, Out any] func(context.Context, *In) (*Out, error)

// New calls nobody. The configuration is [awsprice.Load]'s; its region does not matter.
func New(config aws.Config, o Options) (*Market, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	config.Region = o.Place.Code
	client := ec2.NewFromConfig(config)
	ask := func(ctx context.Context, in *ec2.DescribeSpotPriceHistoryInput) (*ec2.DescribeSpotPriceHistoryOutput, error) {
		return client.DescribeSpotPriceHistory(ctx, in)
	}
	return &Market{o: o, config: config, ask: ask}, nil
}

// Name is "aws spot" and the region.
func (m *Market) Name() string { return "aws spot " + m.o.Place.Code }

// Offers asks for all instance types at once. Those that nobody sells have none.
// Without credentials the error is a pricelist.ErrAbsent.
func (m *Market) Offers(ctx context.Context) ([]costmodel.Offer, error) {
	if err := awsprice.Credentials(ctx, m.config); err != nil {
		return nil, err
	}
	history, err := m.history(ctx)
	if err != nil {
		return nil, fmt.Errorf("spot prices in %s: %w", m.o.Place.Code, fault.Plain(err))
	}
	var all []costmodel.Offer
	for _, p := range newest(history) {
		i := slices.IndexFunc(m.o.Instances, func(i awsprice.Instance) bool { return i.Type == string(p.InstanceType) })
		if i < 0 {
			continue
		}
		perHour, err := costmodel.ParseUSD(aws.ToString(p.SpotPrice))
		if err != nil {
			return nil, fmt.Errorf("spot price of %s in %s: %w", p.InstanceType, aws.ToString(p.AvailabilityZone), err)
		}
		all = append(all, costmodel.Offer{
			Class: m.o.Instances[i].Class, Instance: m.o.Instances[i].Type, GPUs: m.o.Instances[i].GPUs,
			Region: m.o.Place.Name(), Zone: aws.ToString(p.AvailabilityZone), Purchase: costmodel.Spot,
			PerHour: perHour, From: aws.ToTime(p.Timestamp), Origin: costmodel.Live, Source: "EC2 spot price history", AsOf: m.o.Now(),
		})
	}
	return all, nil
}

// history from now on, which begins with the price in force now, of each type and zone.
func (m *Market) history(ctx context.Context) ([]types.SpotPrice, error) {
	now := m.o.Now()
	in := &ec2.DescribeSpotPriceHistoryInput{
		StartTime: &now, EndTime: &now, MaxResults: aws.Int32(perPage), ProductDescriptions: []string{"Linux/UNIX"},
	}
	for _, i := range m.o.Instances {
		in.InstanceTypes = append(in.InstanceTypes, types.InstanceType(i.Type))
	}
	var all []types.SpotPrice
	for range maxPages {
		page, err := m.ask(ctx, in)
		if err != nil {
			return nil, err
		}
		all = append(all, page.SpotPriceHistory...)
		if aws.ToString(page.NextToken) == "" {
			return all, nil
		}
		in.NextToken = page.NextToken
	}
	return nil, errPages
}

// newest keeps of each instance type and zone the latest price, sorted by type and zone. What names no type,
// zone or time is left out.
func newest(history []types.SpotPrice) []types.SpotPrice {
	type goods struct{ instance, zone string }
	latest := make(map[goods]types.SpotPrice, len(history))
	for _, p := range history {
		g := goods{string(p.InstanceType), aws.ToString(p.AvailabilityZone)}
		if g.instance == "" || g.zone == "" || p.Timestamp == nil {
			continue
		}
		if before, ok := latest[g]; !ok || p.Timestamp.After(*before.Timestamp) {
			latest[g] = p
		}
	}
	out := make([]types.SpotPrice, 0, len(latest))
	for _, p := range latest {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b types.SpotPrice) int {
		return cmp.Or(cmp.Compare(a.InstanceType, b.InstanceType), cmp.Compare(aws.ToString(a.AvailabilityZone), aws.ToString(b.AvailabilityZone)))
	})
	return out
}
