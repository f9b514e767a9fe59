package rest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/api/fleet"
	"anabranch/controlplane/policy"
)

// Fleet is the whole picture as one node has it, for the console and for status lines.
type Fleet struct {
	At             time.Time    `json:"at"`
	Revision       uint64       `json:"revision"`
	Epoch          uint64       `json:"epoch"`
	ClusterID      string       `json:"clusterId"`
	Leader         fleet.NodeID `json:"leader"`
	Node           fleet.NodeID `json:"node"`
	TableRevision  uint64       `json:"tableRevision"`
	TableCreatedAt time.Time    `json:"tableCreatedAt,omitzero"`

	Members  []Member       `json:"members"`
	Regions  []FleetRegion  `json:"regions"`
	Clusters []FleetCluster `json:"clusters"`
	Weights  []FleetWeights `json:"weights"`
}

// FleetRegion is a region and its routers.
type FleetRegion struct {
	Name string `json:"name"`
	Zone string `json:"zone"`
	// Health is the worst of its clusters', of any model; UNKNOWN without any.
	Health string `json:"health"`
	// Emergency words the emergency order for the region as a whole that holds; empty: there is none.
	Emergency         string   `json:"emergency,omitempty"`
	RequestsPerSecond float64  `json:"requestsPerSecond"`
	FailuresPerSecond float64  `json:"failuresPerSecond"`
	InFlight          int64    `json:"inFlight"`
	QuotaStoreOK      bool     `json:"quotaStoreOk"`
	Routers           []Router `json:"routers"`
}

// FleetCluster is a cluster, its health and its signals.
type FleetCluster struct {
	Name    string    `json:"name"`
	Region  string    `json:"region"`
	Type    string    `json:"type"`
	Health  string    `json:"health"`
	Since   time.Time `json:"since,omitzero"`
	Reason  string    `json:"reason"`
	Cap     float64   `json:"cap"`
	Drained bool      `json:"drained"`
	// Emergency words the emergency order for the cluster or its region that holds; empty: there is none.
	Emergency string   `json:"emergency,omitempty"`
	Models    []string `json:"models"`
	// ModelHealth is that of each of its models, of which the best stands for Health.
	ModelHealth []ModelHealth `json:"modelHealth"`
	ClusterSignals
}

// FleetWeights are the weights of one model and class as seen from one region.
type FleetWeights struct {
	Model    string        `json:"model"`
	Class    string        `json:"class"`
	Source   string        `json:"source"`
	Reason   string        `json:"reason"`
	Clusters []FleetWeight `json:"clusters"`
}

// FleetWeight is the share of one cluster, as in [Weight].
type FleetWeight struct {
	Cluster  string  `json:"cluster"`
	Region   string  `json:"region"`
	Wanted   float64 `json:"wanted"`
	Observed float64 `json:"observed"`
	Reason   string  `json:"reason,omitempty"`
}

// picture puts the fleet together from the state and the signals of this node.
func (s *Server) picture() Fleet {
	n := s.standing(s.o.View())
	leader, _ := s.o.Leader()
	table := n.view.Table()
	f := Fleet{
		At: n.signals.At.UTC(), Revision: n.view.Index(), Epoch: n.view.Epoch(), ClusterID: n.view.ClusterID(),
		Leader: leader, Node: s.o.Node, TableRevision: table.GetRef().GetRevision(),
		Members: s.memberList(), Regions: []FleetRegion{}, Clusters: []FleetCluster{}, Weights: []FleetWeights{},
	}
	if table.GetCreatedUnixMs() > 0 {
		f.TableCreatedAt = time.UnixMilli(table.GetCreatedUnixMs()).UTC()
	}
	for _, r := range n.view.List(policy.KindRegion) {
		f.Regions = append(f.Regions, n.fleetRegion(r))
	}
	home := map[string]string{}
	for _, c := range n.view.List(policy.KindCluster) {
		fc := n.fleetCluster(c)
		home[fc.Name] = fc.Region
		f.Clusters = append(f.Clusters, fc)
	}
	f.Weights = append(f.Weights, n.fleetWeights(home)...)
	return f
}

func (s *Server) memberList() []Member {
	if members := s.o.Members(); members != nil {
		return members
	}
	return []Member{}
}

func (n standing) fleetRegion(r *policy.Resource) FleetRegion {
	sum := n.regionSignals(r.Metadata.Name)
	_, health := n.regionHealth(r.Metadata.Name)
	out := FleetRegion{
		Name: r.Metadata.Name, Zone: r.Spec.(*policy.RegionSpec).Zone, Health: health, Emergency: n.emergency("", fleet.RegionID(r.Metadata.Name)),
		RequestsPerSecond: sum.RequestsPerSecond, FailuresPerSecond: sum.FailuresPerSecond,
		InFlight: sum.InFlight, QuotaStoreOK: sum.QuotaStoreOK, Routers: []Router{},
	}
	for _, o := range n.signals.Routers {
		if o.Region() == fleet.RegionID(r.Metadata.Name) {
			out.Routers = append(out.Routers, n.router(o))
		}
	}
	return out
}

func (n standing) fleetCluster(c *policy.Resource) FleetCluster {
	spec := c.Spec.(*policy.ClusterSpec)
	st := n.cluster(c)
	models := spec.Models
	if models == nil {
		models = []string{}
	}
	return FleetCluster{
		Name: c.Metadata.Name, Region: spec.Region, Type: spec.Type, Health: st.Health, Since: st.Since,
		Reason: st.Reason, Cap: st.Cap, Drained: spec.Drained, Emergency: st.Emergency, Models: models, ModelHealth: st.Models, ClusterSignals: st.Signals,
	}
}

func (n standing) fleetWeights(home map[string]string) []FleetWeights {
	type key struct{ model, class, source string }
	reasons := map[key]string{}
	for _, r := range n.view.Reasons() {
		reasons[key{r.GetModel(), r.GetClass(), r.GetSource()}] = r.GetText()
	}
	var out []FleetWeights
	for _, w := range n.view.Table().GetWeights() {
		fw := FleetWeights{
			Model: w.GetModel(), Class: w.GetClass(), Source: w.GetSource(),
			Reason: reasons[key{w.GetModel(), w.GetClass(), w.GetSource()}], Clusters: []FleetWeight{},
		}
		for _, c := range w.GetClusters() {
			fw.Clusters = append(fw.Clusters, FleetWeight{
				Cluster: c.GetCluster(), Region: home[c.GetCluster()],
				Wanted: c.GetWeight(), Observed: n.observed(w, c), Reason: c.GetReason(),
			})
		}
		out = append(out, fw)
	}
	return out
}

// fleetCache lets many consoles share one picture.
type fleetCache struct {
	mu   sync.Mutex // guards what is below
	at   time.Time
	json []byte
}

// fleetJSON gives the picture, at most half an interval old.
func (s *Server) fleetJSON() ([]byte, error) {
	s.fleet.mu.Lock()
	defer s.fleet.mu.Unlock()
	now := s.o.Now()
	if age := now.Sub(s.fleet.at); s.fleet.json != nil && age >= 0 && age < s.o.FleetInterval/2 {
		return s.fleet.json, nil
	}
	b, err := json.Marshal(s.picture())
	if err != nil {
		return nil, fmt.Errorf("write the fleet: %w", err)
	}
	s.fleet.at, s.fleet.json = now, b
	return b, nil
}

func (s *Server) getFleet(c echo.Context) error {
	s.setStaleness(c)
	b, err := s.fleetJSON()
	if err != nil {
		return err
	}
	return c.JSONBlob(http.StatusOK, b)
}
