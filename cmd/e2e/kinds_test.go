package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"anabranch/api/fleet"
	"anabranch/cmd/anabranch-controlplane/node"
	"anabranch/cmd/anabranch-router/instance"
	"anabranch/cmd/anabranch/client"
	"anabranch/cmd/e2e/loopback"
	"anabranch/controlplane/store"
	"anabranch/sim/modelserver"
)

// front is a reverse proxy for an endpoint.
func (s *System) front(servers *modelserver.Server, endpoint fleet.EndpointID) http.Handler {
	to, err := url.Parse("http://" + servers.Addrs()[endpoint])
	if err != nil {
		s.t.Fatal(err)
	}
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, FlushInterval: -1}
}

// file writes a file that only this test uses, or replaces it as a whole.
func file(s *System, path, text string) {
	s.t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		s.t.Fatal(err)
	}
}

// provider: an external API gets the router's key, never the client's, and its own name of the model;
// the key may change at any time.
func (s *System) provider() {
	servers := s.pods("outside", "vendor/ext-1", nil, "v1")
	var mu sync.Mutex
	key, seen := "sk-outside-1", []http.Header(nil)
	inner := http.StripPrefix("/openai", s.front(servers, "v1"))
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		mu.Lock()
		known := q.Header.Get("Authorization") == "Bearer "+key
		seen = append(seen, q.Header.Clone())
		mu.Unlock()
		if !known {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}`)
			return
		}
		inner.ServeHTTP(w, q)
	}))
	s.t.Cleanup(api.Close)
	secret := filepath.Join(s.t.TempDir(), "key")
	file(s, secret, key+"\n")
	s.apply(base("external", "") + fmt.Sprintf(`---
apiVersion: anabranch/v1
kind: Cluster
metadata: {name: outside}
spec:
  type: provider
  region: us-east-1
  url: %s/openai
  models: [external]
  modelNames: {external: vendor/ext-1}
  auth: {type: bearer, file: %s}
`, api.URL, secret))
	for _, region := range regions {
		s.await(20*time.Second, region+" to reach the provider", func() error {
			a := s.ask(region, "acme", chat("external", true))
			if err := a.whole(); err != nil {
				return err
			}
			if a.cluster() != "outside" || a.header.Get("x-anabranch-attempts") != "1" {
				return fmt.Errorf("%s after %s attempts", a.cluster(), a.header.Get("x-anabranch-attempts"))
			}
			return nil
		})
	}
	if got := models(servers.Status(1).Endpoints[0].Recent); len(got) != 1 || got[0] != "vendor/ext-1" {
		s.t.Errorf("asked for as %q", got)
	}
	mu.Lock()
	for _, h := range seen {
		for name, values := range h {
			if text := strings.Join(values, " "); strings.Contains(text, s.keys["acme"]) || strings.Contains(text, "acme") {
				s.t.Errorf("header %s tells of the tenant", name)
			}
		}
	}
	key = "sk-outside-2"
	mu.Unlock()
	// The old key is refused, which is no matter of the client's.
	a := s.ask("us-east-1", "acme", chat("external", false))
	if a.status < 500 || strings.Contains(a.body, "sk-outside") {
		s.t.Errorf("with a key that the provider refuses: %d %s", a.status, a.body)
	}
	file(s, secret, "sk-outside-2")
	s.await(20*time.Second, "the new key to be read", func() error { return s.ask("us-east-1", "acme", chat("external", false)).whole() })
}

// certified: an endpoint that lets nobody in without a certificate is asked, and measured.
func (s *System) certified() {
	servers := s.pods("certified", "certified", nil, "c1")
	now := time.Now()
	theirs, err := s.authority.Node("pod", now)
	if err != nil {
		s.t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(theirs.Cert, theirs.Key)
	if err != nil {
		s.t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(s.authority.Pair().Cert)
	pod := httptest.NewUnstartedServer(s.front(servers, "c1"))
	pod.TLS = &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted,
	}
	pod.StartTLS()
	s.t.Cleanup(pod.Close)
	ours, err := s.authority.Router("us-east-1", "towards-pods", now)
	if err != nil {
		s.t.Fatal(err)
	}
	dir := s.t.TempDir()
	for name, text := range map[string][]byte{"cert": ours.Cert, "key": ours.Key, "ca": s.authority.Pair().Cert} {
		file(s, filepath.Join(dir, name), string(text))
	}
	s.apply(base("certified", "") + fmt.Sprintf(`---
apiVersion: anabranch/v1
kind: Cluster
metadata: {name: certified}
spec:
  region: us-east-1
  models: [certified]
  endpoints: [{id: c1, url: %q, class: h100}]
  auth: {type: mtls, certFile: %[2]s/cert, keyFile: %[2]s/key, caFile: %[2]s/ca}
`, pod.URL, dir))
	s.await(20*time.Second, "the cluster to answer", func() error { return s.ask("us-east-1", "acme", chat("certified", true)).whole() })
	s.await(10*time.Second, "it to be measured", func() error {
		r := s.record("us-east-1", s.ask("us-east-1", "acme", chat("certified", false)))
		if e := r.Attempts[0].Expected; e == nil || e.SignalAgeMs < 0 {
			return fmt.Errorf("expected %+v", e)
		}
		return nil
	})
}

// foreign: a region with a control plane of its own is one member here. Its routers know the tenant, and
// nothing of our policies.
func (s *System) foreign() {
	const region = "sa-east-1"
	l := loopback.Listen(s.t)
	pair, err := s.authority.Node("far", time.Now())
	n := &Node{options: node.Options{
		ID: "far", DataDir: filepath.Join(s.t.TempDir(), "far"), HTTP: "127.0.0.1:0", GRPC: "127.0.0.1:0",
		RaftListener: l, Peers: []store.Peer{{ID: "far", Address: l.Addr().String()}},
		TLS: s.certificate("far", pair, err), Tokens: s.tokens, Logger: s.log.With("process", "far"), Version: "e2e",
	}}
	s.startNode(n)
	pair, err = s.authority.Router(region, "far-1", time.Now())
	r := &Router{s: s, options: instance.Options{
		Router: "far-1", Region: region, Listen: "127.0.0.1:0", PeerListen: "127.0.0.1:0", AdminListen: "127.0.0.1:0",
		ControlPlane: []string{n.at.GRPC}, DataDir: filepath.Join(s.t.TempDir(), "far-1"),
		TLS: s.certificate("far-1", pair, err), DrainWithin: 5 * time.Second, Logger: s.log.With("process", "far-1"), Version: "e2e",
	}}
	r.start()
	far := &client.Client{Servers: []string{"http://" + n.at.HTTP}, Token: s.tokens["admin"]}
	s.await(20*time.Second, "the other control plane to lead itself", func() error {
		var status struct{ Leader string }
		if err := far.JSON(s.t.Context(), "/v1/status", nil, &status); err != nil || status.Leader == "" {
			return fmt.Errorf("leader %q, %w", status.Leader, err)
		}
		return nil
	})
	servers := s.pods("far-a", "southern", nil, "f1")
	place := fmt.Sprintf("---\napiVersion: anabranch/v1\nkind: Region\nmetadata: {name: %s}\nspec: {zone: sa, peerURLs: [\"https://%s\"]}\n", region, r.at.Peer)
	write(s, far, place+base("southern", "")+member(region, "far-a", "southern", servers)+
		"---\napiVersion: anabranch/v1\nkind: Tenant\nmetadata: {name: acme}\nspec: {}\n")
	s.apply(place + base("southern", "") + fmt.Sprintf(`---
apiVersion: anabranch/v1
kind: Cluster
metadata: {name: far}
spec: {type: router, region: %s, models: [southern]}
`, region) + scenario("foreign", "  models: [southern]\n"))
	ask := func(ask func() answer) {
		s.await(20*time.Second, "the far region to answer", func() error {
			a := ask()
			if err := a.whole(); err != nil {
				return err
			}
			if a.region() != region || a.cluster() != "far-a" || a.endpoint() != "f1" {
				return fmt.Errorf("by %s, %s, %s", a.region(), a.cluster(), a.endpoint())
			}
			return nil
		})
	}
	ask(func() answer { return s.ask("us-east-1", "acme", chat("southern", true)) })
	ask(func() answer { return s.askFor("foreign", "eu-west-1", "acme", chat("southern", false)) })
}

// discovered: endpoints come and go with what a file says, and a file that can't be read changes
// nothing; others are found by the addresses of a host.
func (s *System) discovered() {
	servers := s.pods("found", "found", nil, "f1", "f2")
	list := filepath.Join(s.t.TempDir(), "endpoints.yaml")
	line := func(id fleet.EndpointID) string {
		return fmt.Sprintf("- {id: %s, url: \"http://%s\", class: h100}\n", id, servers.Addrs()[id])
	}
	file(s, list, line("f1"))
	named := s.pods("named", "named", nil, "n1")
	_, port, _ := strings.Cut(named.Addrs()["n1"], ":")
	s.apply(base("found", "") + base("named", "") + fmt.Sprintf(`---
apiVersion: anabranch/v1
kind: Cluster
metadata: {name: found}
spec: {region: us-east-1, models: [found], discovery: {kind: file, name: %s}}
---
apiVersion: anabranch/v1
kind: Cluster
metadata: {name: named}
spec: {region: us-east-1, models: [named], discovery: {kind: dns, name: localhost, port: %s, class: h100}}
`, list, port))
	at := func(want string) {
		s.await(20*time.Second, want+" to be used", func() error {
			a := s.ask("us-east-1", "acme", short("found", ""))
			return a.by(a.endpoint(), want)
		})
	}
	at("f1")
	file(s, list, line("f2"))
	at("f2")
	file(s, list, "- {id: f1, port: x}\n")
	s.await(20*time.Second, "the mistake to be noticed", func() error {
		if n := s.metric("us-east-1", "anabranch_discovery_failures_total", `cluster="found"`); n == 0 {
			return errNotYet
		}
		return nil
	})
	at("f2")
	file(s, list, line("f1"))
	at("f1")
	s.await(20*time.Second, "the host's addresses to be found", func() error { return s.ask("us-east-1", "acme", chat("named", true)).whole() })
}
