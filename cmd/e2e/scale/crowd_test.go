package scale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"anabranch/api/routerpb"
)

// streamsOfOne is how many routers share a connection: the node has a stream for each all the same.
const streamsOfOne = 50

// crowd is many routers as far as a node can tell. Each reports its own region in full and four others as its requests meet
// them, takes every table, and answers tails.
type crowd struct {
	size
	t       *testing.T
	all     sync.WaitGroup
	ctx     context.Context // of the test; the streams end with it
	address string
	reports atomic.Int64
	tables  atomic.Int64
	up      atomic.Int64 // streams that are there
	lost    atomic.Int64 // streams that ended
	unwell  atomic.Int64 // how many clusters are
	every   atomic.Int64 // seconds between two reports of one router
}

// newCrowd is of nobody yet; its routers stay until the test ends.
func newCrowd(t *testing.T, s size, address string) *crowd {
	ctx, end := context.WithCancel(context.Background())
	c := &crowd{size: s, t: t, ctx: ctx, address: address}
	c.every.Store(1)
	t.Cleanup(func() {
		end()
		c.all.Wait()
	})
	return c
}

// gather has routers of some numbers come, a few hundred a second.
func (c *crowd) gather(from, to int) {
	c.t.Helper()
	for first := from; first < to; first += streamsOfOne {
		conn, err := grpc.NewClient(c.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			c.t.Fatal(err)
		}
		c.all.Go(func() {
			defer func() { _ = conn.Close() }() // it is over
			c.share(c.ctx, conn, first, min(first+streamsOfOne, to))
		})
	}
}

// share keeps the routers of one connection: each reports once in a while, one after the other, and comes again after its
// stream has ended, as a router does.
func (c *crowd) share(ctx context.Context, conn *grpc.ClientConn, from, to int) {
	var hear sync.WaitGroup
	defer hear.Wait()
	all := make([]*router, to-from)
	for i := range all {
		all[i] = &router{c: c, number: from + i, Rand: rand.New(rand.NewPCG(2, uint64(from+i)))}
	}
	wait(ctx, time.Duration(from%8000)*time.Millisecond)
	tick := time.NewTicker(time.Second / time.Duration(len(all)))
	defer tick.Stop()
	for n, ticks := 0, int64(0); ; ticks++ {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if ticks%c.every.Load() != 0 {
				continue
			}
			r := all[n%len(all)]
			n++
			if !r.up.Load() && r.connect(ctx, conn, &hear) != nil {
				continue // it tries again at its next turn
			}
			_ = r.send(r.report(now)) // the stream's end is heard of
		}
	}
}

