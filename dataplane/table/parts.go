package table

import (
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/failover/brownout"
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
	// QuotaStore can be the home of organisations. Nil: the region has none.
	QuotaStore *QuotaStore
	// Clusters of the region in the table's order.
	Clusters []*Cluster
}

// Kinds of cluster.
const (
	KindEndpoints = "endpoints" // the router picks the endpoint
	KindGateway   = "gateway"   // the cluster's own gateway does
	KindRouter    = "router"    // the routers of its region do; to them it is no target
	KindProvider  = "provider"  // an external API
)

// ModelHealth is how a model fares on a cluster where that is not as the cluster does as a whole.
type ModelHealth struct {
	// Health is the state's name, for people.
	Health string
	// Cap is the share 0..1 of its weight that the model may take there.
	Cap float64
}

// Cluster is one target of routing.
type Cluster struct {
	ID     fleet.ClusterID
	Region fleet.RegionID
	// Zone is its region's.
	Zone string
	// Kind is [KindEndpoints], [KindGateway], [KindRouter] or [KindProvider].
	Kind string
	// Models are the base models served.
	Models []fleet.ModelID
	// Endpoints of kind endpoints, at least one unless Discovery is set.
	Endpoints []Endpoint
	// Discovery finds more endpoints. Nil: there are no more.
	Discovery *Discovery
	// GatewayURL of kinds gateway and provider; MetricsURL may be empty, then its load isn't known.
	GatewayURL, MetricsURL string
	// Names are what base models and adapters are called there, where that differs.
	Names map[string]string
	// Health is the state that the control plane sees, e.g. "HEALTHY".
	Health string
	// Cap is the share 0..1 of its weight that its health allows of the model that fares best there; the
	// weights have it in them. See [Cluster.CapOf].
	Cap float64
	// ModelHealth of the models that fare otherwise. Nil: none does. It must not be changed.
	ModelHealth map[fleet.ModelID]ModelHealth
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

// NameOf is what a base model or adapter is called at the cluster.
func (c *Cluster) NameOf(model string) string {
	if name, ok := c.Names[model]; ok {
		return name
	}
	return model
}

// Types of [Credential].
const (
	AuthBearer = "bearer" // a token in Authorization
	AuthMTLS   = "mtls"   // a client certificate
	AuthSigV4  = "sigv4"  // AWS Signature Version 4
)

// Credential says where this router finds a secret, never the secret.
type Credential struct {
	// Type is [AuthBearer], [AuthMTLS] or [AuthSigV4].
	Type string
	// File and Env of bearer and sigv4, exactly one is set: the path of the token or of an AWS
	// credentials file; the variable with the token, or the prefix of the three that AWS's tools read
	// ("AWS": AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN).
	File string
	Env  string
	// CertFile and KeyFile of mtls; CAFile may be empty: the system's authorities.
	CertFile, KeyFile, CAFile string
	// Region and Service of sigv4; Profile is the section of File, empty: default.
	Region, Service, Profile string
}

// Kinds of [Discovery].
const (
	DiscoverDNS            = "dns"            // A and AAAA records of a host, as of a headless Service
	DiscoverSRV            = "srv"            // SRV records
	DiscoverFile           = "file"           // a file on the router, read again when it changes
	DiscoverEndpointSlices = "endpointslices" // of a Kubernetes Service
	DiscoverInferencePool  = "inferencepool"  // pods of a Gateway API InferencePool
)

// Discovery says where this router finds endpoints whose addresses change.
type Discovery struct {
	Kind string
	// Name is a host, a service, a path on the router, a Service or an InferencePool, by Kind.
	Name string
	// Namespace of the Kubernetes kinds.
	Namespace string
	// Port of the model servers, where the source doesn't say; never 0.
	Port int
	// Scheme is http or https.
	Scheme string
	// Class of GPU of what is found, where the source doesn't say.
	Class string
}

// Endpoint is one model server.
type Endpoint struct {
	ID  fleet.EndpointID
	URL string // without a trailing slash
	// Class is the GPU class, within which rates are learned together.
	Class string
	// KVEventsURL is where it publishes what its KV cache holds ("tcp://host:port"); empty: nowhere.
	KVEventsURL string
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
	// Created is when an operator first wrote it, the same in every table. Zero: not told.
	Created time.Time
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
	// Organisation whose limits hold for it too; one of its own by its own name if the control plane gave
	// none. It need not have any: see [Table.Organisation].
	Organisation string
}

// Allows says whether the tenant's requests may be served in a region of a zone.
func (t *Tenant) Allows(region fleet.RegionID, zone string) bool {
	return Within(t.Residency, region, zone)
}

// Within says whether a region of a zone is among places, which are zones or regions. No places:
// there is no limit, and it is.
func Within(places []string, region fleet.RegionID, zone string) bool {
	if len(places) == 0 {
		return true
	}
	for _, p := range places {
		if p == zone || p == string(region) {
			return true
		}
	}
	return false
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
	// PickMode is predicted-ttft, round-robin, random, least-outstanding or prefix-hash.
	PickMode string
	// PrefixLength of prefix-hash in characters of message text, Concurrency the requests in flight
	// at a place from which on it spills; both > 0.
	PrefixLength, Concurrency int
	// FirstByteFloor: silence before the first byte is never judged sooner, and FirstByteDeadline
	// never later.
	FirstByteFloor, FirstByteDeadline time.Duration
	// Stall bounds the silence between tokens. 0: as learned, from 10 s to 60 s.
	Stall time.Duration
	// RequestTimeout bounds a whole request.
	RequestTimeout time.Duration
	// Queue is how long a request may wait for room. 0: not at all.
	Queue time.Duration
	// Hedge sends a copy to another place when the first is late. Nil: never.
	Hedge *Hedge
	// Rescue continues a broken stream elsewhere from what was sent.
	Rescue   bool
	Ejection Ejection
	// Brownout is what is given up while capacity is short, and Weights of tenants by whom there are fair shares then;
	// one that is missing has 1.
	Brownout brownout.Config
	Weights  map[string]float64
}

// Hedge bounds copies of requests whose first place is late.
type Hedge struct {
	MaxShare      float64 // of requests, 0..1
	MaxSaturation float64 // of the other place, 0..1
	// After is the silence before the copy goes. 0: the 95th percentile as learned.
	After time.Duration
}

// Rule is what a policy says of some requests.
type Rule struct {
	// Policy that it comes from.
	Policy string
	// Models are base models. Empty: all.
	Models []fleet.ModelID
	// Match: any of these. Empty: all requests.
	Match []Match
	// Class of what matches.
	Class fleet.ClassID
	// Model is the base model or adapter to ask for instead. Empty: as asked.
	Model string
	// Clusters are the only ones to use. Empty: any.
	Clusters []fleet.ClusterID
	// Residency narrows the tenant's, in zones or regions. Empty: as the tenant's.
	Residency []string
	// Arms of a split. Empty: none.
	Arms []Arm
	// Shadow copies. Nil: none.
	Shadow *Shadow
}

// Match fits a request when all that it says fits.
type Match struct {
	Tenants []fleet.TenantID // any of these; empty: all
	Paths   []string         // any of these, one ending in "*" a prefix; empty: all
	Headers []HeaderMatch    // all of these
}

// HeaderMatch wants a header, its name in canonical form.
type HeaderMatch struct {
	Name, Value string
	Type        string // exact, prefix or present
}

// Arm is one way of a split.
type Arm struct {
	ID string
	// Share of the rule's requests; the shares of a rule sum to 1.
	Share float64
	// Model to ask for. Empty: as the rule says.
	Model string
	// Clusters are the only ones to use. Empty: as the rule says.
	Clusters []fleet.ClusterID
}

// Shadow sends copies of requests.
type Shadow struct {
	Share    float64           // of requests, 0..1
	Model    string            // base model or adapter; empty: the request's own
	Clusters []fleet.ClusterID // only these; empty: any legal
}

// Ejection says when a router stops using a place on its own evidence, and when it looks again.
type Ejection struct {
	ConnectFailures     int     // in a row
	FailureRatio        float64 // 0..1 of at least MinRequests within Window
	MinRequests         int
	Window              time.Duration
	Reprobe, ReprobeMax time.Duration // first look again; it doubles up to the second
}

// Shed is what requests there is no room for: all of those that count as of a lower priority than Priority, and
// the Part of those that count as of it.
type Shed struct {
	Priority int32
	Part     float64 // 0..1; 0: nothing is shed, of lower priorities neither
}

// Of is the part, 0..1, of requests that is shed of what counts as of a priority.
func (s Shed) Of(priority int32) float64 {
	switch {
	case s.Part <= 0 || priority > s.Priority:
		return 0
	case priority == s.Priority:
		return s.Part
	}
	return 1
}

// Weight is one cluster's share of the requests of a model, class and source region.
type Weight struct {
	Cluster *Cluster
	// Share is >= 0; the shares of one list sum to 1.
	Share float64
	// Standby: by an operator's order it gets nothing while anything else is alive; Share is 0.
	Standby bool
	// Reason is the binding constraint, for people.
	Reason string
}

// The built-in class: the defaults of TrafficPolicySpec and FailoverSpec.
var builtIn = &Class{
	ID:             fleet.DefaultClass,
	TTFTObjective:  2 * time.Second,
	Spill:          true,
	PickMode:       "predicted-ttft",
	FirstByteFloor: 5 * time.Second, FirstByteDeadline: time.Minute,
	RequestTimeout: 10 * time.Minute, Queue: 10 * time.Second, PrefixLength: 4096, Concurrency: 32,
	Ejection: Ejection{
		ConnectFailures: 3, FailureRatio: 0.2, MinRequests: 20, Window: 2 * time.Second,
		Reprobe: time.Second, ReprobeMax: time.Minute,
	},
}
