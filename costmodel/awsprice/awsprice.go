// Package awsprice asks the Price List of AWS what GPU instances cost on demand. What they cost on the spot
// market and in capacity blocks is asked of EC2, by package spot below this one: that service's client is the
// largest of the SDK by far. Only commands import either.
package awsprice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/pricing/types"

	"anabranch/costmodel"
	"anabranch/costmodel/awsprice/fault"
)

// priceListRegion is one of the few in which the Price List answers, for all regions:
// https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-price-list-query-api.html
const priceListRegion = "us-east-1"

// maxPages bounds how much is read about one instance type in one region, which fits one page as a rule.
const maxPages = 20

// Place is a region of AWS.
type Place struct {
	// Code is what AWS calls it, e.g. "eu-central-1".
	Code string
	// Region is what offers call it. Empty: the same.
	Region string
}

// Name is what offers call the place.
func (p Place) Name() string { return cmp.Or(p.Region, p.Code) }

// Options of a Catalogue. Place is required.
type Options struct {
	Place Place
	// Instances that are asked for; default [Instances].
	Instances []Instance
	// Now tells the time; default time.Now.
	Now func() time.Time
}

// Catalogue is the part of the Price List about one region: a source of prices on demand, for Linux on
// shared hardware without further licences.
type Catalogue struct {
	o      Options
	config aws.Config
	client *pricing.Client
}

// New calls nobody. The configuration is [Load]'s, perhaps with another retryer or HTTP client; its region
// does not matter.
func New(config aws.Config, o Options) (*Catalogue, error) {
	if o.Place.Code == "" {
		return nil, errors.New("prices of AWS: no region is named")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if len(o.Instances) == 0 {
		o.Instances = Instances()
	}
	config.Region = priceListRegion
	return &Catalogue{o: o, config: config, client: pricing.NewFromConfig(config)}, nil
}

// Name is "aws on-demand" and the region.
func (c *Catalogue) Name() string { return "aws on-demand " + c.o.Place.Code }

// Offers asks for one instance type after the other. Types that are not sold in the region have none.
// Without credentials the error is a pricelist.ErrAbsent.
func (c *Catalogue) Offers(ctx context.Context) ([]costmodel.Offer, error) {
	if err := Credentials(ctx, c.config); err != nil {
		return nil, err
	}
	var all []costmodel.Offer
	for _, i := range c.o.Instances {
		offers, err := c.ask(ctx, i)
		if err != nil {
			return nil, fmt.Errorf("price of %s in %s: %w", i.Type, c.o.Place.Code, fault.Plain(err))
		}
		all = append(all, offers...)
	}
	return all, nil
}

// sold is what products are asked for by, and must be.
func (c *Catalogue) sold(i Instance) map[string]string {
	return map[string]string{
		"instanceType":    i.Type,
		"regionCode":      c.o.Place.Code,
		"operatingSystem": "Linux",
		"tenancy":         "Shared",
		"preInstalledSw":  "NA",
		"capacitystatus":  "Used",
		"marketoption":    "OnDemand",
	}
}

func (c *Catalogue) ask(ctx context.Context, i Instance) ([]costmodel.Offer, error) {
	wanted := c.sold(i)
	in := &pricing.GetProductsInput{ServiceCode: aws.String("AmazonEC2"), FormatVersion: aws.String("aws_v1")}
	for _, field := range slices.Sorted(maps.Keys(wanted)) {
		in.Filters = append(in.Filters, types.Filter{Field: aws.String(field), Type: types.FilterTypeTermMatch, Value: aws.String(wanted[field])})
	}
	pages := pricing.NewGetProductsPaginator(c.client, in, func(o *pricing.GetProductsPaginatorOptions) { o.StopOnDuplicateToken = true })
	var all []costmodel.Offer
	for n := 0; pages.HasMorePages(); n++ {
		if n == maxPages {
			return nil, fmt.Errorf("there are more than %d pages", maxPages)
		}
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, text := range page.PriceList {
			prices, err := parse(text, wanted)
			if err != nil {
				return nil, fmt.Errorf("read the price list: %w", err)
			}
			for _, p := range prices {
				if p.gpus != 0 && p.gpus != i.GPUs {
					return nil, fmt.Errorf("AWS says that it has %d GPUs, not %d", p.gpus, i.GPUs)
				}
				all = append(all, c.offer(i, p))
			}
		}
	}
	return all, nil
}

func (c *Catalogue) offer(i Instance, p price) costmodel.Offer {
	source := "AWS Price List"
	if !p.published.IsZero() {
		source += " of " + p.published.Format(time.DateOnly)
	}
	return costmodel.Offer{
		Class: i.Class, Instance: i.Type, GPUs: i.GPUs, Region: c.o.Place.Name(), Purchase: costmodel.OnDemand,
		PerHour: p.perHour, From: p.from, Origin: costmodel.Live, Source: source, AsOf: c.o.Now(),
	}
}
