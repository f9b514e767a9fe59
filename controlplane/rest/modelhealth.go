package rest

import (
	"slices"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/failover"
)

// ModelHealth is the health of one model on one cluster.
type ModelHealth struct {
	Model  string    `json:"model"`
	Health string    `json:"health"`
	Since  time.Time `json:"since,omitzero"`
	Reason string    `json:"reason"`
	// Cap is the part of its weight that its health allows, 0..1; 0 while no table names its cluster.
	Cap       float64   `json:"cap"`
	Endpoints Endpoints `json:"endpoints"`
	Votes     Votes     `json:"votes"`
	// Ejecting are observers that eject it, at most 20 of them.
	Ejecting []Observer `json:"ejecting"`
}

// Votes counts what observers say of a place: that they send requests there, or that they eject it.
type Votes struct {
	Usable  int `json:"usable"`
	Ejected int `json:"ejected"`
}

// ModelState is a model that fares otherwise than its cluster as a whole.
type ModelState struct {
	Model  string `json:"model"`
	Health string `json:"health"`
}

// UnwellPlace is a cluster, or one model on it if it fares otherwise, that is not HEALTHY.
type UnwellPlace struct {
	Cluster string    `json:"cluster"`
	Model   string    `json:"model"` // empty: the cluster as a whole
	Health  string    `json:"health"`
	Since   time.Time `json:"since,omitzero"`
	Reason  string    `json:"reason"`
}

const (
	// mostEjecting bounds the observers that are named for one model.
	mostEjecting = 20
	// mostUnwell bounds the places that the status names.
	mostUnwell = 100
)

// modelHealth tells of each model of a cluster, in the order of its spec.
func (n standing) modelHealth(c *policy.Resource) []ModelHealth {
	spec := c.Spec.(*policy.ClusterSpec)
	table := n.described(c.Metadata.Name)
	out := make([]ModelHealth, 0, len(spec.Models))
	for _, m := range spec.Models {
		h, known := n.view.HealthOf(c.Metadata.Name, m)
		if !known {
			h = &statepb.ClusterHealth{State: unknownHealth}
		}
		load := n.signals.Cluster(fleet.ClusterID(c.Metadata.Name), fleet.ModelID(m))
		out = append(out, ModelHealth{
			Model: m, Health: h.GetState(), Since: sinceOf(h), Reason: h.GetReason(), Cap: plan.HealthCap(table, fleet.ModelID(m)),
			Endpoints: Endpoints{load.Total, load.Ready}, Votes: votes(load), Ejecting: ejecting(load),
		})
	}
	return out
}

func votes(l signal.Load) (v Votes) {
	for _, o := range l.Observers {
		if o.Ejected {
			v.Ejected++
		} else {
			v.Usable++
		}
	}
	return v
}

func ejecting(l signal.Load) []Observer {
	out := []Observer{}
	for _, o := range l.Observers {
		if o.Ejected && len(out) < mostEjecting {
			out = append(out, Observer{o.Router, o.Region, o.Ejected, o.Reason})
		}
	}
	return out
}

// worstOf is the worst state of the cluster as a whole and of its models, and the models that differ from the whole.
func (n standing) worstOf(c *policy.Resource) (whole, worst string, differ []ModelState) {
	whole, differ = n.health(c.Metadata.Name).GetState(), []ModelState{}
	worst = whole
	for _, m := range c.Spec.(*policy.ClusterSpec).Models {
		h, known := n.view.HealthOf(c.Metadata.Name, m)
		if !known {
			continue
		}
		is := h.GetState()
		if is != whole {
			differ = append(differ, ModelState{m, is})
		}
		worst = worse(worst, is)
	}
	return whole, worst, differ
}

func worse(a, b string) string {
	if failover.Severity(failover.State(b)) > failover.Severity(failover.State(a)) {
		return b
	}
	return a
}

// unwell lists what is not HEALTHY, by cluster and model, the worst first.
func unwell(view *state.View) []UnwellPlace {
	out := []UnwellPlace{}
	for _, h := range view.Health() {
		if h.GetState() != string(failover.Healthy) {
			out = append(out, UnwellPlace{h.GetCluster(), h.GetModel(), h.GetState(), sinceOf(h), h.GetReason()})
		}
	}
	slices.SortStableFunc(out, func(a, b UnwellPlace) int {
		return failover.Severity(failover.State(b.Health)) - failover.Severity(failover.State(a.Health))
	})
	return out[:min(len(out), mostUnwell)]
}

func sinceOf(h *statepb.ClusterHealth) time.Time {
	if ms := h.GetSinceUnixMs(); ms > 0 {
		return time.UnixMilli(ms).UTC()
	}
	return time.Time{}
}
