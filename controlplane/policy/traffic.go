package policy

import (
	"cmp"
	"strings"
	"time"

	"anabranch/failover/brownout"
)

// TrafficPolicySpec is a rule for some traffic: which requests it speaks of, where and as what they
// go, and the objectives of their traffic class. The first policy that speaks of a request counts,
// and no other: those of higher priority first, then those with a match, then those that name models,
// then by name.
type TrafficPolicySpec struct {
	// Class is the traffic class of the requests. Default: the policy's own name where it has a
	// match, rewrite or split, else "interactive". One policy of a class speaks of a model; what else
	// is asked for in the class obeys the objectives of the policy that does.
	Class string `json:"class,omitempty"`
	// Models are the base models that it speaks of, as clients ask for them. Empty: all.
	Models []string `json:"models,omitempty"`
	// Priority is the order of trying, higher first, from -1,000,000 to 1,000,000.
	Priority int `json:"priority,omitempty"`
	// Match narrows it to requests that any of these fits. Empty: all.
	Match []MatchSpec `json:"match,omitempty"`
	// Rewrite asks for another model instead. Nil: as asked.
	Rewrite *RewriteSpec `json:"rewrite,omitempty"`
	// Clusters are the only ones to use. Empty: any.
	Clusters []string `json:"clusters,omitempty"`
	// Residency lists zones or regions where the requests may be served, out of those that their
	// tenant's residency allows. Empty: as the tenant's.
	Residency []string `json:"residency,omitempty"`
	// Split sends parts of the requests to different models or clusters, a conversation always the
	// same way. Empty: all go one way.
	Split []ArmSpec `json:"split,omitempty"`
	// Shadow sends copies of some requests elsewhere and drops the answers. Nil: none.
	Shadow *ShadowSpec `json:"shadow,omitempty"`
	// Regions holds per-region wishes; regions not named have weight 1.
	Regions []RegionWish `json:"regions,omitempty"`
	// TTFTObjectiveMs is the first-token objective in ms, default 2,000.
	TTFTObjectiveMs float64 `json:"ttftObjectiveMs,omitempty"`
	// Objective says CostPreference in words: latency-first (0), latency-leaning (0.25), balanced (0.5),
	// cost-leaning (0.75) or cost-first (1). Empty: as CostPreference says.
	Objective string `json:"objective,omitempty"`
	// CostPreference from 0 (latency only) to 1 (cheapest place within the objective).
	CostPreference float64 `json:"costPreference,omitempty"`
	// MaxPremium bounds what is paid for being served elsewhere than at the nearest or the cheapest place.
	// Nil: costs and congestion decide.
	MaxPremium *PremiumSpec `json:"maxPremium,omitempty"`
	// Spill is "allowed" (default), or "never": a region's traffic stays while it is alive.
	Spill string `json:"spill,omitempty"`
	// Survive is the loss for which there are to be replicas enough, by the advice on capacity: none (default),
	// cluster (any one of them) or region (any one, with all its clusters). It moves no traffic.
	Survive string `json:"survive,omitempty"`
	// PickMode is predicted-ttft (default), round-robin, random, least-outstanding or prefix-hash.
	PickMode string `json:"pickMode,omitempty"`
	// PrefixLength of pick mode prefix-hash: characters of message text that make up the key, 1,024
	// to 65,536, default 4,096.
	PrefixLength int `json:"prefixLength,omitempty"`
	// ConcurrencyThreshold of pick mode prefix-hash: requests in flight at an endpoint from which on
	// it spills to the next, 1 to 1,024, default 32.
	ConcurrencyThreshold int `json:"concurrencyThreshold,omitempty"`
	// RequestTimeoutMs bounds a whole request, default 600,000.
	RequestTimeoutMs int64 `json:"requestTimeoutMs,omitempty"`
	// FirstByteFloorMs: silence before the first content is never judged sooner, default 5,000.
	FirstByteFloorMs int64 `json:"firstByteFloorMs,omitempty"`
	// FirstByteDeadlineMs: nor is it ever judged later, default 60,000, or the floor if that is
	// longer.
	FirstByteDeadlineMs int64 `json:"firstByteDeadlineMs,omitempty"`
	// StallMs bounds the silence between tokens. 0: as learned, between 10,000 and 60,000.
	StallMs int64 `json:"stallMs,omitempty"`
	// QueueMs is how long a request may wait for room when every place is full, default 10,000. -1:
	// it never waits.
	QueueMs int64 `json:"queueMs,omitempty"`
	// Hedge sends a second copy of a request when the first place is late. Nil: never.
	Hedge *HedgeSpec `json:"hedge,omitempty"`
	// Brownout is what routers give up, step by step, while capacity for a model is short. Of the policies for a model
	// that of the default class holds. Nil: the defaults.
	Brownout *BrownoutSpec `json:"brownout,omitempty"`
	// Rescue continues a stream that breaks elsewhere, from the text already sent, where the model
	// servers can.
	Rescue   bool          `json:"rescue,omitempty"`
	Failover *FailoverSpec `json:"failover,omitempty"`
}

