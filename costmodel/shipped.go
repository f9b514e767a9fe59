package costmodel

import "time"

// instances of AWS that prices are shipped for, and what they have; see
// https://docs.aws.amazon.com/ec2/latest/instancetypes/ac.html.
var instances = map[string]struct {
	class string
	gpus  int
}{
	"p4d.24xlarge": {"a100-40", 8}, "p4de.24xlarge": {"a100-80", 8},
	"p5.4xlarge": {"h100", 1}, "p5.48xlarge": {"h100", 8}, "p5en.48xlarge": {"h200", 8},
	"p6-b200.48xlarge": {"b200", 8}, "p6-b300.48xlarge": {"b300", 8},
	"g6.48xlarge": {"l4", 8}, "g6e.xlarge": {"l40s", 1}, "g6e.2xlarge": {"l40s", 1}, "g6e.24xlarge": {"l40s", 4},
	"g6e.48xlarge": {"l40s", 8}, "g7e.48xlarge": {"rtx-pro-6000", 8},
}

// list is where shipped prices were read, and when.
type list struct {
	source string
	read   time.Time
}

// Both lists are made from the price list that AWS publishes.
var (
	skypilot  = list{"https://github.com/skypilot-org/skypilot-catalog catalogs/v8/aws/vms.csv at 00148f2", time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)}
	karpenter = list{"https://github.com/aws/karpenter-provider-aws pkg/providers/pricing/zz_generated.pricing_aws.go of 2026-07-20", time.Date(2026, 7, 20, 0, 0, 0, 0, time.UTC)}
)

// shipped are prices on demand of an instance for an hour, in micro-dollars. Spot prices change too
// often to be shipped.
var shipped = []struct {
	list             list
	instance, region string
	perHour          Micros
}{
	{skypilot, "p4d.24xlarge", "us-east-1", 21_957_642},
	{skypilot, "p4d.24xlarge", "us-west-2", 21_957_640},
	{skypilot, "p4d.24xlarge", "eu-west-1", 23_715_690},
	{skypilot, "p4d.24xlarge", "eu-central-1", 27_432_980},
	{skypilot, "p4d.24xlarge", "ap-northeast-1", 30_097_840},
	{skypilot, "p4d.24xlarge", "ap-south-1", 26_344_400},
	{skypilot, "p4de.24xlarge", "us-east-1", 27_447_050},
	{skypilot, "p4de.24xlarge", "us-west-2", 27_447_050},
	{skypilot, "p4de.24xlarge", "eu-central-1", 34_291_220},
	{skypilot, "p4de.24xlarge", "ap-northeast-1", 37_622_300},
	{skypilot, "p5.4xlarge", "us-east-1", 6_880_000},
	{skypilot, "p5.48xlarge", "us-east-1", 55_040_000},
	{skypilot, "p5.48xlarge", "us-east-2", 55_040_000},
	{skypilot, "p5.48xlarge", "us-west-1", 68_800_000},
	{skypilot, "p5.48xlarge", "us-west-2", 55_040_000},
	{skypilot, "p5.48xlarge", "eu-north-1", 58_892_800},
	{skypilot, "p5.48xlarge", "eu-west-2", 71_552_000},
	{skypilot, "p5.48xlarge", "ap-northeast-1", 68_800_000},
	{skypilot, "p5.48xlarge", "ap-northeast-2", 75_955_200},
	{skypilot, "p5.48xlarge", "ap-south-1", 66_048_000},
	{skypilot, "p5.48xlarge", "ap-southeast-2", 71_552_000},
	{karpenter, "p5en.48xlarge", "us-east-1", 63_296_000},
	{skypilot, "p5en.48xlarge", "eu-north-1", 67_726_720},
	{skypilot, "p5en.48xlarge", "ap-northeast-1", 79_120_000},
	{skypilot, "p5en.48xlarge", "ap-northeast-2", 87_348_480},
	{skypilot, "p5en.48xlarge", "ap-south-1", 75_955_200},
	{karpenter, "p6-b200.48xlarge", "us-east-1", 113_932_800},
	{karpenter, "p6-b300.48xlarge", "us-east-1", 142_416_000},
	{karpenter, "g6.48xlarge", "us-east-1", 13_350_400},
	{karpenter, "g6e.xlarge", "us-east-1", 1_861_000},
	{karpenter, "g6e.2xlarge", "us-east-1", 2_242_080},
	{skypilot, "g6e.48xlarge", "us-east-1", 30_131_180},
	{skypilot, "g6e.48xlarge", "us-east-2", 30_131_180},
	{skypilot, "g6e.48xlarge", "us-west-2", 30_131_180},
	{skypilot, "g6e.24xlarge", "eu-central-1", 18_838_060},
	{skypilot, "g6e.48xlarge", "eu-north-1", 31_960_750},
	{skypilot, "g6e.48xlarge", "eu-south-2", 31_750_270},
	{skypilot, "g6e.24xlarge", "ap-northeast-1", 21_849_560},
	{skypilot, "g7e.48xlarge", "us-east-1", 33_144_320},
}

// ShippedOffers are prices that come with the program: what AWS asks on demand for an instance, as last
// read from public lists. They hold for any time, and any other price goes before them.
func ShippedOffers() []Offer {
	out := make([]Offer, 0, len(shipped))
	for _, s := range shipped {
		i := instances[s.instance]
		out = append(out, Offer{
			Class: i.class, Instance: s.instance, GPUs: i.gpus, Region: s.region, Purchase: OnDemand, PerHour: s.perHour,
			Origin: Shipped, Source: s.list.source, AsOf: s.list.read,
		})
	}
	return out
}
