package plan

import (
	"fmt"
	"math"
	"strings"

	"anabranch/costmodel"
)

const (
	// tooFar begins the reason of what is further than the policy's premium for latency lets it be, and tooDear is
	// that of what is dearer than its premium for money does. A price may change while traffic flows: what has become
	// too dear is not barred, but wanted no more, so that it is left at the pace of prices.
	tooFar  = "further than the nearest by more than the policy's premium of "
	tooDear = "dearer than the cheapest by more than the policy's premium"
)

// premium keeps a demand from what is further or dearer than the nearest or cheapest that is alive. While that one
// is in reduced use, what it may not have goes to what is no further or dearer than the nearest or cheapest in
// full use. The nearest itself is never too far, and the cheapest of what is near enough never too dear. Ways are
// those of its routes, and dearest is what is taken for a price that is not known.
func (d *demand) premium(ways []way, dearest float64) {
	bound := d.policy.MaxPremium
	if bound == nil {
		return
	}
	if most := bound.LatencyMs; most != nil {
		d.within(max(*most, 0), func(i int) float64 { return ways[i].rttMs }, func(r *route) { r.order(tooFar + fmt.Sprintf("%g ms", *most)) })
	}
	if most := bound.USDPerMTok; most != nil {
		d.priced = true
		micros := func(i int) float64 {
			if ways[i].unpriced {
				return dearest
			}
			return ways[i].marginal
		}
		d.within(float64(costmodel.FromUSD(max(*most, 0))), micros, func(r *route) { r.dear = true })
	}
}

// within leaves out the routes of which a figure is above the least of all and the least of those in full use by more
// than most, and makes those a reserve that are above the former alone.
func (d *demand) within(most float64, of func(route int) float64, leaveOut func(*route)) {
	all, full := math.Inf(1), math.Inf(1)
	for i, r := range d.routes {
		switch {
		case r.barred != "":
			continue
		case !r.reserve:
			all = min(all, of(i))
		}
		if r.factor == 1 {
			full = min(full, of(i))
		}
	}
	if math.IsInf(full, 1) {
		full = all
	}
	for i, r := range d.routes {
		switch x := of(i); {
		case r.barred != "" || x <= all+most:
		case x > full+most:
			leaveOut(r)
		default:
			r.reserve = true
		}
	}
}

// isTooFar says that a route is barred by the premium for latency.
func (r *route) isTooFar() bool { return r.ordered && strings.HasPrefix(r.barred, tooFar) }

// minds says whether prices matter to where a demand goes.
func (d *demand) minds() bool {
	return d.policy.CostPreference > 0 || d.policy.MaxPremium != nil && d.policy.MaxPremium.USDPerMTok != nil
}
