package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
	sealed "anabranch/api/order/signed"
	"anabranch/api/routerpb"
	"anabranch/cmd/anabranch-controlplane/node"
	"anabranch/cmd/anabranch-router/instance"
	"anabranch/cmd/anabranch/dev"
	"anabranch/cmd/e2e/loopback"
	"anabranch/controlplane/audit"
	"anabranch/controlplane/store"
)

// outage is a whole small system that a test takes nodes from: three nodes, two regions with a cluster and a router
// each, and two people with a key to sign orders with. Both clusters are providers, so that either router can ask
// either without certificates.
type outage struct {
	session
	nodes   []*alive[*node.Node]
	routers map[string]*alive[*instance.Instance]
	urls    []string // of the nodes' API
	cluster string   // the control plane's id
	apiKey  string
	ann     ed25519.PrivateKey
}

// alive is a part that runs, and can be started again where it was.
type alive[P interface{ Run(context.Context) error }] struct {
	make func() P
	part P
	end  func() error // nil: it does not run
}

func (a *alive[P]) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	a.part = a.make()
	done := make(chan error, 1)
	go func() { done <- a.part.Run(ctx) }()
	a.end = func() error {
		cancel()
		return <-done
	}
}

func (a *alive[P]) stop(t *testing.T) {
	t.Helper()
	if a.end == nil {
		return
	}
	if err := a.end(); err != nil {
		t.Error(err)
	}
	a.end = nil
}

const twoProviders = `apiVersion: anabranch/v1
kind: Region
metadata: {name: eu}
spec: {zone: europe}
---
apiVersion: anabranch/v1
kind: Region
metadata: {name: us}
spec: {zone: america}
---
apiVersion: anabranch/v1
kind: Model
metadata: {name: m}
spec: {}
---
apiVersion: anabranch/v1
kind: Cluster
metadata: {name: eu-a}
spec: {type: provider, region: eu, url: %q, models: [m]}
---
apiVersion: anabranch/v1
kind: Cluster
metadata: {name: us-a}
spec: {type: provider, region: us, url: %q, models: [m]}
---
apiVersion: anabranch/v1
kind: Tenant
metadata: {name: acme}
spec: {tier: standard, apiKeys: [{id: k, sha256: %s}]}
`

// beginOutage starts the system, and returns when every router serves from its own region.
func beginOutage(t *testing.T) *outage {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	s := &outage{session: session{t: t}, routers: map[string]*alive[*instance.Instance]{}, apiKey: dev.NewKey()}
	t.Setenv("ANABRANCH_TOKEN", "admin-token-of-this-test")
	t.Setenv("ANABRANCH_CONTEXT", "")
	t.Setenv("ANABRANCH_CONFIG", filepath.Join(dir, "config.yaml"))
	t.Setenv("ANABRANCH_EMERGENCY_KEY", "")
	var lines string
	for _, who := range []string{"ann", "bob"} {
		line, _ := s.do(0, "", "emergency", "keygen", who+".pem", "--name", who)
		lines += line
	}
	s.file("keys", lines)
	var err error
	if s.ann, err = sealed.ReadPrivate("ann.pem"); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	grpc := s.startNodes(dir, log)
	t.Setenv("ANABRANCH_SERVER", strings.Join(s.urls, ","))
	s.until(20*time.Second, "a leader", func() error { return s.quorum() })
	server := httptest.NewServer(http.HandlerFunc(complete))
	t.Cleanup(server.Close)
	s.do(0, fmt.Sprintf(twoProviders, server.URL, server.URL, dev.HashKey(s.apiKey)), "apply", "-f", "-")
	for _, region := range []string{"eu", "us"} {
		front, admin := loopback.Free(t), loopback.Free(t)
		r := &alive[*instance.Instance]{make: func() *instance.Instance {
			i, err := instance.New(instance.Options{
				Router: fleet.RouterID(region + "-1"), Region: fleet.RegionID(region), DataDir: filepath.Join(dir, region),
				Listen: front, AdminListen: admin, ControlPlane: grpc, EmergencyKeys: filepath.Join(dir, "keys"),
				DrainWithin: time.Second, Logger: log, Version: "test",
			})
			if err != nil {
				t.Fatal(err)
			}
			return i
		}}
		s.routers[region] = r
		r.start(t)
		t.Cleanup(func() { r.stop(t) })
	}
	for region := range s.routers {
		s.until(20*time.Second, region+" to serve", func() error { return s.served(region, region) })
	}
	// What a cluster may replicate is known once all its members have said what they can: not of one that dies in its
	// first second.
	s.until(20*time.Second, "all nodes to be known for what they can do", func() error {
		var status struct{ FeatureLevel int }
		if err := s.call(http.MethodGet, s.urls[0]+"/v1/status", "", 200, &status); err != nil || status.FeatureLevel >= 6 {
			return err
		}
		return fmt.Errorf("they agree on %d", status.FeatureLevel)
	})
	return s
}

