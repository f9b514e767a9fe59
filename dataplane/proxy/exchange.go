package proxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"anabranch/failover"
)

var (
	errSilent    = errors.New("no content within the bound")
	errIdle      = errors.New("the stream fell silent")
	errAbandoned = errors.New("the place has been found dead")
	errClient    = errors.New("the client does not take the answer")
)

// How long a client may refuse to take bytes before it counts as gone, and how often the deadline
// that watches it is moved on.
const (
	clientPatience = 60 * time.Second
	patienceStep   = 10 * time.Second
)

// exchange is one attempt under way; its contexts live no longer than the call of Do that it is.
type exchange struct {
	a      *Attempt
	w      http.ResponseWriter
	start  time.Time
	parent context.Context
	ctx    context.Context
	cancel context.CancelCauseFunc
	guard  *time.Timer

	result    Result
	firstAt   time.Time // of the first content
	lastAt    time.Time // of the newest content
	patientTo time.Time // of the write deadline
	control   *http.ResponseController
}

// request builds what is sent.
func (x *exchange) request(ctx context.Context) *http.Request {
	a := x.a
	body := a.Body
	r := &http.Request{
		Method:        http.MethodPost,
		URL:           a.URL,
		Host:          a.URL.Host,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        Outgoing(a.Client, a.Set),
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		// The transport sends again by itself on a kept connection that the place had closed.
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
	}
	if len(body) == 0 { // else the transport would send an empty body in chunks
		r.Body, r.GetBody = http.NoBody, nil
	}
	return r.WithContext(ctx)
}

// failed judges an attempt that ended without an answer, or without a whole one, before content.
func (x *exchange) failed(err error) Result {
	r := &x.result
	r.Cause = err
	why := context.Cause(x.ctx)
	var connect *connectError
	switch {
	case x.parent.Err() != nil:
		// The client left or its deadline passed: neither says anything about the place.
		r.Outcome = failover.Ignored
		if isDeadline(x.parent.Err()) {
			r.Err = timeout("deadline_exceeded", "the request's time is over")
		} else {
			r.ClientGone = true
		}
	case errors.Is(why, errAbandoned), errors.Is(err, errAbandoned):
		r.Outcome, r.Retryable, r.Exempt, r.Cause = failover.Silence, true, true, errAbandoned
		r.Err = timeout("place_ejected", "the place has been found dead")
	case errors.Is(why, errSilent):
		r.Outcome, r.Retryable, r.Cause = failover.Silence, true, errSilent
		r.Err = timeout("first_byte_timeout", "the place sent no content in time")
	case errors.As(err, &connect) || isHandshake(err):
		r.Outcome, r.Retryable, r.Exempt = failover.ConnectFailure, true, true
		r.Err = x.fault("connect_failed", "the place can't be reached")
	default:
		r.Outcome, r.Retryable, r.Exempt = failover.ServerFault, true, true
		r.Err = x.fault("upstream_reset", "the place broke the connection before any content")
	}
	return x.finish()
}

func isDeadline(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// isHandshake reports whether the connection was there and TLS over it was not.
func isHandshake(err error) bool {
	text := err.Error()
	return strings.Contains(text, "tls: ") || strings.Contains(text, "TLS handshake") || strings.Contains(text, "x509: ")
}

func timeout(code, message string) *Error {
	return &Error{Status: http.StatusGatewayTimeout, Message: message, Type: TypeServer, Code: code, Origin: FromRouter}
}

// fault words that the place failed.
func (x *exchange) fault(code, message string) *Error {
	return &Error{Status: http.StatusBadGateway, Message: message, Type: TypeServer, Code: code, Origin: x.origin()}
}

// origin is the layer that the place is of.
func (x *exchange) origin() Origin { return cmp.Or(x.a.Origin, FromEndpoint) }

// answered goes on with an answer whose header came.
func (x *exchange) answered(answer *http.Response) Result {
	x.result.Status = answer.StatusCode
	if x.a.Peer {
		h := answer.Header
		attempts, _ := strconv.Atoi(h.Get(HeaderAttempts)) // 0 if it does not say
		x.result.Served = Place{h.Get(HeaderRegion), h.Get(HeaderCluster), h.Get(HeaderEndpoint), attempts}
	}
	if r, refused := x.refused(answer); refused {
		return r
	}
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
		return x.stream(answer)
	}
	return x.whole(answer)
}

