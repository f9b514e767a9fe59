package drill

import (
	"encoding/json"

	"anabranch/api/fleet"
)

// ReportVersion is what Report.Version is today. Fields are added without raising it.
const ReportVersion = 1

// Report is the evidence of one drill: what was approved by whom, what happened each second, how long the
// fleet took, what became of requests, and where the simulation was wrong. It is made once, when the drill
// is over, by [NewReport], kept as the bytes of [Encode], and names the report before it, so that nobody
// takes one out of the row unseen.
type Report struct {
	Version int `json:"version"`
	// ClusterID is of the control plane.
	ClusterID string `json:"clusterId"`
	Facts
	// PreviousSHA256 is of the report of the drill that ended before, in hex; empty: there was none.
	PreviousSHA256 string `json:"previousSha256,omitempty"`
	// Recovery is how long traffic took to leave.
	Recovery Recovery `json:"recovery"`
	// Before is of the baseline, During of all from the first shift to the last request back, After of the
	// verification. Of one that there was not, Seconds is 0.
	Before Phase `json:"before"`
	During Phase `json:"during"`
	After  Phase `json:"after"`
	// Survivors are the clusters that stayed, the most loaded first.
	Survivors []SurvivorReport `json:"survivors,omitempty"`
	Streams   StreamsReport    `json:"streams"`
	Money     MoneyReport      `json:"money"`
	// Forecast is the dry run that was approved; nil: there was none.
	Forecast *Forecast `json:"forecast,omitempty"`
	// Wrong says where the forecast was off, the worst first; empty: nowhere by much, or there was none.
	Wrong []Deviation `json:"wrong,omitempty"`
	// Aborts are the signals that ended it before its time.
	Aborts []Happening `json:"aborts,omitempty"`
	// Events are all that was noted, oldest first.
	Events []Happening `json:"events,omitempty"`
	// Timeline is the drill by the second.
	Timeline Timeline `json:"timeline"`
	// Earlier are runs of the same plan, the last first.
	Earlier []Head `json:"earlier,omitempty"`
}

