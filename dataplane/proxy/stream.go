package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"anabranch/dataplane/inference"
	"anabranch/failover"
)

// trailing bounds the wait for the rest of an answer of which all that matters is known: of a refusal,
// and of a stream after its last event, which the client has then.
const trailing = 100 * time.Millisecond

// doneEvent ends the stream of a chat completion or completion.
const doneEvent = "data: [DONE]\n\n"

var (
	errMalformed  = errors.New("the stream is not what it says")
	errErrorEvent = errors.New("the stream ended with an error event")
	errCut        = errors.New("more than may be set aside for the stream")
)

// stream relays an event stream. Events that only say that it has begun are held back until
// content comes; from then on each is passed on as it arrives, and flushed when nothing more
// waits.
func (x *exchange) stream(answer *http.Response) {
	s := streaming{x: x, answer: answer, events: readers.Get().(*inference.Events), closed: true}
	s.events.Reset(answer.Body)
	defer func() {
		s.events.Reset(nil)
		readers.Put(s.events)
	}()
	x.quiet = x.stall()
	x.watch = math.MaxInt64
	if x.a.Passed != nil {
		x.watch = x.a.Reserve - x.before()
	}
	if x.a.Keep {
		s.kept = &kept{}
	}
	if x.a.Resume != nil {
		s.resumed = resume(x.a.Resume)
	}
	for {
		event, err := s.events.Next()
		if err != nil {
			s.ended(err)
			return
		}
		if s.take(event) {
			return
		}
	}
}

// readers are reused: each has a buffer for a stream's events.
var readers = sync.Pool{New: func() any { return inference.NewEvents(nil) }}

type streaming struct {
	x      *exchange
	answer *http.Response
	events *inference.Events
	held   []byte // what came before content
	// done: the event that ends the stream came. finished: an answer in it is complete, which is
	// good enough with servers that send no such event and end the stream regularly.
	done, finished bool
	// closed: what was written last, if anything, ended with an empty line.
	closed  bool
	flushed bool      // so was all that was written
	due     time.Time // of the next event, once content came
	kept    *kept     // nil: what comes can't be continued elsewhere
	resumed *resumed  // nil: it is the first part of an answer
}

// take handles one event. True: the attempt has ended.
func (s *streaming) take(event inference.Event) (over bool) {
	x, now := s.x, time.Now()
	x.result.Received += int64(len(event.Raw))
	frame := inference.Frame{Kind: inference.Lifecycle}
	if event.Data != nil {
		frame = s.events.Classify(event.Data)
	}
	if frame.Malformed || event.Data == nil && !harmless(event.Raw) {
		s.malformed()
		return true
	}
	if frame.Kind == inference.Content && !frame.Plain && isError(event.Data) {
		frame.Kind = inference.Error // of a type that is the error's, as vLLM's were
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
		if x.begun {
			break
		}
		if s.resumed != nil {
			return false
		}
		if len(s.held)+len(event.Raw) <= maxHeld {
			s.held = append(s.held, event.Raw...)
			return false
		}
	case inference.Content:
		x.content(now, 1)
	case inference.Error:
		s.failed(event)
		return true
	case inference.Done:
		s.done = true
	case inference.Finish:
	}
	s.finished = s.finished || frame.FinishReason
	if !x.begun {
		if x.firstAt.IsZero() {
			x.content(now, 0)
		}
		if !x.commit(s.answer, "") {
			x.failed(context.Cause(x.ctx))
			return true
		}
	}
	if s.resumed != nil {
		event.Raw = s.resumed.reworded(x, event, frame)
	}
	if s.kept != nil && !s.kept.add(event.Data, frame, s.resumed) {
		s.kept = nil
	}
	x.guard.Stop() // the place is not to blame for a client that takes its time
	if err := s.write(event.Raw, now); err != nil {
		x.left(err)
		return true
	}
	if s.done {
		s.complete()
		return true
	}
	if frame.Kind == inference.Content && !frame.FinishReason &&
		(x.result.Events > x.watch || frame.HasUsage && x.result.Usage.Completion > x.watch) {
		if cut := x.passed(); cut != nil {
			s.cut(cut)
			return true
		}
	}
	s.listen(event, now)
	return false
}

// passed asks on, and says with what error the stream is to be cut off; nil: it goes on.
func (x *exchange) passed() *Error {
	reserve, cut := x.a.Passed(x.before() + max(x.result.Events, x.result.Usage.Completion))
	x.watch = reserve - x.before()
	return cut
}

// before is how many tokens the answer had before this attempt.
func (x *exchange) before() int64 {
	if x.a.Resume == nil {
		return 0
	}
	return x.a.Resume.Tokens
}

// cut ends a stream that the caller does not let go on: with an error event, and at once at the place.
func (s *streaming) cut(why *Error) {
	x, r := s.x, &s.x.result
	r.Outcome, r.Broken, r.Cut, r.Err, r.Cause = failover.Ignored, true, true, why, errCut
	s.last(append(s.gap(), why.event(x.a.Named)...))
}

// gap is what must stand before an event of the router's own.
func (s *streaming) gap() []byte {
	if s.closed {
		return nil
	}
	return []byte("\n\n") // whatever ended its last line
}