func (s *outage) startNodes(dir string, log *slog.Logger) (grpc []string) {
	s.t.Helper()
	var peers []store.Peer
	var listeners []net.Listener
	for i := range 3 {
		l := loopback.Listen(s.t)
		listeners = append(listeners, l)
		peers = append(peers, store.Peer{ID: fleet.NodeID(fmt.Sprintf("n%d", i+1)), Address: l.Addr().String()})
	}
	for i, peer := range peers {
		o := node.Options{
			ID: peer.ID, DataDir: filepath.Join(dir, string(peer.ID)), HTTP: loopback.Free(s.t), GRPC: loopback.Free(s.t), Raft: peer.Address,
			RaftListener: listeners[i], Peers: peers, Tokens: map[string]string{"admin": "admin-token-of-this-test"},
			EmergencyKeys: filepath.Join(dir, "keys"), Logger: log, Version: "test",
		}
		n := &alive[*node.Node]{make: func() *node.Node {
			n, err := node.New(o)
			if err != nil {
				s.t.Fatal(err)
			}
			o.RaftListener = nil // from the second start on
			return n
		}}
		n.start(s.t)
		s.t.Cleanup(func() { n.stop(s.t) })
		s.nodes = append(s.nodes, n)
		s.urls, grpc = append(s.urls, "http://"+o.HTTP), append(grpc, o.GRPC)
	}
	return grpc
}

// complete answers as a model server does.
func complete(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // what it says does not matter
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`) // who went away sees nothing
}

// until polls until ok says nil, and tells how long that took.
func (s *outage) until(within time.Duration, what string, ok func() error) time.Duration {
	s.t.Helper()
	began, tick := time.Now(), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for {
		err := ok()
		took := time.Since(began)
		switch {
		case err == nil:
			return took
		case took > within:
			s.t.Fatalf("waited %v for %s: %v", within, what, err)
		}
		<-tick.C
	}
}

// call asks a node, or a router, and wants a status.
func (s *outage) call(method, url, body string, want int, into any) error {
	req, err := http.NewRequestWithContext(s.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer admin-token-of-this-test")
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != want {
		return errors.Join(err, fmt.Errorf("%s %s: %d %s", method, url, resp.StatusCode, text))
	}
	return json.Unmarshal(text, into)
}

// slurp reads an answer to its end.
func slurp(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// quorum says why the nodes know no leader.
func (s *outage) quorum() error {
	var status struct{ Leader, ClusterID string }
	for i, n := range s.nodes {
		if n.end == nil {
			continue
		}
		if err := s.call(http.MethodGet, s.urls[i]+"/v1/status", "", 200, &status); err != nil {
			return err
		}
		if status.Leader == "" {
			return errors.New("none is known")
		}
		s.cluster = status.ClusterID
	}
	return nil
}

// ask sends a request to the router of a region.
func (s *outage) ask(region string) (status int, served string, body string, err error) {
	at := s.routers[region].part.Addresses().Front
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://"+at+"/v1/chat/completions",
		strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hello"}]}`))
	if err != nil {
		return 0, "", "", err
	}
	req.Header.Set("Authorization", "Bearer "+s.apiKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header.Get("x-anabranch-region"), string(text), err
}

// served says why a request at one region is not served by another.
func (s *outage) served(at, by string) error {
	status, region, body, err := s.ask(at)
	if err != nil || status != http.StatusOK || region != by {
		return errors.Join(err, fmt.Errorf("%d from %q: %s", status, region, body))
	}
	return nil
}

// sign makes the message of an order of Ann's, as `anabranch emergency` does.
func (s *outage) sign(private ed25519.PrivateKey, p *routerpb.SignedPayload) string {
	s.t.Helper()
	if p.GetClusterId() == "" {
		p.ClusterId = s.cluster
	}
	m, err := sealed.Sign(private, p)
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{
		"payload": base64.StdEncoding.EncodeToString(m.GetPayload()), "key": m.GetKey(), "signature": base64.StdEncoding.EncodeToString(m.GetSignature()),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// trail is what the audit trail says of emergency orders, oldest first.
func (s *outage) trail() []audit.Entry {
	s.t.Helper()
	out, _ := s.do(0, "", "audit", "list", "--kind", "EmergencyOrder", "--oldest-first", "-o", "json")
	var list struct{ Items []audit.Entry }
	if err := json.NewDecoder(bytes.NewBufferString(out)).Decode(&list); err != nil {
		s.t.Fatalf("%v in %s", err, out)
	}
	return list.Items
}
