package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"anabranch/dataplane/inference"
	"anabranch/failover"
)

// trailing bounds the wait for a stream's end after its last event, which the client has then.
const trailing = 100 * time.Millisecond

// stream relays an event stream. Events that only say that it has begun are held back until
// content comes; from then on each is passed on as it arrives, and flushed when nothing more
// waits.
func (x *exchange) stream(answer *http.Response) Result {
	s := streaming{x: x, answer: answer, events: inference.NewEvents(answer.Body), closed: true}
	for {
		event, err := s.events.Next()
		if err != nil {
			return s.ended(err)
		}
		if over, r := s.take(event); over {
			return r
		}
	}
}

type streaming struct {
	x      *exchange
	answer *http.Response
	events *inference.Events
	held   []byte // what came before content
	// done: the event that ends the stream came. finished: an answer in it is complete, which is
	// good enough with servers that send no such event and end the stream regularly.
	done, finished bool
	// closed: what was written last, if anything, ended with an empty line.
	closed bool
}

// take handles one event. Over says that the attempt has ended with r.
func (s *streaming) take(event inference.Event) (over bool, r Result) {
	x, now := s.x, time.Now()
	frame := inference.Frame{Kind: inference.Lifecycle}
	if event.Data != nil {
		frame = inference.Classify(event.Data)
	}
	if frame.HasUsage {
		x.result.Usage = x.result.Usage.Merge(frame.Usage)
		x.result.HasUsage = true
	}
	if frame.UsageOnly && !x.a.KeepUsage {
		event.Raw = nil
	}
	switch frame.Kind {
	case inference.Lifecycle, inference.Role, inference.UsageOnly:
		if !x.result.Committed && len(s.held)+len(event.Raw) <= maxHeld {
			s.held = append(s.held, event.Raw...)
			return false, Result{}
		}
	case inference.Content:
		x.content(now, 1)
	case inference.Error:
		return true, s.failed(event)
	case inference.Done:
		s.done = true
	case inference.Finish:
	}
	s.finished = s.finished || frame.FinishReason
	if !x.result.Committed {
		if x.firstAt.IsZero() {
			x.content(now, 0)
		}
		if !x.commit(s.answer, "") {
			return true, x.failed(context.Cause(x.ctx))
		}
	}
	x.guard.Stop() // the place is not to blame for a client that takes its time
	if err := s.write(event.Raw, now); err != nil {
		return true, x.left(err)
	}
	if s.done {
		x.guard.Reset(trailing)
	} else {
		x.guard.Reset(x.stall())
	}
	return false, Result{}
}

// write sends what was held back and raw, and flushes if no further event waits.
func (s *streaming) write(raw []byte, now time.Time) error {
	x := s.x
	x.patience(now)
	if len(s.held) > 0 {
		if _, err := x.w.Write(s.held); err != nil {
			return err
		}
		s.held = nil
	}
	if len(raw) > 0 {
		if _, err := x.w.Write(raw); err != nil {
			return err
		}
		s.closed = blankEnd(raw)
	}
	if s.events.Pending() {
		return nil
	}
	return x.control.Flush()
}

// blankEnd reports whether an event ends with its empty line.
func blankEnd(raw []byte) bool {
	n := len(raw)
	return n >= 2 && (raw[n-1] == '\n' || raw[n-1] == '\r') &&
		(raw[n-2] == '\n' || raw[n-2] == '\r' && (n < 3 || raw[n-1] == '\r' || raw[n-3] == '\n'))
}

// failed judges an error event of the place: before content like a server error, after it the end
// of the stream. A peer's is passed on as it is, since it has the right shape and says more.
func (s *streaming) failed(event inference.Event) Result {
	x, r := s.x, &s.x.result
	r.Outcome = failover.ServerFault
	if !r.Committed {
		r.Retryable = true
		r.Err = x.fault("upstream_error", "the place sent an error in place of an answer")
		return x.finish()
	}
	if x.a.Peer {
		event.Raw = slices.Clone(event.Raw)
		r.Broken, r.Err = true, x.fault("stream_broken", "the place broke off in the middle of the answer")
		if err := s.write(event.Raw, time.Now()); err != nil {
			return x.left(err)
		}
		return x.finish()
	}
	return s.breakOff(errors.New("error event"))
}

// ended judges the end of the stream.
func (s *streaming) ended(err error) Result {
	x, r := s.x, &s.x.result
	switch {
	case s.done, s.finished && errors.Is(err, io.EOF):
		r.Outcome = failover.OK
		if x.control.Flush() != nil {
			return x.left(err)
		}
		return x.finish()
	case !r.Committed:
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return x.truncated(err)
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return s.breakOff(err)
}

// breakOff ends the client's stream with one error event. The caller of Do then aborts the
// connection, without a regular end.
func (s *streaming) breakOff(cause error) Result {
	x := s.x
	result := x.broken(cause)
	if result.ClientGone {
		return result
	}
	last := result.Err.Event()
	if !s.closed {
		last = append([]byte("\n"), last...)
	}
	if err := s.write(last, time.Now()); err != nil {
		return x.left(err)
	}
	// What waits unread would hold back the flush.
	if err := x.control.Flush(); err != nil {
		return x.left(err)
	}
	return result
}
