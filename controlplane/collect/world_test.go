package collect

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/credential"
	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/signal"
)

// configured is a state of clusters alone.
type configured struct {
	revision uint64
	clusters []*policy.Resource
}

func (c configured) Index() uint64             { return c.revision }
func (c configured) ResourcesRevision() uint64 { return c.revision }
func (c configured) List(kind policy.Kind) []*policy.Resource {
	if kind != policy.KindCluster {
		return nil
	}
	return c.clusters
}

// world is a collector, the clusters that it is told of, and the signals that it writes.
type world struct {
	t        testing.TB
	signals  *signal.Store
	registry *prometheus.Registry
	o        Options
	c        *Collector

	mu      sync.Mutex // guards what follows
	state   configured
	changed chan struct{}
	log     strings.Builder
}

// newWorld has clusters by their specs in YAML, in the order of their names.
func newWorld(t testing.TB, way http.RoundTripper, clusters map[string]string) *world {
	t.Helper()
	w := &world{t: t, signals: signal.New(nil), registry: prometheus.NewRegistry(), changed: make(chan struct{})}
	w.o = Options{
		Node: "n1", Signals: w.signals, Transport: way, Registerer: w.registry, Logger: slog.New(slog.NewTextHandler(w, nil)),
		View: func() Resources {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.state
		},
		Changed: func(after uint64) <-chan struct{} {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.state.revision > after {
				done := make(chan struct{})
				close(done)
				return done
			}
			return w.changed
		},
	}
	w.configure(clusters)
	return w
}

// Write keeps the log.
func (w *world) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(b)
}

func (w *world) logged() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

// configure replaces the clusters.
func (w *world) configure(clusters map[string]string) {
	w.t.Helper()
	var list []*policy.Resource
	for name, spec := range clusters {
		list = append(list, parsed(w.t, name, spec))
	}
	slices.SortFunc(list, func(a, b *policy.Resource) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = configured{w.state.revision + 1, list}
	close(w.changed)
	w.changed = make(chan struct{})
}

func parsed(t testing.TB, name, spec string) *policy.Resource {
	t.Helper()
	r, problems := policy.Parse([]byte(fmt.Sprintf("apiVersion: anabranch/v1\nkind: Cluster\nmetadata: {name: %s}\nspec: %s", name, spec)))
	if len(problems) == 0 {
		policy.Defaults(r)
		problems = policy.Validate(r)
	}
	if len(problems) > 0 {
		t.Fatalf("%s: %+v", spec, problems)
	}
	return r
}

// run collects until the test, or stop, ends it.
func (w *world) run() (stop func()) {
	w.t.Helper()
	c, err := New(w.o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.c = c
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := c.Run(ctx); err != nil {
			w.t.Errorf("collector: %v", err)
		}
	}()
	stop = func() {
		cancel()
		<-ended
	}
	w.t.Cleanup(stop)
	return stop
}

// source is one as the signals have it; the zero Source if they have none.
func (w *world) source(cluster, endpoint string) signal.Source {
	for _, s := range w.signals.Snapshot(time.Now()).SourcesOf(fleet.ClusterID(cluster)) {
		if string(s.Endpoint) == endpoint {
			return s
		}
	}
	return signal.Source{}
}

// await waits until a source is as wanted.
func (w *world) await(what, cluster, endpoint string, is func(signal.Source) bool) signal.Source {
	w.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		s := w.source(cluster, endpoint)
		if is(s) {
			return s
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%s/%s is not %s: %+v\n%s", cluster, endpoint, what, s, w.logged())
		}
		<-time.After(10 * time.Millisecond)
	}
}

// reports has a router of a region report now.
func (w *world) reports(region string) {
	w.signals.Put(signal.Observation{
		Node: "n1", Hello: &routerpb.Hello{RouterId: "r-" + region, Region: region},
		Report: &routerpb.Report{AtUnixMs: time.Now().UnixMilli()}, Received: time.Now(), Connected: true,
	})
}

func gateway(metricsURL, collect string) string {
	return fmt.Sprintf("{region: eu, type: gateway, models: [m], url: %q, metricsURL: %q, collect: {mode: always, %s}}", "http://gw.invalid", metricsURL, collect)
}

func server(url, collect string) string {
	return fmt.Sprintf("{region: eu, models: [m], endpoints: [{id: a, url: %q, class: h100}], collect: {mode: always, %s}}", url, collect)
}

// secretsIn reads credentials below a folder.
func secretsIn(dir string) *credential.Store {
	return credential.New(credential.Options{Dir: dir, Control: Allowed, Logger: slog.New(slog.DiscardHandler)})
}

const (
	poolPage = "llm_d_epp_ready_endpoints{name=\"p\"} 4\nllm_d_epp_average_queue_size{name=\"p\"} 2\n" +
		"llm_d_epp_average_running_requests{name=\"p\"} 8\nllm_d_epp_average_kv_cache_utilization{name=\"p\"} 0.5\n"
	serverPage = "vllm:num_requests_waiting 3\nvllm:num_requests_running 5\nvllm:kv_cache_usage_perc 0.2\nvllm:generation_tokens_total 7\n"
)