// connect begins the router's stream, and has it heard.
func (r *router) connect(ctx context.Context, conn *grpc.ClientConn, hear *sync.WaitGroup) error {
	stream, err := routerpb.NewRouterControlClient(conn).Connect(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.stream, r.tails = stream, nil
	r.mu.Unlock()
	if err := r.send(r.hello()); err != nil {
		return err
	}
	r.up.Store(true)
	r.c.up.Add(1)
	hear.Go(func() {
		err := r.hear(stream)
		r.up.Store(false)
		r.c.up.Add(-1)
		if ctx.Err() == nil && err != nil {
			r.c.lost.Add(1)
		}
	})
	return nil
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// router is one stream.
type router struct {
	*rand.Rand
	c      *crowd
	number int

	up atomic.Bool // it has a stream

	mu      sync.Mutex // guards what is below, and sending
	stream  grpc.BidiStreamingClient[routerpb.FromRouter, routerpb.ToRouter]
	applied *routerpb.TableRef
	tails   map[uint64]uint32 // rates by number
	told    int
}

func (r *router) send(m *routerpb.FromRouter) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stream.Send(m)
}

func (r *router) home() int { return r.number % r.c.regions }

func (r *router) name() string {
	return fmt.Sprintf("%s-r%02d", regionName(r.home()), r.number/r.c.regions)
}

func (r *router) hello() *routerpb.FromRouter {
	version := "v1.4.2"
	if r.number%97 == 3 {
		version = "v1.4.1"
	}
	return &routerpb.FromRouter{Body: &routerpb.FromRouter_Hello{Hello: &routerpb.Hello{
		Protocol: 1, RouterId: r.name(), Region: regionName(r.home()), Version: version,
		Features: []routerpb.Feature{
			routerpb.Feature_FEATURE_SLICE, routerpb.Feature_FEATURE_DELTA, routerpb.Feature_FEATURE_LEASES, routerpb.Feature_FEATURE_SHED,
			routerpb.Feature_FEATURE_EXPLAIN, routerpb.Feature_FEATURE_TAIL, routerpb.Feature_FEATURE_ORDERS,
		},
	}}}
}

// report is what the router sees in a second: loads that wander by a few percent, as real ones do.
func (r *router) report(now time.Time) *routerpb.FromRouter {
	home, seconds := r.home(), uint64(r.c.every.Load())
	out := &routerpb.Report{
		AtUnixMs: now.UnixMilli(), ClockUnixMs: now.UnixMilli(), InFlight: 20 + r.Int64N(3), QuotaStoreOk: true,
		Requests: seconds * (100 + r.Uint64N(8)), WindowMs: 1000 * seconds,
	}
	for k := range 5 {
		at := (home + 8*k) % r.c.regions
		ill := at%29 == 5 && int64(at/29) < r.c.unwell.Load()
		for _, model := range models {
			s := &routerpb.ClusterSignal{
				Cluster: clusterName(at), Model: model, Scraped: k == 0, EndpointsTotal: 8, EndpointsReady: 8,
				Waiting: float64(r.IntN(5)), Running: 60 + float64(r.IntN(6)), KvUsage: 0.5 + 0.02*r.Float64(), Saturation: 0.4 + 0.1*float64(at%5) + 0.02*r.Float64(),
				CapacityWork: 190_000 + 20_000*r.Float64(), LoadWork: 110_000 + 5000*r.Float64(), Requests: seconds * (20 + r.Uint64N(4)), TtftP50Ms: 150 + 10*r.Float64(), TtftP95Ms: 300 + 20*r.Float64(),
			}
			if ill {
				s.Failures, s.EndpointsReady, s.Ejected, s.EjectReason = s.Requests, 0, true, "3 connect failures in a row"
			}
			out.Clusters = append(out.Clusters, s)
		}
	}
	for _, model := range models {
		out.Demand = append(out.Demand, &routerpb.DemandSignal{Model: model, Class: "interactive", RequestsPerS: 50, WorkPerS: 2200 + 100*r.Float64()})
	}
	for k := range 4 {
		tenant := (r.number + 31*k) % r.c.tenants
		kind := kindsOfLimits[(r.number+k)%4]
		out.Quotas = append(out.Quotas, &routerpb.QuotaSignal{
			Organisation: tenantName(tenant), Limit: tenantName(tenant) + "/" + kind, Level: 30_000 - r.Int64N(1000), LevelAgeMs: 200, Held: 40, Used: 12 + r.Int64N(3), Admitted: 12, Denied: uint64(r.number % 17 / 16),
		})
	}
	r.mu.Lock()
	out.Applied = r.applied
	r.mu.Unlock()
	m := &routerpb.FromRouter{Body: &routerpb.FromRouter_Report{Report: out}}
	r.c.reports.Add(1)
	return m
}

// hear takes what the node says until the stream ends.
func (r *router) hear(stream grpc.BidiStreamingClient[routerpb.FromRouter, routerpb.ToRouter]) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		switch b := m.GetBody().(type) {
		case *routerpb.ToRouter_Table:
			err = r.take(b.Table.GetNonce(), b.Table.GetTable().GetRef())
		case *routerpb.ToRouter_Delta:
			err = r.take(b.Delta.GetNonce(), b.Delta.GetChanged().GetRef())
		case *routerpb.ToRouter_Tail:
			r.tail(b.Tail)
		case *routerpb.ToRouter_StopTail:
			r.mu.Lock()
			delete(r.tails, b.StopTail.GetNumber())
			r.mu.Unlock()
		case *routerpb.ToRouter_Explain:
			err = r.send(&routerpb.FromRouter{Body: &routerpb.FromRouter_Explained{Explained: &routerpb.Explained{Number: b.Explain.GetNumber(), RememberedMost: 1}}})
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
}

func (r *router) take(nonce uint64, ref *routerpb.TableRef) error {
	r.mu.Lock()
	r.applied = ref
	r.mu.Unlock()
	r.c.tables.Add(1)
	return r.send(&routerpb.FromRouter{Body: &routerpb.FromRouter_Ack{Ack: &routerpb.Ack{Nonce: nonce, Table: ref, Ok: true}}})
}

// tail begins one, and has it told until it is stopped. One whose number is known is only renewed.
func (r *router) tail(t *routerpb.Tail) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.tails[t.GetNumber()]; known {
		return
	}
	if r.tails == nil {
		r.tails = map[uint64]uint32{}
	}
	r.tails[t.GetNumber()] = t.GetRatePerS()
	r.c.all.Go(func() { r.follow(t.GetNumber()) })
}

// follow tells of a request about every two seconds: 2,500 in a second of 5,000 routers, far above any rate.
func (r *router) follow(number uint64) {
	tell := func(records ...[]byte) error {
		return r.send(&routerpb.FromRouter{Body: &routerpb.FromRouter_Decisions{Decisions: &routerpb.Decisions{Number: number, Records: records}}})
	}
	if tell() != nil {
		return
	}
	r.mu.Lock()
	ctx := r.stream.Context()
	r.mu.Unlock()
	for ctx.Err() == nil {
		wait(ctx, time.Duration(1000+rand.IntN(2000))*time.Millisecond)
		r.mu.Lock()
		_, wanted := r.tails[number]
		r.told++
		record := r.record(r.told)
		r.mu.Unlock()
		if !wanted || tell(record) != nil {
			return
		}
	}
}

// record is that of a request, as the router's admin page writes it.
func (r *router) record(n int) []byte {
	home := r.home()
	region, cluster := regionName(home), clusterName(home)
	status, code := 200, ""
	if n%13 == 5 {
		status, code = 502, "upstream_error"
	}
	text, err := json.Marshal(map[string]any{
		"id": fmt.Sprintf("%s-%x", r.name(), n), "at": time.Now().UTC(), "region": region, "path": "/v1/chat/completions", "tenant": tenantName(n % r.c.tenants),
		"asked": models[n%2], "model": models[n%2], "class": "interactive", "policy": "default", "priority": 50, "stream": true, "epoch": 1, "revision": r.applied.GetRevision(), "promptTokens": 812,
		"candidates": []any{map[string]any{"cluster": cluster, "region": region, "weight": 0.7, "reason": "weight", "saturation": 0.67, "waitMs": 12, "prefillMs": 94, "signalAgeMs": 400}},
		"attempts":   []any{map[string]any{"cluster": cluster, "region": region, "endpoint": "h100-1", "kind": "first", "among": 1, "why": "least predicted", "predictedMs": 98, "status": status, "code": code, "firstByteMs": 103, "tookMs": 1840}},
		"status":     status, "code": code, "firstByteMs": 103, "totalMs": 1851,
	})
	if err != nil {
		r.c.t.Error(err)
	}
	return text
}
