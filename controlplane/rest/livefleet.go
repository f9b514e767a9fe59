package rest

import (
	"math"
	"strconv"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state/statepb"
)

// LiveFleet is the picture of the fleet that a stream tells, and keeps up to date by merge patches: everything has a
// name to be patched by, numbers have three digits, and of routers there are counts.
type LiveFleet struct {
	// Seq counts the pictures of one node, At is when it was made.
	Seq uint64    `json:"seq"`
	At  time.Time `json:"at"`

	Node      fleet.NodeID `json:"node"`
	Leader    fleet.NodeID `json:"leader"` // empty: none known
	ClusterID string       `json:"clusterId"`
	Revision  uint64       `json:"revision"`
	Epoch     uint64       `json:"epoch"`
	// StalenessMs is how long ago the node last heard of the leader, 0 below two seconds; -1: never.
	StalenessMs    int64     `json:"stalenessMs"`
	TableRevision  uint64    `json:"tableRevision"`
	TableCreatedAt time.Time `json:"tableCreatedAt,omitzero"`

	Regions  map[string]LiveRegion  `json:"regions"`
	Clusters map[string]LiveCluster `json:"clusters"`
	// Weights by model, class and source region.
	Weights map[string]map[string]map[string]LiveWeights `json:"weights"`
}

// Heard is how fresh the word on something is.
type Heard struct {
	Freshness string `json:"freshness"` // fresh, stale or absent
	// HeardAt is when it was last heard of, in seconds since 1970, to five seconds while it is fresh; absent:
	// never.
	HeardAt int64 `json:"heardAt,omitempty"`
}

// LiveRegion is a region and how its routers stand.
type LiveRegion struct {
	Zone      string `json:"zone"`
	Health    string `json:"health"` // the worst of its clusters', of any model
	Emergency string `json:"emergency,omitempty"`
	Heard
	RequestsPerSecond float64      `json:"requestsPerSecond"`
	FailuresPerSecond float64      `json:"failuresPerSecond"`
	InFlight          float64      `json:"inFlight"`
	QuotaStoreOK      bool         `json:"quotaStoreOk"`
	Routers           RouterCounts `json:"routers"`
}

// RouterCounts are the routers of a region.
type RouterCounts struct {
	Total     int `json:"total"`
	Connected int `json:"connected"`
	// Behind do not have their newest table, Refused did not take it, Silent have not reported for five seconds.
	Behind   int            `json:"behind"`
	Refused  int            `json:"refused"`
	Silent   int            `json:"silent"`
	Versions map[string]int `json:"versions"`
}

// LiveCluster is a cluster, its health and its load. Observers and sources by name are in its own status.
type LiveCluster struct {
	Region    string               `json:"region"`
	Type      string               `json:"type"`
	Health    string               `json:"health"` // of its best model
	Worst     string               `json:"worst"`
	Since     time.Time            `json:"since,omitzero"`
	Reason    string               `json:"reason,omitempty"`
	Cap       float64              `json:"cap"`
	Drained   bool                 `json:"drained"`
	Emergency string               `json:"emergency,omitempty"`
	Models    map[string]LiveModel `json:"models"`
	From      string               `json:"from"` // whose word the load is: routers, polls, or empty
	Heard
	Votes
	EndpointsTotal int `json:"endpointsTotal"`
	EndpointsReady int `json:"endpointsReady"`
	ClusterLoad
}

// LiveModel is the health of one model on one cluster.
type LiveModel struct {
	Health string    `json:"health"`
	Since  time.Time `json:"since,omitzero"`
	Reason string    `json:"reason,omitempty"`
	Cap    float64   `json:"cap"`
	Votes
	EndpointsTotal int `json:"endpointsTotal"`
	EndpointsReady int `json:"endpointsReady"`
}

// LiveWeights are the weights of one model and class as seen from one region, without those of nothing that are
// [plan.NotNeeded].
type LiveWeights struct {
	Reason   string                `json:"reason,omitempty"`
	Clusters map[string]LiveWeight `json:"clusters"`
}

// LiveWeight is the share of one cluster, as in [Weight]. Applied is that of the tables which the routers of the source
// hold, each counting the same; -1: none of them has been heard of lately, or what they hold is not kept any more.
type LiveWeight struct {
	Wanted   float64 `json:"wanted"`
	Applied  float64 `json:"applied"`
	Observed float64 `json:"observed"`
	Reason   string  `json:"reason,omitempty"`
}

// sight is what nodes see of a fleet at one moment, as far as pictures of it go, put together once.
type sight struct {
	signals signal.Snapshot
	// loads of clusters, and of models on them.
	loads map[spot]signal.Load
}

