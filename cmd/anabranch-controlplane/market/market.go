// Package market makes the sources of prices that a control plane node's flags name: price files and AWS. It
// is the only part of the node that links AWS's EC2 client.
package market

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/spf13/pflag"

	"anabranch/api/fleet"
	"anabranch/controlplane/prices"
	"anabranch/costmodel"
	"anabranch/costmodel/awsprice"
	"anabranch/costmodel/awsprice/spot"
	"anabranch/costmodel/pricelist"
)

const (
	// DefaultInterval is the default of Options.Interval: prices are no emergency.
	DefaultInterval = time.Hour
	// MinInterval is the least time between two questions to AWS.
	MinInterval = time.Minute
	// fileInterval is how often price files are read: what somebody has written is to hold soon.
	fileInterval = 10 * time.Second
)

// Options say whom to ask.
type Options struct {
	// Files of prices, see [pricelist.File].
	Files []string
	// AWS is asked for the instances of clusters in its regions.
	AWS bool
	// Regions of AWS, as CODE or NAME=CODE where clusters call it otherwise. Empty: those regions of clusters
	// that are called as AWS calls its own.
	Regions []string
	// Instances are types that awsprice does not know, as TYPE=CLASS:GPUS.
	Instances []string
	// Interval between two questions to AWS; 0: DefaultInterval.
	Interval time.Duration
}

// Bind makes flags of the options.
func (o *Options) Bind(fl *pflag.FlagSet) {
	fl.StringSliceVar(&o.Files, "price-file", nil, "price files (.csv, .yaml or .json, see `anabranch prices --help`), read again every 10 s by the node that leads; all nodes need them")
	fl.BoolVar(&o.AWS, "aws-prices", false, "ask AWS what the clusters' GPUs cost, on demand, spot and in capacity blocks; needs pricing:GetProducts, ec2:DescribeSpotPriceHistory and ec2:DescribeCapacityBlockOfferings")
	fl.StringSliceVar(&o.Regions, "aws-regions", nil, "regions to ask AWS about, CODE or NAME=CODE where clusters call it otherwise, such as eu=eu-central-1 (default: regions of clusters that are called as AWS calls its own)")
	fl.StringSliceVar(&o.Instances, "aws-instances", nil, "instance types of AWS that this build does not know, as TYPE=CLASS:GPUS")
	fl.DurationVar(&o.Interval, "price-interval", DefaultInterval, "time between two questions to AWS about prices")
}

