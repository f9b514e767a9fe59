package rest

import (
	"math"
	"testing"

	"anabranch/controlplane/access"
	"anabranch/controlplane/state/statepb"
)

func TestWhatWasBilledIsToldBesideWhatWasCounted(t *testing.T) {
	d := billed(t)
	var got Bills
	d.do("viewer", "GET", "/v1/costs/bills", "").want(200, "").into(&got)
	if got.Days == nil || len(got.Days) != 0 {
		t.Errorf("before anybody asked: %+v", got)
	}
	const day = 24 * 3600
	for i, goods := range [][]*statepb.BilledGoods{
		{{Region: "us", Instance: "p5.48xlarge", BilledMicros: 3_000_000, CountedMicros: 2_000_000}, {Region: "us", Instance: "p6.48xlarge", BilledMicros: 1_000_000}},
		nil,
		{{Region: "us", Instance: "a", BilledMicros: math.MaxInt64, CountedMicros: 1}, {Region: "us", Instance: "b", BilledMicros: 1, CountedMicros: math.MaxInt64}},
	} {
		d.money(&statepb.Command{Op: &statepb.Command_PutBilled{PutBilled: &statepb.PutBilled{Day: &statepb.BilledDay{
			DayUnixS: int64(i+1) * day, Source: "the cloud", AskedUnixMs: 5000, Estimate: i == 0, Incomplete: i == 1, Goods: goods, LeftOut: []string{"us-b"}[:i%2],
		}}}})
	}
	d.do("viewer", "GET", "/v1/costs/bills", "").want(200, "").into(&got)
	if len(got.Days) != 3 {
		t.Fatalf("got %+v", got)
	}
	if huge := got.Days[0]; huge.BilledUSD != "9223372036854.775807" || huge.CountedUSD != huge.BilledUSD {
		t.Errorf("more than can be added up: %+v", huge)
	}
	newest, oldest := got.Days[1], got.Days[2]
	if newest.Day != "1970-01-03" || !newest.Incomplete || newest.Estimate || newest.BilledUSD != "0.00" || newest.DriftRatio != nil || len(newest.LeftOut) != 1 {
		t.Errorf("the newest day: %+v", newest)
	}
	if oldest.Day != "1970-01-02" || !oldest.Estimate || oldest.BilledUSD != "4.00" || oldest.CountedUSD != "2.00" || *oldest.DriftRatio != 1 ||
		len(oldest.Goods) != 2 || *oldest.Goods[0].DriftRatio != 0.5 || oldest.Goods[1].DriftRatio != nil || oldest.Goods[1].BilledUSD != "1.00" {
		t.Errorf("the day before: %+v", oldest)
	}
	d.do("viewer", "GET", "/v1/costs/bills?day=1", "").want(400, "invalid_request")
	d.token("of-acme", "viewer", access.Scope{Tenants: []string{"acme"}})
	d.do("of-acme", "GET", "/v1/costs/bills", "").want(403, "out_of_scope")
}
