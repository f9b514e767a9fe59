package proxy

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"anabranch/failover"
)

// CodeShed is what a peer's [HeaderErrorCode] says when its flow control turned a request away: it
// has been waited for and weighed there already, so no other router tries again.
const CodeShed = "shed"

// CodeUnsigned says that the router lacks what it proves itself to the place with: nothing was sent.
const CodeUnsigned = "credential_missing"

// failed judges an attempt that ended without an answer, or without a whole one, before content.
func (x *exchange) failed(err error) {
	r := &x.result
	r.Cause = err
	why := context.Cause(x.ctx)
	switch {
	case errors.Is(why, errLost):
		r.Outcome, r.Lost, r.Cause = failover.Ignored, true, errLost
	case x.parent.Err() != nil:
		// The client left or its deadline passed: neither says anything about the place.
		r.Outcome = failover.Ignored
		if isDeadline(x.parent.Err()) {
			r.Err = timeout("deadline_exceeded", "the request's time is over")
		} else {
			r.ClientGone = true
		}
	case errors.Is(why, errAbandoned):
		r.Outcome, r.Retryable, r.Exempt, r.Cause = failover.Silence, true, true, errAbandoned
		r.Err = timeout("place_ejected", "the place has been found dead")
	case errors.Is(why, errSilent), errors.Is(why, errStalled):
		r.Outcome, r.Retryable, r.Cause = failover.Silence, true, errSilent
		r.Err = timeout("first_byte_timeout", "the place sent no content in time")
	case isConnect(err):
		r.Outcome, r.Retryable, r.Exempt = failover.ConnectFailure, true, true
		r.Err = x.fault("connect_failed", "the place can't be reached")
	default:
		r.Outcome, r.Retryable, r.Exempt = failover.ServerFault, true, true
		r.Err = x.fault("upstream_reset", "the place broke the connection before any content")
	}
}

// unsigned ends an attempt for which there is no credential. Nothing was sent.
func (x *exchange) unsigned(err error) {
	r := &x.result
	r.Outcome, r.Retryable, r.Cause = failover.Ignored, true, err
	r.Err = &Error{
		Status: http.StatusBadGateway, Message: "this router lacks the credential of the place",
		Type: TypeServer, Code: CodeUnsigned, Origin: FromRouter,
	}
}

func isDeadline(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// isConnect reports whether there was no connection, or no TLS over it: nothing was sent.
func isConnect(err error) bool {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" || errors.Is(err, errHandshake) {
		return true
	}
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

// malformed judges an answer that is not what its header says; nothing of it has been sent.
func (x *exchange) malformed() {
	r := &x.result
	r.Outcome, r.Retryable, r.Cause = failover.ServerFault, true, errMalformed
	r.Err = x.fault("upstream_malformed", "the place's answer can't be read")
}

// answered goes on with an answer whose header came.
func (x *exchange) answered(answer *http.Response) {
	h := answer.Header
	x.result.Status = answer.StatusCode
	code := ""
	if x.a.Peer {
		attempts, _ := strconv.Atoi(h.Get(HeaderAttempts)) // 0 if it does not say
		x.result.Served = Place{Region: h.Get(HeaderRegion), Cluster: h.Get(HeaderCluster), Endpoint: h.Get(HeaderEndpoint), Attempts: attempts}
		if s, err := strconv.ParseFloat(h.Get(HeaderSaturation), 64); err == nil && s >= 0 && s < math.MaxFloat32 {
			x.result.Served.Saturation, x.result.Served.HasSaturation = s, true
		}
		code = h.Get(HeaderErrorCode)
	} else {
		x.result.RateLimit = rateLimit(h)
	}
	if answer.StatusCode < 200 { // no status that ends an answer
		x.malformed()
		return
	}
	if x.refused(answer.StatusCode, code, h) {
		x.guard.Reset(trailing) // all that matters is known
		drain(answer.Body)
		return
	}
	kind := h.Get("Content-Type")
	switch {
	case isStream(kind) && answer.StatusCode < 300:
		if encoding := h.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
			x.malformed() // it was not asked for, and can't be read on the way
			return
		}
		x.stream(answer)
		return
	case x.a.Resume != nil:
		x.unresumed(answer.StatusCode)
		return
	case answer.StatusCode < 300 && strings.HasPrefix(kind, "text/html"):
		x.malformed() // some other server's page
		return
	}
	x.whole(answer)
}

// refused judges answers by their status and a peer's code: those that are not for the client, since
// another place may better them.
func (x *exchange) refused(status int, code string, h http.Header) bool {
	r := &x.result
	switch {
	case status < 300, code == CodeShed:
		return false
	case code == "no_capacity" || code == "no_legal_target" || code == "model_not_found":
		// The peer is well and its cluster is full, or not what our table says.
		r.Outcome = failover.Ignored
		if code == "model_not_found" {
			code = "no_legal_target"
		}
		r.Err = &Error{Status: http.StatusServiceUnavailable, Message: "the place has no capacity", Type: TypeServer, Code: code, Origin: FromCluster}
	case code == "cluster_ejected" || code == "connect_failed" || code == "place_ejected":
		// The peer is well, and has found the cluster dead.
		r.Outcome, r.Exempt = failover.ConnectFailure, true
		r.Err = &Error{Status: http.StatusServiceUnavailable, Message: "the place is dead", Type: TypeServer, Code: code, Origin: FromCluster}
	case code == "upstream_reset":
		// The peer's place broke the connection: no sign of a dead cluster, and none of a storm.
		r.Outcome, r.Exempt = failover.ServerFault, true
		r.Err = x.fault(code, "the place broke the connection before any content")
	case status == http.StatusTooManyRequests:
		r.Outcome = failover.Ignored
		r.Err = &Error{Status: http.StatusTooManyRequests, Message: "the place is busy", Type: TypeRateLimit, Code: "endpoint_busy", Origin: x.origin()}
	case status >= 500:
		r.Outcome = failover.ServerFault
		r.Err = x.fault("upstream_error", "the place answered with a server error")
		if status == http.StatusServiceUnavailable && retryAfter(h, time.Now()) > 0 {
			// It has no room now, and says when: that is no fault.
			r.Outcome, r.Err.Status, r.Err.Message = failover.Ignored, status, "the place has no room"
		}
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		// The router's own credential was refused: the client's was good.
		r.Outcome = failover.ServerFault
		r.Err = x.fault("upstream_denied", "the place refused this router's credential")
	case status == http.StatusNotFound, status == http.StatusRequestTimeout, status < 400:
		r.Outcome = failover.Ignored
		r.Err = x.fault("upstream_mismatch", "the place does not serve this")
	default:
		return false // the request is wrong, wherever it goes
	}
	r.Retryable = true
	r.Err.RetryAfter = retryAfter(h, time.Now())
	if why := dropReason(h); why != "" {
		r.Err.Message += " (" + why + ")"
	}
	return true
}

// HeaderDropped is where a tier-1 gateway says why it turned a request away, in a word like
// "rejected-saturated". https://github.com/llm-d/llm-d-router
const HeaderDropped = "X-Llm-D-Request-Dropped-Reason"

// maxReason bounds the reason that is passed on, in bytes.
const maxReason = 64

// dropReason is the gateway's reason; empty if it gave none that is a word.
func dropReason(h http.Header) string {
	why := h.Get(HeaderDropped)
	if len(why) > maxReason || strings.ContainsFunc(why, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
	}) {
		return ""
	}
	return why
}

// drain reads a little so that the connection can be used again.
func drain(body io.Reader) {
	_, _ = io.CopyN(io.Discard, body, 16<<10) // what can't be read costs a connection, no more
}
