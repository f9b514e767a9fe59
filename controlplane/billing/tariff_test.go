package billing

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/api/fleet"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
)

func TestWhatClustersCostInAnHour(t *testing.T) {
	const prices = "RateCard r {gpus: [{class: h100, region: us, usdPerHour: 3}, {class: h100, region: us, purchase: owned, usdPerHour: 1}, {class: h100, region: eu, usdPerHour: 5, estimate: true}]}"
	const carbon = "RateCard s {carbon: {usdPerTonne: 100, regions: [{region: us, gramsPerKWh: 500}], gpus: [{class: h100, watts: 1000}, {class: h100, instance: p5.48xlarge, watts: 2000}]}}"
	tests := map[string]struct {
		docs []string
		want *statepb.ClusterBill // nil: none
	}{
		"by what was bought":        {[]string{cluster("c", "us", ""), prices}, &statepb.ClusterBill{CostMicros: 6_000_000, Capacity: 18_000_000_000}},
		"drained":                   {[]string{cluster("c", "us", ", drained: true"), prices}, &statepb.ClusterBill{CostMicros: 6_000_000, Capacity: 18_000_000_000}},
		"sunk costs are paid":       {[]string{"Cluster c {region: us, models: [m], url: 'http://c', metricsURL: 'http://c:1', type: gateway, gpus: [{class: h100, count: 2, purchase: owned}]}", prices}, &statepb.ClusterBill{CostMicros: 2_000_000, Capacity: 18_000_000_000}},
		"by an estimate":            {[]string{cluster("c", "eu", ""), prices}, &statepb.ClusterBill{CostMicros: 10_000_000, Estimate: true, Capacity: 18_000_000_000}},
		"without a price":           {[]string{cluster("c", "mars", ""), prices}, &statepb.ClusterBill{Unpriced: true, Capacity: 18_000_000_000}},
		"by a shipped price":        {[]string{cluster("c", "us-east-1", "")}, &statepb.ClusterBill{CostMicros: 13_760_000, Capacity: 18_000_000_000}},
		"of which nobody says what": {[]string{"Cluster c {region: us, models: [m], endpoints: [{id: e, url: 'http://c:1', class: h100}]}", prices}, &statepb.ClusterBill{Unpriced: true, Capacity: 18_000_000_000}},
		"measured":                  {[]string{cluster("measured", "us", ""), prices}, &statepb.ClusterBill{CostMicros: 6_000_000, Capacity: 180_000_000}},
		"for two models": {[]string{"Cluster measured {region: us, models: [m, n, o], url: 'http://c', metricsURL: 'http://c:1', type: gateway, gpus: [{class: h100, count: 2}]}", prices}, &statepb.ClusterBill{
			CostMicros: 6_000_000, Capacity: 180_000_000, Models: []*statepb.ModelCapacity{{Model: "n", Capacity: 72_000_000}},
		}},
		"with its emissions":        {[]string{cluster("c", "us", ""), prices, carbon}, &statepb.ClusterBill{CostMicros: 6_000_000, CarbonMicros: 100_000, Capacity: 18_000_000_000}},
		"of an instance type":       {[]string{"Cluster c {region: us, models: [m], url: 'http://c', metricsURL: 'http://c:1', type: gateway, gpus: [{class: h100, count: 1, instance: p5.48xlarge}]}", prices, carbon}, &statepb.ClusterBill{CostMicros: 3_000_000, CarbonMicros: 100_000, Capacity: 18_000_000_000}},
		"emissions known by region": {[]string{cluster("c", "us-east-1", ""), carbon}, &statepb.ClusterBill{CostMicros: 13_760_000, CarbonMicros: 75_820, Capacity: 18_000_000_000}},
		"emissions not known":       {[]string{cluster("c", "eu", ""), prices, carbon}, &statepb.ClusterBill{CostMicros: 10_000_000, Estimate: true, Capacity: 18_000_000_000}},
		"a provider":                {[]string{"Cluster c {region: us, models: [m], url: 'https://c', type: provider}", prices}, nil},
		"a router":                  {[]string{"Cluster c {region: us, models: [m], type: router}", prices}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			capacity := func(id fleet.ClusterID, model fleet.ModelID) float64 {
				return map[fleet.ModelID]float64{"m": 50, "n": 20}[model] * float64(strings.Count(string(id), "measured"))
			}
			got := NewTariff(write(t, tt.docs...), nil, at(0)).Bills(at(0), at(time.Hour), capacity)
			if tt.want == nil {
				if len(got) != 0 {
					t.Fatalf("got %v", got)
				}
				return
			}
			if len(got) != 1 {
				t.Fatalf("got %v", got)
			}
			tt.want.Cluster, tt.want.Region = got[0].GetCluster(), got[0].GetRegion()
			if !proto.Equal(got[0], tt.want) {
				t.Errorf("got %v, want %v", got[0], tt.want)
			}
		})
	}
}

func TestPricesThatWereFoundHold(t *testing.T) {
	docs := write(t, cluster("c", "us", ""))
	offers := []costmodel.Offer{{Class: "h100", Region: "us", PerHour: 4 * costmodel.Dollar, Origin: costmodel.Live, From: at(time.Minute)}}
	for _, tt := range []struct {
		at       time.Duration
		want     int64
		unpriced bool
	}{{0, 0, true}, {time.Minute, 8_000_000, false}} {
		got := NewTariff(docs, offers, at(tt.at)).Bills(at(0), at(time.Hour), never)[0]
		if got.GetCostMicros() != tt.want || got.GetUnpriced() != tt.unpriced {
			t.Errorf("at %s: %v", tt.at, got)
		}
	}
}

