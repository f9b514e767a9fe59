package plan

import (
	"math"
	"slices"

	"anabranch/api/fleet"
)

// Lever is a change that would move traffic.
type Lever struct {
	Kind LeverKind `json:"kind"`
	// Of is what would have to change: a cluster, a region, a policy and its field.
	Of string `json:"of"`
	// Gains: the share rises by a point or more; else it falls. Of a region it is what stays at home, and gains
	// when all of it does.
	Gains bool `json:"gains"`
	// Now is the figure, and At the one from which on that is so, in Unit; both 0 where there is none.
	Now  float64 `json:"now"`
	At   float64 `json:"at"`
	Unit string  `json:"unit"`
	// Share that it would have then, 0..1.
	Share float64 `json:"share"`
	// Text says it in words.
	Text string `json:"text"`
}

// LeverKind is what kind of thing would have to change.
type LeverKind string

// The kinds of levers.
const (
	LeverPrice    LeverKind = "price"
	LeverCapacity LeverKind = "capacity"
	LeverDemand   LeverKind = "demand"
	LeverRule     LeverKind = "rule"
	LeverHealth   LeverKind = "health"
)

const (
	// leverPoint is by how much a share must change for a change to count: a point.
	leverPoint = 0.01
	// leverReach is the largest factor that is tried, up or down.
	leverReach = 64.0
	// leverClose is how close a threshold is found, as a part of its distance from now, and leverSteps the most
	// steps to it.
	leverClose = 0.02
	leverSteps = 24
	// leastPrice in dollars for an hour is where the search for a higher price begins.
	leastPrice = 0.01
)

// search finds out what would change shares by solving the problem anew.
type search struct {
	in      Input
	demands []*demand
	// budget of solutions, of which waiting demands have yet to have their parts; solved were made, and those up
	// to limit may be made for the demand at hand.
	budget, waiting, solved, limit int
	cut                            bool
}

func newSearch(in Input, demands []*demand, effort, waiting int) *search {
	routes := 1
	for _, d := range demands {
		routes += len(d.routes)
	}
	return &search{in: in, demands: demands, budget: max(effort, 0) / routes, waiting: waiting, cut: effort > 0 && effort < routes}
}

// of looks for what would change the shares of a demand.
func (s *search) of(d *demand, out *ExplainedDemand) {
	if s.budget <= 0 {
		return
	}
	s.limit = s.solved + (s.budget-s.solved)/max(s.waiting, 1)
	s.waiting--
	p := prober{search: s, d: d, related: entangled(s.demands, d), usd: map[fleet.ClusterID]float64{}}
	for _, e := range out.Clusters {
		if !e.Price.Sunk {
			p.usd[e.Cluster] = e.Price.perGPU()
		}
	}
	base := p.shares(s.in) // without probes
	if base == nil {
		return
	}
	for i := range out.Clusters {
		e := &out.Clusters[i]
		e.Changes = append(e.Changes, p.rules(e, base[e.Cluster])...)
	}
	if d.work > 0 && d.usable() {
		out.Changes = append(out.Changes, p.home(base)...)
	}
	for i := range out.Clusters {
		e := &out.Clusters[i]
		if r := d.routeTo(e.Cluster); r.barred == "" && len(d.routes) > 1 {
			e.Changes = append(e.Changes, p.capacity(r, base[e.Cluster])...)
			e.Changes = append(e.Changes, p.price(r, e.Price, base[e.Cluster])...)
		}
	}
}

func (d *demand) routeTo(id fleet.ClusterID) *route {
	for _, r := range d.routes {
		if r.site.id == id {
			return r
		}
	}
	return nil
}

type stream struct {
	model  fleet.ModelID
	class  fleet.ClassID
	source fleet.RegionID
}

func (d *demand) stream() stream { return stream{d.model, d.class, d.source} }

