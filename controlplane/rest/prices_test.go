package rest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"anabranch/controlplane/prices"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
	"anabranch/costmodel/pricelist"
)

// priced is a fleet whose prices come from everywhere.
func priced(t *testing.T, change ...func(*Options)) *double {
	d := newDouble(t, change...)
	d.apply(&statepb.Command{Format: 2, Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: state.Format}}})
	d.seed(
		"Region us-east-1 {}", "Region eu {}", "Model m {}",
		"Cluster a {region: us-east-1, models: [m], endpoints: [{id: p, url: 'http://p', class: h100}], gpus: [{class: h100, count: 8, instance: p5.48xlarge, purchase: spot}, {class: h100, count: 2, purchase: owned}]}",
		"Cluster b {region: us-east-1, models: [m], endpoints: [{id: p, url: 'http://q', class: h100}], gpus: [{class: h100, count: 8, instance: p5.48xlarge}]}",
		"Cluster c {region: eu, models: [m], endpoints: [{id: p, url: 'http://r', class: h100}], gpus: [{class: l4, count: 1}]}",
		"RateCard ours {gpus: [{class: h100, region: us-east-1, purchase: owned, usdPerHour: 1.5, estimate: true}]}",
	)
	spot := func(micros int64, doubt *statepb.Doubt) *statepb.PriceOffer {
		return &statepb.PriceOffer{
			Class: "h100", Instance: "p5.48xlarge", Gpus: 8, Region: "us-east-1", Zone: "us-east-1a", Purchase: "spot", MicrosPerHour: micros,
			Origin: uint32(costmodel.Live), Source: "EC2 spot price history", AsOfUnixMs: epoch.Add(-2 * time.Hour).UnixMilli(), Doubt: doubt,
		}
	}
	read := epoch.Add(-time.Hour).UnixMilli()
	d.apply(&statepb.Command{Format: 5, AtUnixMs: 1, Op: &statepb.Command_PutPrices{PutPrices: &statepb.PutPrices{Sources: []*statepb.PriceSource{
		{Name: "aws on-demand us-east-1", Standing: "absent", Error: "no credentials", AskedUnixMs: read, EveryMs: 3_600_000},
		{Name: "aws spot us-east-1", Standing: "good", ReadUnixMs: read, AskedUnixMs: read, EveryMs: 3_600_000, Offers: []*statepb.PriceOffer{
			spot(24_000_000, &statepb.Doubt{SinceUnixMs: read, MicrosPerHour: 2_400_000_000}),
		}},
	}}}})
	return d
}