func TestWhatUsageWeighsAndCosts(t *testing.T) {
	docs := write(t,
		cluster("own", "us", ""), "Cluster api {region: eu, models: [m, n], url: 'https://c', type: provider}",
		"Model m {outputWeight: 4}", "Model n {}",
		"RateCard r {models: [{model: m, inputPerMTok: 1, outputPerMTok: 10, cachedPerMTok: 0.1}], egress: [{from: us, to: eu, usdPerGB: 0.02, estimate: true}, {from: us, to: ap, usdPerGB: 0.09}]}",
		"RateCard s {models: [{model: m, inputPerMTok: 9, outputPerMTok: 9}]}",
	)
	line := func(model fleet.ModelID, cluster fleet.ClusterID, source fleet.RegionID, u costmodel.Usage) costmodel.Line {
		return costmodel.Line{Tenant: "a", Model: model, Class: "chat", Cluster: cluster, Source: source, Usage: u}
	}
	u := costmodel.Usage{Input: 3_000_000, Cached: 1_000_000, Output: 1_000_000, Succeeded: 2, Bytes: 500_000_000}
	tests := map[string]struct {
		line costmodel.Line
		want *statepb.CountedLine
	}{
		"on own GPUs only work":         {line("m", "own", "us", u), &statepb.CountedLine{Region: "us", Work: 6_100_000_000}},
		"by the default weight":         {line("x", "own", "us", u), &statepb.CountedLine{Region: "us", Work: 8_100_000_000}},
		"a provider asks for tokens":    {line("m", "api", "eu", u), &statepb.CountedLine{Region: "eu", Work: 6_100_000_000, CostMicros: 12_100_000}},
		"of which the price is missing": {line("n", "api", "eu", u), &statepb.CountedLine{Region: "eu", Work: 8_100_000_000, Unpriced: true}},
		"and for none nothing":          {line("n", "api", "eu", costmodel.Usage{Failed: 1}), &statepb.CountedLine{Region: "eu"}},
		"sent abroad":                   {line("m", "own", "eu", u), &statepb.CountedLine{Region: "us", Work: 6_100_000_000, EgressMicros: 10_000, Estimate: true}},
		"sent further":                  {line("m", "own", "ap", u), &statepb.CountedLine{Region: "us", Work: 6_100_000_000, EgressMicros: 45_000}},
		"sent at a price nobody knows":  {line("m", "own", "mars", u), &statepb.CountedLine{Region: "us", Work: 6_100_000_000, Unpriced: true}},
		"on a cluster that has gone":    {line("m", "gone", "us", u), &statepb.CountedLine{Work: 6_100_000_000}},
	}
	tariff := NewTariff(docs, nil, at(0))
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := tariff.Count(60, []costmodel.Line{tt.line})
			l := tt.line
			tt.want.Tenant, tt.want.Model, tt.want.Class, tt.want.Cluster, tt.want.Source = "a", string(l.Model), "chat", string(l.Cluster), string(l.Source)
			tt.want.Input, tt.want.Cached, tt.want.Output, tt.want.Succeeded, tt.want.Failed, tt.want.Bytes = l.Usage.Input, l.Usage.Cached, l.Usage.Output, l.Usage.Succeeded, l.Usage.Failed, l.Usage.Bytes
			if len(m.GetLines()) != 1 || !proto.Equal(m.GetLines()[0], tt.want) || m.GetMinuteUnixS() != 60 {
				t.Errorf("got %v, want %v", m, tt.want)
			}
		})
	}
	if m := tariff.Count(0, []costmodel.Line{line("m", "own", "us", u), line("m", "own", "eu", u), line("m", "own", "us", u)}); len(m.GetLines()) != 2 {
		t.Errorf("lines of a kind are not one: %v", m)
	}
}

// Where nobody has priced traffic it is not missed either.
func TestTrafficWithoutAnyPriceIsFree(t *testing.T) {
	l := costmodel.Line{Cluster: "c", Source: "eu", Usage: costmodel.Usage{Bytes: 1e9}}
	got := NewTariff(write(t, cluster("c", "us", "")), nil, at(0)).Count(0, []costmodel.Line{l}).GetLines()[0]
	if got.GetEgressMicros() != 0 || got.GetUnpriced() {
		t.Errorf("got %v", got)
	}
}

func TestBillsOfMinutesAreThatOfTheHour(t *testing.T) {
	docs := write(t, cluster("c", "us", ""), "RateCard r {gpus: [{class: h100, region: us, usdPerHour: 3.333333}], carbon: {usdPerTonne: 77.7, regions: [{region: us, gramsPerKWh: 123.456}], gpus: [{class: h100, watts: 777}]}}")
	tariff := NewTariff(docs, nil, at(0))
	whole := tariff.Bills(at(0), at(time.Hour), never)[0]
	var cost, carbon int64
	for m := range 60 {
		from := at(time.Duration(m) * time.Minute)
		bill := tariff.Bills(from, from.Add(time.Minute), never)[0]
		cost, carbon = cost+bill.GetCostMicros(), carbon+bill.GetCarbonMicros()
	}
	if cost != whole.GetCostMicros() || carbon != whole.GetCarbonMicros() || carbon == 0 {
		t.Errorf("minutes cost %d and emit for %d, the hour %v", cost, carbon, whole)
	}
}