// spot is a model on a cluster; with an empty model, the cluster.
type spot struct {
	cluster fleet.ClusterID
	model   fleet.ModelID
}

func (s *sight) load(cluster fleet.ClusterID, model fleet.ModelID) signal.Load {
	at := spot{cluster, model}
	l, known := s.loads[at]
	if !known {
		l = s.signals.Cluster(cluster, model)
		s.loads[at] = l
	}
	return l
}

// liveFleet puts the picture together but for weights, with what was seen. It goes once over everything.
func (s *Server) liveFleet(n standing, seen *sight, counts map[fleet.RegionID]RouterCounts) *LiveFleet {
	table := n.view.Table()
	f := &LiveFleet{
		At: n.signals.At.UTC(), Node: s.o.Node, ClusterID: n.view.ClusterID(), Revision: n.view.Index(), Epoch: n.view.Epoch(),
		StalenessMs: s.roughStaleness(), TableRevision: table.GetRef().GetRevision(), TableCreatedAt: moment(table.GetCreatedUnixMs()),
		Regions: map[string]LiveRegion{}, Clusters: map[string]LiveCluster{},
	}
	f.Leader, _ = s.o.Leader()
	described := map[string]*routerpb.Cluster{}
	for _, c := range table.GetClusters() {
		described[c.GetId()] = c
	}
	worst := map[string]string{}
	for _, c := range n.view.List(policy.KindCluster) {
		live := n.liveCluster(c, described[c.Metadata.Name], seen)
		f.Clusters[c.Metadata.Name] = live
		if was, known := worst[live.Region]; known {
			worst[live.Region] = worse(was, live.Worst)
		} else {
			worst[live.Region] = live.Worst
		}
	}
	for _, r := range n.view.List(policy.KindRegion) {
		f.Regions[r.Metadata.Name] = n.liveRegion(r, worst[r.Metadata.Name], counts[fleet.RegionID(r.Metadata.Name)])
	}
	return f
}

// roughStaleness is in whole seconds, so that it is no news by itself.
func (s *Server) roughStaleness() int64 {
	if s.o.Staleness == nil {
		return 0
	}
	age := s.o.Staleness()
	switch {
	case age < 0:
		return -1
	case age < 2*time.Second:
		return 0
	}
	return age.Truncate(time.Second).Milliseconds()
}

// heard rounds when something was last heard of.
func (n standing) heard(freshness signal.Freshness, age time.Duration) Heard {
	out := Heard{Freshness: string(freshness)}
	if age < 0 {
		return out
	}
	at := n.signals.At.Add(-age)
	if freshness == signal.Fresh {
		at = at.Truncate(signal.FreshFor)
	}
	out.HeardAt = at.Unix()
	return out
}

func (n standing) liveRegion(r *policy.Resource, worst string, routers RouterCounts) LiveRegion {
	name := fleet.RegionID(r.Metadata.Name)
	sum := n.signals.Region(name)
	if routers.Versions == nil {
		routers.Versions = map[string]int{}
	}
	if worst == "" {
		worst = unknownHealth
	}
	return LiveRegion{
		Zone: r.Spec.(*policy.RegionSpec).Zone, Health: worst, Emergency: n.emergency("", name), Heard: n.heard(sum.Freshness, sum.Age),
		RequestsPerSecond: rough(sum.RequestsPerS), FailuresPerSecond: rough(sum.FailuresPerS), InFlight: rough(float64(sum.InFlight)),
		QuotaStoreOK: sum.QuotaStoreOK, Routers: routers,
	}
}

func (n standing) liveCluster(c *policy.Resource, table *routerpb.Cluster, seen *sight) LiveCluster {
	spec := c.Spec.(*policy.ClusterSpec)
	name := fleet.ClusterID(c.Metadata.Name)
	h, l := n.health(c.Metadata.Name), seen.load(name, "")
	out := LiveCluster{
		Region: spec.Region, Type: spec.Type, Health: h.GetState(), Since: sinceOf(h), Reason: h.GetReason(), Cap: table.GetHealthCap(),
		Drained: spec.Drained, Emergency: n.emergency(name, fleet.RegionID(spec.Region)), Models: map[string]LiveModel{},
		From: string(l.By), Heard: n.heard(l.Freshness, l.Age), Votes: votes(l), EndpointsTotal: l.Total, EndpointsReady: l.Ready,
		ClusterLoad: clusterLoad(l).rough(),
	}
	out.Worst = out.Health
	for _, m := range spec.Models {
		h, known := n.view.HealthOf(c.Metadata.Name, m)
		if known {
			out.Worst = worse(out.Worst, h.GetState())
		} else {
			h = &statepb.ClusterHealth{State: unknownHealth}
		}
		if len(spec.Models) > 1 { // else it is the same
			l = seen.load(name, fleet.ModelID(m))
		}
		out.Models[m] = LiveModel{
			Health: h.GetState(), Since: sinceOf(h), Reason: h.GetReason(), Cap: plan.HealthCap(table, fleet.ModelID(m)),
			Votes: votes(l), EndpointsTotal: l.Total, EndpointsReady: l.Ready,
		}
	}
	return out
}