func TestWhatClustersCostAndWhy(t *testing.T) {
	d := priced(t)
	var list PriceList
	a := d.do("viewer", "GET", "/v1/prices", "").want(200, "")
	a.into(&list)
	if len(list.Items) != 3 || list.NextCursor != "" || !list.At.Equal(epoch) || a.header.Get("X-Staleness-Ms") != "250" {
		t.Fatalf("got %+v", list)
	}
	var got []string
	for _, c := range list.Items {
		got = append(got, fmt.Sprintf("%s %s %d %g %g %v %v", c.Cluster, c.Region, c.Count, c.USDPerHour, c.MarginalUSDPerHour, c.Estimate, c.Unpriced))
		if (c.USDPerGPUHour == nil) != c.Unpriced {
			t.Errorf("the mean of %+v", c)
		}
		for _, g := range c.GPUs {
			price := "-"
			if g.USDPerGPUHour != nil {
				price = fmt.Sprint(*g.USDPerGPUHour)
			}
			got = append(got, fmt.Sprintf("  %d %s %s %s %s: %s, %s", g.Count, g.Purchase, g.Class, g.Instance, price, g.Why, strings.TrimPrefix(g.Source, "https://")))
		}
	}
	want := []string{
		"a us-east-1 10 27 24 true false", "  8 spot h100 p5.48xlarge 3: live price, EC2 spot price history", "  2 owned h100  1.5: operator's price, rate card ours",
		"b us-east-1 8 55.04 55.04 false false", "  8 on-demand h100 p5.48xlarge 6.88: shipped default, github.com/skypilot-org/skypilot-catalog catalogs/v8/aws/vms.csv at 00148f2",
		"c eu 1 0 0 false true", "  1 on-demand l4  -: no price is known: write a rate card, ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	spot, card, unknown := list.Items[0].GPUs[0], list.Items[0].GPUs[1], list.Items[2].GPUs[0]
	if spot.AgeMs != 2*time.Hour.Milliseconds() || !spot.AsOf.Equal(epoch.Add(-2*time.Hour)) || spot.Doubt == nil || *spot.Doubt.USDPerGPUHour != 300 || !spot.Doubt.Since.Equal(epoch.Add(-time.Hour)) {
		t.Errorf("the age and the doubt of %+v", spot)
	}
	if card.AgeMs != -1 || card.Doubt != nil || !card.Estimate || unknown.AgeMs != -1 || unknown.Origin != "" {
		t.Errorf("%+v, %+v", card, unknown)
	}
	for query, names := range map[string]string{"?region=eu": "c", "?cluster=b": "b", "?region=eu&cluster=b": "", "?limit=2": "ab", "?cluster=none": ""} {
		d.do("viewer", "GET", "/v1/prices"+query, "").want(200, "").into(&list)
		told := ""
		for _, c := range list.Items {
			told += string(c.Cluster)
		}
		if told != names || len(list.Sources) != 2 || (list.NextCursor != "") != (query == "?limit=2") {
			t.Errorf("%s: %q, want %q", query, told, names)
		}
	}
	for _, query := range []string{"?region=%20", "?cluster=A%2FB", "?limit=0", "?cursor=x", "?class=h100"} {
		d.do("viewer", "GET", "/v1/prices"+query, "").want(400, "invalid_request")
	}
	d.do("", "GET", "/v1/prices", "").want(401, "unauthenticated")
}

func TestSourcesOfPricesAndHowTheyAre(t *testing.T) {
	var asked map[string]prices.Asked
	d := priced(t, func(o *Options) { o.Prices = func() map[string]prices.Asked { return asked } })
	var list PriceList
	d.do("viewer", "GET", "/v1/prices", "").want(200, "").into(&list)
	hour := epoch.Add(-time.Hour)
	want := []PriceSource{
		{Name: "aws on-demand us-east-1", Standing: "absent", Error: "no credentials", AskedAt: hour, AgeMs: -1, IntervalMs: 3_600_000},
		{Name: "aws spot us-east-1", Standing: "good", Offers: 1, Doubted: 1, ReadAt: hour, AskedAt: hour, AgeMs: 3_600_000, IntervalMs: 3_600_000},
	}
	if !slices.Equal(list.Sources, want) {
		t.Errorf("on a follower\ngot  %+v\nwant %+v", list.Sources, want)
	}
	// The leader knows more than is committed: since then an answer was good, and the last was an error.
	minute := epoch.Add(-time.Minute)
	asked = map[string]prices.Asked{"aws spot us-east-1": {
		State: pricelist.State{Standing: pricelist.Failing, Read: epoch.Add(-30 * time.Minute), Asked: minute, Failures: 3, Error: "throttled"}, Next: epoch.Add(time.Minute),
	}}
	want[1].Standing, want[1].Error, want[1].Failures = "failing", "throttled", 3
	want[1].ReadAt, want[1].AskedAt, want[1].NextAt, want[1].AgeMs = epoch.Add(-30*time.Minute), minute, epoch.Add(time.Minute), 30*time.Minute.Milliseconds()
	d.do("viewer", "GET", "/v1/prices", "").want(200, "").into(&list)
	if !slices.Equal(list.Sources, want) {
		t.Errorf("on the leader\ngot  %+v\nwant %+v", list.Sources, want)
	}
}
