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
			f := edge(t, u.URL, func(a *Attempt) { a.FirstByte, a.Idle = time.Minute, time.Minute })
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
