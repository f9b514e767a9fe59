package proxy

import (
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
	case errors.Is(why, errLost):
		r.Outcome, r.Lost, r.Cause = failover.Ignored, true, errLost
	case errors.Is(why, errAbandoned):
		r.Outcome, r.Retryable, r.Exempt, r.Cause = failover.Silence, true, true, errAbandoned
		r.Err = timeout("place_ejected", "the place has been found dead")
	case errors.Is(why, errSilent), errors.Is(why, errStalled):
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

// unsigned ends an attempt for which there is no credential. Nothing was sent.
func (x *exchange) unsigned(err error) Result {
	r := &x.result
	r.Outcome, r.Retryable, r.Cause = failover.Ignored, true, err
	r.Err = &Error{
		Status: http.StatusBadGateway, Message: "this router lacks the credential of the place",
		Type: TypeServer, Code: "credential_missing", Origin: FromRouter,
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
