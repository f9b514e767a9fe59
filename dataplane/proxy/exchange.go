package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"anabranch/failover"
)

var (
	errSilent    = errors.New("no content within the bound")
	errStalled   = errors.New("the stream fell silent")
	errAbandoned = errors.New("the place has been found dead")
	errLost      = errors.New("another attempt answers the client")
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
	relay  *Relay
	a      *Attempt
	w      http.ResponseWriter
	start  time.Time
	parent context.Context
	ctx    context.Context
	cancel context.CancelCauseFunc
	guard  *time.Timer
	conn   connection

	result    Result
	begun     bool          // it is this attempt that answers the client
	firstAt   time.Time     // of the first content
	lastAt    time.Time     // of the newest content
	patientTo time.Time     // of the write deadline
	watch     int64         // tokens of this attempt from which on Passed is asked
	quiet     time.Duration // that the place may be silent for between two writes
	control   *http.ResponseController
}

// Do makes the attempt and returns when it is over. It returns early when ctx ends, and the place
// is told at once. The answer goes to w once content came; until then w is not touched, so that
// several attempts may be under way for one client, see [Race].
func (r *Relay) Do(ctx context.Context, w http.ResponseWriter, a *Attempt) Result {
	x := &exchange{relay: r, a: a, w: w, start: time.Now(), parent: ctx}
	x.do(ctx)
	x.finish()
	x.settle()
	return x.result
}

func (x *exchange) do(ctx context.Context) {
	a := x.a
	ctx, x.cancel = context.WithCancelCause(ctx)
	a.live.Store(&x.cancel)
	defer func() {
		a.live.Store(nil)
		x.cancel(nil)
	}()
	x.guard = time.AfterFunc(a.FirstByte, x.silent)
	defer x.guard.Stop()
	x.ctx = ctx
	if a.race != nil && a.race.Won() {
		a.end(errLost) // the winner was too early to end this one
		x.failed(errLost)
		return
	}
	if !a.Peer {
		ctx = x.conn.watched(ctx)
	}
	request := x.request(ctx)
	if a.Sign != nil {
		if err := a.Sign(request, a.Body); err != nil {
			x.unsigned(err)
			return
		}
	}
	answer, err := x.send(ctx, request)
	if err != nil {
		x.failed(err)
		return
	}
	defer func() { _ = answer.Body.Close() }() // what matters of it has been read
	x.answered(answer)
}

// transport is what sends an attempt.
func (r *Relay) transport(a *Attempt) http.RoundTripper {
	switch {
	case a.Transport != nil:
		return a.Transport
	case a.Peer:
		return r.peers
	}
	return r.places
}

// silent ends the attempt because its place said nothing for too long.
func (x *exchange) silent() {
	if !x.a.end(errSilent) {
		x.cancel(errStalled) // unless another end was first
	}
}

// request builds what is sent.
func (x *exchange) request(ctx context.Context) *http.Request {
	a := x.a
	r := &http.Request{
		Method:        http.MethodPost,
		URL:           a.URL,
		Host:          a.URL.Host,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        Outgoing(a.Client, a.Set),
		Body:          sending(a.Body),
		ContentLength: int64(len(a.Body)),
		// The transport sends again by itself where nothing was written, else see [exchange.send].
		GetBody: func() (io.ReadCloser, error) { return sending(a.Body), nil },
	}
	if len(a.Body) == 0 { // else the transport would send an empty body in chunks
		r.Body, r.GetBody = http.NoBody, nil
	}
	return r.WithContext(ctx)
}

// large is the size from which on a body is a sender. Smaller ones are of a kind that the transport knows,
// and sends in one piece with the header.
const large = 64 << 10

// sending is a body on its way.
func sending(body []byte) io.ReadCloser {
	if len(body) < large {
		return io.NopCloser(bytes.NewReader(body))
	}
	return &sender{left: body}
}

// sender lets go of a body when all of it has been read. The transport keeps the request for as long as
// its answer takes.
type sender struct{ left []byte }

// Read implements [io.Reader].
func (s *sender) Read(p []byte) (int, error) {
	n := copy(p, s.left)
	if s.left = s.left[n:]; len(s.left) == 0 {
		s.left = nil
		return n, io.EOF
	}
	return n, nil
}

// Close implements [io.Closer]; somebody may still read.
func (s *sender) Close() error { return nil }

// commit sends the header, unless an attempt before has. From here on the answer is the client's.
// False: the attempt has been ended at the same moment or another one answers the client, and
// nothing is sent: x.ctx knows which.
func (x *exchange) commit(answer *http.Response, length string) bool {
	if x.a.live.Swap(nil) == nil {
		<-x.ctx.Done() // whoever took it is about to say why
		return false
	}
	if x.a.Claim != nil && !x.a.Claim() {
		x.cancel(errLost)
		return false
	}
	x.begun, x.result.Committed = true, true
	x.control = http.NewResponseController(x.w)
	x.patience(time.Now())
	if x.a.Resume != nil {
		return true
	}
	h := x.w.Header()
	incoming(h, answer.Header)
	if length != "" {
		h.Set("Content-Length", length)
	}
	if x.a.Commit != nil {
		x.a.Commit(h, x.result.Served)
	}
	x.w.WriteHeader(answer.StatusCode)
	return true
}

// patience moves the deadline for the client on, now and then. Over HTTP/2 one that passes ends the
// stream also while nothing is being written, so that it leaves room for a place that is silent.
func (x *exchange) patience(now time.Time) {
	if now.Add(x.quiet + clientPatience - patienceStep).Before(x.patientTo) {
		return
	}
	x.patientTo = now.Add(x.quiet + clientPatience)
	_ = x.control.SetWriteDeadline(x.patientTo) // a writer without deadlines is a test's
}

// left ends an attempt whose client does not take the answer.
func (x *exchange) left(err error) {
	x.result.Outcome, x.result.ClientGone = failover.Ignored, true
	x.result.Broken = x.result.Committed
	x.result.Cause = errors.Join(errClient, err)
}

// finish fills in the times.
func (x *exchange) finish() {
	r := &x.result
	if !x.firstAt.IsZero() {
		r.FirstByte = x.firstAt.Sub(x.start)
		if r.Events > 1 {
			r.InterToken = x.lastAt.Sub(x.firstAt) / time.Duration(r.Events-1)
		}
	}
}

// content notes that content came, n events of it.
func (x *exchange) content(now time.Time, n int64) {
	if x.firstAt.IsZero() {
		x.firstAt = now
	}
	x.lastAt = now
	x.result.Events += n
}
