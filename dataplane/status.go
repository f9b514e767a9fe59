package dataplane

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/discover"
	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/override"
	"anabranch/dataplane/pick"
	"anabranch/dataplane/queue"
)

// Status is how the router stands, for people.
type Status struct {
	Router  fleet.RouterID `json:"router"`
	Region  fleet.RegionID `json:"region"`
	Version string         `json:"version"`
	Ready   bool           `json:"ready"`
	Reason  string         `json:"reason"`
	// Draining: it was told to end. Open is what it has now.
	Draining bool   `json:"draining"`
	Open     Left   `json:"open"`
	Epoch    uint64 `json:"epoch"`
	Revision uint64 `json:"revision"`
	// TableAgeSeconds is how long ago the table in force was computed.
	TableAgeSeconds float64       `json:"tableAgeSeconds"`
	Quota           bool          `json:"quotaStoreOk"`
	Control         ControlStatus `json:"controlplane"`
	// Sight is how far the control plane's word on health is believed: current, stale or alone.
	Sight string `json:"sight"`
	// Orders are the emergency orders, nil where nobody tells of them.
	Orders *override.Status `json:"orders,omitempty"`
	// Drill is how it stands with the drill of its table; nil: that has none.
	Drill     *DrillStatus      `json:"drill,omitempty"`
	Queue     []QueueStatus     `json:"queue"`
	Discovery []discover.Status `json:"discovery,omitempty"`
	Prefixes  PrefixStatus      `json:"prefixes"`
	// HedgesSaved is how many copies of late requests may go now.
	HedgesSaved float64         `json:"hedgesSaved"`
	Clusters    []ClusterStatus `json:"clusters"`
}

// QueueStatus is what waits for room, of one tier.
type QueueStatus struct {
	Tier     string  `json:"tier"`
	Requests int64   `json:"requests"`
	Tokens   int64   `json:"tokens"`
	OldestMs float64 `json:"oldestMs"`
}

// PrefixStatus is how full the index of prompts in caches is, and what a sibling put there.
type PrefixStatus struct {
	Entries   int       `json:"entries"`
	Capacity  int       `json:"capacity"`
	TakenOver TakenOver `json:"takenOver"`
}

// ClusterStatus is the router's own sight of a cluster.
type ClusterStatus struct {
	ID     fleet.ClusterID `json:"id"`
	Region fleet.RegionID  `json:"region"`
	Kind   string          `json:"kind"`
	// Health, Cap and Drained are the table's.
	Health string  `json:"health"`
	Cap    float64 `json:"cap"`
	// Models whose health differs from that, by name.
	Models   []ModelStatus `json:"models,omitempty"`
	Drained  bool          `json:"drained"`
	Ejected  bool          `json:"ejected"`
	Reason   string        `json:"reason,omitempty"`
	Busy     bool          `json:"busy"`
	InFlight int64         `json:"inFlight"`
	// Unanswered: requests go without an answer there, so that it is left alone. Nil: they don't.
	Unanswered *UnansweredStatus `json:"unanswered,omitempty"`
	// Saturation is load over capacity and WaitMs the predicted wait; 0 while they are not known.
	Saturation float64          `json:"saturation"`
	WaitMs     float64          `json:"waitMs"`
	Retries    RetryStatus      `json:"retries"`
	Endpoints  []EndpointStatus `json:"endpoints,omitempty"`
}

// ModelStatus is how a model fares on a cluster, by the table.
type ModelStatus struct {
	Model  fleet.ModelID `json:"model"`
	Health string        `json:"health"`
	Cap    float64       `json:"cap"`
}

// UnansweredStatus is how requests go without an answer at a cluster: so many in a row, of one tenant,
// which alone leaves the cluster alone then, or of several and for all; and when one more may try.
type UnansweredStatus struct {
	Requests int     `json:"requests"`
	To       string  `json:"to"`
	TrialMs  float64 `json:"trialInMs"`
}

// RetryStatus is how the retry budget of a cluster stands: requests and retries of the last ten
// seconds, and how many more retries may go now.
type RetryStatus struct {
	Requests int `json:"requests"`
	Retries  int `json:"retries"`
	Left     int `json:"left"`
}

// EndpointStatus is the router's own sight of an endpoint.
type EndpointStatus struct {
	ID    fleet.EndpointID `json:"id"`
	URL   string           `json:"url"`
	Class string           `json:"class,omitempty"`
	// State is ready, starting, busy or ejected.
	State    string `json:"state"`
	Ejected  bool   `json:"ejected"`
	Reason   string `json:"reason,omitempty"`
	InFlight int64  `json:"inFlight"`
	// Lacks are models that it is not used for, while it is for others.
	Lacks []fleet.ModelID `json:"lacks,omitempty"`
	// Ramp is its share of its usual traffic, less than 1 while it starts slowly.
	Ramp float64 `json:"ramp"`
	// Signals are fresh, stale or absent, and SignalAgeMs old; -1: there are none.
	Signals     string `json:"signals"`
	SignalAgeMs int64  `json:"signalAgeMs"`
	// Waiting and Running are requests there now, Slots how many its batch takes, KV the share of its
	// cache in use, Backlog the prompt tokens of this router still to be computed.
	Waiting float64 `json:"waiting"`
	Running float64 `json:"running"`
	Slots   float64 `json:"slots"`
	KV      float64 `json:"kv"`
	Backlog float64 `json:"backlog"`
	// Adapters believed loaded, by the server's names.
	Adapters []string     `json:"adapters,omitempty"`
	Rates    []RateStatus `json:"rates,omitempty"`
}

