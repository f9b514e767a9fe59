package proxy

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/failover"
)

// paced is a body whose pieces come after pauses, and which ends with its request.
type paced struct {
	r      *http.Request
	pauses []time.Duration
	rest   []string
}

func (p *paced) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		<-p.r.Context().Done()
		return 0, p.r.Context().Err()
	}
	if len(p.pauses) > 0 {
		pause := p.pauses[0]
		p.pauses = p.pauses[1:]
		select {
		case <-time.After(pause):
		case <-p.r.Context().Done():
			return 0, p.r.Context().Err()
		}
	}
	n := copy(b, p.rest[0])
	if p.rest[0] = p.rest[0][n:]; p.rest[0] == "" {
		p.rest = p.rest[1:]
	}
	return n, nil
}

func (p *paced) Close() error { return nil }

// idler is a client that takes its time over every piece.
type idler struct {
	*httptest.ResponseRecorder
	over time.Duration
}

func (i *idler) Write(b []byte) (int, error) {
	<-time.After(i.over)
	return i.ResponseRecorder.Write(b)
}

func pacing(q *http.Request, kind string, pauses []time.Duration, parts ...string) *http.Response {
	answer := streamed(nil)
	answer.Header.Set("Content-Type", kind)
	answer.Body = &paced{q, pauses, parts}
	return answer
}

// Who is to blame for a stream that does not go on: the place that says nothing between two tokens,
// the client that takes nothing, or the request's own time.
func TestWhoseSilenceItIs(t *testing.T) {
	second := time.Second
	for name, c := range map[string]struct {
		kind     string
		pauses   []time.Duration // of the place before each piece; after the last it says nothing
		client   time.Duration   // for each piece
		deadline time.Duration   // of the request
		keep     bool
		outcome  failover.Outcome
		code     string
		broken   bool
		after    time.Duration
	}{
		"the place's": {
			pauses: []time.Duration{0, 2 * second, 2 * second}, outcome: failover.ServerFault, code: "stream_idle", broken: true, after: 7 * second,
		},
		"the place's, and it can be continued": {
			pauses: []time.Duration{0, 2 * second, 2 * second}, keep: true, outcome: failover.ServerFault, code: "stream_idle", broken: true, after: 7 * second,
		},
		"the place's, beside a slow client": {
			pauses: []time.Duration{0, 2 * second, 2 * second}, client: 30 * second, outcome: failover.ServerFault, code: "stream_idle", broken: true, after: (4 + 4*30 + 3 + 30) * second,
		},
		"the request's time": {
			pauses: []time.Duration{0, 2 * second, 2 * second}, deadline: 5 * second, keep: true, outcome: failover.Ignored, code: "deadline_exceeded", broken: true, after: 5 * second,
		},
		"before content": {
			pauses: []time.Duration{20 * second}, outcome: failover.Silence, code: "first_byte_timeout", after: 10 * second,
		},
		"of an answer that is not streamed": {
			kind: "application/json", pauses: []time.Duration{0, 2 * second, 2 * second}, outcome: failover.Silence, code: "first_byte_timeout", after: 7 * second,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			kind := "text/event-stream"
			if c.kind != "" {
				kind = c.kind
			}
			a := try(canned(func(q *http.Request) (*http.Response, error) {
				return pacing(q, kind, slices.Clone(c.pauses), role+content, content, content), nil
			}))
			a.FirstByte, a.Stall, a.Keep = 10*second, 3*second, c.keep
			ctx := t.Context()
			if c.deadline > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, c.deadline)
				defer cancel()
			}
			w := &idler{httptest.NewRecorder(), c.client}
			began := time.Now()
			r := New(Options{}).Do(ctx, w, a)
			if took := time.Since(began); took != c.after {
				t.Errorf("%s: over after %v, want %v", name, took, c.after)
			}
			if r.Outcome != c.outcome || r.Err == nil || r.Err.Code != c.code || r.Broken != c.broken || r.Committed != c.broken || r.ClientGone {
				t.Errorf("%s: %+v", name, r)
			}
			if want := c.keep && c.outcome == failover.ServerFault; r.Interrupted != want {
				t.Errorf("%s: interrupted %v", name, r.Interrupted)
			}
			if c.broken && !r.Interrupted && !strings.HasSuffix(w.Body.String(), string(r.Err.Event())) {
				t.Errorf("%s: the client has %q", name, w.Body)
			}
			if c.broken && (r.FirstByte > second || r.Events != 3) {
				t.Errorf("%s: %d events, the first after %v", name, r.Events, r.FirstByte)
			}
		})
	}
}