// code is what AWS calls a region. Those with credentials of their own (in China, for the US government) must
// be named.
var code = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-[0-9]{1,2}$`)

// Validate names each wrong option by its flag.
func (o Options) Validate() error {
	var problems []error
	for _, path := range o.Files {
		if !slices.Contains([]string{".csv", ".json", ".yaml", ".yml"}, strings.ToLower(filepath.Ext(path))) {
			problems = append(problems, fmt.Errorf("--price-file: %s does not end in .csv, .yaml or .json", path))
		}
	}
	if o.Interval != 0 && o.Interval < MinInterval {
		problems = append(problems, fmt.Errorf("--price-interval: %s is too short, the least is %s", o.Interval, MinInterval))
	}
	if !o.AWS && (len(o.Regions) > 0 || len(o.Instances) > 0) {
		problems = append(problems, errors.New("--aws-regions and --aws-instances say what to ask AWS: give --aws-prices too"))
	}
	seen := map[string]bool{}
	for _, text := range o.Regions {
		place := placeOf(text)
		if place.Region == "" || !code.MatchString(place.Code) {
			problems = append(problems, fmt.Errorf("--aws-regions: %q is neither a region of AWS, such as eu-central-1, nor a name for one, such as eu=eu-central-1", text))
		}
		if seen[place.Region] || seen["="+place.Code] {
			problems = append(problems, fmt.Errorf("--aws-regions: %q is there twice", text))
		}
		seen[place.Region], seen["="+place.Code] = true, true
	}
	for _, text := range o.Instances {
		if _, err := awsprice.ParseInstance(text); err != nil {
			problems = append(problems, fmt.Errorf("--aws-instances: %w", err))
		}
	}
	return errors.Join(problems...)
}

// placeOf reads CODE or NAME=CODE.
func placeOf(text string) awsprice.Place {
	name, rest, named := strings.Cut(text, "=")
	if !named {
		rest = name
	}
	return awsprice.Place{Code: rest, Region: name}
}

// Code is what AWS calls a region of clusters: as Regions say, else the same.
func (o Options) Code(region fleet.RegionID) string {
	for _, text := range o.Regions {
		if p := placeOf(text); p.Region == string(region) {
			return p.Code
		}
	}
	return string(region)
}

// Groups are the sources to ask, as the control plane asks them. Nobody is called.
func (o Options) Groups(ctx context.Context) ([]prices.Group, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	var groups []prices.Group
	if len(o.Files) > 0 {
		var all []pricelist.Source
		for _, path := range slices.Compact(slices.Sorted(slices.Values(o.Files))) {
			all = append(all, pricelist.File{Path: path})
		}
		groups = append(groups, prices.Group{
			Name: "files", Every: fileInterval,
			Sources: func([]prices.Need) ([]pricelist.Source, error) { return all, nil },
		})
	}
	if !o.AWS {
		return groups, nil
	}
	config, err := awsprice.Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("--aws-prices: %w", err)
	}
	a := seller{config: config, instances: awsprice.Instances()}
	for _, text := range o.Regions {
		a.places = append(a.places, placeOf(text))
	}
	for _, text := range o.Instances {
		i, err := awsprice.ParseInstance(text)
		if err != nil {
			return nil, fmt.Errorf("--aws-instances: %w", err)
		}
		a.instances = slices.DeleteFunc(a.instances, func(known awsprice.Instance) bool { return known.Type == i.Type })
		a.instances = append(a.instances, i)
	}
	every := o.Interval
	if every == 0 {
		every = DefaultInterval
	}
	return append(groups, prices.Group{Name: "aws", Every: every, Sources: a.sources}), nil
}

// seller is AWS.
type seller struct {
	config    aws.Config
	places    []awsprice.Place // empty: those of the needs
	instances []awsprice.Instance
}

// sources are those that can know what is needed: of each region the instance types, and the ways to buy.
func (a seller) sources(needs []prices.Need) ([]pricelist.Source, error) {
	var all []pricelist.Source
	for _, place := range a.placesOf(needs) {
		if types := a.types(place, needs, costmodel.OnDemand); len(types) > 0 {
			s, err := awsprice.New(a.config, awsprice.Options{Place: place, Instances: types})
			if err != nil {
				return nil, err
			}
			all = append(all, s)
		}
		if types := a.types(place, needs, costmodel.Spot); len(types) > 0 {
			s, err := spot.New(a.config, spot.Options{Place: place, Instances: types})
			if err != nil {
				return nil, err
			}
			all = append(all, s)
		}
		if types := a.types(place, needs, costmodel.CapacityBlock); len(types) > 0 {
			s, err := spot.NewBlocks(a.config, spot.Options{Place: place, Instances: types})
			if err != nil {
				return nil, err
			}
			all = append(all, s)
		}
	}
	return all, nil
}

// placesOf are the regions to ask about.
func (a seller) placesOf(needs []prices.Need) []awsprice.Place {
	if len(a.places) > 0 {
		return a.places
	}
	var places []awsprice.Place
	for _, n := range needs { // sorted by region
		apart := strings.HasPrefix(n.Region, "cn-") || strings.HasPrefix(n.Region, "us-gov-")
		if code.MatchString(n.Region) && !apart && (len(places) == 0 || places[len(places)-1].Code != n.Region) {
			places = append(places, awsprice.Place{Code: n.Region, Region: n.Region})
		}
	}
	return places
}

// types are the instances that may be what is needed in a region and bought in a way.
func (a seller) types(place awsprice.Place, needs []prices.Need, purchase costmodel.Purchase) []awsprice.Instance {
	var all []awsprice.Instance
	for _, i := range a.instances {
		if purchase == costmodel.CapacityBlock && !i.Blocks {
			continue
		}
		if slices.ContainsFunc(needs, func(n prices.Need) bool {
			return n.Region == place.Name() && n.Purchase == purchase && n.Fits(i.Type, i.Class)
		}) {
			all = append(all, i)
		}
	}
	return all
}
