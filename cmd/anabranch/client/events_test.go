package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestEventsAreReadOneAfterTheOther(t *testing.T) {
	const stream = ": hello\n\nid: 1\nevent: put\ndata: {\"a\":1}\n\n: heartbeat\nid: 1\n\nevent: empty\n\ndata:{\"n\":1}\n\ndata:{\"b\":2}\nevent: last\n\nevent: cut\ndata: {"
	var got []string
	lines := 0
	err := readEvents(strings.NewReader(stream), func() { lines++ }, func(name string, data []byte) error {
		got = append(got, name+" "+string(data))
		return nil
	})
	if text := strings.Join(got, "; "); text != `put {"a":1};  {"n":1}; last {"b":2}` || !errors.Is(err, ErrStreamEnded) || lines != 18 {
		t.Errorf("%q after %d lines, %v", text, lines, err)
	}
	broken := errors.New("broken")
	if err := readEvents(strings.NewReader(stream), func() {}, func(string, []byte) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if err := readEvents(strings.NewReader("data: "+strings.Repeat("x", maxEvent)), func() {}, nil); !errors.Is(err, ErrStreamEnded) {
		t.Errorf("of an event without end: %v", err)
	}
}

func FuzzReadEvents(f *testing.F) {
	f.Add("id: 1\nevent: put\ndata: {}\n\n")
	f.Add(": heartbeat\n\ndata:\r\n\r\n")
	f.Fuzz(func(t *testing.T, s string) {
		events := 0
		err := readEvents(strings.NewReader(s), func() {}, func(name string, data []byte) error {
			events++
			if strings.ContainsAny(name, "\n") || strings.ContainsAny(string(data), "\n") {
				t.Errorf("%q with %q", name, data)
			}
			return nil
		})
		if !errors.Is(err, ErrStreamEnded) || events > strings.Count(s, "data") {
			t.Errorf("%d events, %v", events, err)
		}
	})
}

func TestEventsComeFromTheFirstServerThatAnswers(t *testing.T) {
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"title":"too much","status":503,"code":"busy"}`)
	}))
	defer refuses.Close()
	serves := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "event: asked\ndata: %s %s\n\n", r.URL.RequestURI(), r.Header.Get("Authorization"))
	}))
	defer serves.Close()
	gone := httptest.NewServer(nil)
	gone.Close()

	c := &Client{Servers: []string{gone.URL, serves.URL, refuses.URL}, Token: "secret"}
	var got string
	err := c.Events(t.Context(), "/v1/decisions", map[string][]string{"tenant": {"acme", "globex"}}, func(name string, data []byte) error {
		got = name + " " + string(data)
		return nil
	})
	if got != "asked /v1/decisions?tenant=acme&tenant=globex Bearer secret" || !errors.Is(err, ErrStreamEnded) {
		t.Errorf("%q, %v", got, err)
	}
	c.Servers = []string{refuses.URL, serves.URL}
	if err := c.Events(t.Context(), "/v1/decisions", nil, nil); !IsStatus(err, http.StatusServiceUnavailable) {
		t.Errorf("refused: %v", err)
	}
	for _, servers := range [][]string{nil, {gone.URL}} {
		c.Servers = servers
		if err := c.Events(t.Context(), "/v1/decisions", nil, nil); !errors.Is(err, ErrUnreachable) {
			t.Errorf("of %v: %v", servers, err)
		}
	}
}

func TestEventsEndWithTheirContext(t *testing.T) {
	holds := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer holds.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c := &Client{Servers: []string{holds.URL}}
	err := c.Events(ctx, "/", nil, func(string, []byte) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
