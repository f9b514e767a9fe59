package plan

import (
	"fmt"
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/failover"
)

// trickle is the part of the smallest cluster's capacity that all classes of a model together are
// assumed to ask for where there is no demand, so that weights stand ready for the first request.
const trickle = 1e-3

// mostLoad and mostUse bound how many times all capacity, and that of one site, a demand can count
// for: more is no different, and sums keep their precision.
const (
	mostLoad = 100
	mostUse  = 1e4 // of one site's capacity
)

// demand is the traffic of one model and class from one region, and where it may go.
type demand struct {
	model  fleet.ModelID
	class  fleet.ClassID
	source fleet.RegionID
	policy *policy.TrafficPolicySpec
	// governed is the name of the policy, for groups under one share limit.
	governed string
	// pinned are the only clusters that requests for the model may go to by the policy; empty: any.
	// Zones of the regions, for residency.
	pinned []string
	zones  map[fleet.RegionID]string
	// work asked for in work units per second, and load, the same but never 0, to plan with.
	work, load float64
	// requests asked for in a second.
	requests float64
	routes   []*route
	// levelMs is what its last request costs, in ms, wherever it goes.
	levelMs float64
	// tiers are its parts by priority, the first to be shed first; they sum to 1.
	tiers []tier
	// shed is what of it is more than may be served, by tier, the first to be shed first. Empty: nothing.
	shed []shed
	// refused is what routers are told to shed. Empty: nothing.
	refused []*routerpb.Shed
	// priced: money plays a part in what routes cost.
	priced bool
	// repriced: what moves it is a change of price.
	repriced bool
	// thrifty: what moves it is money alone; where it goes is no sooner there.
	thrifty bool
	// before is the list in force; nil: there is none.
	before *routerpb.Weights
	// displaced says why weights must move at once, or "".
	displaced string
	// cold is how many times as much work a request is where no cache knows it. Lost: a site that it used is out of use,
	// so that what went there comes to others cold, since a time.
	cold  float64
	lost  bool
	since time.Duration
	// manner is how it goes to the solution, and least what is to be shed of it at least, so that no survivor of a loss has
	// too much. Nil: nothing.
	manner manner
	least  []*routerpb.Shed
	// unknown is the part of it that is shed, which caches are not taken to know any more.
	unknown float64
	// urgent is the part of the way to the goals of routes, 0..1, that is not to wait for growth.
	urgent float64
	// silent is a region with weight that nothing fresh is known of, or "".
	silent fleet.RegionID
	out    []*routerpb.ClusterWeight
	why    string
}

// route is one site that a demand could be sent to.
type route struct {
	site *site
	// health of the demand's model there. Nil: nothing is known of it, and it counts as healthy.
	health *failover.Cluster
	// costMs is what sending there costs beside congestion: distance, rttMs, and money as the policy
	// values it, moneyMs.
	costMs, rttMs, moneyMs float64
	// congestionMs is what a request more there costs all that are served there: the site's congestion, gain times,
	// as the model takes more of it or less than of other sites.
	congestionMs, gain float64
	// probe: it gets a trickle to keep it measured.
	probe bool
	// use is the part of the site's capacity that the whole demand would take.
	use float64
	// size is the site's part of the capacity of all routes.
	size float64
	// barred says why nothing may go there, or "".
	barred string
	// ordered: it is barred by the policy, whatever its health. Excluded: and for good, by a pin or
	// residency.
	ordered, excluded bool
	// factor is the part of its ideal share that health lets it have, 0..1, and because why that
	// is below 1.
	factor  float64
	because string
	// wish is the policy's weight of the region. Last: its weight is 0, and only it is alive.
	wish float64
	last bool
	// reserve: the policy keeps traffic at home, or at what is near or cheap enough, which is in reduced use, so
	// only what that may not have goes there.
	reserve bool
	// bound on share, floor what it gets in any case, share the solution. Elastic: it may get more
	// than its bound when there is no room within bounds.
	bound, floor, share float64
	elastic             bool
	// fits is the part of the demand that it has room for, and over what of that is above its bound. Of a demand that
	// fits whole it is the share. Reduced: health lets it have just so much as part, be that 0.
	fits, over, part float64
	reduced          bool
	// ideal is the share, idealFits what of it fits, and idealBound the bound, with all sites in full use; natural the
	// share without the policy's weights and limits.
	ideal, idealFits, idealBound, natural float64
	// outweighed by regions of more weight, limited by the policy's limit on its region, stuck as
	// its health does not let it grow.
	outweighed, limited, stuck bool
	// drawn is the region that is to have a part of what would go here, by the policy; "": limited by its own region's
	// limit, if at all. Dear: it costs more than the policy's premium allows.
	drawn fleet.RegionID
	dear  bool
	// best: it is among those that would be used if there were room everywhere, see even.
	best bool
	// before is the share in force, and goal where it is to go when the site, or another, has too much to do: to the
	// solution, or as far there as a silent region allows.
	before, goal float64
	// capacity of the site for the model, and served what it lately did of it for the source, in work units.
	// Cold: it does not get its share yet as its caches are.
	capacity, served float64
	cold             bool
	// known is the share that its caches know the sessions of, and moved how many times as much work what is above
	// that is now, see displace. Moved 1 or below: all is alike. Apart: the solution knows it.
	known, moved float64
	apart        bool
	// crossed: the share of the solution has some of that.
	crossed bool
	// was is its entry in the list in force; nil: there is none.
	was *routerpb.ClusterWeight
}

