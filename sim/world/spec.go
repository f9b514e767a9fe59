package world

import (
	"time"

	"anabranch/api/fleet"
	"anabranch/sim"
)

// Spec is a fleet, and what happens to it. Clusters and pods are numbered by their place in it.
type Spec struct {
	Name     string
	Regions  []Region
	Clusters []Cluster
	Models   []Model
	// Tenants that are limited in something; others are not and have priority 0.
	Tenants []Tenant
	// RTT is the round trip between two regions, either way round; of pairs that aren't there DefaultRTT.
	RTT map[[2]fleet.RegionID]time.Duration
	// Jitter is how much longer a way may take, as a share of it: evenly spread from 0 to this.
	Jitter float64
	Scrape Feed // of pods' metrics, by the routers of their region
	Tell   Feed // of clusters' load and health, to the routers of all regions, which is what a control plane knows too
	Events []Event
	Quotas []Quota
	// Timeout of a client: it leaves when so long after its arrival no answer has begun, or when one that
	// has begun has hung for so long. 0: 60 s.
	Timeout time.Duration
	// Warmup is how much of the beginning is simulated and not reported.
	Warmup time.Duration
	// Duration ends arrivals; what is under way is brought to its end. 0: when the workload ends.
	Duration time.Duration
}

// DefaultRTT is the round trip between regions of which nothing is said, and LocalRTT that within one.
const (
	DefaultRTT = 100 * time.Millisecond
	LocalRTT   = time.Millisecond
)

// Region has routers. Clients of a region whose routers are dead turn to the nearest region with living
// ones, after [Unreachable].
type Region struct {
	ID fleet.RegionID
	// Zone is what residency is about, such as "eu". Empty: the region is a zone of its own.
	Zone string
	// Routers among which requests are spread at random, and that know nothing of each other. 0: one.
	Routers int
	// Skew is how much the region's clock is ahead of true time.
	Skew time.Duration
}

// Cluster is pods behind one tier-1 gateway or found directly, which serve one base model.
type Cluster struct {
	ID     fleet.ClusterID
	Region fleet.RegionID
	Model  fleet.ModelID
	Pods   []Pods
}

// Pods are equal pods.
type Pods struct {
	// Class of GPU, as in [sim.Lookup].
	Class string
	Count int
	// Options of the engine but its profile, which Class and the model give; a Profile with a Class
	// set here is used instead. StartUp is how long pods take that start during the run: those of the
	// beginning are ready.
	Options sim.Options
	// PriceMicroUSD is what a pod costs for an hour, in micro-dollars.
	PriceMicroUSD int64
}

// Model is a base model.
type Model struct {
	ID fleet.ModelID
	// Profile is its name for [sim.Lookup]. Empty: the ID.
	Profile string
	// OutputWeight is how much work an output token is, in prompt tokens. 0: 3.
	OutputWeight float64
	// FirstToken and InterToken are the objectives that goodput is counted by. 0: 2 s and 100 ms.
	FirstToken, InterToken time.Duration
}

// Tenant is a customer with limits.
type Tenant struct {
	ID fleet.TenantID
	// Residency are the zones or regions that may serve it. Empty: all.
	Residency []string
	// Priority of its requests that have none (0) themselves.
	Priority int32
}

// Quota is a tenant's limit over all regions, for policies that know quotas.
type Quota struct {
	Tenant fleet.TenantID
	// Tokens a minute, prompt and output; Burst tokens at once, 0: a minute's.
	Tokens, Burst int64
}

// Feed is how measurements travel. They are taken each Interval, arrive Delay later, and each is lost
// with the probability Loss.
type Feed struct {
	Interval time.Duration // 0: 50 ms for Scrape, 1 s for Tell
	Delay    time.Duration
	Loss     float64
}

// Kind is what happens in an [Event].
type Kind string

// The kinds of events.
const (
	PodLoss   Kind = "pod-loss"  // a pod of Cluster, its number Pod, dies with all that it had
	HalfPods  Kind = "half-pods" // every other pod of Cluster dies
	Lost      Kind = "lost"      // Cluster, or all of Region, its routers too, dies
	Hang      Kind = "hang"      // Cluster takes requests and answers nothing
	Slow      Kind = "slow"      // Cluster, or pod, takes Factor times as long
	Price     Kind = "price"     // pods of Cluster or Region cost Factor times as much
	Blackout  Kind = "blackout"  // what is told of Cluster or Region to others does not arrive
	NoLeader  Kind = "no-leader" // the control plane has no leader
	NoQuotas  Kind = "no-quotas" // the quota store is away
	ScaleOut  Kind = "scale-out" // Count more pods of Cluster's first kind, which start up first
	ScaleIn   Kind = "scale-in"  // Count pods of Cluster, the last, end what they have and go
	Partition Kind = "partition" // Region can't be reached from others, nor reach them
)

// Event happens At. It ends after For, and 0 means never; what died comes back with empty caches, after
// its start-up; pods of a scale-out go, those of a scale-in come back. Of what an event is not about the
// fields are empty.
type Event struct {
	At, For time.Duration
	Kind    Kind
	Region  fleet.RegionID
	Cluster fleet.ClusterID
	// Pod is its number within the cluster, from 0; Slow: -1 for all.
	Pod int
	// Count of pods that come or go. 0: 1.
	Count int
	// Factor by which it gets slower or dearer, above 0 and at most [MaxFactor]. Factors of events at the
	// same time multiply.
	Factor float64
}

// MaxFactor bounds [Event].Factor, so that runs end.
const MaxFactor = 1000
