package proxy

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/failover"
)

// trickle is a body that never ends until it is closed.
type trickle struct{ gone chan struct{} }

func (b trickle) Read([]byte) (int, error) {
	<-b.gone
	return 0, io.ErrClosedPipe
}

func (b trickle) Close() error {
	select {
	case <-b.gone:
	default:
		close(b.gone)
	}
	return nil
}

// A refusal whose body does not end is one as soon as its header is there.
func TestTheBodyOfARefusalIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := make(chan struct{})
		place := canned(func(r *http.Request) (*http.Response, error) {
			answer := plain(http.StatusServiceUnavailable, nil, "")
			answer.ContentLength, answer.Body = -1, trickle{gone}
			stop := r.Context().Done()
			go func() {
				<-stop
				_ = answer.Body.Close()
			}()
			return answer, nil
		})
		began := time.Now()
		r := New(Options{}).Do(t.Context(), httptest.NewRecorder(), try(place))
		if took := time.Since(began); took > time.Second || !r.Retryable || r.Outcome != failover.ServerFault || r.Err.Code != "upstream_error" {
			t.Errorf("after %s: %+v", took, r)
		}
	})
}

// deadlines notes until when writes may take.
type deadlines struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.until = at
	return nil
}

// Over HTTP/2 a deadline that passes ends the stream, whether anything is being written or not: so it
// leaves room for what a place may be silent for.
func TestAQuietPlaceIsNoSlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stall = 5 * time.Minute
		out, in := io.Pipe()
		answer := streamed(nil)
		answer.Body = out
		a := try(once(answer))
		a.Stall, a.FirstByte = stall, 10*time.Minute
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		ended := make(chan Result, 1)
		go func() { ended <- New(Options{}).Do(t.Context(), w, a) }()
		for range 5 {
			if _, err := io.WriteString(in, content); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if left := time.Until(w.until); left < stall {
				t.Errorf("the client's stream ends in %s, and the place may be silent for %s", left, stall)
			}
			<-time.After(stall - 15*time.Second)
		}
		if _, err := io.WriteString(in, done); err != nil {
			t.Fatal(err)
		}
		_ = in.Close() // a pipe's end
		if r := <-ended; r.Outcome != failover.OK {
			t.Errorf("%+v", r)
		}
	})
}

// Between a place that broke and the one that continues nothing is written, for as long as that takes.
func TestAStreamThatWaitsToBeContinuedHasNoDeadline(t *testing.T) {
	for name, last := range map[string]string{"between events": content, "within one": content + "data: {"} {
		t.Run(name, func(t *testing.T) {
			w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
			a := try(once(streamed(errReset, content, last)))
			a.Keep = true
			if r := New(Options{}).Do(t.Context(), w, a); !r.Interrupted || !w.until.IsZero() {
				t.Errorf("ends at %s: %+v", w.until, r)
			}
		})
	}
}

// hasty is a client over HTTP/2 that closes its stream once it has the last event.
type hasty struct {
	*httptest.ResponseRecorder
	last    string
	flushed int
}

func (h *hasty) FlushError() error {
	h.flushed++
	if body := h.Body.String(); strings.HasSuffix(body, h.last) && h.flushed > strings.Count(body, "\n\n") {
		return errors.New("stream closed")
	}
	return nil
}

// What the client has whole it has, and a place that broke has broken, however soon the client closes
// after that.
func TestAClientThatClosesAtTheEndHasNotLeft(t *testing.T) {
	for name, c := range map[string]struct {
		stream  []string
		err     error
		last    string
		outcome failover.Outcome
		broken  bool
	}{
		"done":         {[]string{content, done}, io.EOF, done, failover.OK, false},
		"regular end":  {[]string{content, finish}, io.EOF, finish, failover.OK, false},
		"cut":          {[]string{content}, errReset, "}}\n\n", failover.ServerFault, true},
		"told to stop": {[]string{content, `data: {"error":{"message":"x"}}` + "\n\n"}, io.EOF, "}}\n\n", failover.ServerFault, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := &hasty{ResponseRecorder: httptest.NewRecorder(), last: c.last}
			body := streamed(c.err)
			for _, s := range c.stream {
				body.Body.(*pieces).rest = append(body.Body.(*pieces).rest, []byte(s))
			}
			r := New(Options{}).Do(t.Context(), w, try(once(body)))
			if r.Outcome != c.outcome || r.Broken != c.broken || r.ClientGone {
				t.Errorf("%+v, %d flushes of %q", r, w.flushed, w.Body)
			}
		})
	}
}

func TestWhatIsBetweenThePlaceAndTheRouterStaysThere(t *testing.T) {
	w := httptest.NewRecorder()
	New(Options{}).Do(t.Context(), w, try(once(plain(http.StatusOK, http.Header{
		"Set-Cookie": {"a=b"}, "Alt-Svc": {`h3=":443"`}, "Strict-Transport-Security": {"max-age=1"}, "Openai-Organization": {"org"}, "X-Other": {"1"},
	}, `{"choices":[]}`))))
	for _, name := range []string{"Set-Cookie", "Alt-Svc", "Strict-Transport-Security", "Openai-Organization"} {
		if v := w.Header().Get(name); v != "" {
			t.Errorf("%s: %s", name, v)
		}
	}
	if w.Header().Get("X-Other") != "1" {
		t.Error("other headers are lost")
	}
}
