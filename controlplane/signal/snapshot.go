package signal

import (
	"maps"
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// Snapshot is all that a node knows at one moment. It never changes and may be shared; the zero
// Snapshot knows nothing.
type Snapshot struct {
	At time.Time
	// Routers by id, the newest observation of each.
	Routers []Observation
	// Sources that nodes poll themselves, by cluster, endpoint and node.
	Sources []Source

	sights  map[fleet.ClusterID][]Sight
	demand  map[demandKey]Demand
	tiers   map[demandKey]map[int32]float64
	went    map[routeKey]float64
	regions map[fleet.RegionID]Region
	// abilities by place; served by source and place.
	abilities map[place]Ability
	served    map[routeKey]float64
	voices    []voice // of routers that are not absent and speak of limits
}

type demandKey struct {
	stream
	region fleet.RegionID
}

// routeKey is requests of one region for one model; with an empty cluster, to all of them.
type routeKey struct {
	source fleet.RegionID
	place
}

// Sight is one router's word on one model of one cluster.
type Sight struct {
	Router fleet.RouterID
	Region fleet.RegionID
	// Signal is from the router's last report.
	Signal *routerpb.ClusterSignal
	// Age of that report.
	Age time.Duration
	// Requests and Failures of this router there over the last ten seconds, which Span says the
	// real length of.
	Requests, Failures uint64
	// Tokens in and out of answers that ended then; prompt tokens of which it is known how many were cached, and those.
	Tokens, Prefix, Cached uint64
	Span                   time.Duration
}

// Region sums up the routers of one region.
type Region struct {
	// Freshness and Age are of the newest report of any router there; Age is -1 without one.
	Freshness Freshness
	Age       time.Duration
	// Since is how long the newest of the routers there, of those that are not absent, has reported.
	Since time.Duration
	// RequestsPerS and FailuresPerS finished, over the last ten seconds; InFlight now.
	RequestsPerS, FailuresPerS float64
	InFlight                   int64
	// QuotaStoreOK: every router heard of lately reaches Redis.
	QuotaStoreOK bool
}

func build(now time.Time, routers []*memory, capacity map[place]belief) Snapshot {
	s := Snapshot{
		At:        now,
		sights:    map[fleet.ClusterID][]Sight{},
		demand:    map[demandKey]Demand{},
		tiers:     map[demandKey]map[int32]float64{},
		went:      map[routeKey]float64{},
		regions:   map[fleet.RegionID]Region{},
		abilities: map[place]Ability{},
		served:    map[routeKey]float64{},
	}
	finished := map[place]float64{} // by routers beside it that were heard of lately
	asked := map[routeKey]float64{}
	counted := map[routeKey]float64{}
	own := map[fleet.ModelID]float64{} // asked of one router
	for _, m := range routers {
		obs := m.obs
		// The node that it was connected to may not be there any more to say that it is not.
		obs.Connected = obs.Connected && now.Sub(obs.Received) <= StaleFor
		s.Routers = append(s.Routers, obs)
		if m.obs.Freshness(now) == Absent {
			continue
		}
		if len(m.quotas) > 0 {
			s.voices = append(s.voices, voice{m.obs.Region(), m.obs.Received, !m.obs.Report.GetQuotaStoreOk(), m.quotas})
		}
		m.forget(upTo(m.recent, now.Add(-recently)))
		s.addRegion(m)
		s.addSights(m)
		for at, p := range m.spots {
			s.served[routeKey{m.obs.Region(), at}] += p.served
			if p.own {
				finished[at] += p.finished
			}
		}
		for key, d := range m.demand {
			at := demandKey{key, m.obs.Region()}
			sum := s.demand[at]
			sum.RequestsPerS += d.requests.value()
			sum.WorkPerS += d.work.value()
			s.demand[at] = sum
			for p, work := range d.tiers {
				if s.tiers[at] == nil {
					s.tiers[at] = map[int32]float64{}
				}
				s.tiers[at][p] += work
			}
		}
		clear(own)
		for _, p := range m.recent {
			for _, a := range p.asked {
				own[a.model] += a.requests
			}
		}
		for model, n := range own {
			asked[routeKey{m.obs.Region(), place{model: model}}] += n
		}
		for at, n := range m.places {
			counted[routeKey{m.obs.Region(), at}] += float64(n.requests)
		}
	}
	for at, b := range capacity {
		a := b.ability(now)
		a.Finished = finished[at]
		s.abilities[at] = a
	}
	s.share(asked, counted)
	return s
}

func (s *Snapshot) addRegion(m *memory) {
	age := m.obs.Age(s.At)
	r, known := s.regions[m.obs.Region()]
	if !known {
		r = Region{Age: age, Since: s.At.Sub(m.began), QuotaStoreOK: true}
	}
	r.Since = max(min(r.Since, s.At.Sub(m.began)), 0)
	r.Age = min(r.Age, age)
	r.Freshness = FreshnessOf(r.Age)
	r.InFlight += max(m.obs.Report.GetInFlight(), 0)
	r.QuotaStoreOK = r.QuotaStoreOK && m.obs.Report.GetQuotaStoreOk()
	var span time.Duration
	var total count
	for _, p := range m.recent {
		span += p.span
		total.requests += p.total.requests
		total.failures += p.total.failures
	}
	if span > 0 {
		r.RequestsPerS += float64(total.requests) / span.Seconds()
		r.FailuresPerS += float64(total.failures) / span.Seconds()
	}
	s.regions[m.obs.Region()] = r
}

func (s *Snapshot) addSights(m *memory) {
	var span time.Duration
	for _, p := range m.recent {
		span += p.span
	}
	for _, c := range m.obs.Report.GetClusters() {
		at := place{fleet.ClusterID(c.GetCluster()), fleet.ModelID(c.GetModel())}
		n := m.places[at]
		s.sights[at.cluster] = append(s.sights[at.cluster], Sight{
			Router: m.obs.Router(), Region: m.obs.Region(), Signal: c, Age: m.obs.Age(s.At),
			Requests: n.requests, Failures: n.failures, Tokens: n.tokens, Prefix: n.prefix, Cached: n.cached, Span: span,
		})
	}
}

// share turns counts into what each region's own clients caused. A router also counts what it
// takes in from other regions, which is part of their shares: what a region sends away is its own,
// and what it keeps is the rest of what it was asked.
func (s *Snapshot) share(asked, counted map[routeKey]float64) {
	type flow struct{ local, remote float64 }
	flows := map[routeKey]flow{}
	for key, n := range counted {
		total := routeKey{key.source, place{model: key.model}}
		f := flows[total]
		if s.home(key.cluster) == key.source {
			f.local += n
		} else {
			f.remote += n
		}
		flows[total] = f
	}
	for key, n := range counted {
		total := routeKey{key.source, place{model: key.model}}
		f := flows[total]
		if wanted, ok := asked[total]; ok && s.home(key.cluster) == key.source && f.local > 0 {
			n *= min(max(wanted-f.remote, 0)/f.local, 1)
		}
		s.went[key] = n
		s.went[total] += n
	}
}

// home is the region whose routers scrape the cluster, or "".
func (s *Snapshot) home(cluster fleet.ClusterID) fleet.RegionID {
	for _, sight := range s.sights[cluster] {
		if sight.Signal.GetScraped() {
			return sight.Region
		}
	}
	return ""
}

// Demand of a region's clients for a model and class, as an average with a time constant of 15 s and its
// trend.
func (s Snapshot) Demand(model fleet.ModelID, class fleet.ClassID, region fleet.RegionID) Demand {
	return s.demand[demandKey{stream{model, class}, region}]
}

// Tiers are the work of a region's clients for a model and class by what its requests' priority counts as,
// upwards, as an average with a time constant of 15 s, and what is asked of routers that don't tell it.
func (s Snapshot) Tiers(model fleet.ModelID, class fleet.ClassID, region fleet.RegionID) (told []Tier, not float64) {
	all := s.tiers[demandKey{stream{model, class}, region}]
	for _, p := range slices.Sorted(maps.Keys(all)) {
		if p != untold {
			told = append(told, Tier{p, all[p]})
		}
	}
	return told, all[untold]
}

// Share is what part, 0..1, of a region's own requests for a model went to the cluster in the
// last ten seconds; 0 when there were none.
func (s Snapshot) Share(model fleet.ModelID, source fleet.RegionID, cluster fleet.ClusterID) float64 {
	total := s.went[routeKey{source, place{model: model}}]
	if total <= 0 {
		return 0
	}
	return s.went[routeKey{source, place{cluster, model}}] / total
}

// Region sums up the routers of a region; without any its Freshness is Absent.
func (s Snapshot) Region(region fleet.RegionID) Region {
	if r, ok := s.regions[region]; ok {
		return r
	}
	return Region{Freshness: Absent, Age: -1}
}

// Capacity is the last measured capacity of a model on a cluster in work units per second, however
// old the measurement. 0: never measured.
func (s Snapshot) Capacity(cluster fleet.ClusterID, model fleet.ModelID) float64 {
	return s.Ability(cluster, model).Capacity
}

// Sights are all routers' words on a cluster that are not absent, by router and then in the order
// of their reports; one for each model.
func (s Snapshot) Sights(cluster fleet.ClusterID) []Sight { return slices.Clone(s.sights[cluster]) }

// Clusters that any router speaks of, sorted.
func (s Snapshot) Clusters() []fleet.ClusterID { return slices.Sorted(maps.Keys(s.sights)) }
