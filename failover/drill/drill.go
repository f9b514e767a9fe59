// Package drill decides how a rehearsed failover goes: what a plan says, which states a drill passes
// through, when it goes on, when it stops by itself, and what is told of it afterwards. All of it is a
// pure function of values; leases, tables, clocks and replication are the callers'.
package drill

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"anabranch/api/fleet"
)

// Kind of a drill.
type Kind string

// The kinds.
const (
	PlanOnly     Kind = "plan-only"     // simulate, touch nothing
	Shadow       Kind = "shadow"        // count what would move, move nothing
	Soft         Kind = "soft"          // drain and shift in steps
	Hard         Kind = "hard"          // treat as dead without warning: measures detection
	ControlPlane Kind = "control-plane" // isolate the leader
	QuotaStore   Kind = "quota-store"   // lose Redis
	Tier1        Kind = "tier1"         // lose a cluster's gateway
	FailbackOnly Kind = "failback-only" // bring traffic back to a drained place in steps, and take it away again
)

// State of a drill.
type State string

// The states; DESIGN.md has the transitions.
const (
	Draft       State = "DRAFT"
	Validated   State = "VALIDATED"
	Pending     State = "PENDING_APPROVAL"
	Scheduled   State = "SCHEDULED"
	Precheck    State = "PRECHECK"
	Measuring   State = "BASELINE"
	Shifting    State = "SHIFTING"
	Dwell       State = "DWELL"
	Hold        State = "HOLD"
	Failback    State = "FAILBACK"
	Paused      State = "PAUSED"
	RollingBack State = "ROLLING_BACK"
	Verify      State = "VERIFY"
	Done        State = "DONE"
)

// Active says whether a drill in this state may have moved traffic, or is about to: at most one is.
func (s State) Active() bool {
	switch s {
	case Precheck, Measuring, Shifting, Dwell, Hold, Failback, Paused, RollingBack, Verify:
		return true
	}
	return false
}

// Leased says whether routers hold a lease in this state.
func (s State) Leased() bool {
	switch s {
	case Shifting, Dwell, Hold, Failback, Paused:
		return true
	}
	return false
}

// Outcome of a drill that is Done. Empty: it is not over.
type Outcome string

// The outcomes.
const (
	Succeeded      Outcome = "SUCCEEDED"
	Failed         Outcome = "FAILED"                // an abort signal, which Cause names
	Interrupted    Outcome = "INTERRUPTED"           // a real incident, or an operator
	CapacityFailed Outcome = "CAPACITY_CHECK_FAILED" // the dry run would overload survivors
	Blocked        Outcome = "BLOCKED"               // Cause: window, rule, alert, rollout, drill, operator
	Expired        Outcome = "EXPIRED"               // nobody approved or started it in time
)

const (
	// LeaseTTL is how long a router obeys a lease that is not renewed. It is never scaled.
	LeaseTTL = 30 * time.Second
	// RenewEvery is how often leases are renewed. It is never scaled.
	RenewEvery = 5 * time.Second
)

// Sample is one second of a drill as all routers and clusters together showed it. It is kept with the
// drill and told in its report; field names are short as there is one each second.
type Sample struct {
	// At is the second, Unix ms.
	At int64 `json:"at"`
	// State and Step of the drill, and Shifted, in millionths of the scope's requests, as ordered.
	State   State `json:"state"`
	Step    int   `json:"step,omitempty"`
	Shifted int   `json:"shifted,omitempty"`
	// Routers that are connected, Obeying those of them whose lease is the last, Silent those that were
	// heard in the baseline and have not reported for 5 s.
	Routers int `json:"routers"`
	Obeying int `json:"obeying,omitempty"`
	Silent  int `json:"silent,omitempty"`
	// Holding is how many may still do something for the drill, connected or not: those that obey a lease, the last
	// or an older one, that asks for anything, and those that are silent until theirs has run out for certain. A rollback
	// is over when it is 0.
	Holding int `json:"holding,omitempty"`
	// Scoped requests that ended, and of them those that drilled clusters did not answer (Away).
	Scoped int64 `json:"scoped,omitempty"`
	Away   int64 `json:"away,omitempty"`
	// Streams open on drilled clusters, and on all.
	StreamsLeft int64 `json:"streamsLeft,omitempty"`
	Streams     int64 `json:"streams,omitempty"`
	// Tiers, top first.
	Tiers []TierSample `json:"tiers,omitempty"`
	// Clusters, by id.
	Clusters []ClusterSample `json:"clusters,omitempty"`
	// Protected tenants' requests, and those of them that a quota refused.
	Protected       int64 `json:"protected,omitempty"`
	ProtectedDenied int64 `json:"protectedDenied,omitempty"`
	// PrefixTokens of prompts of which model servers told, CachedTokens of them.
	PrefixTokens int64 `json:"prefixTokens,omitempty"`
	CachedTokens int64 `json:"cachedTokens,omitempty"`
	// MicrosPerMinute is what clusters and token prices cost per minute, in micro-dollars.
	MicrosPerMinute int64 `json:"microsPerMinute,omitempty"`
}

// TierSample is what became of one tier's requests in a second; all but Total are part of Total.
type TierSample struct {
	Tier    string `json:"tier"`
	Total   int64  `json:"total,omitempty"`
	Retried int64  `json:"retried,omitempty"`
	Shed    int64  `json:"shed,omitempty"`
	Limited int64  `json:"limited,omitempty"`
	Lost    int64  `json:"lost,omitempty"`
	Broken  int64  `json:"broken,omitempty"`
	// TTFT counts first tokens by time; see [Bucket].
	TTFT []int64 `json:"ttft,omitempty"`
}

