package proxy

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// closedWithin is how soon a place's end of a kept connection shows that it had closed it before the
// request came: some round trips. What breaks later breaks because of the request, or with it.
const closedWithin = time.Second

// connection is what is known of the connection that an attempt is sent on.
type connection struct {
	trace httptrace.ClientTrace
	kept  atomic.Bool // it has been used before
	heard atomic.Bool // something of an answer came on it
}

// watched is ctx with hooks that note it.
func (c *connection) watched(ctx context.Context) context.Context {
	c.trace.GotConn = func(info httptrace.GotConnInfo) { c.kept.Store(info.Reused) }
	c.trace.GotFirstResponseByte = func() { c.heard.Store(true) }
	return httptrace.WithClientTrace(ctx, &c.trace)
}

// send sends the attempt. A place may close a connection that was kept for it just when the request is
// on its way, and there may be no other place: the request is then sent there once more, on a
// connection that is not kept. The transport does that by itself only for methods that may be
// repeated (RFC 9110, section 9.2.2), or where nothing was written; what is asked of a model may be
// asked again, and at the worst it has begun on it. Peers are spoken to over HTTP/2, which says of
// each stream whether it was taken.
func (x *exchange) send(ctx context.Context, request *http.Request) (*http.Response, error) {
	transport := x.relay.transport(x.a)
	if x.a.Peer {
		return transport.RoundTrip(request)
	}
	answer, err := transport.RoundTrip(request)
	if err == nil || !x.conn.kept.Load() || x.conn.heard.Load() || ctx.Err() != nil || time.Since(x.start) > closedWithin {
		return answer, err
	}
	again := request.WithContext(ctx)
	if request.GetBody != nil {
		again.Body = sending(x.a.Body)
	}
	x.result.Reconnected = true
	return unkept(transport).RoundTrip(again)
}

// unkept sends by connections of its own, one for each request.
func unkept(transport http.RoundTripper) http.RoundTripper {
	t, ok := transport.(*http.Transport)
	if !ok {
		return transport
	}
	t = t.Clone()
	t.DisableKeepAlives = true
	return t
}
