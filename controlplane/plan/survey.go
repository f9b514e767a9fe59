package plan

import (
	"cmp"
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/plan/flow"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/costmodel"
	"anabranch/failover"
)

// site is a cluster as the planner sees it.
type site struct {
	id     fleet.ClusterID
	region fleet.RegionID
	spec   *policy.ClusterSpec
	// health by model, whole of the best of them: see [failover.Summary].
	health map[fleet.ModelID]*failover.Cluster
	whole  failover.Cluster
	// ability is what is measured of it by model, and capacity in work units per second what it is taken to
	// do for that.
	ability  map[fleet.ModelID]signal.Ability
	capacity map[fleet.ModelID]float64
	curve    *curve
	revision uint64
	// index among the sites of the world.
	index int
	// load is the part of its capacity that the present solution uses, and congestionMs what a request more costs
	// all that is served there.
	load, congestionMs float64
	// weight is its size beside other sites, see heaviness.
	weight float64
	// inForce is the part that the weights in force use.
	inForce float64
	// was is its entry in the table in force. Nil: there is none.
	was *routerpb.Cluster
	// book of the prices that are supposed to hold on it. Nil: those of the world do.
	book *costmodel.Book
	// out: a drill takes it out, of the models outOf; none: of all. back: a drill brings it back.
	out, back bool
	outOf     []fleet.ModelID
}

// cap is the share of its weight that the site may take of its best model, an operator's drain included.
func (s *site) cap() float64 {
	if s.spec.Drained {
		return 0
	}
	return s.whole.Cap()
}

// capOf is the same of one model.
func (s *site) capOf(model fleet.ModelID) float64 {
	if s.spec.Drained {
		return 0
	}
	return wellOr(s.health[model]).Cap()
}

// wellOr is health, which is good where there is none.
func wellOr(c *failover.Cluster) failover.Cluster {
	if c == nil {
		return failover.Cluster{}
	}
	return *c
}

// ail reads the health of its models.
func (s *site) ail(all map[failover.Place]failover.Cluster) {
	s.health = make(map[fleet.ModelID]*failover.Cluster, len(s.spec.Models))
	places := make(map[failover.Place]failover.Cluster, len(s.spec.Models))
	for _, m := range s.spec.Models {
		at := failover.Place{Cluster: s.id, Model: fleet.ModelID(m)}
		c := failover.Of(all, at)
		places[at], s.health[at.Model] = c, &c
	}
	s.whole = failover.Summary(places)[s.id]
}

// world is the input sorted for planning.
type world struct {
	resources Lookup
	regions   map[fleet.RegionID]*policy.RegionSpec
	regionIDs []fleet.RegionID
	zones     map[fleet.RegionID]string
	sites     []*site            // by id
	policies  []*policy.Resource // in the order of trying
	classes   []fleet.ClassID    // sorted
	book      costmodel.Book
	specs     map[fleet.ModelID]*policy.ModelSpec
	adapters  map[string]fleet.ModelID
	asks      map[*policy.TrafficPolicySpec][]fleet.ModelID // see targets
	tokens    map[string]costmodel.TokenPrice               // by model
	supposed  suppositions
	// solution is the last, where the search for the next begins. Nil: none yet.
	solution *flow.Solution
}

// direct says that every router reaches a member itself, and none of ours stands beside it: what it
// has and does is not measured, and no region's reports speak for it.
func direct(spec *policy.ClusterSpec) bool {
	return spec.Type == policy.TypeProvider || spec.Type == policy.TypeRouter
}

