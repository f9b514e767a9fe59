package plan

import (
	"fmt"
	"slices"
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/costmodel"
	"anabranch/failover/shift"
)

// priceGrowth is how much of a demand may move in a second after a change of price, or only to save money: 20
// points a minute. Prices are no emergency, and caches have to be filled anew wherever traffic goes.
const priceGrowth = 0.2 / 60

// repriced explains shares on their way after a change of price. It is also how the next plan knows
// of the move: the table in force is all that a planner remembers.
var repriced = fmt.Sprintf("a price has changed: moves by at most %g points a minute", 60*100*priceGrowth)

// pricedAfter says whether a rate card was written or prices were found after a table, or a price has begun
// or ended to hold since.
func (in Input) pricedAfter(table *routerpb.Table) bool {
	made := time.UnixMilli(table.GetCreatedUnixMs())
	since := func(at time.Time) bool { return at.After(made) && !at.After(in.Now) }
	turned := func(o costmodel.Offer) bool { return since(o.From) || since(o.Until) }
	return in.PricesRevision > table.GetRef().GetRevision() || slices.ContainsFunc(in.Prices, turned) ||
		slices.ContainsFunc(in.Resources.List(policy.KindRateCard), func(r *policy.Resource) bool {
			card, ok := r.Spec.(*policy.RateCardSpec)
			return r.Metadata.Revision > table.GetRef().GetRevision() || ok && slices.ContainsFunc(card.Offers(), turned)
		})
}

// reprice notes whether a move is one after a change of price: changed since the table in force, or
// under way in it.
func (d *demand) reprice(changed bool) {
	d.repriced = d.before != nil && d.minds() && (changed || slices.ContainsFunc(d.before.GetClusters(),
		func(c *routerpb.ClusterWeight) bool { return c.GetReason() == repriced }))
}

// occupy finds what part of their capacity sites would use with the weights in force, what has moved there being more
// while it is cold.
func (w *world) occupy(demands []*demand) {
	for _, d := range demands {
		for _, r := range d.routes {
			r.site.inForce += shift.Share(r.before, r.known, r.moved) * r.use
		}
	}
}

// pressed says whether a site that the target relieves has more to do than it should: that is load,
// and does not wait for prices.
func (d *demand) pressed(target []float64) bool {
	for i, r := range d.routes {
		if target[i] < r.before-quantum && r.site.inForce > rhoMax {
			return true
		}
	}
	return false
}

// saves says that a target is cheaper and nothing else: with the weights in force requests would wait for their first
// token at least as long where it sends them. What work costs there is no price alone, but also a capacity that is
// measured, and where nearly as much is to be saved here and there, the better place changes with every breath of it.
func (d *demand) saves(before, target []float64) bool {
	if d.policy.CostPreference <= 0 {
		return false
	}
	money, wait := 0.0, 0.0
	for i, r := range d.routes {
		by := target[i] - before[i]
		money += by * r.moneyMs
		wait += by * (r.rttMs + r.gain*r.site.curve.at(r.site.inForce))
	}
	return money < 0 && wait >= 0
}

// pricePace is the part of the way to a target that money may move in the seconds passed,
// but so much that shares, being rounded, move at all.
func (d *demand) pricePace(before, target []float64, passed float64) float64 {
	sum := 0.0
	for i := range before {
		sum += max(target[i]-before[i], 0)
	}
	if !d.repriced && !d.thrifty || sum <= priceGrowth*passed {
		return 1
	}
	least := 0.51 * quantum / distance(before, target)
	return min(max(priceGrowth*passed/sum, least), 1)
}
