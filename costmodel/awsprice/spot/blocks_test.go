package spot

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"pgregory.net/rapid"

	"anabranch/costmodel"
)

// day is a block of one instance for a day.
func day(instance, zone, fee string) block {
	return block{
		ID: "cb-1", Instance: instance, Zone: zone, Count: 1, From: "2026-12-01T11:30:00.000Z", Until: "2026-12-02T11:30:00.000Z",
		Hours: 24, Fee: fee, Currency: "USD", Tenancy: "default",
	}
}

func blocksOf(t *testing.T, instances ...string) *Blocks {
	t.Helper()
	b, err := NewBlocks(quick(t), options(t, instances...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBlocksAreOfferedForTheirTime(t *testing.T) {
	m := serve(t)
	m.blocks = []block{
		day("p5.48xlarge", "eu-central-1a", "755.136"), day("p5.48xlarge", "eu-central-1b", "800.000001"),
		day("p5.48xlarge", "eu-central-1c", "24"), day("p4d.24xlarge", "eu-central-1a", "283.2"),
	}
	m.blocks[2].Count, m.blocks[2].Hours, m.blocks[2].Minutes = 2, 1, 30
	m.perPage = 2
	b := blocksOf(t, "p5.48xlarge", "g6.48xlarge", "p4d.24xlarge")
	got, err := b.Offers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := func(class, instance, zone string, perHour costmodel.Micros) costmodel.Offer {
		return costmodel.Offer{
			Class: class, Instance: instance, GPUs: 8, Region: "eu", Zone: zone, Purchase: costmodel.CapacityBlock, PerHour: perHour,
			From: time.Date(2026, 12, 1, 11, 30, 0, 0, time.UTC), Until: time.Date(2026, 12, 2, 11, 30, 0, 0, time.UTC),
			Origin: costmodel.Live, Source: "EC2 capacity block offerings", AsOf: noon,
		}
	}
	all := []costmodel.Offer{
		want("h100", "p5.48xlarge", "eu-central-1a", 31_464_000), want("h100", "p5.48xlarge", "eu-central-1b", 33_333_334),
		want("h100", "p5.48xlarge", "eu-central-1c", 8_000_000), want("a100-40", "p4d.24xlarge", "eu-central-1a", 11_800_000),
	}
	if !slices.Equal(got, all) {
		t.Errorf("got %+v, want %+v", got, all)
	}
	if m.asked() != 3 {
		t.Errorf("%d requests: two pages of one type, one of another, and none of a type that is not sold so", m.asked())
	}
	if f := m.requests[0]; f.Get("CapacityDurationHours") != "24" || f.Get("InstanceCount") != "1" || b.Name() != "aws capacity blocks eu-central-1" {
		t.Errorf("%s asked for %v", b.Name(), f)
	}
	book := costmodel.NewBook(noon.Add(24*time.Hour), got)
	if f, ok := book.Find(costmodel.Want{Class: "h100", Region: "eu", Zone: "eu-central-1a", Purchase: costmodel.CapacityBlock}); !ok || f.PerHour != 31_464_000 {
		t.Errorf("while it lasts: %+v", f)
	}
	if _, ok := costmodel.NewBook(noon, got).Find(costmodel.Want{Class: "h100", Region: "eu", Purchase: costmodel.CapacityBlock}); ok {
		t.Error("a block can be used before it begins")
	}
}

func TestATypeThatIsNotSoldInBlocksHasNone(t *testing.T) {
	for code, none := range map[string]bool{
		"Unsupported": true, "UnsupportedOperation": true, "InvalidParameterValue": true, "InvalidInstanceType": true,
		"UnauthorizedOperation": false, "InternalError": false,
	} {
		t.Run(code, func(t *testing.T) {
			m := serve(t)
			m.refuse = code
			got, err := blocksOf(t, "p5.48xlarge").Offers(t.Context())
			if (err == nil) != none || len(got) != 0 || err != nil && (!strings.Contains(err.Error(), code) || strings.Contains(err.Error(), "123456789012")) {
				t.Errorf("%d offers, %v", len(got), err)
			}
		})
	}
}

func TestBlocksThatMakeNoSenseAreRefused(t *testing.T) {
	for name, change := range map[string]func(b *block){
		"euros":          func(b *block) { b.Currency = "EUR" },
		"no fee":         func(b *block) { b.Fee = "" },
		"an absurd fee":  func(b *block) { b.Fee = "9000000000000" },
		"no time":        func(b *block) { b.Hours = 0 },
		"less than none": func(b *block) { b.Hours = -1 },
		"ages":           func(b *block) { b.Hours = 1 << 20 },
		"no instances":   func(b *block) { b.Count = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			m := serve(t)
			m.blocks = []block{day("p5.48xlarge", "eu-central-1a", "1"), day("p5.48xlarge", "eu-central-1b", "1")}
			change(&m.blocks[1])
			got, err := blocksOf(t, "p5.48xlarge").Offers(t.Context())
			if err == nil || !strings.Contains(err.Error(), "capacity blocks of p5.48xlarge") || got != nil {
				t.Errorf("%d offers, %v", len(got), err)
			}
		})
	}
	m := serve(t)
	m.loop = true
	if _, err := blocksOf(t, "p5.48xlarge").Offers(t.Context()); err == nil || m.asked() != maxPages {
		t.Errorf("pages without end: %d requests, %v", m.asked(), err)
	}
}

// The hours of a block together cost its fee, and less than a micro-dollar an hour more.
func TestTheHoursOfABlockCostItsFee(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fee := costmodel.Micros(rapid.Int64Range(0, int64(maxFee)).Draw(t, "fee"))
		hours := rapid.Int32Range(1, 182*24).Draw(t, "hours")
		count := rapid.Int32Range(1, 64).Draw(t, "instances")
		got, err := hour(types.CapacityBlockOffering{
			CurrencyCode: aws.String("USD"), UpfrontFee: aws.String(strings.TrimPrefix(fee.String(), "$")), CapacityBlockDurationHours: &hours, InstanceCount: &count,
		})
		if err != nil {
			t.Fatal(err)
		}
		parts := costmodel.Micros(hours) * costmodel.Micros(count)
		if over := got*parts - fee; got > math.MaxInt64/parts || over < 0 || over >= parts {
			t.Fatalf("%d parts of %s cost %s each", parts, fee, got)
		}
	})
}