func survey(in Input) *world {
	w := &world{
		resources: in.Resources,
		regions:   map[fleet.RegionID]*policy.RegionSpec{},
		zones:     map[fleet.RegionID]string{},
		policies:  traffic(in.Resources),
		book:      Prices(in.Resources, in.Prices, in.Now),
		specs:     map[fleet.ModelID]*policy.ModelSpec{},
		adapters:  map[string]fleet.ModelID{},
		tokens:    tokenPrices(in.Resources),
	}
	for _, r := range in.Resources.List(policy.KindModel) {
		if spec, ok := r.Spec.(*policy.ModelSpec); ok {
			w.specs[fleet.ModelID(r.Metadata.Name)] = spec
			for _, a := range spec.Adapters {
				w.adapters[a] = fleet.ModelID(r.Metadata.Name)
			}
		}
	}
	for _, r := range in.Resources.List(policy.KindRegion) {
		if spec, ok := r.Spec.(*policy.RegionSpec); ok {
			w.regions[fleet.RegionID(r.Metadata.Name)] = spec
			w.zones[fleet.RegionID(r.Metadata.Name)] = cmp.Or(spec.Zone, r.Metadata.Name)
			w.regionIDs = append(w.regionIDs, fleet.RegionID(r.Metadata.Name))
		}
	}
	slices.Sort(w.regionIDs)
	w.classes = w.classIDs()
	curves := map[int]*curve{}
	for _, r := range in.Resources.List(policy.KindCluster) {
		spec, ok := r.Spec.(*policy.ClusterSpec)
		if !ok || w.regions[fleet.RegionID(spec.Region)] == nil {
			continue
		}
		id := fleet.ClusterID(r.Metadata.Name)
		s := &site{
			id:       id,
			region:   fleet.RegionID(spec.Region),
			spec:     spec,
			ability:  map[fleet.ModelID]signal.Ability{},
			capacity: map[fleet.ModelID]float64{},
			revision: r.Metadata.Revision,
		}
		s.ail(in.Health)
		endpoints := max(len(spec.Endpoints), in.Signals.Cluster(id, "").Total, 1)
		if direct(spec) { // as many as would do what it is believed to
			endpoints = int(max(min(prior(spec)/policy.DefaultPriorWork, maxSlots), 1))
		}
		slots := min(endpoints, maxSlots/slotsPerEndpoint) * slotsPerEndpoint
		if curves[slots] == nil {
			curves[slots] = newCurve(slots)
		}
		s.curve = curves[slots]
		for _, m := range spec.Models {
			s.ability[fleet.ModelID(m)] = signal.Ability{}
			if !direct(spec) {
				s.ability[fleet.ModelID(m)] = in.Signals.Ability(id, fleet.ModelID(m))
			}
		}
		w.sites = append(w.sites, s)
	}
	w.believe()
	w.suppose(in)
	slices.SortFunc(w.sites, func(a, b *site) int { return cmp.Compare(a.id, b.id) })
	for i, s := range w.sites {
		s.index = i
	}
	w.recall(in.Congestion)
	return w
}

// reached says whether a site can be reached from a source. A region that is a member as a whole is
// none to itself; a provider is called directly, wherever it is.
func (w *world) reached(s *site, source fleet.RegionID) bool {
	peer := s.region == source || len(w.regions[s.region].PeerURLs) > 0
	switch s.spec.Type {
	case policy.TypeProvider:
		return true
	case policy.TypeRouter:
		return peer && s.region != source
	}
	return peer
}

// rtt between two regions in ms, as either side says, or the default.
func (w *world) rtt(a, b fleet.RegionID) float64 {
	if a == b {
		return 0
	}
	if ms, ok := w.regions[a].RTTMs[string(b)]; ok {
		return ms
	}
	if ms, ok := w.regions[b].RTTMs[string(a)]; ok {
		return ms
	}
	return policy.DefaultRTTMs
}

// Prices of GPUs that hold at a time: those of the rate cards before the offers of sources, and these before
// the defaults that come with the program. Whoever needs to know what a cluster costs asks here, so that
// plans, bills and forecasts go by the same prices.
func Prices(resources Lookup, offers []costmodel.Offer, now time.Time) costmodel.Book {
	all := slices.Concat(costmodel.ShippedOffers(), offers)
	for _, r := range resources.List(policy.KindRateCard) {
		if card, ok := r.Spec.(*policy.RateCardSpec); ok {
			for _, o := range card.Offers() {
				o.Source = cmp.Or(o.Source, "rate card "+r.Metadata.Name)
				all = append(all, o)
			}
		}
	}
	return costmodel.NewBook(now, all)
}

// tokenPrices are those of the rate cards; of two cards the first by name holds.
func tokenPrices(resources Lookup) map[string]costmodel.TokenPrice {
	out := map[string]costmodel.TokenPrice{}
	for _, r := range resources.List(policy.KindRateCard) {
		card, ok := r.Spec.(*policy.RateCardSpec)
		if !ok {
			continue
		}
		for _, m := range card.Models {
			if _, known := out[m.Model]; !known {
				out[m.Model] = m.Price()
			}
		}
	}
	return out
}

// unpriced says that a site asks for money, and no rate card says how much: it is taken to be as dear
// as the dearest.
func (w *world) unpriced(s *site, model fleet.ModelID) bool {
	_, known := w.tokens[string(model)]
	return s.spec.Type == policy.TypeProvider && !known
}

// marginal is the price of a million work units of a model on a site. A provider's is the dearer of
// what it asks for a million work units of input and of output, since the mix is not known.
func (w *world) marginal(s *site, model fleet.ModelID) costmodel.Micros {
	if s.spec.Type == policy.TypeProvider {
		weight := policy.DefaultOutputWeight
		if spec := w.specs[model]; spec != nil && spec.OutputWeight > 0 {
			weight = spec.OutputWeight
		}
		return w.tokens[string(model)].Marginal(weight)
	}
	return w.prices(s).Marginal(string(s.region), s.spec.Bought(), int64(s.capacity[model])).PerMillion
}
