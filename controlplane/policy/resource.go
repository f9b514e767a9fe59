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
	KindSafetyRule    Kind = "SafetyRule"
	KindDrillPlan     Kind = "DrillPlan"
)

// Resource is one document: what all kinds have in common, and the spec of its kind.
type Resource struct {
	APIVersion string   `json:"apiVersion"`
	Kind       Kind     `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	// Spec is a *RegionSpec, *ClusterSpec, *ModelSpec, *TenantSpec, *TrafficPolicySpec,
	// *QuotaSpec, *RateCardSpec, *SafetyRuleSpec or *DrillPlanSpec, by Kind; never nil after Parse.
	Spec any `json:"spec"`
	// Written is the spec as its author wrote it, as canonical JSON without defaults, so that what
	// was PUT is what GET answers. Nil: nothing but Spec is known. Whoever changes Spec sets it to
	// nil. [Canonical] and [Resource.MarshalJSON] prefer it to Spec.
	Written json.RawMessage `json:"-"`
	// Status is what the fleet says of it; written by the control plane only, and dropped from
	// what a client sends. Nil: nothing to say.
	Status any `json:"status,omitempty"`
}

// Metadata names a resource. All but name and labels is the store's; a client's is ignored.
type Metadata struct {
	Name string `json:"name"`
	// Revision is the Raft index of the last change, and the ETag.
	Revision  uint64    `json:"revision,omitempty"`
	CreatedAt time.Time `json:"createdAt,omitzero"`
	UpdatedAt time.Time `json:"updatedAt,omitzero"`
	// UpdatedBy is whose change was the last; empty: not known.
	UpdatedBy string `json:"updatedBy,omitempty"`
	// Managers tell who has set which field; empty: people have set all of them. See [Own].
	Managers []Manager         `json:"managers,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
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
	// QuotaStore is a Redis that can be the home of organisations' quotas. Empty: the region has none.
	QuotaStore *QuotaStoreSpec `json:"quotaStore,omitempty"`
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
	// JWT says which signed tokens are this tenant's, beside its API keys.
	JWT []JWTSpec `json:"jwt,omitempty"`
	// Organization whose limits hold for the tenant too, and with whose its quotas are kept. Default: one of
	// its own, by its own name.
	Organization string `json:"organization,omitempty"`
}

// RateCardSpec holds static prices.
type RateCardSpec struct {
	// Source says where the figures are published.
	Source string `json:"source,omitempty"`
	// GPUs are prices per GPU-hour.
	GPUs []GPUPrice `json:"gpus,omitempty"`
	// Models are token prices, for budgets, and what providers ask for.
	Models []ModelPrice `json:"models,omitempty"`
	// Egress are prices of answers that leave the region where they were made for that of their client. Of two
	// for the same the first holds, by name of the cards.
	Egress []LanePrice `json:"egress,omitempty"`
	// Carbon is what emissions are made to cost. It is shown beside what is paid, and is never part of it.
	Carbon *CarbonSpec `json:"carbon,omitempty"`
}

// LanePrice is the price of traffic from one region to another.
type LanePrice struct {
	From string `json:"from"`
	// To is another region. Empty: all that no price names.
	To string `json:"to,omitempty"`
	// USDPerGB is dollars per 10^9 bytes.
	USDPerGB float64 `json:"usdPerGB"`
	// Estimate marks a figure that nobody published.
	Estimate bool `json:"estimate,omitempty"`
}

// CarbonSpec puts a price on emissions. Of several cards the first by name that gives a figure holds.
type CarbonSpec struct {
	// USDPerTonne of CO2 equivalent. 0: this card gives no price.
	USDPerTonne float64 `json:"usdPerTonne,omitempty"`
	// Regions say how much is emitted there. One that is not named has the yearly average of the AWS region
	// of its name, if it is one, and else nothing.
	Regions []RegionCarbon `json:"regions,omitempty"`
	// GPUs say how much power is drawn. Those of which nobody says it emit nothing.
	GPUs []GPUPower `json:"gpus,omitempty"`
}

// RegionCarbon is what electricity emits in a region.
type RegionCarbon struct {
	Region string `json:"region"`
	// GramsPerKWh of CO2 equivalent, held to the milligram.
	GramsPerKWh float64 `json:"gramsPerKWh"`
}

// GPUPower is what one GPU draws on average, with its part of the machine that it sits in.
type GPUPower struct {
	Class string `json:"class"`
	// Instance is the type that the GPU sits in. Empty: all that are not named.
	Instance string `json:"instance,omitempty"`
	Watts    int64  `json:"watts"`
}

// GPUPrice is one GPU-hour in one region. Of prices for the same a published one holds before an estimate,
// then the one in force since the latest time, then that of the first card by name.
type GPUPrice struct {
	Class  string `json:"class"`
	Region string `json:"region"`
	// Instance is the type that the GPUs sit in, e.g. "p5.48xlarge". Empty: any.
	Instance string `json:"instance,omitempty"`
	// AvailabilityZone of the region, e.g. "us-east-1a". Empty: all.
	AvailabilityZone string `json:"availabilityZone,omitempty"`
	// Purchase is on-demand (default), spot, reserved, capacity-block or owned.
	Purchase string `json:"purchase,omitempty"`
	// From and Until bound when it holds, e.g. 2027-01-31T00:00:00Z, Until not included. Empty: no bound.
	From  string `json:"from,omitempty"`
	Until string `json:"until,omitempty"`
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
	// CachedPerMTok is for input tokens that were found in a prefix cache. Left out: as other input. Budgets
	// take all input for uncached.
	CachedPerMTok *float64 `json:"cachedPerMTok,omitempty"`
	Estimate      bool     `json:"estimate,omitempty"`
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
	// Other is another resource that Reason or Fix names and the document does not, so that it can be kept
	// from those who may not know of it; zero: there is none. It is not told.
	Other Ref `json:"-"`
}

// Ref names a resource.
type Ref struct {
	Kind Kind
	Name string
}
