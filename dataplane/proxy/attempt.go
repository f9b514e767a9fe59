// Package proxy relays one attempt of a request to one place, and says how that went. Until the
// first content byte nothing has reached the client, and whatever goes wrong can be tried
// elsewhere; from then on the answer is passed on event by event as it comes, and a stream that
// breaks ends with an error event. It picks no place, keeps no count and logs nothing: that is the
// caller's, who learns everything from the [Result].
package proxy

import (
	"context"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"anabranch/dataplane/inference"
	"anabranch/failover"
)

// Bounds of what is held in memory, per request.
const (
	// MaxBuffered is how much of an answer that is not streamed is held back, so that a truncated
	// one can be tried again. A larger one is passed on from there as it comes.
	MaxBuffered = 10 << 20
	// maxHeld is how much of a stream is held back while no content came. Lifecycle events are
	// some hundred bytes; more than this is content by any name.
	maxHeld = 64 << 10
)

// Field is one header set on the way to the place, its key in canonical form.
type Field struct {
	Key, Value string
}

// Attempt is one try of a request at one place.
type Attempt struct {
	// URL is where it goes, whole.
	URL *url.URL
	// Body goes as it is, and may be sent more than once.
	Body []byte
	// Client is the client's header, only read; what must not go on is left out, see
	// [Outgoing].
	Client http.Header
	// Set is added after that.
	Set []Field
	// Peer sends it to another region's router, over mutual TLS and HTTP/2, whose answer names
	// the place that served and may refuse with a code of ours.
	Peer bool
	// Origin is the layer that answers there. Empty: [FromEndpoint].
	Origin Origin
	// KeepUsage passes on the stream's extra usage event: the client asked for it.
	KeepUsage bool
	// FirstByte bounds the silence until the first content byte, counted from sending. It must be
	// positive.
	FirstByte time.Duration
	// Idle bounds the silence after that, between two reads. 0: one minute.
	Idle time.Duration
	// Commit is called once content came, and may set headers of the answer, just before they are
	// sent; served is where a peer says that it comes from. Nil: nothing to add.
	Commit func(answer http.Header, served Place)

	// abandon ends the attempt; nil before it began and once it is committed.
	abandon atomic.Pointer[context.CancelCauseFunc]
}

// Abandon ends an attempt under way that has no content yet, because its place has been found dead
// by other means; it may then be tried elsewhere. Once content came it does nothing.
func (a *Attempt) Abandon() {
	if end := a.abandon.Swap(nil); end != nil {
		(*end)(errAbandoned)
	}
}

// Result is how an attempt went.
type Result struct {
	// Outcome is what it says about the place.
	Outcome failover.Outcome
	// Committed: the client has been answered, wholly or in part; nothing may be written any
	// more. Otherwise nothing has been.
	Committed bool
	// Broken: committed, but the answer is not whole. The connection must be aborted, or the
	// client would take it for whole.
	Broken bool
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
	// Usage as the place told it; HasUsage says that it did.
	Usage    inference.Usage
	HasUsage bool
	// Events counts content events, an estimate of output tokens where no usage came.
	Events int64
	// FirstByte is the time from sending to the first content byte, 0 if none came; InterToken
	// the mean between content events after it, 0 if fewer than two came.
	FirstByte, InterToken time.Duration
	// Served names the place that a peer chose; empty unless the attempt went to a peer.
	Served Place
}

// Place is where a peer sent a request.
type Place struct {
	Region, Cluster, Endpoint string
	// Attempts that the peer made. 0: it did not say.
	Attempts int
}

// Do makes the attempt and returns when it is over. It returns early when ctx ends, and the place
// is told at once. The answer goes to w once content came.
func (r *Relay) Do(ctx context.Context, w http.ResponseWriter, a *Attempt) Result {
	x := exchange{a: a, w: w, start: time.Now(), parent: ctx}
	ctx, x.cancel = context.WithCancelCause(ctx)
	a.abandon.Store(&x.cancel)
	defer func() {
		a.abandon.Store(nil)
		x.cancel(nil)
	}()
	x.guard = time.AfterFunc(a.FirstByte, func() { x.cancel(errSilent) })
	defer x.guard.Stop()
	x.ctx = ctx

	transport := r.places
	if a.Peer {
		transport = r.peers
	}
	answer, err := transport.RoundTrip(x.request(ctx))
	if err != nil {
		return x.failed(err)
	}
	defer func() { _ = answer.Body.Close() }() // what matters of it has been read
	return x.answered(answer)
}