// listen sets the bound for the next event. A comment says only that the connection is there, so the
// bound of the event before goes on, without the time that the client took for the comment, which
// came at now.
func (s *streaming) listen(event inference.Event, now time.Time) {
	after := time.Now()
	if event.Data == nil && !s.due.IsZero() {
		s.due = s.due.Add(after.Sub(now))
	} else {
		s.due = after.Add(s.x.stall())
	}
	s.x.guard.Reset(s.due.Sub(after))
}

// complete ends a stream whose last event the client has got. What the place still sends is read, so
// that the connection can be used again, but is no part of the answer any more.
func (s *streaming) complete() {
	x := s.x
	x.result.Outcome = failover.OK
	if err := s.flush(); err != nil { // what waits unread would hold it back
		x.left(err)
		return
	}
	x.guard.Reset(trailing)
	drain(s.answer.Body)
}

// write sends what was held back and raw, and flushes if no further event waits.
func (s *streaming) write(raw []byte, now time.Time) error {
	x := s.x
	x.patience(now)
	if len(s.held) > 0 {
		if _, err := x.w.Write(s.held); err != nil {
			return err
		}
		s.held, s.flushed = nil, false
	}
	if len(raw) > 0 {
		s.flushed = false
		if _, err := x.w.Write(raw); err != nil {
			return err
		}
		s.closed = blankEnd(raw)
	}
	if s.events.Pending() {
		return nil
	}
	return s.flush()
}

// flush sends on what was written. Nothing is asked of a client that has all of it: one that closes once
// it has the last event has not left.
func (s *streaming) flush() error {
	if s.flushed {
		return nil
	}
	err := s.x.control.Flush()
	s.flushed = err == nil
	return err
}

// blankEnd reports whether an event ends with its empty line.
func blankEnd(raw []byte) bool {
	n := len(raw)
	return n >= 2 && (raw[n-1] == '\n' || raw[n-1] == '\r') &&
		(raw[n-2] == '\n' || raw[n-2] == '\r' && (n < 3 || raw[n-1] == '\r' || raw[n-3] == '\n'))
}

// harmless reports whether an event without data has nothing but comments and fields of the
// standard: anything else is no event stream, whatever its header says.
// https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
func harmless(raw []byte) bool {
	for line := range bytes.FieldsFuncSeq(raw, func(r rune) bool { return r == '\n' || r == '\r' }) {
		name, _, _ := bytes.Cut(bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")), []byte(":"))
		switch string(name) {
		case "", "event", "id", "retry":
		default:
			return false
		}
	}
	return true
}

// malformed judges what is no event stream, or no event of an API: before content like a server
// error, after it the end of the stream.
func (s *streaming) malformed() {
	if s.x.begun {
		s.broke(errMalformed, nil)
		return
	}
	s.x.malformed()
}

// failed judges an error event of the place: before content like an answer with its status, after
// it the end of the stream. A peer's is passed on as it is, since it has the right shape and says
// more.
func (s *streaming) failed(event inference.Event) {
	if !s.x.begun {
		s.x.errorInside(event.Data)
		return
	}
	if s.x.a.Peer {
		s.broke(errErrorEvent, slices.Clone(event.Raw))
		return
	}
	s.broke(errErrorEvent, nil)
}

// ended judges the end of the stream.
func (s *streaming) ended(err error) {
	x, r := s.x, &s.x.result
	regular := errors.Is(err, io.EOF)
	switch {
	case s.finished && regular:
		r.Outcome = failover.OK
		if s.resumed != nil { // the first place may be one that would have sent it
			if err := s.write([]byte(doneEvent), time.Now()); err != nil {
				x.left(err)
				return
			}
		}
		if err := s.flush(); err != nil {
			x.left(err)
		}
		return
	case regular:
		err = io.ErrUnexpectedEOF
	}
	if !x.begun {
		x.truncated(err)
		return
	}
	s.broke(err, nil)
}

// broke ends a stream that failed after content. Where it can be continued elsewhere the client
// gets nothing more for now; otherwise it gets one error event, or last if that isn't nil, and the
// caller of Do aborts the connection, without a regular end.
func (s *streaming) broke(cause error, last []byte) {
	x := s.x
	x.broken(cause)
	r := &x.result
	if r.ClientGone {
		return
	}
	send := s.gap()
	mendable := r.Outcome == failover.ServerFault && s.kept.some(x)
	switch {
	case mendable && s.finished:
		// All of the text is there, and only what counts is missing, or the end.
		if r.HasUsage || !x.a.KeepUsage {
			r.Broken, r.Err = false, nil
			send = append(send, doneEvent...)
			break
		}
		send = append(send, r.Err.event(x.a.Named)...)
	case mendable:
		r.Interrupted, r.Partial = true, s.kept.partial(x)
	case last != nil:
		send = append(send, last...)
	default:
		send = append(send, r.Err.event(x.a.Named)...)
	}
	if len(send) > 0 {
		s.last(send)
	}
	if r.Interrupted {
		_ = x.control.SetWriteDeadline(time.Time{}) // nothing is written until another place has content
	}
}

// last writes what ends a stream that broke.
func (s *streaming) last(send []byte) {
	err := s.write(send, time.Now())
	if err == nil {
		err = s.flush() // what waits unread would hold it back
	}
	if err != nil {
		x, r := s.x, &s.x.result
		outcome := r.Outcome // the place broke first, whatever the client did then
		x.left(err)
		r.Outcome, r.Interrupted, r.Partial = outcome, false, nil
	}
}
