package ratelimit

// Reason says why a decision fell as it did, in a word that does not change.
type Reason string

// The reasons of decisions.
const (
	// ReasonNone: allowed.
	ReasonNone Reason = ""
	// ReasonOver: a limit lacks the units now; it will have them after RetryAfterMs.
	ReasonOver Reason = "over_limit"
	// ReasonTooLarge: the cost is above the burst, so that no wait will ever do.
	ReasonTooLarge Reason = "exceeds_burst"
	// ReasonClosed: the authority is away, and the limit's policy is to admit nothing then.
	ReasonClosed Reason = "quota_store_away"
)

// Standing is how one limit of a path stood after the decision.
type Standing struct {
	// Limit is the zero Limit when no limit of the sort is on the path.
	Limit Limit
	// Cost is what the request asked of it.
	Cost int64
	// Remaining units, below 0 in debt. An estimate: others draw on the same limit.
	Remaining int64
	// ResetMs until all of the burst is there, rounded up, if nobody draws on it.
	ResetMs int64
}

// Decision is the answer to a request for the units of a path.
type Decision struct {
	Allowed bool
	// Reason why not; ReasonNone when allowed.
	Reason Reason
	// Tightest is the index in the path of the limit that refused (of several, the one that takes
	// longest), or when allowed of the one with the smallest part of its burst left. -1: the path
	// is empty.
	Tightest int
	// Remaining and ResetMs of the tightest limit, as in Standing.
	Remaining int64
	ResetMs   int64
	// RetryAfterMs until a repetition may pass, rounded up; 0 when allowed, or when none ever will
	// (ReasonTooLarge).
	RetryAfterMs int64
	// Degraded tells that the authority was not asked.
	Degraded bool
	// Limit and Cost of the tightest limit.
	Limit Limit
	Cost  int64
	// Requests and Tokens are the tightest limit of each sort on the path, of requests and tokens in a time.
	Requests Standing
	Tokens   Standing
	// Slots is the tightest limit of requests at the same time; its ResetMs is 0.
	Slots Standing
}
