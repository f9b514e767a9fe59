package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"anabranch/dataplane/inference"
	"anabranch/failover"
)

// buffers are reused; one that grew beyond keepBuffer is left to the collector.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

const keepBuffer = 256 << 10

// stall is the bound of silence once an answer has begun.
func (x *exchange) stall() time.Duration {
	if x.a.Stall > 0 {
		return x.a.Stall
	}
	return time.Minute
}

// whole relays an answer that is not streamed. It is held until it is whole, so that one cut short
// is tried elsewhere; only one above MaxBuffered is passed on as it comes.
func (x *exchange) whole(answer *http.Response) Result {
	buf := buffers.Get().(*bytes.Buffer)
	buf.Reset()
	defer func() {
		if buf.Cap() <= keepBuffer {
			buffers.Put(buf)
		}
	}()
	_, err := buf.ReadFrom(io.LimitReader(&heard{answer.Body, x}, MaxBuffered+1))
	switch {
	case err != nil:
		return x.truncated(err)
	case buf.Len() > MaxBuffered:
		return x.large(answer, buf)
	case !complete(answer, buf.Bytes()):
		return x.truncated(io.ErrUnexpectedEOF)
	}
	x.content(time.Now(), 1)
	r, body := &x.result, buf.Bytes()
	r.Outcome = failover.OK
	if answer.StatusCode >= 400 {
		r.Outcome = failover.Ignored
		if !x.a.Peer && answer.Header.Get("Content-Encoding") == "" { // a peer has seen to it
			body = amended(body, answer.StatusCode, x.origin())
		}
	} else {
		r.Usage, r.HasUsage = inference.UsageOf(body)
	}
	if !x.commit(answer, strconv.Itoa(len(body))) {
		return x.failed(context.Cause(x.ctx))
	}
	if _, err := x.w.Write(body); err != nil {
		return x.left(err)
	}
	return x.finish()
}

// heard is an answer whose silence is bounded while a piece of it is waited for, and not while this
// process is busy with what came.
type heard struct {
	body io.Reader
	x    *exchange
}

func (h *heard) Read(p []byte) (int, error) {
	h.x.guard.Reset(h.x.stall())
	defer h.x.guard.Stop()
	return h.body.Read(p)
}

// truncated judges an answer that ended too soon; nothing of it has been sent.
func (x *exchange) truncated(err error) Result {
	r := x.failed(err)
	if r.Exempt { // a cut after the header: the place had done the work
		r.Exempt = false
		r.Err = x.fault("upstream_truncated", "the place cut its answer short")
	}
	return r
}

// complete reports whether the body can be the whole of the answer. The transport has checked a
// length or chunks; an answer that lasts until the connection closes must at least be JSON. A model
// server that is stopped in the middle may end with an empty success.
func complete(answer *http.Response, body []byte) bool {
	body = bytes.TrimRight(body, " \t\r\n")
	if len(body) == 0 {
		return answer.StatusCode != http.StatusOK
	}
	if !strings.HasPrefix(answer.Header.Get("Content-Type"), "application/json") {
		return true
	}
	if answer.ContentLength < 0 && len(answer.TransferEncoding) == 0 && answer.ProtoMajor == 1 {
		return json.Valid(body)
	}
	return body[len(body)-1] == '}' || body[len(body)-1] == ']'
}

// large passes on an answer that is too large to be held.
func (x *exchange) large(answer *http.Response, head *bytes.Buffer) Result {
	x.content(time.Now(), 1)
	length := ""
	if answer.ContentLength >= 0 {
		length = strconv.FormatInt(answer.ContentLength, 10)
	}
	if !x.commit(answer, length) {
		return x.failed(context.Cause(x.ctx))
	}
	x.guard.Stop() // the place is not to blame for a client that takes its time
	if _, err := x.w.Write(head.Bytes()); err != nil {
		return x.left(err)
	}
	x.guard.Reset(x.stall())
	piece := make([]byte, 64<<10)
	for {
		n, err := answer.Body.Read(piece)
		now := time.Now()
		if n > 0 {
			x.guard.Stop()
			x.patience(now)
			if _, err := x.w.Write(piece[:n]); err != nil {
				return x.left(err)
			}
			x.guard.Reset(x.stall())
		}
		if errors.Is(err, io.EOF) {
			x.result.Outcome = failover.OK
			return x.finish()
		}
		if err != nil {
			return x.broken(err)
		}
	}
}

// broken judges an answer that failed after the client got a part of it.
func (x *exchange) broken(err error) Result {
	r := &x.result
	r.Broken, r.Cause = true, err
	if x.parent.Err() != nil && !isDeadline(x.parent.Err()) {
		r.Outcome, r.ClientGone = failover.Ignored, true
		return x.finish()
	}
	r.Outcome = failover.ServerFault
	switch {
	case x.parent.Err() != nil:
		r.Outcome = failover.Ignored
		r.Err = timeout("deadline_exceeded", "the request's time is over")
	case x.ctx.Err() != nil:
		r.Cause = errStalled
		r.Err = timeout("stream_idle", "the stream fell silent")
	default:
		r.Err = x.fault("stream_broken", "the place broke off in the middle of the answer")
	}
	return x.finish()
}