// MatchSpec fits a request when all that it says fits; it says something.
type MatchSpec struct {
	// Tenants: any of these.
	Tenants []string `json:"tenants,omitempty"`
	// Paths: any of these; one that ends in "*" is a prefix.
	Paths []string `json:"paths,omitempty"`
	// Headers: all of these.
	Headers []HeaderSpec `json:"headers,omitempty"`
}

// HeaderSpec wants a header of the request.
type HeaderSpec struct {
	// Name, in any case of letters. Not of a header that carries a secret.
	Name string `json:"name"`
	// Value of types exact and prefix; case counts.
	Value string `json:"value,omitempty"`
	// Type is exact (default), prefix or present.
	Type string `json:"type,omitempty"`
}

// RewriteSpec asks for another model than the client did.
type RewriteSpec struct {
	// Model is a base model or an adapter.
	Model string `json:"model"`
}

// ArmSpec is one way of a split.
type ArmSpec struct {
	Name string `json:"name"`
	// Weight is the arm's part of the sum of weights, >= 0.
	Weight float64 `json:"weight"`
	// Model is a base model or an adapter to ask for. Empty: as the policy says.
	Model string `json:"model,omitempty"`
	// Clusters are the only ones to use, out of the policy's. Empty: as the policy says.
	Clusters []string `json:"clusters,omitempty"`
}

// ShadowSpec sends copies whose answers are dropped and whose cost is counted apart.
type ShadowSpec struct {
	// Percent of the requests that are copied, > 0 to 100.
	Percent float64 `json:"percent"`
	// Model is a base model or an adapter to ask for. Empty: the request's own.
	Model string `json:"model,omitempty"`
	// Clusters are the only ones to use. Empty: any that the request may go to.
	Clusters []string `json:"clusters,omitempty"`
}

// HedgeSpec bounds second copies of requests whose first place is late.
type HedgeSpec struct {
	// Enabled, default true.
	Enabled *bool `json:"enabled,omitempty"`
	// MaxSharePercent of requests that may have a second copy, default 2.
	MaxSharePercent float64 `json:"maxSharePercent,omitempty"`
	// MaxSaturation of the place that the copy goes to, 0..1, default 0.7.
	MaxSaturation float64 `json:"maxSaturation,omitempty"`
	// AfterMs of silence the copy goes. 0: the 95th percentile of first-token times as learned.
	AfterMs int64 `json:"afterMs,omitempty"`
}

