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
	// Body goes as it is, and may be sent more than once until content came: in Commit the caller may
	// forget it, here too.
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
	// Stall bounds the silence after that, between two events of a stream, comments not counted, or
	// between two reads of an answer that is not streamed. The time that the client takes for what
	// it gets does not count. 0: one minute.
	Stall time.Duration
	// Transport sends it, for places that want a certificate of their own. Nil: the relay's.
	Transport http.RoundTripper
	// Sign puts the credential of the place on the request, last of all, when everything else of it
	// stands; the second argument is the body. It may not change the URL. Nil: there is none.
	Sign func(*http.Request, []byte) error
	// Claim is asked once, when content is there and before anything is written: false says that
	// another attempt answers this client, and ends this one. See [Race]. Nil: always true.
	Claim func() bool
	// Commit is called once content came, and may set headers of the answer, just before they are
	// sent; served is where a peer says that it comes from. Nil: nothing to add. It is not called
	// where an answer is resumed: its header has been sent.
	Commit func(answer http.Header, served Place)
	// Keep remembers what is needed to continue a stream of a chat completion or completion
	// elsewhere, should it break; see [Result.Interrupted].
	Keep bool
	// Passed is asked when a stream has come to more than Reserve output tokens, with how many it has, of
	// all parts of the answer: as its place counts them on the way, or one for each event that has
	// content, which is what they are at the least. It says up to how many the stream may go on before it
	// is asked again, or with what error it is cut off, see [Result.Cut]. It is called between two events,
	// by one attempt of a [Race] only, and should take no longer than a sum. Nil: nobody counts.
	Passed  func(tokens int64) (reserve int64, cut *Error)
	Reserve int64
	// Named: clients of the API tell events by their names, so that the error event that ends a stream
	// must have one.
	Named bool
	// Resume continues an answer of which the client has a part. Nil: it is a new one.
	Resume *Partial

	// live ends the attempt; nil before it began, and once it is committed or has been ended.
	live atomic.Pointer[context.CancelCauseFunc]
	race *Race // nil: it is in none
}

// Abandon ends an attempt under way that has no content yet, because its place has been found dead
// by other means; it may then be tried elsewhere. Once content came it does nothing.
func (a *Attempt) Abandon() { a.end(errAbandoned) }

// end ends an attempt under way that has no content yet. False: it has content, or is over.
func (a *Attempt) end(why error) bool {
	end := a.live.Swap(nil)
	if end == nil {
		return false
	}
	(*end)(why)
	return true
}
