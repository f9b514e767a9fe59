package node

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/subscribe"
	"anabranch/dataplane/table"
)

var crowdRegions = []fleet.RegionID{"us", "eu", "ap"}

// crowdSize is a thousand routers, and fewer where each costs ten times as much, under the race detector,
// or little time is given.
func crowdSize() int {
	if testing.Short() {
		return 100
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-race" && s.Value == "true" {
				return 100
			}
		}
	}
	return 1000
}

// fleetTable is a valid table of three regions, six clusters, twenty models in three classes and a
// hundred tenants: some 40 KB, a third of it weights.
func fleetTable() *routerpb.Table {
	t := &routerpb.Table{CreatedUnixMs: 1}
	var models []string
	for i := range 20 {
		id := fmt.Sprint("model-", i)
		models = append(models, id)
		t.Models = append(t.Models, &routerpb.Model{Id: id, OutputWeight: 6})
	}
	for _, r := range crowdRegions {
		t.Regions = append(t.Regions, &routerpb.Region{Id: string(r), PeerUrls: []string{"https://" + string(r)}, RttMs: map[string]float64{"us": 70, "eu": 80, "ap": 150}})
		for i := range 2 {
			c := &routerpb.Cluster{Id: fmt.Sprint(r, "-", i), Region: string(r), Kind: "endpoints", Models: models, Health: "HEALTHY", HealthCap: 1}
			for e := range 16 {
				c.Endpoints = append(c.Endpoints, &routerpb.Endpoint{Id: fmt.Sprint("pod-", e), Url: fmt.Sprintf("http://10.0.%d.%d:8000", i, e), Class: "h100"})
			}
			t.Clusters = append(t.Clusters, c)
		}
	}
	for i := range 100 {
		key := make([]byte, 32)
		key[0], key[1] = byte(i), 1
		t.Tenants = append(t.Tenants, &routerpb.Tenant{Id: fmt.Sprint("tenant-", i), Tier: "standard", KeySha256: [][]byte{key}})
	}
	for _, m := range models {
		for _, class := range []string{"interactive", "bulk", "embed"} {
			for _, r := range crowdRegions {
				t.Weights = append(t.Weights, &routerpb.Weights{Model: m, Class: class, Source: string(r), Clusters: []*routerpb.ClusterWeight{
					{Cluster: string(r) + "-0", Weight: 0.5, Reason: "capacity"}, {Cluster: string(r) + "-1", Weight: 0.5, Reason: "capacity"},
				}})
			}
		}
	}
	return t
}

// moved is fleetTable with the first n weights of each region shifted.
func moved(n int) *routerpb.Table {
	t := fleetTable()
	for _, w := range t.Weights[:n*len(crowdRegions)] {
		w.Clusters[0].Weight, w.Clusters[1].Weight = 0.25, 0.75
	}
	return t
}

// crowd is many routers as far as the control plane can tell: the subscriber of each is real, what
// it would do with the table is not there.
type crowd struct {
	t      *testing.T
	holder []*table.Holder
	bytes  atomic.Int64 // that came down, but for pings
	work   atomic.Int64 // messages either way, and attempts to connect
	end    context.CancelFunc
	all    sync.WaitGroup

	mu      sync.Mutex // guards what follows
	arrived map[uint64][]time.Time
	wanted  uint64        // a revision
	done    chan struct{} // closed when all have it
}

// gather starts n routers, numbered from first on, which end with the test or with leave. Dialling is
// for tests without a network.
func gather(t *testing.T, first, n int, addresses []string, dial ...grpc.DialOption) *crowd {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &crowd{t: t, end: cancel, arrived: map[uint64][]time.Time{}, holder: make([]*table.Holder, n)}
	for i := range n {
		c.holder[i] = &table.Holder{}
		c.join(ctx, first+i, c.holder[i], addresses, dial...)
	}
	return c
}

func (c *crowd) join(ctx context.Context, i int, holder *table.Holder, addresses []string, dial ...grpc.DialOption) {
	s, err := subscribe.New(subscribe.Options{
		Addresses: addresses, Router: fleet.RouterID(fmt.Sprintf("r-%04d", i)), Region: crowdRegions[i%3], Version: "test",
		Holder: holder, Logger: slog.New(slog.DiscardHandler),
		Report: func(now time.Time) *routerpb.Report {
			r := &routerpb.Report{AtUnixMs: now.UnixMilli(), WindowMs: 1000, QuotaStoreOk: true}
			if held := holder.Load(); held != nil {
				r.Applied = held.Ref.Proto()
			}
			return r
		},
		Applied: func(t *table.Table) { c.took(t.Ref.Revision) },
		Dial:    append([]grpc.DialOption{grpc.WithStatsHandler(counter{c}), grpc.WithReadBufferSize(4 << 10), grpc.WithWriteBufferSize(4 << 10)}, dial...),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.all.Go(func() {
		if err := s.Run(ctx); err != nil {
			c.t.Errorf("router %d: %v", i, err)
		}
	})
}

func (c *crowd) leave() {
	c.end()
	c.all.Wait()
}

func (c *crowd) took(revision uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arrived[revision] = append(c.arrived[revision], time.Now())
	if revision == c.wanted && len(c.arrived[revision]) == len(c.holder) {
		close(c.done)
	}
}

// await waits until all routers have taken a revision, and gives when each did, in order.
func (c *crowd) await(revision uint64) []time.Time {
	c.t.Helper()
	c.mu.Lock()
	c.wanted, c.done = revision, make(chan struct{})
	if len(c.arrived[revision]) == len(c.holder) {
		close(c.done)
	}
	done := c.done
	c.mu.Unlock()
	select {
	case <-done:
	case <-time.After(60 * time.Second):
		c.mu.Lock()
		defer c.mu.Unlock()
		c.t.Fatalf("revision %d reached %d of %d routers", revision, len(c.arrived[revision]), len(c.holder))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.Clone(c.arrived[revision])
	slices.SortFunc(at, time.Time.Compare)
	return at
}

// counter counts what goes over the streams of a crowd.
type counter struct{ c *crowd }

func (counter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (k counter) HandleRPC(_ context.Context, s stats.RPCStats) {
	switch x := s.(type) {
	case *stats.InPayload:
		k.c.work.Add(1)
		if m, ok := x.Payload.(*routerpb.ToRouter); ok && m.GetPing() == nil {
			k.c.bytes.Add(int64(x.WireLength))
		}
	case *stats.OutPayload:
		k.c.work.Add(1)
	}
}

func (counter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (k counter) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnBegin); ok {
		k.c.work.Add(1)
	}
}