// demands lists all traffic in a fixed order.
func (w *world) demands(in Input) []*demand {
	previous := make(map[[3]string]*routerpb.Weights, len(in.Previous.GetWeights()))
	for _, p := range in.Previous.GetWeights() {
		previous[[3]string{p.GetModel(), p.GetClass(), p.GetSource()}] = p
	}
	was := map[string]*routerpb.Cluster{}
	for _, c := range in.Previous.GetClusters() {
		was[c.GetId()] = c
	}
	for _, s := range w.sites {
		s.was = was[string(s.id)]
	}
	published := in.Previous.GetRef().GetRevision()
	repriced := in.pricedAfter(in.Previous)
	out := make([]*demand, 0, len(previous))
	for _, r := range w.resources.List(policy.KindModel) {
		spec, ok := r.Spec.(*policy.ModelSpec)
		if !ok {
			continue
		}
		model := fleet.ModelID(r.Metadata.Name)
		names := slices.Concat([]string{string(model)}, spec.Aliases, spec.Adapters)
		ways, cold := w.ways(model, in.Signals), coldFactor(in.Cold, model)
		for _, class := range w.classes {
			governing := w.governing(class, model)
			if governing == nil && class != fleet.DefaultClass {
				continue
			}
			terms := policySpec(governing)
			pinned := w.pinned(terms, model)
			var governed string
			var revision uint64
			if governing != nil {
				governed, revision = governing.Metadata.Name, governing.Metadata.Revision
			}
			for i, source := range w.regionIDs {
				d := &demand{cold: cold, model: model, class: class, source: source, policy: terms, governed: governed, pinned: pinned, zones: w.zones}
				for _, name := range names {
					asked := in.Signals.Demand(fleet.ModelID(name), class, source)
					d.work += asked.WorkPerS
					d.requests += asked.RequestsPerS
				}
				d.divide(names, in.Signals)
				d.work *= w.supposed.asked(model, class, source)
				d.requests *= w.supposed.asked(model, class, source)
				d.before = previous[[3]string{string(model), string(class), string(source)}]
				w.route(d, ways[i])
				d.notice(max(revision, r.Metadata.Revision), published)
				d.reprice(repriced)
				out = append(out, d)
			}
		}
	}
	return out
}

// way is a site that a model's requests from one region can be sent to, with what is the same for all classes.
type way struct {
	site                    *site
	capacity, served, rttMs float64
	// marginal is the price of a million work units, and unpriced says that it is not known.
	marginal float64
	unpriced bool
}

// ways of a model's requests, by region and then by site.
func (w *world) ways(model fleet.ModelID, signals signal.Snapshot) [][]way {
	var serving []way
	for _, s := range w.sites {
		if capacity, serves := s.capacity[model]; serves {
			serving = append(serving, way{site: s, capacity: capacity, marginal: float64(w.marginal(s, model)), unpriced: w.unpriced(s, model)})
		}
	}
	out := make([][]way, len(w.regionIDs))
	for i, source := range w.regionIDs {
		out[i] = make([]way, 0, len(serving))
		for _, x := range serving {
			if w.reached(x.site, source) {
				x.rttMs, x.served = w.rtt(source, x.site.region), signals.Served(source, x.site.id, model)
				out[i] = append(out[i], x)
			}
		}
	}
	return out
}

// route finds what each way of a demand would cost.
func (w *world) route(d *demand, ways []way) {
	smallest, all := 0.0, 0.0
	dearest, money := 0.0, false
	for i, x := range ways {
		all += x.capacity
		if i == 0 || x.capacity < smallest {
			smallest = x.capacity
		}
		dearest = max(dearest, x.marginal)
		money = money || dearest > 0 || x.unpriced
	}
	d.load = min(max(d.work, trickle*smallest/float64(max(len(w.classes), 1))), mostLoad*all)
	routes := make([]route, len(ways)) // of one piece: there are many
	d.routes = make([]*route, len(ways))
	for i, x := range ways {
		r := &routes[i]
		r.health = x.site.health[d.model]
		r.site, r.use, r.size, r.factor, r.wish = x.site, min(d.load/x.capacity, mostUse), max(x.capacity/all, 1e-6), 1, 1
		r.capacity, r.served, r.rttMs = x.capacity, x.served, x.rttMs
		if money {
			preference := min(max(d.policy.CostPreference, 0), 1)
			d.priced = d.priced || preference > 0
			part := 1.0
			if !x.unpriced {
				part = x.marginal / max(dearest, 1)
			}
			r.moneyMs = preference * d.policy.TTFTObjectiveMs * part
		}
		r.costMs = r.rttMs + r.moneyMs
		r.was = find(d.before.GetClusters(), string(x.site.id), i)
		r.before = r.was.GetWeight()
		r.judge(d)
		d.routes[i] = r
	}
	d.wish()
	d.stay()
	d.premium(ways, dearest)
}

