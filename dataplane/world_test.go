package dataplane

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/admit"
	"anabranch/dataplane/override"
	"anabranch/dataplane/table"
)

const (
	us = "us-east-1"
	eu = "eu-west-1"
)

// What a model server says.
const (
	role    = `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}` + "\n\n"
	content = `data: {"choices":[{"index":0,"delta":{"content":"tok"}}]}` + "\n\n"
	finish  = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	counted = `data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":3}}` + "\n\n"
	done    = "data: [DONE]\n\n"
	whole   = `{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":11,"completion_tokens":3}}`
)

// stub is a model server that does what a test says. It answers scrapes and canaries by itself
// unless told otherwise.
// answers as a healthy server does.
// ledger is a quota store that remembers what is charged.
// site is a cluster of a world.
type site struct {
	id, region string
	weight     float64 // from every region
	gateway    bool
	drained    bool
	endpoints  []*stub
}

// world is routers, one a region, over clusters.
type world struct {
	t       testing.TB
	sites   []site
	routers map[string]*node
	table   *routerpb.Table
	ledger  *ledger
	orders  atomic.Pointer[override.View] // emergency orders that all routers have
}

// node is one router with its servers.
type node struct {
	*Router
	front, peer, admin *httptest.Server
	rest               func() // ends the admitter that runs until the router does
}

// newWorld starts a router in each region that has a cluster. The routers do nothing beside
// requests, and lease what those need, until run is called. Change, if not nil, edits the table first.
func newWorld(t testing.TB, sites []site, change func(*routerpb.Table)) *world {
	t.Helper()
	w := &world{t: t, sites: sites, routers: map[string]*node{}, ledger: &ledger{}}
	pool := x509.NewCertPool()
	for _, s := range sites {
		if w.routers[s.region] == nil {
			w.routers[s.region] = &node{peer: httptest.NewUnstartedServer(nil)}
		}
	}
	for _, n := range w.routers {
		n.peer.EnableHTTP2 = true
		n.peer.StartTLS()
		t.Cleanup(n.peer.Close)
		pool.AddCert(n.peer.Certificate())
	}
	w.table = w.describe()
	if change != nil {
		change(w.table)
	}
	for region, n := range w.routers {
		var err error
		n.Router, err = New(Options{
			Router: fleet.RouterID("r-" + region), Region: fleet.RegionID(region), Version: "test",
			Tables: &table.Holder{}, Quotas: admit.Own(w.ledger), PeerTLS: func() *tls.Config { return &tls.Config{RootCAs: pool, ServerName: "example.com"} },
			Orders: w.orders.Load, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		n.peer.Config.Handler = n.Peer()
		n.front = httptest.NewServer(n.Front())
		n.admin = httptest.NewServer(n.Admin())
		t.Cleanup(func() {
			n.front.Close()
			n.admin.Close()
			n.relay.Close()
		})
	}
	w.apply()
	for _, n := range w.routers {
		n.lease(t)
	}
	return w
}

// clock gives the router another clock, which its admitter reads too.
func (n *node) clock(t testing.TB, now func() time.Time) {
	n.rest()
	n.now = now
	n.lease(t)
}

// lease has the router's admitter lease what requests need, until the router runs.
func (n *node) lease(t testing.TB) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	admitter := n.admit // the router may be replaced
	go func() {
		defer close(done)
		if err := admitter.Run(ctx); err != nil {
			t.Errorf("admitter: %v", err)
		}
	}()
	n.rest = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	t.Cleanup(n.rest)
}

// apply puts the table in force everywhere, as the stream of tables does: its places are there first.
func (w *world) apply() {
	w.t.Helper()
	built, err := table.Build(w.table)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, n := range w.routers {
		n.Applied(built)
		n.tables.Store(built)
	}
}

func (w *world) describe() *routerpb.Table {
	hash := func(key string) []byte {
		sum := sha256.Sum256([]byte(key))
		return sum[:]
	}
	pb := &routerpb.Table{
		Ref: &routerpb.TableRef{ClusterId: "c", Epoch: 1, Revision: 5},
		Models: []*routerpb.Model{
			{Id: "llama", Aliases: []string{"best"}, Adapters: []string{"legal"}, OutputWeight: 6},
			{Id: "lonely", OutputWeight: 6},
		},
		Tenants: []*routerpb.Tenant{
			{Id: "acme", Tier: "top", Priority: 100, KeySha256: [][]byte{hash("acme-key")}},
			{Id: "globex", Tier: "standard", Priority: 50, KeySha256: [][]byte{hash("globex-key")}},
			{Id: "initech", Tier: "batch", Priority: -10, Residency: []string{"eu"}, KeySha256: [][]byte{hash("initech-key")}},
		},
		Quotas: []*routerpb.Quota{
			{Id: "q-requests", Tenant: "globex", Kind: "requests", Limit: 1e6, PeriodMs: 60000, Burst: 1e6, Degraded: "share", Share: 1},
			{Id: "q-tokens", Tenant: "globex", Kind: "total-tokens", Limit: 1e8, PeriodMs: 60000, Burst: 1e8, Degraded: "share", Share: 1},
		},
		Classes: []*routerpb.Class{{
			Id: "interactive", Policy: "p", TtftObjectiveMs: 2000, Spill: true, PickMode: "predicted-ttft",
			FirstByteFloorMs: 600, RequestTimeoutMs: 20000, QueueMs: -1,
			Ejection: &routerpb.Ejection{ConnectFailures: 3, FailureRatio: 0.2, MinRequests: 20, WindowMs: 2000, ReprobeMs: 200, ReprobeMaxMs: 1000},
		}},
	}
	for region, n := range w.routers {
		zone, _, _ := strings.Cut(region, "-")
		other := map[string]float64{us: 80, eu: 80}
		delete(other, region)
		pb.Regions = append(pb.Regions, &routerpb.Region{Id: region, Zone: zone, PeerUrls: []string{n.peer.URL}, RttMs: other})
	}
	sum := 0.0
	for _, s := range w.sites {
		sum += s.weight
		c := &routerpb.Cluster{
			Id: s.id, Region: s.region, Kind: "endpoints", Models: []string{"llama"}, Health: "HEALTHY", HealthCap: 1, Drained: s.drained,
		}
		for i, e := range s.endpoints {
			c.Endpoints = append(c.Endpoints, &routerpb.Endpoint{Id: fmt.Sprintf("e%d", i+1), Url: e.URL, Class: "h100"})
		}
		if s.gateway {
			c.Kind, c.GatewayUrl, c.Endpoints = "gateway", s.endpoints[0].URL, nil
		}
		pb.Clusters = append(pb.Clusters, c)
	}
	for region := range w.routers {
		weights := &routerpb.Weights{Model: "llama", Class: "interactive", Source: region}
		for _, s := range w.sites {
			weights.Clusters = append(weights.Clusters, &routerpb.ClusterWeight{Cluster: s.id, Weight: s.weight / sum})
		}
		pb.Weights = append(pb.Weights, weights)
	}
	return pb
}

// run lets the routers do what goes on beside requests. The returned function ends it and waits,
// after which all is settled; it is called at the end of the test too.
func (w *world) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, n := range w.routers {
		n.rest()
		running.Go(func() {
			if err := n.Run(ctx); err != nil {
				w.t.Errorf("Run: %v", err)
			}
		})
	}
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	w.t.Cleanup(stop)
	return stop
}