func (n standing) liveWeights() map[string]map[string]map[string]LiveWeights {
	to := map[string]map[string]map[string]LiveWeights{}
	type key struct{ model, class, source string }
	reasons := map[key]string{}
	for _, r := range n.view.Reasons() {
		reasons[key{r.GetModel(), r.GetClass(), r.GetSource()}] = r.GetText()
	}
	held := n.heldTables()
	for _, w := range n.view.Table().GetWeights() {
		live := LiveWeights{Reason: reasons[key{w.GetModel(), w.GetClass(), w.GetSource()}], Clusters: map[string]LiveWeight{}}
		for _, c := range w.GetClusters() {
			share := LiveWeight{Wanted: rough(c.GetWeight()), Applied: rough(held.share(w, c)), Observed: hundredths(n.observed(w, c)), Reason: c.GetReason()}
			if share.Wanted == 0 && share.Applied <= 0 && share.Observed == 0 && share.Reason == plan.NotNeeded {
				continue // of 200 clusters a region needs a few
			}
			live.Clusters[c.GetCluster()] = share
		}
		if to[w.GetModel()] == nil {
			to[w.GetModel()] = map[string]map[string]LiveWeights{}
		}
		if to[w.GetModel()][w.GetClass()] == nil {
			to[w.GetModel()][w.GetClass()] = map[string]LiveWeights{}
		}
		to[w.GetModel()][w.GetClass()][w.GetSource()] = live
	}
	return to
}

// RouterStanding is how a router stands, without what changes with each request.
type RouterStanding struct {
	ID              fleet.RouterID `json:"id"`
	Region          fleet.RegionID `json:"region"`
	Version         string         `json:"version"`
	Node            fleet.NodeID   `json:"node"`
	Connected       bool           `json:"connected"`
	Silent          bool           `json:"silent"`
	Behind          bool           `json:"behind"`
	AppliedRevision uint64         `json:"appliedRevision"`
	QuotaStoreOK    bool           `json:"quotaStoreOk"`
	// Refused is the code with which it refused the newest table that it was sent; absent: it did not.
	Refused string `json:"refused,omitempty"`
	// Gone: nobody has heard of it for ten minutes, and it is forgotten.
	Gone bool `json:"gone,omitempty"`
}

func (n standing) routerStandings() (map[fleet.RouterID]RouterStanding, map[fleet.RegionID]RouterCounts) {
	all, counts := make(map[fleet.RouterID]RouterStanding, len(n.signals.Routers)), map[fleet.RegionID]RouterCounts{}
	for _, o := range n.signals.Routers {
		applied, current := appliedBy(o), n.view.TableFor(o.Router(), o.Region()).GetRef()
		r := RouterStanding{
			ID: o.Router(), Region: o.Region(), Version: o.Hello.GetVersion(), Node: o.Node, Connected: o.Connected,
			Silent: o.Freshness(n.signals.At) != signal.Fresh, Behind: earlier(applied, current), AppliedRevision: applied.GetRevision(),
			QuotaStoreOK: o.Report.GetQuotaStoreOk(),
		}
		if o.Ack != nil && !o.Ack.GetOk() {
			r.Refused = o.Ack.GetCode()
		}
		all[r.ID] = r
		counts[r.Region] = counts[r.Region].with(r)
	}
	return all, counts
}

func (k RouterCounts) with(r RouterStanding) RouterCounts {
	count := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	k.Total++
	count(&k.Connected, r.Connected)
	count(&k.Behind, r.Behind)
	count(&k.Refused, r.Refused != "")
	count(&k.Silent, r.Silent)
	if k.Versions == nil {
		k.Versions = map[string]int{}
	}
	k.Versions[r.Version]++
	return k
}

// rough has three significant digits: what is less is no news.
func rough(v float64) float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	out, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 2, 64), 64)
	if err != nil {
		return 0
	}
	return out
}

// hundredths is for shares that are counted over a few seconds.
func hundredths(v float64) float64 { return math.Round(v*100) / 100 }
