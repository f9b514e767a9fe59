package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"anabranch/api/credential"
	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/collect"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
	"anabranch/failover"
	"anabranch/sim/modelserver"
)

// resources are what operators wrote, which never changes here.
type resources []*policy.Resource

func (r resources) Index() uint64             { return 1 }
func (r resources) ResourcesRevision() uint64 { return 1 }
func (r resources) List(kind policy.Kind) []*policy.Resource {
	var out []*policy.Resource
	for _, x := range r {
		if x.Kind == kind {
			out = append(out, x)
		}
	}
	return out
}

func written(t *testing.T, documents string) resources {
	t.Helper()
	var out resources
	for doc := range strings.SplitSeq(documents, "---\n") {
		r, problems := policy.Parse([]byte("apiVersion: anabranch/v1\n" + doc))
		if len(problems) > 0 {
			t.Fatalf("%s: %+v", doc, problems)
		}
		policy.Defaults(r)
		if problems := policy.Validate(r); len(problems) > 0 {
			t.Fatalf("%s: %+v", doc, problems)
		}
		out = append(out, r)
	}
	return out
}

// control is the part of a control plane that judges and plans, fed by two nodes that poll.
type control struct {
	t         *testing.T
	resources resources
	signals   *signal.Store
	health    map[failover.Place]failover.Cluster
	table     *routerpb.Table
	now       time.Time // of health, which runs ahead of the clock so that nobody waits for it
}

