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
func (x *exchange) whole(answer *http.Response) {
	buf := buffers.Get().(*bytes.Buffer)
	buf.Reset()
	defer func() {
		if buf.Cap() <= keepBuffer {
			buffers.Put(buf)
		}
	}()
	n, err := buf.ReadFrom(io.LimitReader(&heard{answer.Body, x}, MaxBuffered+1))
	x.result.Received = n
	switch {
	case err != nil:
		x.truncated(err)
		return
	case buf.Len() > MaxBuffered:
		x.large(answer, buf)
		return
	}
	usage, counted, ok := read(answer, buf.Bytes())
	if !ok {
		x.truncated(io.ErrUnexpectedEOF)
		return
	}
	body, r := buf.Bytes(), &x.result
	if answer.StatusCode < 300 && isError(body) {
		x.errorInside(body)
		if r.Retryable {
			return
		}
		// It is the client's to mend, and shall not pass for an answer.
		answer.StatusCode, r.Err = r.Status, nil
	}
	x.content(time.Now(), 1)
	r.Outcome = failover.OK
	if answer.StatusCode >= 400 {
		r.Outcome = failover.Ignored
		if !x.a.Peer && answer.Header.Get("Content-Encoding") == "" { // a peer has seen to it
			body = amended(body, answer.StatusCode, x.origin())
		}
	} else if r.Usage, r.HasUsage = usage, counted; !counted {
		x.passing(answer).look(body)
	}
	if !x.commit(answer, strconv.Itoa(len(body))) {
		x.failed(context.Cause(x.ctx))
		return
	}
	if len(body) > 0 { // some statuses allow none
		if _, err := x.w.Write(body); err != nil {
			x.left(err)
		}
	}
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
func (x *exchange) truncated(err error) {
	x.failed(err)
	if r := &x.result; r.Exempt && r.Outcome == failover.ServerFault { // a cut after the header: the place had done the work
		r.Exempt = false
		r.Err = x.fault("upstream_truncated", "the place cut its answer short")
	}
}

// read takes the usage from a body, if there is one. False: it can't be the whole of the answer. The
// transport has checked a length or chunks, but a model server that is stopped in the middle may end
// with an empty success, or with half of its JSON.
func read(answer *http.Response, body []byte) (u inference.Usage, counted, ok bool) {
	body = bytes.TrimRight(body, " \t\r\n")
	success := answer.StatusCode < 300
	switch encoding := answer.Header.Get("Content-Encoding"); {
	case len(body) == 0:
		return u, false, answer.StatusCode != http.StatusOK
	case encoding != "" && encoding != "identity":
		return u, false, true // can't be looked at
	case !success || !strings.HasPrefix(answer.Header.Get("Content-Type"), "application/json"):
		return u, false, true
	}
	if u, counted = inference.UsageOf(body); counted {
		return u, true, true // which has looked at all of it
	}
	return u, false, json.Valid(body)
}

// large passes on an answer that is too large to be held. Its usage, which mostly stands at its end, is
// read as it goes by.
func (x *exchange) large(answer *http.Response, head *bytes.Buffer) {
	x.content(time.Now(), 1)
	length := ""
	if answer.ContentLength >= 0 {
		length = strconv.FormatInt(answer.ContentLength, 10)
	}
	if !x.commit(answer, length) {
		x.failed(context.Cause(x.ctx))
		return
	}
	x.guard.Stop() // the place is not to blame for a client that takes its time
	seen := x.passing(answer)
	seen.look(head.Bytes())
	if _, err := x.w.Write(head.Bytes()); err != nil {
		x.left(err)
		return
	}
	x.guard.Reset(x.stall())
	piece := make([]byte, 64<<10)
	for {
		n, err := answer.Body.Read(piece)
		now := time.Now()
		if n > 0 {
			x.guard.Stop()
			seen.look(piece[:n])
			x.result.Received += int64(n)
			x.patience(now)
			if _, err := x.w.Write(piece[:n]); err != nil {
				x.left(err)
				return
			}
			x.guard.Reset(x.stall())
		}
		if errors.Is(err, io.EOF) && !seen.whole() {
			err = io.ErrUnexpectedEOF
		}
		if errors.Is(err, io.EOF) {
			x.result.Outcome = failover.OK
			return
		}
		if err != nil {
			x.broken(err)
			return
		}
	}
}

// broken judges an answer that failed after the client got a part of it.
func (x *exchange) broken(err error) {
	r := &x.result
	r.Broken, r.Cause = true, err
	if x.parent.Err() != nil && !isDeadline(x.parent.Err()) {
		r.Outcome, r.ClientGone = failover.Ignored, true
		return
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
}