// refused judges answers that are not for the client: those that another place may better.
func (x *exchange) refused(answer *http.Response) (Result, bool) {
	r := &x.result
	status := answer.StatusCode
	code := ""
	if x.a.Peer {
		code = answer.Header.Get(HeaderErrorCode)
	}
	switch {
	case status < 300:
		return Result{}, false
	case code == "no_capacity" || code == "no_legal_target" || code == "model_not_found":
		// The peer is well and its cluster is full, or not what our table says.
		r.Outcome = failover.Ignored
		if code == "model_not_found" {
			code = "no_legal_target"
		}
		r.Err = &Error{Status: http.StatusServiceUnavailable, Message: "the place has no capacity", Type: TypeServer, Code: code, Origin: FromCluster}
	case code == "cluster_ejected" || code == "connect_failed" || code == "upstream_reset" || code == "place_ejected":
		// The peer is well, and has found the cluster dead.
		r.Outcome, r.Exempt = failover.ConnectFailure, true
		r.Err = &Error{Status: http.StatusServiceUnavailable, Message: "the place is dead", Type: TypeServer, Code: code, Origin: FromCluster}
	case status == http.StatusTooManyRequests:
		r.Outcome = failover.Ignored
		r.Err = &Error{Status: http.StatusTooManyRequests, Message: "the place is busy", Type: TypeRateLimit, Code: "endpoint_busy", Origin: x.origin()}
	case status >= 500:
		r.Outcome = failover.ServerFault
		r.Err = x.fault("upstream_error", "the place answered with a server error")
		if status == http.StatusServiceUnavailable && retryAfter(answer.Header) > 0 {
			r.Err.Status = status // it has no room now, and says when
		}
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		// The router's own credential was refused: the client's was good.
		r.Outcome = failover.ServerFault
		r.Err = x.fault("upstream_denied", "the place refused this router's credential")
	case status == http.StatusNotFound, status == http.StatusRequestTimeout, status < 400:
		r.Outcome = failover.Ignored
		r.Err = x.fault("upstream_mismatch", "the place does not serve this")
	default:
		return Result{}, false // the request is wrong, wherever it goes
	}
	r.Retryable = true
	r.Err.RetryAfter = retryAfter(answer.Header)
	drain(answer.Body)
	return x.finish(), true
}

// retryAfter reads seconds; 0: none, or a date, which nobody below sends.
func retryAfter(h http.Header) time.Duration {
	v := h.Get("Retry-After")
	d, err := time.ParseDuration(v + "s")
	if err != nil || d < 0 || d > time.Hour {
		return 0
	}
	return d
}

// drain reads a little so that the connection can be used again.
func drain(body io.Reader) {
	_, _ = io.CopyN(io.Discard, body, 16<<10) // what can't be read costs a connection, no more
}

// commit sends the header. From here on the answer is the client's. False: the attempt has been
// abandoned at the same moment, and nothing is sent.
func (x *exchange) commit(answer *http.Response, length string) bool {
	if x.a.abandon.Swap(nil) == nil {
		return false
	}
	h := x.w.Header()
	incoming(h, answer.Header)
	if length != "" {
		h.Set("Content-Length", length)
	}
	if x.a.Commit != nil {
		x.a.Commit(h, x.result.Served)
	}
	x.control = http.NewResponseController(x.w)
	x.result.Committed = true
	x.patience(time.Now())
	x.w.WriteHeader(answer.StatusCode)
	return true
}

// patience moves the deadline for the client on, now and then.
func (x *exchange) patience(now time.Time) {
	if now.Add(clientPatience - patienceStep).Before(x.patientTo) {
		return
	}
	x.patientTo = now.Add(clientPatience)
	_ = x.control.SetWriteDeadline(x.patientTo) // a writer without deadlines is a test's
}

// left ends an attempt whose client does not take the answer.
func (x *exchange) left(err error) Result {
	x.result.Outcome, x.result.ClientGone = failover.Ignored, true
	x.result.Broken = x.result.Committed
	x.result.Cause = errors.Join(errClient, err)
	return x.finish()
}

// finish fills in the times.
func (x *exchange) finish() Result {
	r := &x.result
	if !x.firstAt.IsZero() {
		r.FirstByte = x.firstAt.Sub(x.start)
		if r.Events > 1 {
			r.InterToken = x.lastAt.Sub(x.firstAt) / time.Duration(r.Events-1)
		}
	}
	return *r
}

// content notes that content came, n events of it.
func (x *exchange) content(now time.Time, n int64) {
	if x.firstAt.IsZero() {
		x.firstAt = now
	}
	x.lastAt = now
	x.result.Events += n
}
