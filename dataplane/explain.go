package dataplane

import (
	"slices"
	"sync/atomic"
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/inference"
	"anabranch/dataplane/route"
	"anabranch/ratelimit"
)

// Record is why one request went where it went. It holds no text of the prompt or the answer.
type Record struct {
	// ID is the router's own name of the request, ClientID the client's (empty: none).
	ID       string         `json:"id"`
	ClientID string         `json:"clientId,omitempty"`
	At       time.Time      `json:"at"`
	Region   fleet.RegionID `json:"region"`
	Path     string         `json:"path"`
	Tenant   fleet.TenantID `json:"tenant,omitempty"`
	// Asked is the model as the client wrote it, Model the base model that it stands for, Adapter
	// the adapter, if it is one.
	Asked   string        `json:"asked,omitempty"`
	Model   fleet.ModelID `json:"model,omitempty"`
	Adapter string        `json:"adapter,omitempty"`
	Class   fleet.ClassID `json:"class,omitempty"`
	// Policy is the TrafficPolicy whose rule speaks of it, Arm the arm of its split; empty: none.
	Policy   string `json:"policy,omitempty"`
	Arm      string `json:"arm,omitempty"`
	Priority int32  `json:"priority"`
	Stream   bool   `json:"stream"`
	// Hop: it came from another region's router.
	Hop bool `json:"hop,omitempty"`
	// Epoch and Revision name the table that all of it was decided by.
	Epoch    uint64 `json:"epoch"`
	Revision uint64 `json:"revision"`
	// Sight is how far the control plane's word on health was believed: stale or alone; empty: in
	// full.
	Sight string `json:"sight,omitempty"`
	// PromptTokens is the estimate that it was routed by, Blocks how many blocks its beginning
	// has.
	PromptTokens int64 `json:"promptTokens,omitempty"`
	Blocks       int   `json:"blocks,omitempty"`
	// Candidates in the order of trying, and what was left out and why.
	Candidates []Candidate `json:"candidates,omitempty"`
	Removed    []Removal   `json:"removed,omitempty"`
	// Shed is what the table sheds of its priority, and what became of the request by that; empty: nothing.
	Shed string `json:"shed,omitempty"`
	// Drill is what the drill of the table had it do; empty: there was none.
	Drill string `json:"drill,omitempty"`
	// Brownout is what is given up for want of capacity, and what of that the request met; empty: nothing.
	Brownout string `json:"brownout,omitempty"`
	// QueuedMs is how long it waited for room.
	QueuedMs float64 `json:"queuedMs,omitempty"`
	Attempts []Tried `json:"attempts,omitempty"`

	// How it ended.
	Status int    `json:"status"`
	Code   string `json:"code,omitempty"`
	// Quota is the limit that refused it. Nil: none did.
	Quota *Refusal `json:"quota,omitempty"`
	// Broken: the answer began and is not whole. ClientGone: the client left before its end.
	Broken      bool            `json:"broken,omitempty"`
	ClientGone  bool            `json:"clientGone,omitempty"`
	Usage       inference.Usage `json:"usage"`
	FirstByteMs float64         `json:"firstByteMs,omitempty"`
	TotalMs     float64         `json:"totalMs"`
}

// Refusal is why a quota did not let a request in.
type Refusal struct {
	// Limit is the quota's name and the limit's kind.
	Limit string `json:"limit"`
	// Reason is over_limit, exceeds_burst (no wait will do) or quota_store_away.
	Reason ratelimit.Reason `json:"reason"`
	// Message is what the client was told.
	Message string `json:"message"`
	// Degraded: the quota store was not asked.
	Degraded bool `json:"degraded,omitempty"`
}

func (r *Refusal) limit() string {
	if r == nil {
		return ""
	}
	return r.Limit
}

// Candidate is one cluster that could have served.
type Candidate struct {
	Cluster fleet.ClusterID `json:"cluster"`
	Region  fleet.RegionID  `json:"region"`
	Weight  float64         `json:"weight"`
	Reason  string          `json:"reason"`
	// What was known of it: load over capacity (0: not known), the predicted wait and time to compute
	// the prompt there, the way to it and back, and whether it had said that it is full.
	Saturation float64 `json:"saturation,omitempty"`
	WaitMs     float64 `json:"waitMs,omitempty"`
	PrefillMs  float64 `json:"prefillMs,omitempty"`
	RTTMs      float64 `json:"rttMs,omitempty"`
	Busy       bool    `json:"busy,omitempty"`
	// SignalAgeMs is the age of the newest measurement of its load; -1: there is none.
	SignalAgeMs int64 `json:"signalAgeMs"`
}

// Removal is one cluster that could not, and why.
type Removal struct {
	Cluster fleet.ClusterID `json:"cluster"`
	Reason  string          `json:"reason"`
}