// BrownoutSpec says when routers give up what while capacity is short. Zero values take the defaults given.
type BrownoutSpec struct {
	// Enabled, default true.
	Enabled *bool `json:"enabled,omitempty"`
	// EnterAt is the saturation of the least full place from which on capacity is short, default 0.9.
	EnterAt float64 `json:"enterAt,omitempty"`
	// LeaveAt is the saturation below which it is no more, less than EnterAt, default 0.8.
	LeaveAt float64 `json:"leaveAt,omitempty"`
	// EnterMs that a shortage lasts for each step up, default 5,000.
	EnterMs int64 `json:"enterMs,omitempty"`
	// LeaveMs without a shortage for each step down, no less than EnterMs, default 30,000.
	LeaveMs int64 `json:"leaveMs,omitempty"`
	// BatchCeiling is the saturation from which on batch requests wait once they are held back, up to 0.6, default 0.3.
	BatchCeiling float64 `json:"batchCeiling,omitempty"`
	// BatchTokens is the most that an answer to a batch request has once these are cut short, default 512.
	BatchTokens int64 `json:"batchTokens,omitempty"`
	// FloorPercent of all that is let in that best-effort tenants keep together, default 10.
	FloorPercent float64 `json:"floorPercent,omitempty"`
	// Weights of tenants in fair shares, > 0; one that is not named has 1.
	Weights map[string]float64 `json:"weights,omitempty"`
}

// RegionWish weighs one region.
type RegionWish struct {
	Region string `json:"region"`
	// Weight multiplies what the planner would give, >= 0; nil is 1, 0 sends nothing there.
	Weight *float64 `json:"weight,omitempty"`
	// MaxShare caps the region's share of the class, 0..1; nil is 1.
	MaxShare *float64 `json:"maxShare,omitempty"`
	// MinShare is what the region gets of the class at least, 0..1, as far as it is alive and has room.
	MinShare float64 `json:"minShare,omitempty"`
}

// PremiumSpec bounds what a cluster may cost more than another one. Clusters that cost more get nothing, and no
// overflow either, while a cluster in full use is alive that does not: what these can't do is shed.
type PremiumSpec struct {
	// LatencyMs is by how much a cluster may be further than the nearest one, as round trips go. Nil: by any.
	LatencyMs *float64 `json:"latencyMs,omitempty"`
	// USDPerMTok is by how much a million tokens of work may be dearer than at the cheapest cluster that is near
	// enough; what is paid anyway costs nothing. Nil: by any.
	USDPerMTok *float64 `json:"usdPerMTok,omitempty"`
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
	// SilenceMs after which a router that has not reported is no witness, 1,000 to 30,000, default 5,000.
	SilenceMs int64 `json:"silenceMs,omitempty"`
	// GreyConfirmMs that failing in part must last before a failover, default 15,000.
	GreyConfirmMs int64 `json:"greyConfirmMs,omitempty"`
	// GreyStepMs between two quarters in which a place that fails in part is left, default 2,000.
	GreyStepMs int64 `json:"greyStepMs,omitempty"`
	// ClearMs that a suspect must be good, with less than FailureShare of its requests failing; 15,000, 0.05.
	ClearMs      int64   `json:"clearMs,omitempty"`
	FailureShare float64 `json:"failureShare,omitempty"`
	// GreyShare of at least GreyRequests requests that makes a place fail in part; 0.2, 20.
	GreyShare    float64 `json:"greyShare,omitempty"`
	GreyRequests int     `json:"greyRequests,omitempty"`
	// Full is the saturation that degrades for FullMs, and Ease the one below which EaseMs end that; 0.85, 15,000, 0.7, 60,000.
	Full   float64 `json:"full,omitempty"`
	FullMs int64   `json:"fullMs,omitempty"`
	Ease   float64 `json:"ease,omitempty"`
	EaseMs int64   `json:"easeMs,omitempty"`
	// TTFTFactor times the objective degrades too, default 1.5.
	TTFTFactor float64 `json:"ttftFactor,omitempty"`
	// QuietMs for which at most QuietShare of new requests may come until an evacuation is done; 3,000, 0.01.
	QuietMs    int64   `json:"quietMs,omitempty"`
	QuietShare float64 `json:"quietShare,omitempty"`
	// RecoveryMaxMs bounds what RecoveryMs doubles to with each relapse within RelapseMemoryMs; 3,600,000, 21,600,000.
	RecoveryMaxMs   int64 `json:"recoveryMaxMs,omitempty"`
	RelapseMemoryMs int64 `json:"relapseMemoryMs,omitempty"`
	// AutoReturnMs after which an operator must restore what was away, default 1,800,000.
	AutoReturnMs int64 `json:"autoReturnMs,omitempty"`
	// RampSteps are shares of a place's weight, rising to 1, default 0.01, 0.05, 0.1, 0.25, 0.5, 1.
	RampSteps []float64 `json:"rampSteps,omitempty"`
	// RampBackMs that a step back holds, default twice RampStepMs.
	RampBackMs int64 `json:"rampBackMs,omitempty"`
	// CorrelatedMs within which two regions, or more than CorrelatedShare of capacity, turning bad freeze weights for FreezeMs; 10,000, 0.5, 60,000.
	CorrelatedMs    int64   `json:"correlatedMs,omitempty"`
	CorrelatedShare float64 `json:"correlatedShare,omitempty"`
	FreezeMs        int64   `json:"freezeMs,omitempty"`
	// PaceMs between two moves of a region by evidence, default 60,000.
	PaceMs int64 `json:"paceMs,omitempty"`
	// LockMs after an operator's change in which evidence moves nothing there, default 5,000.
	LockMs int64 `json:"lockMs,omitempty"`
	// ReadyShare of endpoints that must be usable for a return, default 0.5.
	ReadyShare float64 `json:"readyShare,omitempty"`
	// SkewMs by which clocks there must be off by less, default 500.
	SkewMs int64 `json:"skewMs,omitempty"`
}

