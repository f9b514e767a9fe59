package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"anabranch/failover"
)

// peer is another region's router over TLS and HTTP/2. It counts connections.
func peer(t *testing.T, h http.HandlerFunc) (*httptest.Server, func() *tls.Config, *atomic.Int32) {
	t.Helper()
	made := &atomic.Int32{}
	p := httptest.NewUnstartedServer(h)
	p.EnableHTTP2 = true
	p.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			made.Add(1)
		}
	}
	p.StartTLS()
	t.Cleanup(p.Close)
	config := p.Client().Transport.(*http.Transport).TLSClientConfig
	return p, func() *tls.Config { return config }, made
}

func TestAWarmConnectionSavesTheHandshake(t *testing.T) {
	looks := make(chan string, 64)
	p, config, made := peer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			looks <- r.URL.Path
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if r.ProtoMajor != 2 {
			t.Errorf("%s", r.Proto)
		}
		send(w, role, content, finish, done)
	})
	relay := New(Options{PeerTLS: config, WarmEvery: 5 * time.Millisecond})
	defer relay.Close()
	base := target(t, p.URL)
	base.Path = "/base"
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		relay.Warm(ctx, func() []*url.URL { return []*url.URL{base, target(t, refusing(t))} })
	}()
	for range 3 {
		if path := <-looks; path != "/base/" {
			t.Errorf("asked for %s", path)
		}
	}
	reused := make(chan bool, 1)
	w := httptest.NewRecorder()
	traced := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused <- i.Reused }})
	r := relay.Do(traced, w, &Attempt{URL: target(t, p.URL), Body: []byte("{}"), Peer: true, FirstByte: time.Minute})
	if r.Outcome != failover.OK || w.Body.String() != role+content+finish+done {
		t.Fatalf("%+v, %q", r, w.Body)
	}
	if !<-reused || made.Load() != 1 {
		t.Errorf("the request made a connection of its own: there are %d", made.Load())
	}
	// A connection that has died is made anew, with no request in need of it.
	p.CloseClientConnections()
	for made.Load() < 2 {
		select {
		case <-looks:
		case <-time.After(10 * time.Second):
			t.Fatal("no new connection")
		}
	}
	stop()
	<-over
}

// More streams than one connection of HTTP/2 takes are spread over several, and none waits for
// another to end.
func TestStreamsToAPeerDoNotWaitForEachOther(t *testing.T) {
	const n = 300 // servers of Go take 250 on a connection
	var open atomic.Int32
	all := make(chan struct{})
	p, config, _ := peer(t, func(w http.ResponseWriter, _ *http.Request) {
		send(w, role, content)
		if open.Add(1) == n {
			close(all)
		}
		<-all
		send(w, finish, done)
	})
	relay := New(Options{PeerTLS: config})
	defer relay.Close()
	var asked sync.WaitGroup
	var failures atomic.Int32
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	for range n {
		asked.Go(func() {
			r := relay.Do(ctx, httptest.NewRecorder(), &Attempt{URL: target(t, p.URL), Body: []byte("{}"), Peer: true, FirstByte: time.Minute})
			if r.Outcome != failover.OK {
				failures.Add(1)
			}
		})
	}
	asked.Wait()
	if failures.Load() > 0 {
		t.Errorf("%d of %d streams failed; %d were open at once", failures.Load(), n, open.Load())
	}
}

// What a connection that is gone took of the bound of connections to a peer is there for the next,
// whether it had been of use or not.
func TestConnectionsThatAreGoneLeaveRoom(t *testing.T) {
	refuse := &atomic.Bool{}
	p, trust, made := peer(t, func(w http.ResponseWriter, _ *http.Request) { send(w, role, content, finish, done) })
	p.Config.ErrorLog = log.New(io.Discard, "", 0)
	config := trust().Clone()
	config.VerifyConnection = func(tls.ConnectionState) error {
		if refuse.Load() {
			return errors.New("not this one")
		}
		return nil
	}
	relay := New(Options{PeerTLS: func() *tls.Config { return config }})
	defer relay.Close()
	for i := range 3 * peerConnections {
		for _, no := range []bool{true, false} {
			refuse.Store(no)
			r := relay.Do(t.Context(), httptest.NewRecorder(), &Attempt{URL: target(t, p.URL), Body: []byte("{}"), Peer: true, FirstByte: 10 * time.Second})
			want := failover.OK
			if no {
				want = failover.ConnectFailure
			}
			if r.Outcome != want {
				t.Fatalf("round %d, refused %v: %+v", i, no, r)
			}
		}
		relay.Close()
	}
	if n := made.Load(); n < 6*peerConnections {
		t.Errorf("only %d connections were made", n)
	}
}