// find a cluster in a list of weights; at is where it most likely is. Nil: it is not there.
func find(list []*routerpb.ClusterWeight, cluster string, at int) *routerpb.ClusterWeight {
	if at < len(list) && list[at].GetCluster() == cluster {
		return list[at]
	}
	for _, c := range list {
		if c.GetCluster() == cluster {
			return c
		}
	}
	return nil
}

// cap is the share of its weight that the route may take, an operator's drain included.
func (r *route) cap() float64 {
	if r.site.spec.Drained {
		return 0
	}
	return wellOr(r.health).Cap()
}

// mayGrow says whether health lets the route have more than it has.
func (r *route) mayGrow() bool { return wellOr(r.health).MayGrow() }

// judge applies the site's health and the operator's drain.
func (r *route) judge(d *demand) {
	health := wellOr(r.health)
	if excluded := d.excludes(r.site); excluded != "" {
		r.ordered, r.excluded = true, true
		r.barred = excluded
	}
	switch share := r.cap(); {
	case r.excluded:
	case r.site.gone(d.model):
		r.barred = "taken out by a drill"
	case r.site.spec.Drained:
		r.barred = "drained by an operator"
	case share <= 0:
		r.barred = fmt.Sprintf("%s: %s", health.State, health.Reason)
	case share < 1:
		r.factor, r.because = share, fmt.Sprintf("%s at %g %% of its share", health.State, 100*share)
	}
}

// order bars a route by the policy.
func (r *route) order(why string) { r.barred, r.ordered = why, true }

// wish applies the policy's region weights. A region of weight 0 gets nothing while any other
// cluster is alive.
func (d *demand) wish() {
	for _, wish := range d.policy.Regions {
		for _, r := range d.routes {
			switch {
			case string(r.site.region) != wish.Region:
			case wish.MaxShare != nil && *wish.MaxShare <= 0 && r.barred == "":
				r.order("the policy sends nothing to " + wish.Region)
			case wish.Weight != nil:
				r.wish = max(*wish.Weight, 0)
			}
		}
	}
	alive := slices.ContainsFunc(d.routes, func(r *route) bool { return r.barred == "" && r.wish > 0 })
	for _, r := range d.routes {
		switch {
		case r.barred != "" || r.wish > 0:
		case alive:
			r.order("the policy sends nothing to " + string(r.site.region))
		default:
			r.wish, r.last = 1, true
		}
	}
}

// keepsAt begins the reason of what is barred by a policy without spill.
const keepsAt = "the policy keeps traffic in "

// stay keeps traffic at home where the policy wants that: all of it while home has a cluster in
// full use, and all that it may have while it has one in reduced use.
func (d *demand) stay() {
	if d.policy.Spill != policy.SpillNever {
		return
	}
	alive, full := false, false
	for _, r := range d.routes {
		if r.barred == "" && r.site.region == d.source {
			alive, full = true, full || r.factor == 1
		}
	}
	for _, r := range d.routes {
		switch {
		case r.barred != "" || r.site.region == d.source:
		case full:
			r.order(keepsAt + string(d.source))
		case alive:
			r.reserve = true
		}
	}
}

// notice finds out whether anything but load has changed since the table in force.
func (d *demand) notice(revision, published uint64) {
	if d.before == nil {
		return
	}
	if revision > published {
		d.displaced = "a policy or model has changed"
	}
	listed := 0
	for _, r := range d.routes {
		if r.was != nil {
			listed++
		}
		switch was := r.site.was; {
		case was == nil || r.was == nil:
			d.displaced = string(r.site.id) + " is new"
		case r.site.gone(d.model) || r.site.back:
			d.displaced = string(r.site.id) + " is drilled"
		case was.GetDrained() != r.site.spec.Drained:
			d.displaced = string(r.site.id) + " is drained or restored"
		case HealthCap(was, d.model) != wellOr(r.health).Cap():
			d.displaced = fmt.Sprintf("%s is %s", r.site.id, nameOf(wellOr(r.health).State))
		}
	}
	if listed < len(d.before.GetClusters()) {
		d.displaced = "a cluster is gone"
	}
}

func nameOf(s failover.State) failover.State {
	if s == "" {
		return failover.Healthy
	}
	return s
}

// usable says whether anything may go anywhere.
func (d *demand) usable() bool {
	return slices.ContainsFunc(d.routes, func(r *route) bool { return r.barred == "" })
}