// RateStatus is how fast endpoints of a class proved to be with a model.
type RateStatus struct {
	Model fleet.ModelID `json:"model"`
	// Known: enough has been seen; until then these are beliefs.
	Known bool `json:"known"`
	// PrefillTokensPerS of prompts that are not cached, OverheadMs of a first token whatever its
	// prompt, StepMs between tokens with nothing in the batch and StepMoreMs for each request in it.
	PrefillTokensPerS float64 `json:"prefillTokensPerS"`
	OverheadMs        float64 `json:"overheadMs"`
	StepMs            float64 `json:"stepMs"`
	StepMoreMs        float64 `json:"stepMoreMs"`
}

func (r *Router) status() Status {
	now := r.now()
	s := Status{
		Router: r.o.Router, Region: r.region, Version: r.o.Version, Draining: r.draining.Load(), Open: r.Left(),
		Quota: r.admit.StoreOK(), Control: r.o.Control(), Sight: r.o.Sight(now).String(), Queue: queueStatus(r.gate.Depths()),
		Discovery: r.finders.Status(), HedgesSaved: r.hedges.left(), Clusters: []ClusterStatus{},
	}
	s.Ready, s.Reason = r.Ready()
	s.Prefixes.Entries, s.Prefixes.Capacity = r.prefixes.entries(now)
	s.Prefixes.TakenOver = r.prefixes.takenOver()
	if r.o.OrdersStatus != nil {
		orders := r.o.OrdersStatus()
		s.Orders = &orders
	}
	t := r.tables.Load()
	if t == nil {
		return s
	}
	s.Epoch, s.Revision, s.TableAgeSeconds = t.Ref.Epoch, t.Ref.Revision, max(now.Sub(t.Created), 0).Seconds()
	s.Drill = r.drillStatus(t, now)
	for id, spec := range t.Clusters {
		c := r.places.Cluster(id)
		if c == nil {
			continue
		}
		e := c.Evidence(now)
		cs := ClusterStatus{
			ID: id, Region: spec.Region, Kind: spec.Kind, Health: spec.Health, Cap: spec.Cap, Drained: spec.Drained,
			Ejected: e.Ejected, Reason: e.Reason, Busy: e.Busy, Saturation: e.Saturation, WaitMs: milliseconds(e.Wait),
			InFlight: c.InFlight(),
		}
		for _, m := range slices.Sorted(maps.Keys(spec.ModelHealth)) {
			h := spec.ModelHealth[m]
			cs.Models = append(cs.Models, ModelStatus{Model: m, Health: h.Health, Cap: h.Cap})
		}
		cs.Retries.Requests, cs.Retries.Retries, cs.Retries.Left = r.budget.Status(id, now)
		if row, yes := c.Unanswered(now); yes {
			cs.Unanswered = &UnansweredStatus{row.Requests, toWhom(row.All), milliseconds(row.Trial)}
		}
		for _, p := range c.Endpoints() {
			cs.Endpoints = append(cs.Endpoints, endpointStatus(p, spec.Models, now))
		}
		s.Clusters = append(s.Clusters, cs)
	}
	slices.SortFunc(s.Clusters, func(a, b ClusterStatus) int { return cmp.Compare(a.ID, b.ID) })
	return s
}

func queueStatus(depths []queue.Depth) []QueueStatus {
	all := make([]QueueStatus, len(depths))
	for i, d := range depths {
		all[i] = QueueStatus{d.Tier, d.Requests, d.Tokens, milliseconds(d.Oldest)}
	}
	return all
}

var freshnesses = map[pick.Freshness]string{pick.Fresh: "fresh", pick.Stale: "stale", pick.Absent: "absent"}

func endpointStatus(e *endpoint.Endpoint, models []fleet.ModelID, now time.Time) EndpointStatus {
	s := EndpointStatus{
		ID: e.ID, URL: e.URL, Class: e.Class, State: stateOf(e, now), InFlight: e.InFlight(), SignalAgeMs: signalAge(e, now),
		Slots: e.Slots(), Adapters: e.Adapters(),
	}
	s.Ejected, s.Reason = e.Ejected()
	var typical endpoint.Load
	for _, m := range models {
		if lacks(e, m) {
			s.Lacks = append(s.Lacks, m)
		}
		rates := e.Rates(m)
		if rates == nil {
			continue // of a table that is just being replaced
		}
		if typical.Model == "" {
			typical.Model = m
		}
		l := rates.Learned()
		s.Rates = append(s.Rates, RateStatus{m, l.Known, l.Prefill, l.Overhead * 1e3, l.Step * 1e3, l.StepMore * 1e3})
	}
	c := e.Candidate(&typical, now)
	s.Signals, s.Ramp = freshnesses[c.Freshness], c.Ramp
	s.Waiting, s.Running, s.KV, s.Backlog = c.Waiting, c.Running, c.KV, c.Backlog
	return s
}
