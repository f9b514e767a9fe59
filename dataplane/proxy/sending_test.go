package proxy

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"testing"
	"testing/iotest"
	"time"
	"weak"

	"anabranch/failover"
)

func TestBodiesOfAnySizeAreSentWhole(t *testing.T) {
	for _, size := range []int{0, 1, large - 1, large, large + 1, 3 << 20} {
		body := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
		if err := iotest.TestReader(sending(body), body); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
		var got []byte
		u := serve(t, func(http.ResponseWriter, *http.Request) {})
		u.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got, _ = io.ReadAll(r.Body)
			jsonBody(w, answer)
		})
		a := &Attempt{URL: &url.URL{Scheme: "http", Host: u.Listener.Addr().String()}, Body: body, FirstByte: time.Minute}
		relay := New(Options{})
		if r := relay.Do(t.Context(), httptest.NewRecorder(), a); r.Outcome != failover.OK || !bytes.Equal(got, body) {
			t.Errorf("%d bytes: the place got %d, %+v", size, len(got), r)
		}
		relay.Close()
	}
}

// A stream that goes on for minutes does not keep the prompt that it was asked for with.
func TestALargeBodyIsLetGoWhenItsAnswerBegins(t *testing.T) {
	release := make(chan struct{})
	u := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		send(w, role, content)
		w.(http.Flusher).Flush()
		<-release
		send(w, finish, done)
	})
	a := &Attempt{URL: &url.URL{Scheme: "http", Host: u.Listener.Addr().String()}, Body: make([]byte, 1<<20), FirstByte: time.Minute}
	kept := weak.Make(&a.Body[0])
	begun := make(chan struct{})
	a.Commit = func(http.Header, Place) {
		a.Body = nil
		close(begun)
	}
	relay := New(Options{})
	defer relay.Close()
	ended := make(chan Result, 1)
	go func() { ended <- relay.Do(context.WithoutCancel(t.Context()), httptest.NewRecorder(), a) }()
	<-begun
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(10 * time.Second); kept.Value() != nil; runtime.GC() {
		select {
		case <-deadline:
			t.Fatal("it is kept")
		case <-tick.C:
		}
	}
	close(release)
	if r := <-ended; r.Outcome != failover.OK {
		t.Errorf("%+v", r)
	}
}