// A slow place that goes on is none that has stalled, however long it takes in all; one that only
// says that it is there has.
func TestASlowAnswerIsNoStallAndKeepAlivesAreNoAnswer(t *testing.T) {
	const comment = ": keep-alive\n\n"
	half := len(content) / 2
	for name, c := range map[string]struct {
		parts  []string
		client time.Duration
		broken bool
		after  time.Duration
	}{
		"half an event every 2 s": {parts: []string{role + content[:half], content[half:], content[:half], content[half:], finish + done}, after: 10*time.Second + trailing},
		"words among comments":    {parts: []string{role + content, comment, content, comment, content, comment, finish + done}, after: 14*time.Second + trailing},
		"nothing but comments":    {parts: []string{role + content, comment, comment, comment, comment, comment}, broken: true, after: 7 * time.Second},
		"comments that a slow client takes its time for": {
			parts: []string{content, comment, comment, comment}, client: 20 * time.Second, broken: true, after: (2 + 20 + 2 + 20 + 2 + 20 + 1 + 20) * time.Second,
		},
		"a prelude that counts as content": {parts: []string{strings.Repeat(comment, maxHeld/len(comment)+1)}, broken: true, after: 7 * time.Second},
		"a byte every 2 s":                 {parts: strings.Split(content+content, ""), broken: true, after: time.Duration(2*len(content)+5) * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			pauses := slices.Repeat([]time.Duration{2 * time.Second}, len(c.parts))
			a := try(canned(func(q *http.Request) (*http.Response, error) {
				return pacing(q, "text/event-stream", pauses, slices.Clone(c.parts)...), nil
			}))
			a.FirstByte, a.Stall = time.Hour, 5*time.Second
			w := &idler{httptest.NewRecorder(), c.client}
			began := time.Now()
			r := New(Options{}).Do(t.Context(), w, a)
			if took := time.Since(began); took != c.after {
				t.Errorf("%s: over after %v, want %v", name, took, c.after)
			}
			if r.Broken != c.broken || !r.Committed {
				t.Errorf("%s: %+v", name, r)
			}
			got := heardBy(w.Body.Bytes())
			if want := heardBy([]byte(strings.Join(c.parts, ""))); !c.broken && !slices.Equal(got, want) {
				t.Errorf("%s: heard %q, want %q", name, got, want)
			}
		})
	}
}

// Found dead with the header of an answer there and none of its content, it may be tried elsewhere
// for nothing.
func TestAnAnswerUnderWayCanBeAbandoned(t *testing.T) {
	for _, kind := range []string{"application/json", "text/event-stream"} {
		synctest.Test(t, func(t *testing.T) {
			a := try(canned(func(q *http.Request) (*http.Response, error) { return pacing(q, kind, nil, role), nil }))
			go func() {
				<-time.After(2 * time.Second)
				a.Abandon()
			}()
			r := New(Options{}).Do(t.Context(), httptest.NewRecorder(), a)
			if r.Outcome != failover.Silence || !r.Retryable || !r.Exempt || r.Err.Code != "place_ejected" {
				t.Errorf("%s: %+v", kind, r)
			}
		})
	}
}

// A client may leave while its answer is kept for a rescue: nobody continues it then.
func TestAClientThatLeavesIsNotRescued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		a := try(canned(func(q *http.Request) (*http.Response, error) {
			return pacing(q, "text/event-stream", nil, role+content), nil
		}))
		a.Keep = true
		go func() {
			<-time.After(time.Second)
			leave()
		}()
		r := New(Options{}).Do(ctx, httptest.NewRecorder(), a)
		if !r.ClientGone || r.Interrupted || r.Outcome != failover.Ignored || !r.Broken {
			t.Errorf("%+v", r)
		}
	})
}

// With Keep set a peer's error event is no last word; without it is passed on.
func TestAPeersErrorEventCanBeMended(t *testing.T) {
	theirs := string((&Error{Message: "x", Type: TypeServer, Code: "stream_idle", Origin: FromEndpoint}).Event())
	for _, keep := range []bool{true, false} {
		w := httptest.NewRecorder()
		a := try(once(streamed(io.EOF, role, content, theirs)))
		a.Peer, a.Keep = true, keep
		r := New(Options{}).Do(t.Context(), w, a)
		want := role + content
		if !keep {
			want += theirs
		}
		if r.Interrupted != keep || w.Body.String() != want || !r.Broken {
			t.Errorf("keep %v: %+v, %q", keep, r, w.Body)
		}
	}
}
