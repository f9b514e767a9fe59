package rest

import (
	"cmp"
	"sync"
	"time"

	"anabranch/api/fleet"
	orders "anabranch/api/order"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// unknownHealth is the health of a cluster that the leader has not judged yet.
const unknownHealth = "UNKNOWN"

// Weight is what part, 0..1, of a source region's requests a place should get, and got over the
// last ten seconds (of all classes together).
type Weight struct {
	Model    string  `json:"model"`
	Class    string  `json:"class"`
	Source   string  `json:"source"`
	Wanted   float64 `json:"wanted"`
	Observed float64 `json:"observed"`
	Reason   string  `json:"reason,omitempty"`
}

// RegionStatus is the status of a Region.
type RegionStatus struct {
	// Health is the worst of its clusters', of any model; UNKNOWN without any.
	Health string `json:"health"`
	// Emergency words the emergency order for the region as a whole that holds; empty: there is none.
	Emergency string          `json:"emergency,omitempty"`
	Clusters  []ClusterHealth `json:"clusters"`
	Weights   []Weight        `json:"weights"`
	Signals   RegionSignals   `json:"signals"`
}

// ClusterHealth names a cluster and its state of health: as a whole, which is that of its best model, and the worst of
// any model.
type ClusterHealth struct {
	Name   string `json:"name"`
	Health string `json:"health"`
	Worst  string `json:"worst"`
	// Models that differ from the whole.
	Models []ModelState `json:"models"`
}

// RegionSignals is what a region's routers report, together.
type RegionSignals struct {
	Freshness         string  `json:"freshness"`
	AgeMs             int64   `json:"ageMs"` // -1: never heard of
	Routers           int     `json:"routers"`
	RequestsPerSecond float64 `json:"requestsPerSecond"`
	FailuresPerSecond float64 `json:"failuresPerSecond"`
	InFlight          int64   `json:"inFlight"`
	QuotaStoreOK      bool    `json:"quotaStoreOk"`
}

// ClusterStatus is the status of a Cluster.
type ClusterStatus struct {
	Health string    `json:"health"`
	Since  time.Time `json:"since,omitzero"`
	Reason string    `json:"reason"`
	// Cap is the part of its weight that its health allows, 0..1; 0 while no table names it.
	Cap float64 `json:"cap"`
	// Emergency words the emergency order for the cluster or its region that holds; empty: there is none.
	Emergency string `json:"emergency,omitempty"`
	// Worst is the worst state of any of its models; Health is that of the best.
	Worst   string         `json:"worst"`
	Models  []ModelHealth  `json:"models"`
	Weights []Weight       `json:"weights"`
	Signals ClusterSignals `json:"signals"`
}

// ClusterSignals is what routers report of a cluster, together, or what nodes of the control plane
// find there themselves.
type ClusterSignals struct {
	// From says whose word freshness, age, endpoints and load are: routers, polls, or empty for nobody's.
	From      string    `json:"from"`
	Freshness string    `json:"freshness"`
	AgeMs     int64     `json:"ageMs"` // -1: never heard of
	Endpoints Endpoints `json:"endpoints"`
	ClusterLoad
	Observers []Observer `json:"observers"`
	// Sources that nodes of the control plane poll at present.
	Sources []Source `json:"sources"`
}

// ClusterLoad is the load of a cluster, by whoever it is told.
type ClusterLoad struct {
	Saturation        float64 `json:"saturation"`
	Waiting           float64 `json:"waiting"`
	Running           float64 `json:"running"`
	KVUsage           float64 `json:"kvUsage"`
	TTFTP95Ms         float64 `json:"ttftP95Ms"`
	CapacityWork      float64 `json:"capacityWork"`
	LoadWork          float64 `json:"loadWork"`
	RequestsPerSecond float64 `json:"requestsPerSecond"`
	FailuresPerSecond float64 `json:"failuresPerSecond"`
	// TokensPerSecond in and out, of answers that ended in the last ten seconds. PrefixHits is the part, 0..1, of prompt
	// tokens that was found in prefix caches in that time; -1: nobody tells.
	TokensPerSecond float64 `json:"tokensPerSecond"`
	PrefixHits      float64 `json:"prefixHits"`
}

func clusterLoad(l signal.Load) ClusterLoad {
	return ClusterLoad{
		Saturation: l.Saturation, Waiting: l.Waiting, Running: l.Running, KVUsage: l.KVUsage, TTFTP95Ms: l.TTFTP95Ms,
		CapacityWork: l.CapacityWork, LoadWork: l.LoadWork, RequestsPerSecond: l.RequestsPerS, FailuresPerSecond: l.FailuresPerS,
		TokensPerSecond: l.TokensPerS, PrefixHits: l.PrefixHits(),
	}
}

// rough has fewer digits: what is less is no news.
func (l ClusterLoad) rough() ClusterLoad {
	for _, v := range []*float64{
		&l.Saturation, &l.Waiting, &l.Running, &l.KVUsage, &l.TTFTP95Ms, &l.CapacityWork, &l.LoadWork, &l.RequestsPerSecond, &l.FailuresPerSecond, &l.TokensPerSecond,
	} {
		*v = rough(*v)
	}
	l.PrefixHits = hundredths(l.PrefixHits)
	return l
}

// Endpoints counts them.
type Endpoints struct {
	Total int `json:"total"`
	Ready int `json:"ready"`
}

// Observer is one router's word on whether it can use a cluster.
type Observer struct {
	Router  fleet.RouterID `json:"router"`
	Region  fleet.RegionID `json:"region"`
	Ejected bool           `json:"ejected"`
	Reason  string         `json:"reason"`
}

// standing joins what was decided and what was seen, at one moment.
type standing struct {
	view    *state.View
	signals signal.Snapshot
	orders  *orders.View
}

func (s *Server) standing(view *state.View) standing {
	now := s.o.Now()
	return standing{view, s.seen.at(now, s.o.Signals.Snapshot), s.ordered(view, now)}
}

// seenEach is for how long a look at the signals is shared, for each router in it: 0.2 s of 5,000, which take a tenth of a
// second of a processor to put together and report once a second; of a few, no longer than a read takes.
const seenEach = 40 * time.Microsecond

// seen is the latest look, which reads share that come soon after one another. The zero value has none.
type seen struct {
	mu      sync.Mutex // guards signals; held while they are looked at, so that who comes meanwhile gets the same
	signals signal.Snapshot
}

// at gives a look that is no older than is due. One of this very moment is taken anew: only a clock that stands still
// comes to the same moment again.
func (s *seen) at(now time.Time, look func(time.Time) signal.Snapshot) signal.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if age := now.Sub(s.signals.At); age <= 0 || age >= time.Duration(len(s.signals.Routers))*seenEach {
		s.signals = look(now)
	}
	return s.signals
}

