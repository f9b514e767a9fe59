package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"anabranch/failover"
)

// fickle is a place that answers a connection's first requests, as many as it says, and does
// something else with the next one when it has read it.
type fickle struct {
	*testing.T
	then  func(net.Conn)
	mu    sync.Mutex // guards what follows
	good  int
	conns []net.Conn
	got   []string // of each request, which of its connection's and of how many bytes
}

func (f *fickle) listen() (url string) {
	f.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.conns = append(f.conns, c)
			f.mu.Unlock()
			all.Go(func() { f.serve(c) })
		}
	})
	f.Cleanup(func() {
		l.Close()
		f.mu.Lock()
		for _, c := range f.conns {
			c.Close()
		}
		f.mu.Unlock()
		all.Wait()
	})
	return "http://" + l.Addr().String()
}

func (f *fickle) serve(c net.Conn) {
	defer c.Close()
	from := bufio.NewReader(c)
	for n := 1; ; n++ {
		r, err := http.ReadRequest(from)
		if err != nil {
			return
		}
		size, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			return
		}
		f.mu.Lock()
		f.got = append(f.got, fmt.Sprintf("%d:%d", n, size))
		good := f.good
		f.mu.Unlock()
		if n > good {
			f.then(c)
			return
		}
		if _, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer); err != nil {
			return
		}
	}
}

func reset(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) } // it is open

// A place that closes the connection that was kept for it just as a request comes gets it once more, on
// a fresh one; what else breaks is for the caller.
func TestAKeptConnectionThatIsClosedIsNoFault(t *testing.T) {
	closes := func(net.Conn) {}
	own := &http.Transport{}
	t.Cleanup(own.CloseIdleConnections)
	for name, tt := range map[string]struct {
		good    int
		then    func(net.Conn)
		pad     int
		attempt func(*Attempt)
		want    string // of the second request
		got     string
	}{
		"closed":            {good: 1, then: closes, want: "200 again", got: "1:2 2:2 1:2"},
		"reset":             {good: 1, then: reset, want: "200 again", got: "1:2 2:2 1:2"},
		"with a large body": {good: 1, then: reset, pad: 3 << 20, want: "200 again", got: "1:3145730 2:3145730 1:3145730"},
		"of a transport of its own": {
			good: 1, then: reset, attempt: func(a *Attempt) { a.Transport = own }, want: "200 again", got: "1:2 2:2 1:2",
		},
		"to a peer":     {good: 1, then: reset, attempt: func(a *Attempt) { a.Peer = true }, want: "502 upstream_reset", got: "1:2 2:2"},
		"after a word":  {good: 1, then: func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 2") }, want: "502 upstream_reset", got: "1:2 2:2"},
		"after a while": {good: 1, then: func(net.Conn) { <-time.After(closedWithin + closedWithin/10) }, want: "502 upstream_reset", got: "1:2 2:2"},
		"a fresh one":   {good: 0, then: reset, want: "502 upstream_reset", got: "1:2 1:2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place := &fickle{T: t, good: tt.good, then: tt.then}
			f := edge(t, place.listen(), func(a *Attempt) {
				a.Body = []byte("{}" + strings.Repeat(" ", tt.pad))
				if tt.attempt != nil {
					tt.attempt(a)
				}
			})
			_, _, _ = f.post(t)
			f.result(t)
			code, body, err := f.post(t)
			r := f.result(t)
			said := fmt.Sprint(code)
			if r.Err != nil {
				said += " " + r.Err.Code
			}
			if r.Reconnected {
				said += " again"
			}
			if said != tt.want || err != nil || code == 200 && (body != answer || r.Outcome != failover.OK || r.Retryable) {
				t.Errorf("%s, want %s; %q, %v, %+v", said, tt.want, body, err, r)
			}
			place.mu.Lock()
			defer place.mu.Unlock()
			if got := strings.Join(place.got, " "); got != tt.got {
				t.Errorf("the place got %s, want %s", got, tt.got)
			}
		})
	}
}

// A place that closes the fresh connection too has what the request did to it on its account.
func TestARequestIsSentAgainOnlyOnce(t *testing.T) {
	place := &fickle{T: t, good: 1, then: reset}
	f := edge(t, place.listen(), nil)
	_, _, _ = f.post(t)
	f.result(t)
	place.mu.Lock()
	place.good = 0
	place.mu.Unlock()
	code, _, _ := f.post(t)
	if r := f.result(t); code != http.StatusBadGateway || !r.Reconnected || r.Err.Code != "upstream_reset" || !r.Retryable || !r.Exempt {
		t.Errorf("%d, %+v", code, r)
	}
	place.mu.Lock()
	defer place.mu.Unlock()
	if got := strings.Join(place.got, " "); got != "1:13 2:13 1:13" {
		t.Errorf("the place got %s", got)
	}
}

// Who leaves while the connection breaks has left, and nothing more is sent.
func TestNothingIsSentAgainForAClientThatLeft(t *testing.T) {
	leave := make(chan context.CancelFunc, 1)
	place := &fickle{T: t, good: 1, then: func(net.Conn) { (<-leave)() }}
	u := target(t, place.listen())
	relay := New(Options{})
	defer relay.Close()
	do := func(ctx context.Context) Result {
		return relay.Do(ctx, &nowhereTo{http.Header{}}, &Attempt{URL: u, Body: []byte("{}"), FirstByte: time.Minute})
	}
	if r := do(t.Context()); r.Outcome != failover.OK {
		t.Fatalf("%+v", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	leave <- cancel
	if r := do(ctx); !r.ClientGone || r.Reconnected {
		t.Errorf("%+v", r)
	}
}