// entangled are the demands whose solution depends on that of one: those that share sites with it, or a policy
// that limits regions, and those that do with these.
func entangled(demands []*demand, d *demand) map[stream]bool {
	type rule struct {
		policy string
		class  fleet.ClassID
	}
	out := map[stream]bool{d.stream(): true}
	sites, rules := map[*site]bool{}, map[rule]bool{}
	include := func(o *demand) {
		out[o.stream()] = true
		rules[rule{o.governed, o.class}] = rules[rule{o.governed, o.class}] || len(o.policy.Regions) > 0
		for _, r := range o.routes {
			sites[r.site] = true
		}
	}
	include(d)
	for grown := true; grown; {
		grown = false
		for _, o := range demands {
			if out[o.stream()] {
				continue
			}
			if rules[rule{o.governed, o.class}] || slices.ContainsFunc(o.routes, func(r *route) bool { return sites[r.site] }) {
				include(o)
				grown = true
			}
		}
	}
	return out
}

// prober solves the problem of one demand under suppositions.
type prober struct {
	*search
	d       *demand
	related map[stream]bool
	// usd is what a GPU costs for an hour, in the mean of a cluster whose GPUs are not paid anyway.
	usd map[fleet.ClusterID]float64
}

// shares are those that an input leads to, by cluster; nil: there may be no more solutions.
func (p prober) shares(in Input) map[fleet.ClusterID]float64 {
	if p.solved >= p.limit {
		p.cut = true
		return nil
	}
	p.solved++
	w := survey(in)
	demands := slices.DeleteFunc(w.demands(in), func(o *demand) bool { return !p.related[o.stream()] })
	w.solve(demands)
	out := map[fleet.ClusterID]float64{}
	for _, o := range demands {
		if o.stream() == p.d.stream() {
			for _, r := range o.routes {
				out[r.site.id] = r.share
			}
		}
	}
	return out
}

// find is the figure nearest to from at which a share has been reached, on the way to another one; false: it
// isn't there either. The way is geometric where both are above 0.
func (p prober) find(from, to float64, share func(x float64) (float64, bool), reached func(float64) bool) (at, then float64, found bool) {
	then, known := share(to)
	if !known || !reached(then) {
		return 0, 0, false
	}
	now := from
	for range leverSteps {
		if math.Abs(to-from) <= leverClose*math.Abs(to-now) {
			break
		}
		middle := (from + to) / 2
		if from > 0 && to > 0 {
			middle = math.Sqrt(from * to)
		}
		x, known := share(middle)
		switch {
		case !known:
			return 0, 0, false
		case reached(x):
			to, then = middle, x
		default:
			from = middle
		}
	}
	return to, then, true
}

func gains(base float64) func(float64) bool {
	return func(x float64) bool { return x >= base+leverPoint }
}

func loses(base float64) func(float64) bool {
	return func(x float64) bool { return x <= base-leverPoint }
}

// capacity says what a cluster would have to be able to do to take or lose a point.
func (p prober) capacity(r *route, base float64) []Lever {
	now := r.site.capacity[p.d.model]
	share := func(work float64) (float64, bool) {
		x := p.shares(p.in.with(Change{Capacity: []CapacityChange{{r.site.id, work / now}}}))
		return x[r.site.id], x != nil
	}
	var out []Lever
	add := func(to float64, up bool, reached func(float64) bool) {
		if at, then, found := p.find(now, to, share, reached); found {
			l := Lever{Kind: LeverCapacity, Of: string(r.site.id), Gains: up, Now: now, At: at, Unit: "work/s", Share: then}
			l.Text = l.words(base)
			out = append(out, l)
		}
	}
	if base <= 1-leverPoint {
		add(now*leverReach, true, gains(base))
	}
	if base >= leverPoint {
		add(now/leverReach, false, loses(base))
	}
	return out
}