// dresser gives a function that answers a copy of a resource with its status; kinds without one come
// back as they are. It looks at the signals once, when the first resource needs them.
func (s *Server) dresser(view *state.View) func(*policy.Resource) *policy.Resource {
	var n *standing
	return func(r *policy.Resource) *policy.Resource {
		if r.Kind != policy.KindRegion && r.Kind != policy.KindCluster {
			return r
		}
		if n == nil {
			now := s.standing(view)
			n = &now
		}
		out := *r
		if r.Kind == policy.KindRegion {
			out.Status = n.region(r.Metadata.Name)
		} else {
			out.Status = n.cluster(r)
		}
		return &out
	}
}

// regionHealth is the health of the region's clusters, and the worst of it.
func (n standing) regionHealth(name string) (clusters []ClusterHealth, worst string) {
	clusters, worst = []ClusterHealth{}, ""
	for _, c := range n.view.List(policy.KindCluster) {
		if c.Spec.(*policy.ClusterSpec).Region != name {
			continue
		}
		whole, worstOf, differ := n.worstOf(c)
		clusters = append(clusters, ClusterHealth{c.Metadata.Name, whole, worstOf, differ})
		if worst == "" {
			worst = worstOf
		}
		worst = worse(worst, worstOf)
	}
	return clusters, cmp.Or(worst, unknownHealth)
}

