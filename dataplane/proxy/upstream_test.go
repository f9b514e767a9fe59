package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

type upstream struct {
	*httptest.Server
	left chan struct{} // one for each request whose ctx ended before its handler
}

func serve(t *testing.T, h func(http.ResponseWriter, *http.Request)) *upstream {
	t.Helper()
	u := &upstream{left: make(chan struct{}, 64)}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server notices a client's leaving only then
		defer func() {
			if r.Context().Err() != nil {
				u.left <- struct{}{}
			}
		}()
		h(w, r)
	}))
	t.Cleanup(u.Close)
	return u
}

func send(w http.ResponseWriter, parts ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, p := range parts {
		_, _ = io.WriteString(w, p)
		w.(http.Flusher).Flush()
	}
}

func cut() { panic(http.ErrAbortHandler) }

func hang(r *http.Request) { <-r.Context().Done() }

type front struct {
	*httptest.Server
	relay   *Relay
	results chan Result
	attempt func(*Attempt)
}

func edge(t *testing.T, place string, attempt func(*Attempt)) *front {
	t.Helper()
	f := &front{relay: New(Options{}), results: make(chan Result, 64), attempt: attempt}
	u := target(t, place)
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		a := &Attempt{URL: u, Body: body, Client: r.Header, FirstByte: 5 * time.Second}
		if f.attempt != nil {
			f.attempt(a)
		}
		result := f.relay.Do(r.Context(), w, a)
		f.results <- result
		switch {
		case result.Broken:
			panic(http.ErrAbortHandler)
		case !result.Committed && result.Err != nil:
			result.Err.Write(w)
		}
	}))
	t.Cleanup(func() {
		f.Close()
		f.relay.Close()
	})
	return f
}

func (f *front) result(t *testing.T) Result {
	t.Helper()
	select {
	case r := <-f.results:
		return r
	case <-time.After(10 * time.Second):
		t.Fatal("the attempt did not end within 10 s")
		return Result{}
	}
}

func (f *front) post(t *testing.T) (int, string, error) {
	t.Helper()
	res, err := http.Post(f.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, string(body), err
}

func target(t *testing.T, base string) *url.URL {
	t.Helper()
	u, err := url.Parse(base + "/v1/chat/completions")
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func refusing(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

func raw(t *testing.T, bytes string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
			}
			_, _ = io.WriteString(c, bytes)
			if bytes == "" {
				_ = c.(*net.TCPConn).SetLinger(0) // a reset
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	return "http://" + l.Addr().String()
}

func status(code int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", code) }
}

func jsonBody(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, body)
}
