// Package policy is everything that an operator may write: the kinds of resource, their defaults,
// strict parsing, validation that names the field, the reason and the fix, and the difference of
// two versions. It knows nothing of where resources are kept.
package policy

import (
	"encoding/json"
	"time"
)

// APIVersion is the only version of resources so far.
const APIVersion = "anabranch/v1"

// Kind names a kind of resource as it stands in a document.
type Kind string

// The kinds of resource.
const (
	KindRegion        Kind = "Region"
	KindCluster       Kind = "Cluster"
	KindModel         Kind = "Model"
	KindTenant        Kind = "Tenant"
	KindTrafficPolicy Kind = "TrafficPolicy"
	KindQuota         Kind = "Quota"
	KindRateCard      Kind = "RateCard"
)

// Resource is one document: what all kinds have in common, and the spec of its kind.
type Resource struct {
	APIVersion string   `json:"apiVersion"`
	Kind       Kind     `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	// Spec is a *RegionSpec, *ClusterSpec, *ModelSpec, *TenantSpec, *TrafficPolicySpec,
	// *QuotaSpec or *RateCardSpec, by Kind; never nil after Parse.
	Spec any `json:"spec"`
	// Written is the spec as its author wrote it, as canonical JSON without defaults, so that what
	// was PUT is what GET answers. Nil: nothing but Spec is known. Whoever changes Spec sets it to
	// nil. [Canonical] and [Resource.MarshalJSON] prefer it to Spec.
	Written json.RawMessage `json:"-"`
	// Status is what the fleet says of it; written by the control plane only, and dropped from
	// what a client sends. Nil: nothing to say.
	Status any `json:"status,omitempty"`
}

// Metadata names a resource. Revision and the times are the store's; a client's are ignored.
type Metadata struct {
	Name string `json:"name"`
	// Revision is the Raft index of the last change, and the ETag.
	Revision  uint64            `json:"revision,omitempty"`
	CreatedAt time.Time         `json:"createdAt,omitzero"`
	UpdatedAt time.Time         `json:"updatedAt,omitzero"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// RegionSpec is a place with a jurisdiction and distances to others.
type RegionSpec struct {
	// Zone is the jurisdiction, e.g. "eu"; residency names it. Empty: the region's own name.
	Zone string `json:"zone,omitempty"`
	// PeerURLs are the https addresses at which the region's routers take the one hop from
	// routers of other regions. Empty: the region can't be entered from outside.
	PeerURLs []string `json:"peerURLs,omitempty"`
	// RTTMs are round trips to other regions in ms; a missing pair is taken from the other
	// side, and is 150 ms when neither says.
	RTTMs map[string]float64 `json:"rttMs,omitempty"`
}

// ClusterSpec is GPUs behind one tier-1 gateway or a set of endpoints.
type ClusterSpec struct {
	Region string `json:"region"`
	// Type is the member kind: "endpoints" (default; our router picks the pod) or "gateway".
	Type string `json:"type,omitempty"`
	// Models are the base models served; their adapters come with them.
	Models []string `json:"models"`
	// Endpoints of type "endpoints".
	Endpoints []EndpointSpec `json:"endpoints,omitempty"`
	// GatewayURL and MetricsURL of type "gateway": where requests go, and the endpoint picker's
	// pool metrics.
	GatewayURL string `json:"gatewayURL,omitempty"`
	MetricsURL string `json:"metricsURL,omitempty"`
	// Auth towards the cluster, by reference. Nil: none.
	Auth *AuthSpec `json:"auth,omitempty"`
	// Drained: no new requests, by an operator's order.
	Drained bool `json:"drained,omitempty"`
	// GPUs says what the cluster is made of, for cost: how many GPUs of which class, bought how.
	GPUs []GPUSpec `json:"gpus,omitempty"`
	// PriorWork is the believed capacity in work units per second until it is measured, for
	// each model. 0: 5,000 per endpoint.
	PriorWork float64 `json:"priorWork,omitempty"`
}

// EndpointSpec is one model server.
type EndpointSpec struct {
	ID  string `json:"id"`
	URL string `json:"url"`
	// Class is the GPU class ("h100"), within which rates are learned together.
	Class string `json:"class"`
}

// AuthSpec says where a router finds the secret for a cluster; never the secret.
type AuthSpec struct {
	// Type is "bearer".
	Type string `json:"type"`
	// File is a path on the router, Env a variable of it; exactly one is set.
	File string `json:"file,omitempty"`
	Env  string `json:"env,omitempty"`
}

// GPUSpec counts GPUs of one class and purchase option.
type GPUSpec struct {
	Class string `json:"class"`
	Count int    `json:"count"`
	// Purchase is on-demand (default), spot, reserved or owned. Reserved and owned cost nothing
	// at the margin.
	Purchase string `json:"purchase,omitempty"`
}

// ModelSpec is one base model.
type ModelSpec struct {
	Aliases  []string `json:"aliases,omitempty"`
	Adapters []string `json:"adapters,omitempty"`
	// OutputWeight is the work of one output token where an input token is 1. Default 6: the
	// middle of prefill over decode speed at a batch of 32 on A100 to H100.
	OutputWeight float64 `json:"outputWeight,omitempty"`
}

// TenantSpec is who pays. An empty spec is valid: standard tier, no quota, no residency limit.
type TenantSpec struct {
	// Tier is batch, best-effort, standard (default) or top.
	Tier string `json:"tier,omitempty"`
	// Residency lists zones or regions where requests may be served. Empty: anywhere.
	Residency []string `json:"residency,omitempty"`
	// APIKeys are stored hashed.
	APIKeys []APIKeySpec `json:"apiKeys,omitempty"`
}

// APIKeySpec is the hash of one API key.
type APIKeySpec struct {
	ID string `json:"id"`
	// SHA256 is the lower-case hex SHA-256 of the key.
	SHA256 string `json:"sha256"`
}

// TrafficPolicySpec is a traffic class: what an operator wants of some traffic.
type TrafficPolicySpec struct {
	// Class defaults to "interactive".
	Class string `json:"class,omitempty"`
	// Models that it speaks of. Empty: all that no other policy of the class names.
	Models []string `json:"models,omitempty"`
	// Regions holds per-region wishes; regions not named have weight 1.
	Regions []RegionWish `json:"regions,omitempty"`
	// TTFTObjectiveMs is the first-token objective in ms, default 2,000.
	TTFTObjectiveMs float64 `json:"ttftObjectiveMs,omitempty"`
	// CostPreference from 0 (latency only) to 1 (cheapest place within the objective).
	CostPreference float64 `json:"costPreference,omitempty"`
	// Spill is "allowed" (default), or "never": a region's traffic stays while it is alive.
	Spill string `json:"spill,omitempty"`
	// PickMode is predicted-ttft (default), round-robin, random or least-outstanding.
	PickMode string `json:"pickMode,omitempty"`
	// RequestTimeoutMs bounds a whole request, default 600,000.
	RequestTimeoutMs int64 `json:"requestTimeoutMs,omitempty"`
	// FirstByteFloorMs: silence is never judged sooner, default 5,000.
	FirstByteFloorMs int64         `json:"firstByteFloorMs,omitempty"`
	Failover         *FailoverSpec `json:"failover,omitempty"`
}

// RegionWish weighs one region.
type RegionWish struct {
	Region string `json:"region"`
	// Weight multiplies what the planner would give, >= 0; nil is 1, 0 sends nothing there.
	Weight *float64 `json:"weight,omitempty"`
	// MaxShare caps the region's share of the class, 0..1; nil is 1.
	MaxShare *float64 `json:"maxShare,omitempty"`
}

// FailoverSpec tunes the health state machine. Zero values take the defaults given.
type FailoverSpec struct {
	// TimeScale scales cool-down, recovery and ramp (not detection), 0 < x <= 1, default 1.
	TimeScale float64 `json:"timeScale,omitempty"`
	// ConfirmMs that observers must agree before a hard failover, default 3,000.
	ConfirmMs int64 `json:"confirmMs,omitempty"`
	// CoolDownMs since evacuation before recovery may start, default 300,000.
	CoolDownMs int64 `json:"coolDownMs,omitempty"`
	// RecoveryMs of continuous good health before the ramp, default 120,000.
	RecoveryMs int64 `json:"recoveryMs,omitempty"`
	// RampStepMs per step of 1, 5, 10, 25, 50, 100 %, default 60,000.
	RampStepMs int64 `json:"rampStepMs,omitempty"`
	// ConnectFailures in a row that eject a place locally, default 3.
	ConnectFailures int `json:"connectFailures,omitempty"`
	// FailureRatio of at least MinRequests in WindowMs that ejects, defaults 0.2, 20, 2,000.
	FailureRatio float64 `json:"failureRatio,omitempty"`
	MinRequests  int     `json:"minRequests,omitempty"`
	WindowMs     int64   `json:"windowMs,omitempty"`
	// ReprobeMs until an ejected place is tried again, doubling to ReprobeMaxMs; 1,000, 60,000.
	ReprobeMs    int64 `json:"reprobeMs,omitempty"`
	ReprobeMaxMs int64 `json:"reprobeMaxMs,omitempty"`
}

// QuotaSpec is a limit that holds over all routers together.
type QuotaSpec struct {
	Tenant string `json:"tenant"`
	// Model narrows it to one model. Empty: all.
	Model string `json:"model,omitempty"`
	// Limits, at least one, at most one of each kind.
	Limits []LimitSpec `json:"limits"`
	// Degraded says what holds while Redis is away: share (default: each region a part), open
	// (no limit), closed (nothing admitted).
	Degraded string `json:"degraded,omitempty"`
}

// LimitSpec is one bucket.
type LimitSpec struct {
	// Kind is requests, input-tokens, output-tokens or total-tokens.
	Kind string `json:"kind"`
	// PerMinute is the rate in units a minute, > 0.
	PerMinute int64 `json:"perMinute"`
	// Burst is the bucket's size in units; 0: one minute's worth.
	Burst int64 `json:"burst,omitempty"`
}

// RateCardSpec holds static prices.
type RateCardSpec struct {
	// Source says where the figures are published.
	Source string `json:"source,omitempty"`
	// GPUs are prices per GPU-hour.
	GPUs []GPUPrice `json:"gpus,omitempty"`
	// Models are token prices, for budgets.
	Models []ModelPrice `json:"models,omitempty"`
}

// GPUPrice is one GPU-hour in one region.
type GPUPrice struct {
	Class    string `json:"class"`
	Region   string `json:"region"`
	Purchase string `json:"purchase,omitempty"` // on-demand (default), spot, reserved, owned
	// USDPerHour is dollars per GPU-hour, kept as micro-dollars internally.
	USDPerHour float64 `json:"usdPerHour"`
	// Estimate marks a figure that nobody published.
	Estimate bool `json:"estimate,omitempty"`
}

// ModelPrice is dollars per million tokens.
type ModelPrice struct {
	Model         string  `json:"model"`
	InputPerMTok  float64 `json:"inputPerMTok"`
	OutputPerMTok float64 `json:"outputPerMTok"`
	Estimate      bool    `json:"estimate,omitempty"`
}

// Problem is one thing wrong with a document.
type Problem struct {
	// Field is a path such as "spec.regions[1].weight".
	Field string `json:"field"`
	// Reason says what is wrong, Fix what would be right.
	Reason string `json:"reason"`
	Fix    string `json:"fix"`
	// Line of the document, from 1; 0: not known.
	Line int `json:"line,omitempty"`
}
