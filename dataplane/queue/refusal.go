package queue

import (
	"net/http"
	"time"
)

// HeaderDropped marks an answer that no tier retries, as llm-d's router does; its value is
// [Refusal.Dropped].
const HeaderDropped = "X-Llm-D-Request-Dropped-Reason"

// Codes of a refusal, for programs.
const (
	CodeQueueFull  = "queue_full"  // 429: there is no place to wait in
	CodeShed       = "shed"        // 429: others went before it
	CodeBrownOut   = "brownout"    // 429: it is held back while capacity is short
	CodeNoCapacity = "no_capacity" // 503: nowhere was room
	CodeClientGone = "client_gone" // 499, for the log: nobody is there to be answered
)

// Bounds of Retry-After.
const (
	minRetryAfter = time.Second
	maxRetryAfter = time.Minute
)

// statusGone is 499, as nginx calls a request whose client left.
const statusGone = 499

// Refusal is why a request was not let in, and what to answer.
type Refusal struct {
	// Status is 429 where there is capacity and others have a better claim to it, 503 where there is
	// none, 499 where nobody is left to be answered.
	Status int
	// Code is one of the codes above, Cause tells more exactly.
	Code  string
	Cause Cause
	// Reason is for people.
	Reason string
	// RetryAfter is when the queue expects to have served what waits now and this request, within
	// 1 s and 60 s; up to a tenth later, so that those refused together don't come back together. 0:
	// there is nobody to be told.
	RetryAfter time.Duration
	// Waited is how long it stood in the queue, and Ahead how many of its priority or above stood
	// before it in its lane when it came.
	Waited time.Duration
	Ahead  int
	// Full is what room told when it came. 0 where that was not asked: an order was in its way.
	Full float64
}

// Final says that no tier may try the request again in the client's name: here it was weighed
// against the requests of others, or has waited. Another router may still take one that this router
// could not even let wait because all was full, and any that it turns away because it is ending.
func (r *Refusal) Final() bool {
	return r.Cause != Closed && (r.Status == http.StatusTooManyRequests || r.Waited > 0)
}

// Dropped is the value of [HeaderDropped], in the words that llm-d's router has for it.
func (r *Refusal) Dropped() string {
	switch {
	case r.Cause == ClientGone:
		return "rejected-context-cancelled"
	case r.Cause == Closed:
		return "rejected-shutting-down"
	case (r.Cause == Saturated || r.Cause == OverCeiling) && r.Waited > 0:
		return "rejected-ttl-expired"
	}
	return "rejected-saturated"
}

// wording is what a cause is answered with.
type wording struct {
	status       int
	code, reason string
}

var wordings = map[Cause]wording{
	TenantShare: {http.StatusTooManyRequests, CodeQueueFull, "All places are busy, and the tenant has as many requests waiting as one tenant may."},
	QueueFull:   {http.StatusTooManyRequests, CodeQueueFull, "All places are busy, and the queue is full of requests of the same priority or a higher one."},
	Displaced:   {http.StatusTooManyRequests, CodeShed, "The queue was full, and a request of higher priority took this one's place in it."},
	Unfair:      {http.StatusTooManyRequests, CodeShed, "The queue was full, and this one's place in it went to a tenant that had less there."},
	Ordered:     {http.StatusTooManyRequests, CodeShed, "An operator has ordered that requests of this priority be shed."},
	Planned:     {http.StatusTooManyRequests, CodeShed, "All regions that may serve this request are full, and what room there is goes to those of higher priority, or to others of the same."},
	HeldBack:    {http.StatusTooManyRequests, CodeBrownOut, "Capacity is short, and batch requests are held back meanwhile; there was no room for this one for as long as it could wait."},
	OverShare:   {http.StatusTooManyRequests, CodeBrownOut, "Capacity is short, and the tenant has had its part of what there is."},
	OverCeiling: {http.StatusTooManyRequests, CodeShed, "What room there was for as long as the request could wait went to others, or is kept for higher priorities."},
	Saturated:   {http.StatusServiceUnavailable, CodeNoCapacity, "No place that may serve this request had room for as long as it could wait."},
	Closed:      {http.StatusServiceUnavailable, CodeNoCapacity, "This router is ending, and lets no request wait."},
	ClientGone:  {statusGone, CodeClientGone, "The client left while its request waited."},
}

// plannedAfter is when it makes sense to come back after a refusal by plan: what the plan goes by is an average
// over so long, and sooner it will hardly have changed.
const plannedAfter = 15 * time.Second

// overAfter is when it makes sense to come back after a part has been had: shares go by what was asked for lately.
const overAfter = 5 * time.Second

// outOfTime is the cause where a request can wait no longer and the places are so full.
func outOfTime(saturation float64) Cause {
	if saturation < 1 {
		return OverCeiling
	}
	return Saturated // also where it is not known
}

// outOfTime is the cause where the one that waits can do so no longer.
func (w *waiter) outOfTime(saturation float64) Cause {
	if w.held {
		return HeldBack
	}
	return outOfTime(saturation)
}

// refusal words a cause. The estimate is the queue's own of when there will be room; stretch is a
// random number in [0, 1).
func refusal(cause Cause, estimate time.Duration, stretch float64) *Refusal {
	w := wordings[cause]
	r := &Refusal{Status: w.status, Code: w.code, Cause: cause, Reason: w.reason}
	if cause != ClientGone {
		after := max(estimate, minRetryAfter)
		r.RetryAfter = min(after+time.Duration(float64(after)*stretch/10), maxRetryAfter)
	}
	return r
}
