package admit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
	"anabranch/ratelimit"
)

// state is what has become of the way to the authority.
type state int32

const (
	up     state = iota
	away         // nobody answers the door
	frozen       // no answer ever comes
	lossy        // calls are carried out, and the answers lost
	unfit        // it answers, and must not be relied on
)

// link is an authority behind a way that can break, and counts what is sent over it.
type link struct {
	*ratelimit.Memory
	state atomic.Int32
	calls atomic.Int64
}

func newLink() *link { return &link{Memory: ratelimit.NewMemory(nil)} }

func (l *link) set(s state) { l.state.Store(int32(s)) }

func (l *link) pass(ctx context.Context, f func() error) error {
	l.calls.Add(1)
	switch state(l.state.Load()) {
	case away:
		return fmt.Errorf("%w: connection refused", ratelimit.ErrAway)
	case frozen:
		<-ctx.Done()
		return ctx.Err()
	case lossy:
		_ = f() // the caller never learns
		return errors.New("connection reset")
	case unfit:
		return fmt.Errorf("%w: it forgets", ratelimit.ErrUnfit)
	}
	return f()
}

func (l *link) Take(ctx context.Context, tenant string, path []ratelimit.Charge) (d ratelimit.Decision, err error) {
	err = l.pass(ctx, func() (err error) {
		d, err = l.Memory.Take(ctx, tenant, path)
		return err
	})
	return d, err
}

func (l *link) Adjust(ctx context.Context, tenant string, path []ratelimit.Charge) error {
	return l.pass(ctx, func() error { return l.Memory.Adjust(ctx, tenant, path) })
}

// level is what the authority has left of a limit of acme.
func (l *link) level(t *testing.T, limit string) int64 {
	t.Helper()
	b, ok := l.Bucket("acme", limit)
	if !ok {
		t.Fatalf("the authority has never heard of %s", limit)
	}
	return b.Level
}

// quota is a limit of acme a minute, with a burst of the same size.
func quota(kind string, limit int64, degraded string, share float64) *routerpb.Quota {
	return &routerpb.Quota{
		Id: kind, Tenant: "acme", Kind: kind, Limit: limit, PeriodMs: 60_000, Burst: limit, Degraded: degraded, Share: share,
	}
}

// tables builds a table with a region of one router and acme's quotas.
func tables(t testing.TB, quotas ...*routerpb.Quota) *table.Table {
	t.Helper()
	return tablesOf(t, []string{"https://router-1:8300"}, quotas...)
}

func tablesOf(t testing.TB, routers []string, quotas ...*routerpb.Quota) *table.Table {
	t.Helper()
	tab, err := table.Build(&routerpb.Table{
		Ref:     &routerpb.TableRef{ClusterId: "c", Epoch: 1, Revision: 1},
		Regions: []*routerpb.Region{{Id: "us-east-1", Zone: "us", PeerUrls: routers}},
		Clusters: []*routerpb.Cluster{{
			Id: "a", Region: "us-east-1", Kind: "endpoints", Models: []string{"llama-3.1-8b", "llama-3.1-70b"}, HealthCap: 1,
			Endpoints: []*routerpb.Endpoint{{Id: "a-0", Url: "http://127.0.0.1:9101", Class: "h100"}},
		}},
		Models: []*routerpb.Model{
			{
				Id: "llama-3.1-8b", Aliases: []string{"small"}, Adapters: []string{"support-lora"}, OutputWeight: 6,
				InputMicrosPerMtok: 50_000, OutputMicrosPerMtok: 80_000,
			},
			{Id: "llama-3.1-70b", OutputWeight: 6},
		},
		Tenants: []*routerpb.Tenant{{Id: "acme", Tier: "top", Priority: 100}, {Id: "globex", Tier: "standard", Priority: 50}},
		Quotas:  quotas,
	})
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// asker asks an admitter for one tenant under one table.
type asker struct {
	t     testing.TB
	a     *Admitter
	table *table.Table
}

func newAsker(t testing.TB, authority ratelimit.Authority, tab *table.Table) *asker {
	t.Helper()
	a, err := New(Options{Authority: authority, Region: "us-east-1", Rand: func() float64 { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	return &asker{t: t, a: a, table: tab}
}

func (k *asker) take(input, output int64) (Ticket, ratelimit.Decision) {
	k.t.Helper()
	return k.takeModel("llama-3.1-8b", input, output)
}

func (k *asker) takeModel(model string, input, output int64) (Ticket, ratelimit.Decision) {
	k.t.Helper()
	tenant, ok := k.table.Tenant("acme")
	if !ok {
		k.t.Fatal("no acme in the table")
	}
	return k.a.Take(k.t.Context(), k.table, tenant, model, input, output)
}

// admitted counts how many of n requests pass.
func (k *asker) admitted(n int) int {
	k.t.Helper()
	passed := 0
	for range n {
		if _, d := k.take(1, 1); d.Allowed {
			passed++
		}
	}
	return passed
}

// run runs the admitter; the function that it answers stops it and waits.
func (k *asker) run() (stop func()) {
	ctx, cancel := context.WithCancel(k.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := k.a.Run(ctx); err != nil {
			k.t.Errorf("run: %v", err)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// elapsed is how long f takes.
func elapsed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// pass lets time pass, within a test's bubble of faked time.
func pass(d time.Duration) { <-time.After(d) }

const acme = fleet.TenantID("acme")
