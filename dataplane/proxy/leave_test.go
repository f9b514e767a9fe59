package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"anabranch/failover"
)

func TestALeavingClientIsToldToThePlaceAtOnce(t *testing.T) {
	for name, handler := range map[string]func(http.ResponseWriter, *http.Request){
		"during prefill": func(_ http.ResponseWriter, r *http.Request) { hang(r) },
		"mid-stream":     func(w http.ResponseWriter, r *http.Request) { send(w, role, content); hang(r) },
	} {
		t.Run(name, func(t *testing.T) {
			arrived := make(chan struct{}, 1)
			u := serve(t, func(w http.ResponseWriter, r *http.Request) {
				arrived <- struct{}{}
				handler(w, r)
			})
			f := edge(t, u.URL, func(a *Attempt) { a.FirstByte, a.Stall = time.Minute, time.Minute })
			ctx, leave := context.WithCancel(context.Background())
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.URL+"/v1/chat/completions", strings.NewReader(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			answered := make(chan error, 1)
			go func() {
				res, err := http.DefaultClient.Do(req)
				if err == nil {
					_, err = io.ReadAll(res.Body)
					res.Body.Close()
				}
				answered <- err
			}()
			<-arrived
			leave()
			if err := <-answered; !errors.Is(err, context.Canceled) {
				t.Errorf("the client: %v", err)
			}
			select {
			case <-u.left:
			case <-time.After(10 * time.Second):
				t.Fatal("the place goes on generating")
			}
			r := f.result(t)
			if r.Outcome != failover.Ignored || !r.ClientGone || r.Retryable {
				t.Errorf("result %+v, want a client that left", r)
			}
		})
	}
}

func TestTheRequestsOwnDeadlineBlamesNobody(t *testing.T) {
	u := serve(t, func(_ http.ResponseWriter, r *http.Request) { hang(r) })
	relay := New(Options{})
	defer relay.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	target, err := url.Parse(u.URL + "/v1/chat/completions")
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	r := relay.Do(ctx, w, &Attempt{URL: target, FirstByte: time.Minute})
	if r.Outcome != failover.Ignored || r.Retryable || r.ClientGone || r.Err == nil || r.Err.Code != "deadline_exceeded" {
		t.Errorf("result %+v", r)
	}
}

func TestAnAbandonedAttemptCanBeTriedElsewhere(t *testing.T) {
	arrived := make(chan struct{}, 1)
	u := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		hang(r)
	})
	attempts := make(chan *Attempt, 1)
	f := edge(t, u.URL, func(a *Attempt) { attempts <- a })
	go func() {
		<-arrived
		a := <-attempts
		a.Abandon()
		a.Abandon()
	}()
	if code, _, _ := f.post(t); code != http.StatusGatewayTimeout {
		t.Errorf("status %d", code)
	}
	r := f.result(t)
	if r.Outcome != failover.Silence || !r.Retryable || !r.Exempt || r.Committed || r.ClientGone {
		t.Errorf("result %+v", r)
	}
	<-u.left
}

func TestContentCantBeAbandoned(t *testing.T) {
	more := make(chan struct{})
	u := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		send(w, role, content)
		<-more
		send(w, finish, done)
	})
	var a *Attempt
	f := edge(t, u.URL, func(made *Attempt) {
		a = made
		a.Commit = func(http.Header, Place) {
			a.Abandon()
			close(more)
		}
	})
	if _, body, err := f.post(t); body != role+content+finish+done || err != nil {
		t.Errorf("body %q, %v", body, err)
	}
	if r := f.result(t); r.Outcome != failover.OK || r.Broken {
		t.Errorf("result %+v", r)
	}
	a.Abandon() // it is over
}

// lazy takes its time over the piece after the first so many bytes.
type lazy struct {
	*httptest.ResponseRecorder
	first int
	taken chan struct{}
}

func (w *lazy) Write(b []byte) (int, error) {
	if w.Body.Len() == w.first {
		<-time.After(400 * time.Millisecond)
		close(w.taken)
	}
	return w.ResponseRecorder.Write(b)
}

func (w *lazy) wait(r *http.Request) {
	select {
	case <-w.taken:
	case <-r.Context().Done():
	}
}

// While a client takes nothing of its answer, nothing can be heard of the place: that is no silence
// of the place's, which would be blamed for it.
func TestAClientThatTakesItsTimeIsNoSilenceOfThePlace(t *testing.T) {
	for name, handler := range map[string]func(http.ResponseWriter, *http.Request, *lazy){
		"stream": func(w http.ResponseWriter, r *http.Request, client *lazy) {
			client.first = len(role + content)
			send(w, role, content, content)
			client.wait(r)
			send(w, finish, done)
		},
		"large": func(w http.ResponseWriter, r *http.Request, client *lazy) {
			_, _ = io.WriteString(w, strings.Repeat("x", MaxBuffered+1))
			w.(http.Flusher).Flush()
			client.wait(r)
			_, _ = io.WriteString(w, "x")
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := &lazy{httptest.NewRecorder(), 0, make(chan struct{})}
			u := serve(t, func(w http.ResponseWriter, r *http.Request) { handler(w, r, client) })
			relay := New(Options{})
			defer relay.Close()
			target, err := url.Parse(u.URL)
			if err != nil {
				t.Fatal(err)
			}
			r := relay.Do(context.Background(), client, &Attempt{URL: target, FirstByte: time.Minute, Stall: 200 * time.Millisecond})
			if r.Outcome != failover.OK || r.Broken {
				t.Errorf("result %+v", r)
			}
		})
	}
}

// The bound of silence holds between the pieces of an answer, and not for all of it.
func TestAnAnswerThatComesSlowlyIsNoSilence(t *testing.T) {
	u := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := range len(answer) {
			_, _ = io.WriteString(w, answer[i:i+1])
			w.(http.Flusher).Flush()
			if i%8 == 0 {
				<-time.After(50 * time.Millisecond)
			}
		}
	})
	f := edge(t, u.URL, func(a *Attempt) { a.Stall = 400 * time.Millisecond })
	if code, body, err := f.post(t); code != http.StatusOK || body != answer || err != nil {
		t.Errorf("%d %q, %v", code, body, err)
	}
}

func TestContentThatComesAsItsPlaceIsFoundDeadIsNotSent(t *testing.T) {
	var a *Attempt
	u := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		end := a.live.Swap(nil) // taken by who abandons it, who has not ended it yet
		send(w, role, content)
		<-time.After(20 * time.Millisecond)
		(*end)(errAbandoned)
	})
	f := edge(t, u.URL, func(made *Attempt) { a = made })
	if code, body, _ := f.post(t); code != http.StatusGatewayTimeout || strings.Contains(body, "tok") {
		t.Errorf("%d %q", code, body)
	}
	if r := f.result(t); r.Outcome != failover.Silence || !r.Retryable || !r.Exempt || r.Committed {
		t.Errorf("result %+v", r)
	}
}