// settled ends the routers and returns what is charged to the limit.
func (w *world) settled(stop func(), limit string) int64 {
	stop()
	return w.ledger.total(limit)
}

// got is what a client got.
type got struct {
	status int
	header http.Header
	body   string
	err    error // the answer did not end regularly
}

// problem is the error in the body, if it is one of the right shape.
func (r got) problem(t testing.TB) map[string]any {
	t.Helper()
	text := strings.TrimSpace(r.body)
	if i := strings.LastIndex(text, "data: "); i >= 0 {
		text = text[i+len("data: "):]
	}
	var shape struct {
		Error map[string]any `json:"error"`
	}
	if err := json.Unmarshal([]byte(text), &shape); err != nil {
		t.Fatalf("no error object in %q: %v", r.body, err)
	}
	for _, field := range []string{"message", "type", "code", "param", "origin"} {
		if _, ok := shape.Error[field]; !ok {
			t.Errorf("the error %v has no %s", shape.Error, field)
		}
	}
	return shape.Error
}

const (
	askWhole  = `{"model":"llama","messages":[{"role":"user","content":"hello"}],"max_tokens":50}`
	askStream = `{"model":"llama","stream":true,"messages":[{"role":"user","content":"hello"}],"max_tokens":50}`
)

// ask sends a request to a region's router as a tenant.
func (w *world) ask(region, tenant, body string, headers ...string) got {
	w.t.Helper()
	return w.get(http.MethodPost, w.routers[region].front.URL+"/v1/chat/completions", tenant, body, headers...)
}

func (w *world) get(method, url, tenant, body string, headers ...string) got {
	w.t.Helper()
	q, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if tenant != "" {
		q.Header.Set("Authorization", "Bearer "+tenant+"-key")
	}
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return got{res.StatusCode, res.Header, string(text), err}
}

// idle waits until no request is counted anywhere.
func (w *world) idle() {
	w.t.Helper()
	w.eventually("all counters of requests in flight are 0", func() bool {
		for _, n := range w.routers {
			if n.Open() != 0 {
				return false
			}
			for id := range n.tables.Load().Clusters {
				c := n.places.Cluster(id)
				if c.InFlight() != 0 {
					return false
				}
				for _, e := range c.Endpoints() {
					if e.InFlight() != 0 {
						return false
					}
				}
			}
			left := 0
			n.waiting.each(func(*pending) { left++ })
			if left != 0 {
				return false
			}
		}
		return true
	})
}

// eventually waits for a condition, at most 10 s.
func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	deadline := time.After(30 * time.Second) // a machine that compiles beside has starved one for 10
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			w.t.Fatalf("not within 30 s: %s", what)
		case <-tick.C:
		}
	}
}

func (w *world) record(region string, r got) *Record {
	w.t.Helper()
	id := r.header.Get("X-Anabranch-Request-Id")
	var record *Record
	w.eventually("the record of "+id, func() bool {
		record = w.routers[region].explain.find(id)
		return record != nil
	})
	return record
}
