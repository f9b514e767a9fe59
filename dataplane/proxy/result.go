package proxy

import (
	"time"

	"anabranch/dataplane/inference"
	"anabranch/failover"
)

// Result is how an attempt went.
type Result struct {
	// Outcome is what it says about the place. It counts faults of the server only: what the
	// client did, or a place that has no room, is [failover.Ignored].
	Outcome failover.Outcome
	// Committed: the client has been answered, wholly or in part; nothing may be written any
	// more, but by another attempt that resumes the answer. Otherwise nothing has been.
	Committed bool
	// Broken: committed, but the answer is not whole. The connection must be aborted, or the
	// client would take it for whole.
	Broken bool
	// Cut: broken by [Attempt.Passed], whose error the stream ended with.
	Cut bool
	// Interrupted: broken by the place, and can be continued elsewhere. No error event has been
	// written yet: the caller makes another attempt with Resume set to Partial, or calls
	// [Relay.BreakOff]. Of an attempt that resumes, it also says so of failures before content.
	Interrupted bool
	// Partial is what the client has of an answer that was interrupted. Nil otherwise.
	Partial *Partial
	// Lost: another attempt answers the client. Nothing has been written by this one.
	Lost bool
	// Retryable: not committed, and another place may do better.
	Retryable bool
	// Exempt: failed before the place can have done much work (connect error or reset), or
	// abandoned. What follows is no sign of a storm of retries.
	Exempt bool
	// ClientGone: the client left, or takes nothing of its answer.
	ClientGone bool
	// Err is what to answer, or what the broken stream ended with. Nil: the answer is whole, or
	// the client left.
	Err *Error
	// Cause is the error beneath, for logs. Nil: none.
	Cause error
	// Status is what the place answered. 0: it did not.
	Status int
	// Usage is of the answer, as places told it; HasUsage says that one did. An answer that was
	// resumed has the prompt of its first part, and the output of all.
	Usage    inference.Usage
	HasUsage bool
	// Events counts content events of the answer, all parts of it, an estimate of output tokens
	// where no usage came.
	Events int64
	// Text is how long an answer that was not streamed was by its text, in bytes: of JSON what stands in
	// strings that are no names, of what can't be looked at all that came. 0: it is neither JSON nor
	// text, or held, and told its usage.
	Text int64
	// Received is how many bytes of an answer's body came, as far as they were looked at; those of refusals
	// are not.
	Received int64
	// FirstByte is the time from sending to the first content byte, 0 if none came; InterToken
	// the mean between content events after it, 0 if fewer than two came.
	FirstByte, InterToken time.Duration
	// Reconnected: the place had closed the kept connection that it was first sent on, and it was sent
	// once more on a fresh one. All else is of that.
	Reconnected bool
	// Served names the place that a peer chose; empty unless the attempt went to a peer.
	Served Place
	// RateLimit is what the place says is left of its own limits.
	RateLimit inference.RateLimit

	// Of an attempt that continued an answer: the tokens that were there before, and what its place
	// told of its own part.
	before int64
	own    inference.Usage
}

// Own is what the place of this attempt did: the usage that it told, if any, and the content events
// that it sent. For an answer that was not resumed it is Usage and Events.
func (r *Result) Own() (inference.Usage, int64) {
	if r.before == 0 {
		return r.Usage, r.Events
	}
	return r.own, r.Events - r.before
}

// Place is where a peer sent a request.
type Place struct {
	Region, Cluster, Endpoint string
	// Attempts that the peer made. 0: it did not say.
	Attempts int
	// Saturation is load over capacity of the cluster that it was asked for. HasSaturation: it said.
	Saturation    float64
	HasSaturation bool
}
