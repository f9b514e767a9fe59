package replay

import (
	"time"

	"anabranch/api/fleet"
	"anabranch/sim/workload"
)

// Codes of failures that a target's answer does not name.
const (
	CodeConnect   = "connect"   // no connection, or it broke before an answer began
	CodeTimeout   = "timeout"   // Options.Timeout is over
	CodeCanceled  = "canceled"  // the replay was stopped
	CodeBroken    = "broken"    // the stream ended before its end
	CodeMalformed = "malformed" // the answer is no stream of the API
)

// Record is what became of one request. Times are since the start of the replay, in real time.
type Record struct {
	// Request without its blocks.
	Request workload.Request
	// Due is when it should have been sent, Request.At divided by the speed-up: latencies count from
	// here. Sent is when it was.
	Due, Sent time.Duration
	// First is when the first content came, Last when the last did, and Ended when all was over. First
	// and Last are 0 if no content came.
	First, Last, Ended time.Duration
	// MaxGap is the longest time between two pieces of content.
	MaxGap time.Duration
	// OutputTokens are what the target counted or, where it did not, pieces of content. PromptTokens and
	// CachedTokens are its count; 0: it told none.
	OutputTokens, PromptTokens, CachedTokens int
	// Status of HTTP. 0: no answer.
	Status int
	// Code is empty for a whole answer; else one of the constants, or the target's own error code.
	Code string
	// Where it was served, and in how many attempts, as Anabranch's routers tell. Empty or 0: unknown.
	Cluster  fleet.ClusterID
	Endpoint fleet.EndpointID
	Region   fleet.RegionID
	Attempts int
}

// OK says that it was answered whole.
func (r *Record) OK() bool { return r.Code == "" }

// FirstToken is the time to the first token from when the request was due; 0: none came.
func (r *Record) FirstToken() time.Duration {
	if r.First == 0 {
		return 0
	}
	return r.First - r.Due
}

// PerToken is the mean time between tokens after the first; 0 for fewer than two.
func (r *Record) PerToken() time.Duration {
	if r.OutputTokens < 2 || r.Last <= r.First {
		return 0
	}
	return (r.Last - r.First) / time.Duration(r.OutputTokens-1)
}

// Summary is how well the replay kept time.
type Summary struct {
	// Sent requests, of which OK were answered whole.
	Sent, OK int
	// Span is from the start to the last answer.
	Span time.Duration
	// MostInFlight is the most requests on their way at once. Held is how many had to wait because
	// Options.InFlight were: if there are any, the load was not the workload's.
	MostInFlight, Held int
	// Late is how many were sent more than [LateBy] after they were due; MeanLate and MaxLate are of all.
	Late              int
	MeanLate, MaxLate time.Duration
}

// LateBy is the lateness above which a request counts as late.
const LateBy = 10 * time.Millisecond

// add counts a record.
func (s *Summary) add(r *Record) {
	s.Sent++
	if r.OK() {
		s.OK++
	}
	s.Span = max(s.Span, r.Ended)
	late := r.Sent - r.Due
	s.MaxLate = max(s.MaxLate, late)
	if late > LateBy {
		s.Late++
	}
}