// price says what a cluster's GPUs would have to cost for it to take or lose a point.
func (p prober) price(r *route, price ExplainedPrice, base float64) []Lever {
	now := p.usd[r.site.id]
	if len(price.GPUs) == 0 || price.Sunk || p.d.policy.CostPreference <= 0 {
		return nil
	}
	share := func(usd float64) (float64, bool) {
		x := p.shares(p.in.with(Change{Prices: []PriceChange{{Cluster: r.site.id, USDPerHour: usd}}}))
		return x[r.site.id], x != nil
	}
	var out []Lever
	add := func(from, to float64, up bool, reached func(float64) bool) {
		if at, then, found := p.find(from, to, share, reached); found {
			l := Lever{Kind: LeverPrice, Of: string(r.site.id), Gains: up, Now: now, At: at, Unit: "USD per GPU and hour", Share: then}
			l.Text = l.words(base)
			out = append(out, l)
		}
	}
	if base <= 1-leverPoint && now > 0 {
		add(now, 0, true, gains(base))
	}
	if base >= leverPoint {
		add(max(now, leastPrice), max(now, 1)*leverReach, false, loses(base))
	}
	return out
}

// home says at what demand of the region, and at what capacity and prices of its own clusters, traffic begins
// to leave, or all of it stays.
func (p prober) home(shares map[fleet.ClusterID]float64) []Lever {
	base, metered := 0.0, false
	var own []*route
	for _, r := range p.d.routes {
		if r.site.region == p.d.source && r.barred == "" {
			base += shares[r.site.id]
			own = append(own, r)
		}
	}
	if len(own) == 0 || len(own) == len(p.d.routes) {
		return nil
	}
	share := func(c Change) (float64, bool) {
		in := p.in
		in.supposed = &suppositions{ofModel: p.d.model, ofClass: p.d.class}
		shares := p.shares(in.with(c))
		sum := 0.0
		for _, r := range own {
			sum += shares[r.site.id]
		}
		return sum, shares != nil
	}
	stays := func(x float64) bool { return x > 1-leverPoint }
	var out []Lever
	add := func(l Lever, to float64, change func(factor float64) Change) {
		reached := loses(base)
		if l.Gains {
			reached = stays
		}
		if l.Gains && base > 1-leverPoint || !l.Gains && base < leverPoint {
			return
		}
		at, then, found := p.find(1, to, func(factor float64) (float64, bool) { return share(change(factor)) }, reached)
		if found {
			l.Of, l.At, l.Share = string(p.d.source), l.Now*at, then
			l.Text = l.homeWords(base)
			out = append(out, l)
		}
	}
	demand := func(factor float64) Change { return Change{Demand: []DemandChange{{p.d.source, factor}}} }
	capacity := func(factor float64) (c Change) {
		for _, r := range own {
			c.Capacity = append(c.Capacity, CapacityChange{r.site.id, factor})
		}
		return c
	}
	prices := func(factor float64) (c Change) {
		for _, r := range own {
			if usd := p.usd[r.site.id]; usd > 0 {
				c.Prices = append(c.Prices, PriceChange{Cluster: r.site.id, USDPerHour: usd * factor})
			}
		}
		metered = len(c.Prices) > 0
		return c
	}
	work := 0.0
	for _, r := range own {
		work += r.site.capacity[p.d.model]
	}
	add(Lever{Kind: LeverDemand, Now: p.d.work, Unit: "work/s"}, leverReach, demand)
	add(Lever{Kind: LeverDemand, Now: p.d.work, Unit: "work/s", Gains: true}, 1/leverReach, demand)
	add(Lever{Kind: LeverCapacity, Now: work, Unit: "work/s"}, 1/leverReach, capacity)
	add(Lever{Kind: LeverCapacity, Now: work, Unit: "work/s", Gains: true}, leverReach, capacity)
	if prices(1); metered && p.d.policy.CostPreference > 0 {
		add(Lever{Kind: LeverPrice, Now: 1, Unit: "times"}, leverReach, prices)
		add(Lever{Kind: LeverPrice, Now: 1, Unit: "times", Gains: true}, 1/leverReach, prices)
	}
	return out
}
