package rls

import (
	"context"
	"net"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"anabranch/api/routerpb"
	"anabranch/dataplane/admit"
	"anabranch/dataplane/table"
)

// quota is a limit of a tenant.
func quota(id, kind string, limit int64, change ...func(*routerpb.Quota)) *routerpb.Quota {
	q := &routerpb.Quota{
		Id: id, Tenant: "acme", Organisation: "acme", Kind: kind, Limit: limit, PeriodMs: 3600_000, Burst: limit, Degraded: table.DegradedShare,
	}
	for _, f := range change {
		f(q)
	}
	return q
}

// limits makes a table of the tenants acme, whose API key is "k-acme", and free, who has no limits.
func limits(t testing.TB, quotas ...*routerpb.Quota) *table.Table {
	t.Helper()
	pb := &routerpb.Table{
		Ref:     &routerpb.TableRef{ClusterId: "test", Epoch: 1, Revision: 1},
		Regions: []*routerpb.Region{{Id: "here"}},
		Clusters: []*routerpb.Cluster{{
			Id: "gpus", Region: "here", Kind: table.KindGateway, GatewayUrl: "http://127.0.0.1:1", Models: []string{"llama", "qwen"},
		}},
		Models:        []*routerpb.Model{{Id: "llama", Aliases: []string{"default"}}, {Id: "qwen"}},
		Tenants:       []*routerpb.Tenant{{Id: "acme", Organisation: "acme", KeySha256: [][]byte{sumOf("k-acme")}}, {Id: "free"}},
		Organisations: []*routerpb.Organisation{{Id: "acme", Epoch: 1, Young: true, Version: 1, Shares: []*routerpb.Share{{Region: "here", Parts: 1_000_000}}}},
		Quotas:        quotas,
	}
	tab, err := table.Build(pb)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// door is a server with an admitter behind it and a client before it.
type door struct {
	t        testing.TB
	tables   table.Holder
	admitter *admit.Admitter
	server   *Server
	registry *prometheus.Registry
	conn     *grpc.ClientConn
	client   rlsv3.RateLimitServiceClient
	stop     func()
}

// opened makes a door to quotas that are kept in a store.
func opened(t testing.TB, store admit.Store, tab *table.Table, change ...func(*Options)) *door {
	t.Helper()
	d := &door{t: t, registry: prometheus.NewRegistry()}
	d.tables.Store(tab)
	var err error
	if d.admitter, err = admit.New(admit.Options{Stores: admit.Own(store), Region: "here"}); err != nil {
		t.Fatal(err)
	}
	o := Options{Tables: &d.tables, Quotas: d.admitter, Registerer: d.registry}
	for _, f := range change {
		f(&o)
	}
	if d.server, err = New(o); err != nil {
		t.Fatal(err)
	}
	listener := bufconn.Listen(1 << 16)
	d.serve(listener)
	d.conn, err = grpc.NewClient("passthrough:///door", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	d.client = rlsv3.NewRateLimitServiceClient(d.conn)
	t.Cleanup(func() {
		if err := d.conn.Close(); err != nil {
			t.Error(err)
		}
		d.stop()
	})
	return d
}

// serve runs the server until stop, and the admitter for as long.
func (d *door) serve(listener net.Listener) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(d.t.Context()))
	last, cancelLast := context.WithCancel(ctx)
	served, admitted := make(chan error, 1), make(chan error, 1)
	go func() { served <- d.server.Run(last, listener) }()
	go func() { admitted <- d.admitter.Run(ctx) }()
	d.stop = func() {
		d.t.Helper()
		cancelLast()
		if err := <-served; err != nil {
			d.t.Errorf("serve: %v", err)
		}
		cancel()
		if err := <-admitted; err != nil {
			d.t.Errorf("admit: %v", err)
		}
		d.stop = func() {}
	}
}

// patience bounds a call of the tests.
const patience = 10 * time.Second

// call makes a call that must be answered.
func (d *door) call(ds ...*ratelimitv3.RateLimitDescriptor) *rlsv3.RateLimitResponse {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	out, err := d.client.ShouldRateLimit(ctx, &rlsv3.RateLimitRequest{Domain: DefaultDomain, Descriptors: ds})
	if err != nil {
		d.t.Fatal(err)
	}
	if len(out.Statuses) != len(ds) {
		d.t.Fatalf("%d statuses for %d descriptors", len(out.Statuses), len(ds))
	}
	return out
}

// ok makes a call that must not be refused, over one that must be.
func (d *door) ok(ds ...*ratelimitv3.RateLimitDescriptor) *rlsv3.RateLimitResponse {
	d.t.Helper()
	out := d.call(ds...)
	if out.OverallCode != rlsv3.RateLimitResponse_OK {
		d.t.Fatalf("refused: %v", out)
	}
	return out
}

func (d *door) over(ds ...*ratelimitv3.RateLimitDescriptor) *rlsv3.RateLimitResponse {
	d.t.Helper()
	out := d.call(ds...)
	if out.OverallCode != rlsv3.RateLimitResponse_OVER_LIMIT {
		d.t.Fatalf("not refused: %v", out)
	}
	return out
}

// until waits for a condition.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-look.C {
		if time.Now().After(deadline) {
			t.Fatalf("it never came to be that %s", what)
		}
	}
}

// ofModel narrows a quota to a model.
func ofModel(model string) func(*routerpb.Quota) {
	return func(q *routerpb.Quota) { q.Model = model }
}

// count is the sum of a counter's series that have a label, or all (label empty).
func (d *door) count(metric, label, value string) float64 {
	d.t.Helper()
	families, err := d.registry.Gather()
	if err != nil {
		d.t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != metric {
			continue
		}
		for _, m := range f.GetMetric() {
			fits := label == ""
			for _, l := range m.GetLabel() {
				fits = fits || l.GetName() == label && l.GetValue() == value
			}
			if fits {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}
