package prices

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
	"anabranch/costmodel/pricelist"
)

// answer is a source's that is good, after what the state knows.
func (n *nodes) answer(offers ...costmodel.Offer) *statepb.PriceSource {
	a := pricelist.Answer{State: pricelist.State{Source: "a", Standing: pricelist.Good, Read: noon, Asked: noon}, Offers: offers}
	return settle(n.View().PriceSource("a"), a, Needs(n.View()), time.Hour, noon)
}

func (n *nodes) keep(s *statepb.PriceSource) {
	n.do(&statepb.Command{Op: &statepb.Command_PutPrices{PutPrices: &statepb.PutPrices{Sources: []*statepb.PriceSource{s}}}})
}

func TestClustersThatCostOtherwiseAreTold(t *testing.T) {
	n := found(t, spotH100)
	told := func(s *statepb.PriceSource) string {
		all := repricings(n.View(), s, noon)
		if len(all) > 1 || len(all) == 1 && all[0].GetSource() != "a" {
			t.Errorf("told %v", all)
		}
		if len(all) == 0 {
			return ""
		}
		return all[0].GetDetail()
	}
	first := n.answer(spot(24))
	if got, want := told(first), "us-1 costs $24.00 an hour, which was not known"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	n.keep(first)
	for usd, want := range map[float64]string{
		26: "", 22: "", 24: "", 26.4: "us-1 costs $26.40 an hour instead of $24.00", 12: "us-1 costs $12.00 an hour instead of $24.00",
		2400: "", // not believed
	} {
		if got := told(n.answer(spot(usd))); got != want {
			t.Errorf("at $%g: told %q, want %q", usd, got, want)
		}
	}
	if got, want := told(&statepb.PriceSource{Name: "a"}), "what us-1 costs is not known any more: it was $24.00 an hour"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	for i := range 7 {
		n.cluster(fmt.Sprintf("us-2%d", i), "us-east-1", spotH100)
	}
	if got := told(n.answer(spot(48))); strings.Count(got, "$48.00") != named || !strings.HasSuffix(got, "; and 3 more") {
		t.Errorf("of eight clusters: told %q", got)
	}
	n.write("RateCard", "ours", "{gpus: [{class: h100, region: us-east-1, purchase: spot, usdPerHour: 3}]}")
	if got := told(n.answer(spot(48))); got != "" {
		t.Errorf("below a rate card: told %q", got)
	}
}

func TestADoubtIsLoggedOnce(t *testing.T) {
	n := found(t, spotH100)
	k := n.keeper("n1")
	var log bytes.Buffer
	k.logger = slog.New(slog.NewTextHandler(&log, nil))
	n.keep(n.answer(spot(24)))
	for range 3 {
		next := n.answer(spot(2400))
		k.tellDoubts(n.View().PriceSource("a"), next)
		n.keep(next)
	}
	if got := log.String(); strings.Count(got, "a price is not believed") != 1 || !strings.Contains(got, "instance=p5.48xlarge") || !strings.Contains(got, "told_micros_per_hour=2400000000") {
		t.Errorf("log:\n%s", got)
	}
}

func TestPricesAreMeasured(t *testing.T) {
	n := found(t, spotH100)
	n.cluster("us-2", "us-east-1", "{class: mystery, count: 1}")
	n.cluster("us-3", "us-east-1", "{class: h100, count: 8, instance: p5.48xlarge, purchase: spot}, {class: x, count: 8, purchase: owned}")
	n.write("RateCard", "ours", "{gpus: [{class: x, region: us-east-1, purchase: owned, usdPerHour: 0.5}]}")
	n.keep(n.answer(spot(24)))
	n.keep(n.answer(spot(2400)))
	n.keep(&statepb.PriceSource{Name: "b", Standing: string(pricelist.Failing), Error: "throttled"})
	registry := prometheus.NewRegistry()
	m := newMetrics(n.View, func() time.Time { return noon.Add(90 * time.Second) })
	if err := m.register(registry); err != nil {
		t.Fatal(err)
	}
	m.failed("b")
	const want = `
# HELP anabranch_gpu_hour_dollars What a GPU of a cluster costs for an hour, on average; missing: it is not known. Of the first 1,000 clusters by name.
# TYPE anabranch_gpu_hour_dollars gauge
anabranch_gpu_hour_dollars{cluster="us-1"} 3
anabranch_gpu_hour_dollars{cluster="us-3"} 1.75
# HELP anabranch_price_age_seconds Time since the last good answer of a source of prices that is committed, which is up to an hour before the very last; +Inf: there was none.
# TYPE anabranch_price_age_seconds gauge
anabranch_price_age_seconds{source="a"} 90
anabranch_price_age_seconds{source="b"} +Inf
# HELP anabranch_price_doubted Prices of a source that have moved too far to be believed, so that the last one stays.
# TYPE anabranch_price_doubted gauge
anabranch_price_doubted{source="a"} 1
anabranch_price_doubted{source="b"} 0
# HELP anabranch_price_offers Prices that are kept of a source.
# TYPE anabranch_price_offers gauge
anabranch_price_offers{source="a"} 1
anabranch_price_offers{source="b"} 0
# HELP anabranch_price_refresh_failures_total Questions of this node, as leader, that a source of prices has not answered.
# TYPE anabranch_price_refresh_failures_total counter
anabranch_price_refresh_failures_total{source="b"} 1
# HELP anabranch_price_source_failing 1 if a source of prices fails. To be without credentials is no failure.
# TYPE anabranch_price_source_failing gauge
anabranch_price_source_failing{source="a"} 0
anabranch_price_source_failing{source="b"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
