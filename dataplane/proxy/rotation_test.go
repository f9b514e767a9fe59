package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"anabranch/failover"
)

func TestTrustInPeersMayChangeWhileTheRelayRuns(t *testing.T) {
	p, trust, made := peer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("%s", r.Proto)
		}
		send(w, role, content, finish, done)
	})
	var config atomic.Pointer[tls.Config]
	config.Store(trust())
	relay := New(Options{PeerTLS: config.Load})
	defer relay.Close()
	try := func(want failover.Outcome) Result {
		t.Helper()
		r := relay.Do(t.Context(), httptest.NewRecorder(), &Attempt{URL: target(t, p.URL), Body: []byte("{}"), Peer: true, FirstByte: 10 * time.Second})
		if r.Outcome != want {
			t.Fatalf("%+v, want %v", r, want)
		}
		return r
	}
	try(failover.OK)
	none := trust().Clone()
	none.RootCAs = x509.NewCertPool()
	config.Store(none)
	try(failover.OK) // over the connection that is open
	if made.Load() != 1 {
		t.Errorf("%d connections", made.Load())
	}
	relay.Close()
	if r := try(failover.ConnectFailure); !r.Exempt || !errors.Is(r.Cause, errHandshake) {
		t.Errorf("%+v", r)
	}
	config.Store(trust())
	try(failover.OK)
}

func TestTheHostOfAPeerIsVerified(t *testing.T) {
	p, trust, _ := peer(t, func(w http.ResponseWriter, _ *http.Request) { send(w, role, content, finish, done) })
	for name, ok := range map[string]bool{"": true, "example.com": true, "elsewhere": false} { // "": 127.0.0.1
		config := trust().Clone()
		config.ServerName = name
		relay := New(Options{PeerTLS: func() *tls.Config { return config }})
		r := relay.Do(t.Context(), httptest.NewRecorder(), &Attempt{URL: target(t, p.URL), Body: []byte("{}"), Peer: true, FirstByte: 10 * time.Second})
		if (r.Outcome == failover.OK) != ok {
			t.Errorf("%q: %+v", name, r)
		}
		relay.Close()
	}
	u := target(t, p.URL)
	u.Host = "localhost:" + u.Port() // reached, but not in the certificate
	relay := New(Options{PeerTLS: trust})
	defer relay.Close()
	r := relay.Do(t.Context(), httptest.NewRecorder(), &Attempt{URL: u, Body: []byte("{}"), Peer: true, FirstByte: 10 * time.Second})
	if r.Outcome != failover.ConnectFailure {
		t.Errorf("%+v", r)
	}
}

// A peer that accepts and then says nothing is as good as none.
func TestAHandshakeHasItsTime(t *testing.T) {
	_, trust, _ := peer(t, func(http.ResponseWriter, *http.Request) {})
	relay := New(Options{PeerTLS: trust, ConnectPeer: 50 * time.Millisecond})
	defer relay.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	u := target(t, "https://"+l.Addr().String())
	start := time.Now()
	r := relay.Do(t.Context(), httptest.NewRecorder(), &Attempt{URL: u, Body: []byte("{}"), Peer: true, FirstByte: time.Minute})
	if r.Outcome != failover.ConnectFailure || !r.Exempt || time.Since(start) > 20*time.Second {
		t.Errorf("%+v after %s", r, time.Since(start))
	}
}