// steers says whether the policy's requests can't be told from others by the model that is asked for.
func (s *TrafficPolicySpec) steers() bool {
	return len(s.Match) > 0 || s.Rewrite != nil || len(s.Split) > 0
}

// On says whether hedging is wanted; of nil it is not.
func (h *HedgeSpec) On() bool { return h != nil && (h.Enabled == nil || *h.Enabled) }

// Config are the numbers as the ladder takes them; of nil the defaults.
func (b *BrownoutSpec) Config() brownout.Config {
	if b == nil {
		return brownout.Config{}.WithDefaults()
	}
	return brownout.Config{
		Off: b.Enabled != nil && !*b.Enabled, EnterAt: b.EnterAt, LeaveAt: b.LeaveAt,
		Enter: time.Duration(b.EnterMs) * time.Millisecond, Leave: time.Duration(b.LeaveMs) * time.Millisecond,
		BatchCeiling: b.BatchCeiling, BatchTokens: b.BatchTokens, Floor: b.FloorPercent / 100,
	}.WithDefaults()
}

// Wanted are the base models and adapters that the policy can turn a request for a base model into,
// shadows left out, in no order and perhaps twice.
func (s *TrafficPolicySpec) Wanted(model string) []string {
	if s.Rewrite != nil {
		model = s.Rewrite.Model
	}
	if len(s.Split) == 0 {
		return []string{model}
	}
	var out []string
	for _, a := range s.Split {
		out = append(out, cmp.Or(a.Model, model))
	}
	return out
}

// CompareTraffic orders two TrafficPolicies as they are tried: negative when a comes first. Resources
// of other kinds have no order.
func CompareTraffic(a, b *Resource) int {
	x, ok := a.Spec.(*TrafficPolicySpec)
	y, also := b.Spec.(*TrafficPolicySpec)
	if !ok || !also {
		return 0
	}
	return cmp.Or(
		cmp.Compare(y.Priority, x.Priority),
		cmp.Compare(breadth(x), breadth(y)),
		strings.Compare(a.Metadata.Name, b.Metadata.Name),
	)
}

// breadth ranks policies of equal priority: the more particular comes first.
func breadth(s *TrafficPolicySpec) int {
	switch {
	case len(s.Match) > 0:
		return 0
	case len(s.Models) > 0:
		return 1
	}
	return 2
}