// Facts are what is known of a drill besides its samples.
type Facts struct {
	ID uint64 `json:"id"`
	// Plan is the name of the DrillPlan; empty: it was given with the drill. Of it, PlanRevision.
	Plan         string `json:"plan,omitempty"`
	PlanRevision uint64 `json:"planRevision,omitempty"`
	// PlanSHA256 is of what was approved, in hex.
	PlanSHA256 string `json:"planSha256,omitempty"`
	Kind       Kind   `json:"kind"`
	// Spec is the plan as it was run, with its defaults, and Resolved what its names stood for.
	Spec     json.RawMessage `json:"spec,omitempty"`
	Resolved Resolved        `json:"resolved"`
	// Creator made the drill, Approvals let it begin. Broken is set of one that did not wait for them.
	Creator   string           `json:"creator"`
	Approvals []ApprovalReport `json:"approvals,omitempty"`
	Broken    *GlassReport     `json:"brokenGlass,omitempty"`
	Outcome   Outcome          `json:"outcome"`
	// Cause names the signal, rule or order behind the outcome, Reason says it to people.
	Cause  string `json:"cause,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Unix ms; StartedUnixMs is 0 of one that never began.
	CreatedUnixMs int64 `json:"createdUnixMs"`
	StartedUnixMs int64 `json:"startedUnixMs,omitempty"`
	EndedUnixMs   int64 `json:"endedUnixMs"`
	// TimeScale is of a test's stages; 0 or 1: they were as long as they are.
	TimeScale float64 `json:"timeScale,omitempty"`
}

// ApprovalReport is one person's word for the plan.
type ApprovalReport struct {
	By       string `json:"by"`
	AtUnixMs int64  `json:"atUnixMs"`
	Reason   string `json:"reason,omitempty"`
}

// GlassReport says who began a drill without approval.
type GlassReport struct {
	By       string `json:"by"`
	AtUnixMs int64  `json:"atUnixMs,omitempty"`
	Reason   string `json:"reason"`
}

// Happening is something that was noted while the drill ran.
type Happening struct {
	AtUnixMs int64 `json:"atUnixMs"`
	State    State `json:"state"`
	Step     int   `json:"step,omitempty"`
	// Kind is [OfTransition], [OfDecision], [OfRouter], [OfSignal] or [OfOperator].
	Kind  string `json:"kind"`
	Text  string `json:"text"`
	Actor string `json:"actor,omitempty"`
}

// Kinds of happenings.
const (
	OfTransition = "transition" // the drill's state has changed
	OfDecision   = "decision"   // the control plane took the drilled places out: "decide" of a recovery
	OfRouter     = "router"     // a router took one out by its own evidence: "detect"
	OfSignal     = "signal"     // something went beyond what the plan allows
	OfOperator   = "operator"   // a person said something
)

// Recovery splits the time that traffic took to leave. All are ms since FromUnixMs; nil: it did not happen,
// or can't be told of this kind of drill.
type Recovery struct {
	// FromUnixMs is when the whole of what was to be shifted was ordered away, or treated as dead; 0: never.
	FromUnixMs int64 `json:"fromUnixMs,omitempty"`
	// DetectMs: the first router took a drilled cluster out by what it saw itself. DecideMs: the control
	// plane did. PropagateMs: 99 % of routers obeyed.
	DetectMs    *int64 `json:"detectMs,omitempty"`
	DecideMs    *int64 `json:"decideMs,omitempty"`
	PropagateMs *int64 `json:"propagateMs,omitempty"`
	// HalfMs and NinetyNineMs: that share of what was to leave had left, and stayed away for 3 s. They are as
	// fine as samples are, a second.
	HalfMs       *int64 `json:"halfMs,omitempty"`
	NinetyNineMs *int64 `json:"ninetyNineMs,omitempty"`
}

// Phase is a part of a drill.
type Phase struct {
	FromUnixMs int64 `json:"fromUnixMs,omitempty"`
	ToUnixMs   int64 `json:"toUnixMs,omitempty"`
	// Seconds that were measured.
	Seconds int `json:"seconds"`
	// Tiers, the highest first, and All of them together.
	Tiers []TierReport `json:"tiers,omitempty"`
	All   TierReport   `json:"all"`
	// PrefixHit is the share of prompt tokens that model servers had cached; nil: none told.
	PrefixHit *float64 `json:"prefixHit,omitempty"`
	// Protected tenants' requests, and those of them that a quota refused.
	Protected       int64 `json:"protected,omitempty"`
	ProtectedDenied int64 `json:"protectedDenied,omitempty"`
	// PeakSaturation is the highest of a survivor in any second, PeakCluster which.
	PeakSaturation float64         `json:"peakSaturation,omitempty"`
	PeakCluster    fleet.ClusterID `json:"peakCluster,omitempty"`
}

// TierReport is what became of a tier's requests. All but Total are part of it and of no other.
type TierReport struct {
	Tier  string `json:"tier,omitempty"`
	Total int64  `json:"total"`
	// Retried were answered after more than one attempt, Shed refused for want of room, Limited by a quota,
	// Lost failed without content, Broken ended mid-stream.
	Retried int64 `json:"retried"`
	Shed    int64 `json:"shed"`
	Limited int64 `json:"limited"`
	Lost    int64 `json:"lost"`
	Broken  int64 `json:"broken"`
	// TTFT is of first tokens; nil: there was none.
	TTFT *Quantiles `json:"ttft,omitempty"`
}

// Quantiles of times in ms. They come from buckets that are 19 % wide.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// SurvivorReport compares a cluster that stayed with what was simulated of it. Saturations are load over
// measured capacity.
type SurvivorReport struct {
	Cluster fleet.ClusterID `json:"cluster"`
	// Before is the mean of the baseline, Mean and Peak are of the time of the shift.
	Before float64 `json:"before"`
	Mean   float64 `json:"mean"`
	Peak   float64 `json:"peak"`
	// Simulated is what the dry run said of it; nil: nothing.
	Simulated *float64 `json:"simulated,omitempty"`
}

// StreamsReport is of answers that were being streamed from drilled clusters.
type StreamsReport struct {
	// AtShift were open when all was ordered away, Left when traffic began to come back.
	AtShift int64 `json:"atShift"`
	Left    int64 `json:"left"`
}

// MoneyReport is in micro-dollars.
type MoneyReport struct {
	// Means of each phase, per minute; nil: it was not measured.
	BeforePerMinute *int64 `json:"beforePerMinute,omitempty"`
	DuringPerMinute *int64 `json:"duringPerMinute,omitempty"`
	AfterPerMinute  *int64 `json:"afterPerMinute,omitempty"`
	// Extra is what the time of the shift cost beyond as much time of the baseline; negative: it was cheaper.
	Extra *int64 `json:"extra,omitempty"`
}

// Deviation is where the forecast was off.
type Deviation struct {
	// What was forecast: saturation | ttft | cost, and Of which cluster.
	What string          `json:"what"`
	Of   fleet.ClusterID `json:"of,omitempty"`
	// Simulated and Measured, in the unit of what it is.
	Simulated float64 `json:"simulated"`
	Measured  float64 `json:"measured"`
	// Text says it to people.
	Text string `json:"text"`
}

// Head is what later reports tell of a run.
type Head struct {
	ID          uint64  `json:"id"`
	EndedUnixMs int64   `json:"endedUnixMs"`
	Outcome     Outcome `json:"outcome"`
	Cause       string  `json:"cause,omitempty"`
	// SHA256 is of its report, in hex.
	SHA256 string `json:"sha256"`
	// NinetyNineMs is the time until traffic had left; nil: not known.
	NinetyNineMs *int64 `json:"ninetyNineMs,omitempty"`
	// Total, Lost and Broken requests while it was shifted, and the highest saturation of a survivor.
	Total          int64   `json:"total"`
	Lost           int64   `json:"lost"`
	Broken         int64   `json:"broken"`
	PeakSaturation float64 `json:"peakSaturation"`
	// TopTTFTP95Ms is of the highest tier that had requests; 0: none had.
	TopTTFTP95Ms float64 `json:"topTtftP95Ms,omitempty"`
	// Extra cost in micro-dollars; nil: not known.
	Extra *int64 `json:"extra,omitempty"`
}

// ReportInput is all that a report is made from.
type ReportInput struct {
	ClusterID string
	Facts     Facts
	// PreviousSHA256 is of the report of the drill that ended before, in hex; empty: there was none.
	PreviousSHA256 string
	// Samples and Events, oldest first.
	Samples  []Sample
	Events   []Happening
	Forecast *Forecast
	// Earlier are runs of the same plan in any order; see [Report.Head].
	Earlier []Head
}

// Bounds of a report.
const (
	// MaxReportBytes is how large the compressed JSON of a report becomes: one entry of the replicated log
	// holds it. Timelines that do not fit by the second are told in steps of several.
	MaxReportBytes = 384 << 10
	// MaxReportClusters bounds the clusters with a column of their own.
	MaxReportClusters = 32
	// MaxEarlier runs are compared.
	MaxEarlier = 10
	// maxWrong deviations are told.
	maxWrong = 10
)
