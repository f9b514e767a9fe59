package spot

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"anabranch/costmodel"
	"anabranch/costmodel/awsprice"
	"anabranch/costmodel/pricelist"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

const linux = "Linux/UNIX"

func options(t *testing.T, instances ...string) Options {
	t.Helper()
	o := Options{Place: awsprice.Place{Code: "eu-central-1", Region: "eu"}, Now: func() time.Time { return noon }}
	for _, name := range instances {
		i, err := awsprice.ParseInstance(name)
		if err != nil {
			t.Fatal(err)
		}
		o.Instances = append(o.Instances, i)
	}
	return o
}

func source(t *testing.T, instances ...string) *Market {
	t.Helper()
	s, err := New(quick(t), options(t, instances...))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTheNewestPriceOfEachZoneIsOffered(t *testing.T) {
	m := serve(t)
	m.history = []sold{
		{"p5.48xlarge", linux, "30.000000", "2026-11-30T01:00:00.000Z", "eu-central-1a"},
		{"p5.48xlarge", linux, "32.772600", "2026-11-30T11:00:00.000Z", "eu-central-1a"},
		{"p5.48xlarge", linux, "31.000000", "2026-11-29T11:00:00.000Z", "eu-central-1a"},
		{"p5.48xlarge", "Windows", "90.000000", "2026-11-30T11:00:00.000Z", "eu-central-1a"},
		{"p5.48xlarge", linux, "28.100000", "2026-11-28T00:00:00.000Z", "eu-central-1b"},
		{"g6.xlarge", linux, "0.312300", "2026-11-30T10:00:00.000Z", "eu-central-1b"},
		{"g6.48xlarge", linux, "9", "2026-11-30T10:00:00.000Z", "eu-central-1b"},
		{"p5.48xlarge", linux, "1", "", "eu-central-1c"},
		{"p5.48xlarge", linux, "1", "2026-11-30T10:00:00.000Z", ""},
	}
	m.perPage = 2
	got, err := source(t, "p5.48xlarge", "g6.xlarge").Offers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := func(class, instance string, gpus int, zone string, perHour costmodel.Micros, from string) costmodel.Offer {
		at, err := time.Parse(time.RFC3339, from)
		if err != nil {
			t.Fatal(err)
		}
		return costmodel.Offer{
			Class: class, Instance: instance, GPUs: gpus, Region: "eu", Zone: zone, Purchase: costmodel.Spot, PerHour: perHour,
			From: at, Origin: costmodel.Live, Source: "EC2 spot price history", AsOf: noon,
		}
	}
	all := []costmodel.Offer{
		want("l4", "g6.xlarge", 1, "eu-central-1b", 312_300, "2026-11-30T10:00:00Z"),
		want("h100", "p5.48xlarge", 8, "eu-central-1a", 32_772_600, "2026-11-30T11:00:00Z"),
		want("h100", "p5.48xlarge", 8, "eu-central-1b", 28_100_000, "2026-11-28T00:00:00Z"),
	}
	if !slices.Equal(got, all) {
		t.Errorf("got %+v, want %+v", got, all)
	}
	if m.asked() != 4 {
		t.Errorf("%d requests for 7 prices, 2 on a page", m.asked())
	}
	first := m.requests[0]
	if first.Get("StartTime") != "2026-11-30T12:00:00Z" || first.Get("EndTime") != "2026-11-30T12:00:00Z" || first.Get("MaxResults") != "1000" ||
		!slices.Equal(numbered(first, "InstanceType"), []string{"p5.48xlarge", "g6.xlarge"}) || !slices.Equal(numbered(first, "ProductDescription"), []string{linux}) {
		t.Errorf("asked for %v", first)
	}
}

func TestThrottlingIsBorneWithinBounds(t *testing.T) {
	m := serve(t)
	m.history = []sold{{"p5.48xlarge", linux, "30", "2026-11-30T01:00:00.000Z", "eu-central-1a"}}
	m.throttle = 3
	if got, err := source(t, "p5.48xlarge").Offers(t.Context()); err != nil || len(got) != 1 || m.asked() != 4 {
		t.Errorf("%d offers in %d requests, %v", len(got), m.asked(), err)
	}
	m.set(func() { m.throttle, m.requests = 1000, nil })
	_, err := source(t, "p5.48xlarge").Offers(t.Context())
	if err == nil || !strings.Contains(err.Error(), "RequestLimitExceeded") || !strings.Contains(err.Error(), "spot prices in eu-central-1") || m.asked() != 4 {
		t.Errorf("%d requests, %v", m.asked(), err)
	}
}

func TestWhatIsWrongIsToldAndNothingIsHalf(t *testing.T) {
	for name, c := range map[string]struct {
		change func(m *market)
		want   string
	}{
		"refused":           {func(m *market) { m.refuse = "UnauthorizedOperation" }, "UnauthorizedOperation"},
		"no number":         {func(m *market) { m.history[1].Price = "cheap" }, "spot price of p5.48xlarge in eu-central-1b"},
		"pages without end": {func(m *market) { m.loop = true }, "more than 50 pages"},
	} {
		t.Run(name, func(t *testing.T) {
			m := serve(t)
			m.history = []sold{
				{"p5.48xlarge", linux, "30", "2026-11-30T01:00:00.000Z", "eu-central-1a"},
				{"p5.48xlarge", linux, "30", "2026-11-30T01:00:00.000Z", "eu-central-1b"},
			}
			c.change(m)
			got, err := source(t, "p5.48xlarge").Offers(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "123456789012") || strings.Contains(err.Error(), "r-1") || got != nil || errors.Is(err, pricelist.ErrAbsent) {
				t.Errorf("%d offers, %v", len(got), err)
			}
		})
	}
}

func TestWithoutCredentialsNobodyIsAsked(t *testing.T) {
	m := serve(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	if _, err := source(t, "p5.48xlarge").Offers(t.Context()); !errors.Is(err, pricelist.ErrAbsent) {
		t.Errorf("spot: %v", err)
	}
	b, err := NewBlocks(quick(t), options(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Offers(t.Context()); !errors.Is(err, pricelist.ErrAbsent) || m.asked() != 0 {
		t.Errorf("blocks: %v, %d requests", err, m.asked())
	}
}

func TestOptionsSayWhatIsWrong(t *testing.T) {
	serve(t)
	c := quick(t)
	if _, err := New(c, Options{}); err == nil {
		t.Error("a market of nowhere")
	}
	if _, err := NewBlocks(c, Options{}); err == nil {
		t.Error("blocks of nowhere")
	}
	m, err := New(c, Options{Place: awsprice.Place{Code: "us-west-2"}})
	if err != nil || len(m.o.Instances) != len(awsprice.Instances()) || m.Name() != "aws spot us-west-2" {
		t.Errorf("by default: %+v, %v", m, err)
	}
}