func (n standing) region(name string) RegionStatus {
	st := RegionStatus{Weights: []Weight{}, Signals: n.regionSignals(name), Emergency: n.emergency("", fleet.RegionID(name))}
	st.Clusters, st.Health = n.regionHealth(name)
	mine := map[string]bool{}
	for _, c := range st.Clusters {
		mine[c.Name] = true
	}
	for _, w := range n.view.Table().GetWeights() {
		sum := Weight{Model: w.GetModel(), Class: w.GetClass(), Source: w.GetSource()}
		for _, c := range w.GetClusters() {
			if mine[c.GetCluster()] {
				sum.Wanted += c.GetWeight()
				sum.Observed += n.observed(w, c)
			}
		}
		if sum.Wanted > 0 || sum.Observed > 0 {
			st.Weights = append(st.Weights, sum)
		}
	}
	return st
}

func (n standing) regionSignals(name string) RegionSignals {
	r := n.signals.Region(fleet.RegionID(name))
	out := RegionSignals{
		Freshness: string(r.Freshness), AgeMs: ms(r.Age),
		RequestsPerSecond: r.RequestsPerS, FailuresPerSecond: r.FailuresPerS,
		InFlight: r.InFlight, QuotaStoreOK: r.QuotaStoreOK,
	}
	for _, o := range n.signals.Routers {
		if o.Region() == fleet.RegionID(name) {
			out.Routers++
		}
	}
	return out
}

func (n standing) cluster(c *policy.Resource) ClusterStatus {
	name := c.Metadata.Name
	h := n.health(name)
	st := ClusterStatus{
		Health: h.GetState(), Since: sinceOf(h), Reason: h.GetReason(), Cap: n.described(name).GetHealthCap(),
		Emergency: n.emergency(fleet.ClusterID(name), fleet.RegionID(c.Spec.(*policy.ClusterSpec).Region)),
		Models:    n.modelHealth(c), Weights: []Weight{}, Signals: n.clusterSignals(name),
	}
	_, st.Worst, _ = n.worstOf(c)
	for _, w := range n.view.Table().GetWeights() {
		for _, c := range w.GetClusters() {
			if c.GetCluster() == name {
				st.Weights = append(st.Weights, Weight{
					Model: w.GetModel(), Class: w.GetClass(), Source: w.GetSource(),
					Wanted: c.GetWeight(), Observed: n.observed(w, c), Reason: c.GetReason(),
				})
			}
		}
	}
	return st
}

func (n standing) clusterSignals(name string) ClusterSignals {
	l := n.signals.Cluster(fleet.ClusterID(name), "")
	out := ClusterSignals{
		From: string(l.By), Sources: []Source{},
		Freshness: string(l.Freshness), AgeMs: ms(l.Age), Endpoints: Endpoints{l.Total, l.Ready},
		ClusterLoad: clusterLoad(l), Observers: []Observer{},
	}
	for _, o := range l.Observers {
		out.Observers = append(out.Observers, Observer{o.Router, o.Region, o.Ejected, o.Reason})
	}
	for _, x := range n.signals.SourcesOf(fleet.ClusterID(name)) {
		if x.Active {
			out.Sources = append(out.Sources, n.source(x))
		}
	}
	return out
}

func (n standing) health(cluster string) *statepb.ClusterHealth {
	if h, ok := n.view.HealthOf(cluster, ""); ok {
		return h
	}
	return &statepb.ClusterHealth{Cluster: cluster, State: unknownHealth}
}

// described is the cluster as the table in force has it; nil: it does not.
func (n standing) described(cluster string) *routerpb.Cluster {
	for _, c := range n.view.Table().GetClusters() {
		if c.GetId() == cluster {
			return c
		}
	}
	return nil
}

func (n standing) observed(w *routerpb.Weights, c *routerpb.ClusterWeight) float64 {
	return n.signals.Share(fleet.ModelID(w.GetModel()), fleet.RegionID(w.GetSource()), fleet.ClusterID(c.GetCluster()))
}

// ms keeps -1 for "never".
func ms(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return d.Milliseconds()
}