// Tried is one attempt.
type Tried struct {
	Cluster  fleet.ClusterID  `json:"cluster"`
	Region   fleet.RegionID   `json:"region"`
	Endpoint fleet.EndpointID `json:"endpoint,omitempty"`
	// Kind is first, retry, exempt (a retry outside the budget), hedge or rescue.
	Kind string `json:"kind"`
	// Among is how many endpoints there were to choose from, Why how the choice fell, and
	// PredictedMs the time to the first token that was expected.
	Among       int     `json:"among,omitempty"`
	Why         string  `json:"why,omitempty"`
	PredictedMs float64 `json:"predictedMs,omitempty"`
	// Expected is what that consists of. Nil: in another region.
	Expected *Expected `json:"expected,omitempty"`
	// RunnerUp is the endpoint that was predicted to be next best; empty: there was none.
	RunnerUp   fleet.EndpointID `json:"runnerUp,omitempty"`
	RunnerUpMs float64          `json:"runnerUpMs,omitempty"`
	// Skipped are endpoints of the cluster that were no candidates, at most 16 of them, and why.
	Skipped []Skip `json:"skipped,omitempty"`
	// Reconnected: the place had closed the kept connection, and it was sent once more on a fresh one.
	Reconnected bool `json:"reconnected,omitempty"`
	// Status is what the place answered (0: nothing), Code what was wrong (empty: nothing).
	Status      int     `json:"status,omitempty"`
	Code        string  `json:"code,omitempty"`
	FirstByteMs float64 `json:"firstByteMs,omitempty"`
	TookMs      float64 `json:"tookMs"`
}

// Expected is what a predicted time to the first token consists of, in ms, and what it was predicted
// from.
type Expected struct {
	WaitMs    float64 `json:"waitMs"`
	PrefillMs float64 `json:"prefillMs"`
	AdapterMs float64 `json:"adapterMs,omitempty"`
	KVMs      float64 `json:"kvMs,omitempty"`
	// CachedTokens of the prompt that the endpoint was believed to hold.
	CachedTokens int64 `json:"cachedTokens"`
	// Waiting and Running are requests at the endpoint, SignalAgeMs the age of the measurement; -1:
	// there is none.
	Waiting     float64 `json:"waiting"`
	Running     float64 `json:"running"`
	SignalAgeMs int64   `json:"signalAgeMs"`
	// Adapter is the state of the request's adapter there; empty: it wants none.
	Adapter string `json:"adapter,omitempty"`
}

// Skip is an endpoint that was no candidate, and why.
type Skip struct {
	Endpoint fleet.EndpointID `json:"endpoint"`
	Reason   string           `json:"reason"`
}

// fault says whether it went wrong for reasons that are not the client's.
func (r *Record) fault() bool {
	return r.Status >= 500 || r.Broken && !r.ClientGone && r.Code != codeQuotaCut
}

// chose notes a choice.
func (r *Record) chose(c *route.Choice, age func(fleet.ClusterID) int64) {
	r.Candidates = make([]Candidate, len(c.Targets))
	for i := range c.Targets {
		t := &c.Targets[i]
		r.Candidates[i] = Candidate{
			Cluster: t.Cluster.ID, Region: t.Region, Weight: t.Weight, Reason: t.Reason, Saturation: t.Place.Saturation,
			WaitMs: milliseconds(t.Place.Wait), PrefillMs: milliseconds(t.Place.Prefill), RTTMs: milliseconds(t.RTT), Busy: t.Place.Busy,
			SignalAgeMs: age(t.Cluster.ID),
		}
	}
	if len(c.Removed) > 0 {
		r.Removed = make([]Removal, len(c.Removed))
		for i, x := range c.Removed {
			r.Removed[i] = Removal{x.Cluster, x.String()}
		}
	}
}

// budgetSpent is why a retry did not go to a cluster.
const budgetSpent = "retry budget spent"

// leaveOut notes, once, that a cluster was left out and why.
func (r *Record) leaveOut(id fleet.ClusterID, reason string) {
	if x := (Removal{id, reason}); !slices.Contains(r.Removed, x) {
		r.Removed = append(r.Removed, x)
	}
}

// explainKept is how many records are kept.
const explainKept = 4096

// explanations keeps the newest records. Adding is one atomic step; looking one up walks them,
// which is for people.
type explanations struct {
	next  atomic.Uint64
	slots [explainKept]atomic.Pointer[Record]
}

func (e *explanations) add(r *Record) {
	e.slots[(e.next.Add(1)-1)%explainKept].Store(r)
}

// newest walks the records from the newest on, until f says that it has enough.
func (e *explanations) newest(f func(*Record) (more bool)) {
	n := e.next.Load()
	for i := range min(n, explainKept) {
		if r := e.slots[(n-1-i)%explainKept].Load(); r != nil && !f(r) {
			return
		}
	}
}

// find looks up the newest record of the router's own name for it; nil: it isn't kept.
func (e *explanations) find(id string) (found *Record) {
	e.newest(func(r *Record) bool {
		if r.ID == id {
			found = r
		}
		return found == nil
	})
	return found
}

// oldest is the oldest record that is kept; nil: there is none.
func (e *explanations) oldest() *Record {
	n := e.next.Load()
	if n <= explainKept {
		return e.slots[0].Load()
	}
	return e.slots[n%explainKept].Load()
}
