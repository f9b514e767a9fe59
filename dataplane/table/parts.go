package table

import (
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// Ref names a table.
type Ref struct {
	ClusterID       string // UUID of the control plane cluster
	Epoch, Revision uint64
}

// Newer says whether r comes after o within one control plane cluster. Any table is newer than
// none (the zero Ref). Tables of different control plane clusters don't order.
func (r Ref) Newer(o Ref) bool {
	switch {
	case o == (Ref{}):
		return r != Ref{}
	case r.ClusterID != o.ClusterID:
		return false
	case r.Epoch != o.Epoch:
		return r.Epoch > o.Epoch
	}
	return r.Revision > o.Revision
}

// Proto is r as a message.
func (r Ref) Proto() *routerpb.TableRef {
	return &routerpb.TableRef{ClusterId: r.ClusterID, Epoch: r.Epoch, Revision: r.Revision}
}

// RefOf reads a message; nil is the zero Ref.
func RefOf(p *routerpb.TableRef) Ref {
	return Ref{ClusterID: p.GetClusterId(), Epoch: p.GetEpoch(), Revision: p.GetRevision()}
}

// Region is a place with a jurisdiction.
type Region struct {
	ID fleet.RegionID
	// Zone is the jurisdiction; the region's own name if the control plane gave none.
	Zone string
	// PeerURLs are where routers of other regions enter, https. Empty: they can't.
	PeerURLs []string
	// RTT holds the known round trips to other regions; see [Table.RTT].
	RTT map[fleet.RegionID]time.Duration
	// Clusters of the region in the table's order.
	Clusters []*Cluster
}

// Kinds of cluster.
const (
	KindEndpoints = "endpoints" // the router picks the endpoint
	KindGateway   = "gateway"   // the cluster's own gateway does
)

// Cluster is one target of routing.
type Cluster struct {
	ID     fleet.ClusterID
	Region fleet.RegionID
	// Zone is its region's.
	Zone string
	// Kind is [KindEndpoints] or [KindGateway].
	Kind string
	// Models are the base models served.
	Models []fleet.ModelID
	// Endpoints, at least one, of kind endpoints.
	Endpoints []Endpoint
	// GatewayURL of kind gateway; MetricsURL may be empty, then its load isn't known.
	GatewayURL, MetricsURL string
	// Health is the state that the control plane sees, e.g. "HEALTHY".
	Health string
	// Cap is the share 0..1 of its weight that its health allows; the weights have it in them.
	Cap float64
	// Drained: no new requests, by an operator's order.
	Drained bool
	// Auth says where the secret towards it is found. Nil: none.
	Auth *Credential
	// Hash spreads cluster names over 64 bits, for rendezvous hashing.
	Hash uint64
}

// Serves says whether the cluster serves a base model.
func (c *Cluster) Serves(model fleet.ModelID) bool {
	for _, m := range c.Models {
		if m == model {
			return true
		}
	}
	return false
}

// Credential says where this router finds a secret, never the secret. Exactly one of File and
// Env is set.
type Credential struct {
	Type string // "bearer"
	File string
	Env  string
}

// Endpoint is one model server.
type Endpoint struct {
	ID  fleet.EndpointID
	URL string // without a trailing slash
	// Class is the GPU class, within which rates are learned together.
	Class string
}

// Model is one base model.
type Model struct {
	ID       fleet.ModelID
	Aliases  []string
	Adapters []string
	// OutputWeight is the work of one output token where an input token is 1; > 0.
	OutputWeight float64
	// Prices to the tenant's budget in micro-dollars per million tokens; 0: not counted.
	InputMicros, OutputMicros uint64
}

// Work is the size of a request in work units.
func (m *Model) Work(input, output int64) float64 {
	return float64(input) + m.OutputWeight*float64(output)
}

// Tenant is who pays.
type Tenant struct {
	ID fleet.TenantID
	// Tier is batch, best-effort, standard or top.
	Tier string
	// Priority is what its requests have unless they ask for less.
	Priority int32
	// Residency lists zones or regions where its requests may be served. Empty: anywhere.
	Residency []string
}

// Allows says whether the tenant's requests may be served in a region of a zone.
func (t *Tenant) Allows(region fleet.RegionID, zone string) bool {
	if len(t.Residency) == 0 {
		return true
	}
	for _, r := range t.Residency {
		if r == zone || r == string(region) {
			return true
		}
	}
	return false
}

// Quota is one limit that holds over all routers together.
type Quota struct {
	ID     string
	Tenant fleet.TenantID
	Kind   string // requests | input-tokens | output-tokens | total-tokens
	// Limit units per PeriodMs, in a bucket of Burst units; all > 0.
	Limit, PeriodMs, Burst int64
	// Degraded says what holds while the counters can't be reached: share, open or closed.
	Degraded string
	// Model narrows it to one base model. Empty: all.
	Model fleet.ModelID
	// Share 0..1 of the limit is this region's in degraded mode "share".
	Share float64
}

// Class is one traffic class for some models: its objectives and how they are pursued.
type Class struct {
	ID fleet.ClassID
	// Policy is the TrafficPolicy that it comes from; empty: built in.
	Policy string
	// TTFTObjective is the wanted time to the first token.
	TTFTObjective time.Duration
	// Spill: may leave its region while that is alive.
	Spill bool
	// PickMode is predicted-ttft, round-robin, random or least-outstanding.
	PickMode string
	// FirstByteFloor: silence before the first byte is never judged sooner.
	FirstByteFloor time.Duration
	// RequestTimeout bounds a whole request.
	RequestTimeout time.Duration
	Ejection       Ejection
}

// Ejection says when a router stops using a place on its own evidence, and when it looks again.
type Ejection struct {
	ConnectFailures     int     // in a row
	FailureRatio        float64 // 0..1 of at least MinRequests within Window
	MinRequests         int
	Window              time.Duration
	Reprobe, ReprobeMax time.Duration // first look again; it doubles up to the second
}

// Weight is one cluster's share of the requests of a model, class and source region.
type Weight struct {
	Cluster *Cluster
	// Share is >= 0; the shares of one list sum to 1.
	Share float64
	// Reason is the binding constraint, for people.
	Reason string
}

// The built-in class: the defaults of TrafficPolicySpec and FailoverSpec.
var builtIn = &Class{
	ID:             fleet.DefaultClass,
	TTFTObjective:  2 * time.Second,
	Spill:          true,
	PickMode:       "predicted-ttft",
	FirstByteFloor: 5 * time.Second,
	RequestTimeout: 10 * time.Minute,
	Ejection: Ejection{
		ConnectFailures: 3, FailureRatio: 0.2, MinRequests: 20, Window: 2 * time.Second,
		Reprobe: time.Second, ReprobeMax: time.Minute,
	},
}