// A server that refuses a large body without reading it is heard, and its answer is what counts.
func TestARefusalOfALargeBodyIsHeard(t *testing.T) {
	body := bytes.Repeat([]byte("x"), 10<<20)
	for name, status := range map[string]int{"too large": 413, "busy": 429, "down": 503} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 512)) // not all of it
			_, _ = io.WriteString(c, "HTTP/1.1 "+strconv.Itoa(status)+" no\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\nno")
			<-t.Context().Done() // it neither reads nor closes
			_ = c.Close()
		}()
		relay := New(Options{})
		w := httptest.NewRecorder()
		r := relay.Do(t.Context(), w, &Attempt{URL: target(t, "http://"+l.Addr().String()), Body: body, FirstByte: 20 * time.Second})
		if r.Status != status {
			t.Errorf("%s: %+v", name, r)
		}
		relay.Close()
		_ = l.Close()
	}
}

func TestWhatIsBetweenTwoHostsStaysThere(t *testing.T) {
	got := make(chan http.Header, 1)
	u := serve(t, func(w http.ResponseWriter, r *http.Request) { got <- r.Header; jsonBody(w, answer) })
	f := edge(t, u.URL, nil)
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.URL, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Expect", "100-continue")
	q.Header.Set("Te", "trailers")
	q.Header.Set("X-Request-Id", "mine")
	res, err := (&http.Transport{ExpectContinueTimeout: time.Minute}).RoundTrip(q)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	h := <-got
	if res.StatusCode != http.StatusOK || h.Get("Expect") != "" || h.Get("Te") != "" || h.Get("X-Request-Id") != "mine" {
		t.Errorf("%d with %v", res.StatusCode, h)
	}
}

func TestACredentialIsPutOnTheWholeRequest(t *testing.T) {
	var seen *http.Request
	place := canned(func(r *http.Request) (*http.Response, error) { seen = r; return plain(200, nil, answer), nil })
	a := try(place)
	a.Client = http.Header{"Authorization": {"the client's"}, "X-Mine": {"1"}}
	a.Set = []Field{{HeaderFairness, "acme"}}
	a.Sign = func(r *http.Request, body []byte) error {
		if string(body) != "{}" || r.Header.Get("X-Mine") == "" || r.Header.Get(HeaderFairness) == "" || r.URL.Host != "place" || r.Method != http.MethodPost {
			t.Errorf("not the whole request: %v with %q", r, body)
		}
		r.Header.Set("Authorization", "ours")
		return nil
	}
	if r := New(Options{}).Do(t.Context(), httptest.NewRecorder(), a); r.Outcome != failover.OK || seen.Header.Get("Authorization") != "ours" {
		t.Errorf("%+v with %v", r, seen.Header)
	}
	a.Sign = func(*http.Request, []byte) error { return errors.New("no such file") }
	seen = nil
	r := New(Options{}).Do(t.Context(), httptest.NewRecorder(), a)
	if seen != nil || !r.Retryable || r.Outcome != failover.Ignored || r.Err.Code != "credential_missing" || strings.Contains(r.Err.Message, "file") {
		t.Errorf("%+v", r)
	}
}

// A transport of somebody else's that can't connect says so in the way of the net package.
func TestNoConnectionByAnotherTransportIsNoConnection(t *testing.T) {
	a := try(&http.Transport{DialContext: Dialer(time.Second).DialContext})
	a.URL = target(t, refusing(t))
	r := New(Options{}).Do(t.Context(), httptest.NewRecorder(), a)
	if r.Outcome != failover.ConnectFailure || !r.Exempt || r.Err.Code != "connect_failed" {
		t.Errorf("%+v", r)
	}
}
