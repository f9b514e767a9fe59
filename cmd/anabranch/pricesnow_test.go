package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"anabranch/controlplane/prices"
	"anabranch/controlplane/rest"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
	"anabranch/costmodel/pricelist"
)

const fleetWithPrices = `apiVersion: anabranch/v1
kind: Region
metadata: {name: us-east-1}
---
apiVersion: anabranch/v1
kind: Model
metadata: {name: m}
---
apiVersion: anabranch/v1
kind: Cluster
metadata: {name: us-1}
spec:
  region: us-east-1
  models: [m]
  endpoints: [{id: e, url: "http://10.0.0.1", class: h100}]
  gpus:
    - {class: h100, count: 8, instance: p5.48xlarge, purchase: spot}
    - {class: b300, count: 2, purchase: owned}
---
apiVersion: anabranch/v1
kind: Cluster
metadata: {name: us-2}
spec: {region: us-east-1, models: [m], endpoints: [{id: e, url: "http://10.0.0.2", class: h100}]}
---
apiVersion: anabranch/v1
kind: RateCard
metadata: {name: ours}
spec: {gpus: [{class: b300, region: us-east-1, purchase: owned, usdPerHour: 1.5, estimate: true}]}
`

func TestPricesOfTheControlPlane(t *testing.T) {
	asked := map[string]prices.Asked{}
	s := begin(t, func(o *rest.Options) { o.Prices = func() map[string]prices.Asked { return asked } })
	s.do(0, fleetWithPrices, "apply", "-f", "-")
	if out, _ := s.do(0, "", "prices"); !strings.Contains(out, "nobody is asked for prices: --aws-prices") {
		t.Errorf("without sources:\n%s", out)
	}
	s.node.Apply(&statepb.Command{Format: 2, Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: state.Format}}})
	read := time.Now().Add(-2 * time.Hour)
	s.node.Apply(&statepb.Command{Format: 5, AtUnixMs: 1, Op: &statepb.Command_PutPrices{PutPrices: &statepb.PutPrices{Sources: []*statepb.PriceSource{
		{Name: "aws on-demand us-east-1", Standing: "absent", Error: "no AWS credentials", EveryMs: 3_600_000},
		{Name: "aws spot us-east-1", Standing: "good", ReadUnixMs: read.UnixMilli(), EveryMs: 3_600_000, Offers: []*statepb.PriceOffer{{
			Class: "h100", Instance: "p5.48xlarge", Gpus: 8, Region: "us-east-1", Zone: "us-east-1a", Purchase: "spot", MicrosPerHour: 24_000_000,
			Origin: uint32(costmodel.Live), Source: "EC2 spot price history", Doubt: &statepb.Doubt{SinceUnixMs: 1000, MicrosPerHour: 2_400_000_000},
		}}},
	}}}})
	asked["aws spot us-east-1"] = prices.Asked{State: pricelist.State{Failures: 2}, Next: time.Now().Add(10 * time.Minute)}
	out, _ := s.do(0, "", "prices")
	squeezed := strings.Join(strings.Fields(out), " ")
	for _, want := range []string{
		"us-1 us-east-1 8 h100 spot p5.48xlarge $3.00 $24.00 2h EC2 spot price history live price; $300.00 is told since 1970-01-01T00:00:01Z and not believed",
		"us-1 us-east-1 2 b300 owned $1.50 $3.00 - rate card ours (estimate) operator's price",
		"us-2 us-east-1 - - - - - it names no GPUs",
		"aws on-demand us-east-1 absent 0 - 1h0m0s - 0 no AWS credentials",
		"aws spot us-east-1 good 1 (1 doubted) 2h 1h0m0s in ",
	} {
		if !strings.Contains(squeezed, want) {
			t.Errorf("%q is missing:\n%s", want, out)
		}
	}
	s.do(0, "apiVersion: anabranch/v1\nkind: TrafficPolicy\nmetadata: {name: cheap}\nspec: {costPreference: 0.5}\n", "apply", "-f", "-")
	if out, _ = s.do(0, "", "describe", "cluster", "us-1"); strings.Contains(out, "nobody knows a price") {
		t.Errorf("a price that a source has found is missed:\n%s", out)
	}
	out, _ = s.do(0, "", "prices", "--class", "H100", "--region", "us-east-1", "-o", "json")
	var list rest.PriceList
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Items) != 1 || len(list.Items[0].GPUs) != 1 || len(list.Sources) != 2 || list.At.IsZero() {
		t.Errorf("%v: %s", err, out)
	}
	if out, errs := s.do(0, "", "prices", "--purchase", "reserved"); strings.Contains(out, "us-1") || !strings.HasPrefix(errs, "note: no cluster has GPUs that fit") {
		t.Errorf("nothing that fits: %q %q", out, errs)
	}
	if _, errs := s.do(exitUsage, "", "prices", "--purchase", "lease"); !strings.Contains(errs, `--purchase: "lease" is unknown; choose one of on-demand, spot, `) {
		t.Errorf("a way to buy that there is none of: %q", errs)
	}
	if out, _ = s.do(0, "", "prices", "--purchase", "reserved", "-o", "json"); !strings.Contains(out, `"items": []`) {
		t.Errorf("of none: %s", out)
	}
	if out, _ = s.do(0, "", "prices", "--cluster", "us-2", "--watch", "200ms", "--count", "2"); strings.Count(out, "us-2") != 2 {
		t.Errorf("watched: %s", out)
	}
	if _, errs := s.do(exitFailed, "", "prices", "--cluster", "none"); !strings.Contains(errs, `no cluster "none"`) {
		t.Errorf("a cluster that there is not: %s", errs)
	}
}