// ClusterSample is one cluster in a second.
type ClusterSample struct {
	Cluster fleet.ClusterID `json:"cluster"`
	// Drilled: it is one that the drill takes out.
	Drilled bool `json:"drilled,omitempty"`
	// Saturation is load over measured capacity; Queue requests wait; KV 0..1.
	Saturation float64 `json:"saturation"`
	Queue      float64 `json:"queue,omitempty"`
	KV         float64 `json:"kv,omitempty"`
	// Requests that were sent there, and failures of them.
	Requests int64 `json:"requests,omitempty"`
	Failures int64 `json:"failures,omitempty"`
	// Health is failover's state of it.
	Health string `json:"health,omitempty"`
}

// Forecast is what the dry run found.
type Forecast struct {
	// Verdict is PASS, WARN or BLOCK: the highest saturation of a survivor is at most 0.8, at most 0.9, or above.
	Verdict string `json:"verdict"`
	// Survivors at the trailing peak of the same hour, the cold factor included, the highest first.
	Survivors []Survivor `json:"survivors"`
	// ColdFactor is the work of a moved request over that of a warm one.
	ColdFactor float64 `json:"coldFactor"`
	// TTFT in ms, of the requests moved, simulated before and with the drill; 0: not known.
	TTFTP50BeforeMs float64 `json:"ttftP50BeforeMs,omitempty"`
	TTFTP95BeforeMs float64 `json:"ttftP95BeforeMs,omitempty"`
	TTFTP50Ms       float64 `json:"ttftP50Ms,omitempty"`
	TTFTP95Ms       float64 `json:"ttftP95Ms,omitempty"`
	// MicrosPerMinuteMore is what the drill costs on top, in micro-dollars a minute.
	MicrosPerMinuteMore int64 `json:"microsPerMinuteMore"`
	// Stranded tenants have no legal place left: their requests would get 503.
	Stranded []Stranded `json:"stranded,omitempty"`
	// Slower tenants would wait longer for first tokens than they are owed, by distance alone; the worst first. It
	// is no part of the verdict: what is measured of first tokens differs from one minute to the next.
	Slower []Slower `json:"slower,omitempty"`
	// Quotas tells of regional shares that are cut anew; for people.
	Quotas []string `json:"quotas,omitempty"`
	// Notes say what the simulation left out or could not know.
	Notes []string `json:"notes,omitempty"`
	// Peak is the traffic that was simulated: work per second of the scope, and when it was.
	PeakWork   float64 `json:"peakWork"`
	PeakUnixMs int64   `json:"peakUnixMs,omitempty"`
}

// The verdicts of a dry run.
const (
	VerdictPass  = "PASS"
	VerdictWarn  = "WARN"
	VerdictBlock = "BLOCK"
)

// VerdictOf judges the highest saturation of a survivor.
func VerdictOf(saturation float64) string {
	const pass, warn = 0.8, 0.9
	switch {
	case saturation <= pass:
		return VerdictPass
	case saturation <= warn:
		return VerdictWarn
	}
	return VerdictBlock // and what is no number
}

// Worst tells of the verdict and of the survivor that is fullest, for people.
func (f Forecast) Worst() string {
	if len(f.Survivors) == 0 {
		return f.Verdict
	}
	worst := slices.MaxFunc(f.Survivors, func(a, b Survivor) int { return cmp.Compare(a.With, b.With) })
	return fmt.Sprintf("%s: %s would be at %.0f %% of its capacity", f.Verdict, worst.Cluster, 100*worst.With)
}

// Survivor is a cluster that stays, in a dry run.
type Survivor struct {
	Cluster fleet.ClusterID `json:"cluster"`
	Region  fleet.RegionID  `json:"region"`
	// Saturation now, and with the drill.
	Before float64 `json:"before"`
	With   float64 `json:"with"`
	// Measured: the capacity is, and not only configured.
	Measured bool `json:"measured"`
}

// Stranded is a tenant without a legal place.
type Stranded struct {
	Tenant fleet.TenantID `json:"tenant"`
	Model  fleet.ModelID  `json:"model"`
	Why    string         `json:"why"`
}

// Slower is a tenant's demand whose first tokens would come late.
type Slower struct {
	// Tenant; empty: all that make the demand, as nobody knows who does.
	Tenant fleet.TenantID `json:"tenant,omitempty"`
	Model  fleet.ModelID  `json:"model"`
	Class  fleet.ClassID  `json:"class"`
	// Source is the region where its requests come in.
	Source fleet.RegionID `json:"source"`
	// AddedMs is the round trip more, TTFTMs the 95th percentile with it, and ObjectiveMs what the class is owed.
	AddedMs     float64 `json:"addedMs"`
	TTFTMs      float64 `json:"ttftMs"`
	ObjectiveMs float64 `json:"objectiveMs"`
}

// Resolved is what the names of a plan stand for.
type Resolved struct {
	Clusters []fleet.ClusterID `json:"clusters"`
	Regions  []fleet.RegionID  `json:"regions"`
	Models   []fleet.ModelID   `json:"models"`
	Tenants  []fleet.TenantID  `json:"tenants"`
	Routers  []fleet.RouterID  `json:"routers"`
}

// Buckets is how many there are; see [Bucket].
const Buckets = 56

// Bucket is where a first token after ms belongs: bucket i takes what is at most 5 ms x 2^(i/4), the last all others.
func Bucket(ms float64) int {
	edge := 5.0
	for i := range Buckets - 1 {
		if ms <= edge {
			return i
		}
		edge *= quarter
	}
	return Buckets - 1
}

// quarter is 2^(1/4).
const quarter = 1.1892071150027210667