// collects has two nodes poll, until the test ends. What one of them finds the other knows at once.
func collects(t *testing.T, r resources, secrets string) *control {
	t.Helper()
	c := &control{t: t, resources: r, signals: signal.New(nil), now: time.Now()}
	for _, node := range []fleet.NodeID{"n1", "n2"} {
		collector, err := collect.New(collect.Options{
			Node: node, Signals: c.signals, View: func() collect.Resources { return r },
			Changed: func(uint64) <-chan struct{} { return nil },
			Secrets: credential.New(credential.Options{Dir: secrets}), Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		run(t, "collector "+string(node), collector.Run)
	}
	return c
}

// lives judges health for so many seconds on what is known now, and plans.
func (c *control) lives(seconds int) {
	c.t.Helper()
	c.signals.Put(signal.Observation{
		Node: "n1", Hello: &routerpb.Hello{RouterId: "r-us", Region: "us"}, Received: time.Now(), Connected: true,
		Report: &routerpb.Report{
			AtUnixMs: time.Now().UnixMilli(), WindowMs: 1000, QuotaStoreOk: true,
			Clusters: []*routerpb.ClusterSignal{{Cluster: "us-a", Model: "llama-3.1-8b", Scraped: true, EndpointsTotal: 1, EndpointsReady: 1}},
			Demand:   []*routerpb.DemandSignal{{Model: "llama-3.1-8b", Class: "interactive", WorkPerS: 12_000}},
		},
	})
	now := c.signals.Snapshot(time.Now())
	for range seconds {
		c.now = c.now.Add(time.Second)
		c.health, _ = failover.StepAll(c.health, plan.Evidence(c.resources, now), plan.FailoverConfig(c.resources), c.now)
	}
	out := plan.Compute(plan.Input{Resources: c.resources, Signals: now, Previous: c.table, Health: c.health, Now: c.now, Warm: true})
	c.table = out.Table
}

// share is the weight of a cluster for clients of us.
func (c *control) share(cluster string) float64 {
	for _, w := range c.table.GetWeights() {
		for _, x := range w.GetClusters() {
			if w.GetSource() == "us" && x.GetCluster() == cluster {
				return x.GetWeight()
			}
		}
	}
	return 0
}

func (c *control) load(cluster string) signal.Load {
	return c.signals.Snapshot(time.Now()).Cluster(fleet.ClusterID(cluster), "")
}

// A region without a router: what the gateway's endpoint picker and the model servers write reaches the
// weights, and so does their death.
func TestARegionWithoutARouterIsSeenByPolls(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("pool-secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := start(t, func(o *Options, _ *modelserver.Options) { o.Token = "pool-secret" })
	var pods []string
	for _, id := range []fleet.EndpointID{"a", "b"} {
		pods = append(pods, fmt.Sprintf("{id: %s, url: 'http://%s', class: h100}", id, f.pods.Addrs()[id]))
	}
	c := collects(t, written(t, fmt.Sprintf(`kind: Region
metadata: {name: us}
spec: {rttMs: {eu: 80}}
---
kind: Region
metadata: {name: eu}
spec: {peerURLs: ['https://eu.example.com']}
---
kind: Model
metadata: {name: llama-3.1-8b}
---
kind: Cluster
metadata: {name: us-a}
spec: {region: us, models: [llama-3.1-8b], endpoints: [{id: x, url: 'http://127.0.0.1:1', class: h100}]}
---
kind: Cluster
metadata: {name: eu-pool}
spec: {region: eu, type: gateway, models: [llama-3.1-8b], url: 'http://%s', metricsURL: 'http://%s/metrics', priorWork: 10000,
  auth: {file: %s}, collect: {mode: always, intervalMs: 1000, timeoutMs: 5000}}
---
kind: Cluster
metadata: {name: eu-pods}
spec: {region: eu, models: [llama-3.1-8b], endpoints: [%s], collect: {mode: always, intervalMs: 1000, timeoutMs: 5000}}
`, f.Addr(), f.MetricsAddr(), filepath.Join(dir, "token"), strings.Join(pods, ", "))), dir)

	for _, cluster := range []string{"eu-pool", "eu-pods"} {
		eventually(t, cluster+" is known by polls of both nodes", func() bool {
			l := c.load(cluster)
			polls := c.signals.Snapshot(time.Now()).Polls(fleet.ClusterID(cluster))
			return l.By == signal.ByPolls && l.Freshness == signal.Fresh && l.Ready == 2 && l.Total == 2 && len(polls) == 2
		})
	}
	var kinds []string
	for _, s := range c.signals.Snapshot(time.Now()).Sources {
		if s.Node == "n1" && s.Cluster != "us-a" {
			kinds = append(kinds, fmt.Sprintf("%s/%s %s", s.Cluster, s.Endpoint, s.Kind))
		}
	}
	if want := []string{"eu-pods/a server", "eu-pods/b server", "eu-pool/ pool"}; !slices.Equal(kinds, want) {
		t.Errorf("sources %q, want %q", kinds, want)
	}

	// Requests in the pods show in what is known of both.
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	defer clients.Wait()
	defer cancel()
	f.inject("", modelserver.Fault{Kind: modelserver.Slow, Factor: 50})
	for range 6 {
		clients.Go(func() {
			resp, err := f.send(ctx, `{"model":"llama-3.1-8b","max_tokens":400,"stream":true,"messages":[{"role":"user","content":"hello"}]}`)
			if err == nil {
				<-ctx.Done()
				_ = resp.Body.Close()
			}
		})
	}
	for _, cluster := range []string{"eu-pool", "eu-pods"} {
		eventually(t, cluster+" shows the requests", func() bool { return c.load(cluster).Running+c.load(cluster).Waiting >= 6 })
	}

	c.lives(30)
	for _, cluster := range []fleet.ClusterID{"eu-pool", "eu-pods"} {
		if h := c.health[failover.Place{Cluster: cluster, Model: "llama-3.1-8b"}]; h.State != failover.Healthy || c.share(string(cluster)) <= 0 {
			t.Errorf("%s is %s, %s, with weight %v", cluster, h.State, h.Reason, c.share(string(cluster)))
		}
	}

	f.inject("", modelserver.Fault{Kind: modelserver.Refuse})
	eventually(t, "the pool has nothing ready", func() bool { l := c.load("eu-pool"); return l.By == signal.ByPolls && l.Total > 0 && l.Ready == 0 })
	eventually(t, "the pods are silent to both nodes", func() bool {
		polls := c.signals.Snapshot(time.Now()).Polls("eu-pods")
		return len(polls) == 2 && polls[0].Silent && polls[1].Silent
	})
	c.lives(120) // most of the fleet at once is not believed for a minute
	for _, cluster := range []fleet.ClusterID{"eu-pool", "eu-pods"} {
		if h := c.health[failover.Place{Cluster: cluster, Model: "llama-3.1-8b"}]; h.State != failover.Evacuated || c.share(string(cluster)) != 0 {
			t.Errorf("%s is %s, %s, with weight %v", cluster, h.State, h.Reason, c.share(string(cluster)))
		}
	}
	if got := c.share("us-a"); got < 0.99 {
		t.Errorf("us keeps %v of its own", got)
	}
}
