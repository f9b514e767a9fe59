package admit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
	"anabranch/ratelimit"
)

// state is what has become of the way to a store.
type state int32

const (
	up     state = iota
	away         // nobody answers the door
	frozen       // no answer comes within the store's budget
	lossy        // calls are carried out, and the answers lost
)

// link is a store behind a way that can break. It counts what is sent over it, and knows of an absence
// after one call without an answer, or two that failed.
type link struct {
	*ratelimit.Lending
	delay time.Duration

	mu     sync.Mutex // guards what follows
	state  state
	failed int
	sick   error
	calls  int
	seen   []ratelimit.In // newest last
	// used is what was told of each limit, refunds and all.
	used map[string]int64
}

func newLink() *link { return &link{Lending: ratelimit.NewLending(nil), used: map[string]int64{}} }

// set changes the state; a store that is up again is known to be at once.
func (l *link) set(s state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state = s; s == up {
		l.failed, l.sick = 0, nil
	}
}

func (l *link) now() state {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// LeaseAll implements Store.
func (l *link) LeaseAll(ctx context.Context, calls []ratelimit.In) []ratelimit.Result {
	out := make([]ratelimit.Result, len(calls))
	fail := func(err error) []ratelimit.Result {
		for i := range out {
			out[i] = ratelimit.Result{Err: err}
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.failed++; l.failed > 1 || l.state == frozen {
			l.sick = err
		}
		return out
	}
	l.mu.Lock()
	l.calls += len(calls)
	l.seen = append(l.seen, calls...)
	l.mu.Unlock()
	for i := range calls {
		if err := calls[i].Validate(); err != nil {
			return fail(err)
		}
	}
	if l.delay > 0 {
		<-time.After(l.delay)
	}
	switch l.now() {
	case away:
		return fail(fmt.Errorf("%w: connection refused", ratelimit.ErrAway))
	case frozen:
		<-time.After(DefaultBudget)
		return fail(context.DeadlineExceeded)
	}
	for i, in := range calls {
		out[i].Out, out[i].Err = l.Lease(ctx, in)
		if out[i].Out.Status != ratelimit.Granted {
			continue
		}
		l.mu.Lock()
		for _, v := range in.Path {
			l.used[v.Limit.ID] += v.Used - v.Refund
		}
		l.mu.Unlock()
	}
	if l.now() == lossy {
		return fail(errors.New("connection reset"))
	}
	return out
}

// Healthy implements Store.
func (l *link) Healthy(string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sick
}

func (l *link) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}

// charged is what the store was told to be used of a limit of acme.
func (l *link) charged(limit string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used[limit]
}

// quota is a limit of acme a minute, with a burst of the same size.
func quota(kind string, limit int64, degraded string, share float64) *routerpb.Quota {
	return &routerpb.Quota{
		Id: kind, Tenant: "acme", Kind: kind, Limit: limit, PeriodMs: 60_000, Burst: limit, Degraded: degraded, Share: share,
	}
}

// slotsOf is a limit of requests at the same time, moneyOf of micro-dollars a day.
func slotsOf(n int64, degraded string) *routerpb.Quota {
	return &routerpb.Quota{Id: "slots", Tenant: "acme", Kind: "concurrent-requests", Limit: n, Burst: n, Degraded: degraded}
}

func moneyOf(micros int64, degraded string) *routerpb.Quota {
	return &routerpb.Quota{Id: "money", Tenant: "acme", Kind: "money", Limit: micros, Burst: micros, Degraded: degraded, Calendar: "day"}
}

// shadowed is a quota that is counted only.
func shadowed(q *routerpb.Quota) *routerpb.Quota {
	q.Id, q.Shadow = q.Id+"~", true
	return q
}

// tables builds a table with a region of one router and acme's quotas, as an older control plane sends
// it if all of them are of the old kinds, else with acme's organisation.
func tables(t testing.TB, quotas ...*routerpb.Quota) *table.Table {
	t.Helper()
	return build(t, describe(quotas...))
}

// describe is a table with a region of one router, of which acme has the whole share, and acme's quotas.
func describe(quotas ...*routerpb.Quota) *routerpb.Table {
	pb := &routerpb.Table{
		Ref:     &routerpb.TableRef{ClusterId: "c", Epoch: 1, Revision: 1},
		Regions: []*routerpb.Region{{Id: "us-east-1", Zone: "us", PeerUrls: []string{"https://router-1:8300"}}},
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
		Organisations: []*routerpb.Organisation{{
			Id: "acme", Epoch: 1, Version: 1, Young: true, ColdPercent: 20,
			Shares: []*routerpb.Share{{Region: "us-east-1", Parts: ratelimit.ShareParts}},
		}},
	}
	for _, q := range quotas {
		if q.Organisation == "" {
			q.Organisation = "acme"
		}
		if q.Share > 0 {
			pb.Organisations[0].Shares[0].Parts = uint32(q.Share * ratelimit.ShareParts)
		}
	}
	return pb
}

func build(t testing.TB, pb *routerpb.Table) *table.Table {
	t.Helper()
	tab, err := table.Build(pb)
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
	stop  func() // the admitter; nil: it does not run
}

// newAsker makes an admitter that runs until the end of the test's bubble, or until stopped.
func newAsker(t testing.TB, store Store, tab *table.Table) *asker {
	t.Helper()
	k := newStill(t, Options{Stores: Own(store), Region: "us-east-1"}, tab)
	k.run()
	t.Cleanup(func() { k.stop() })
	return k
}

// newStill makes an admitter that does not run.
func newStill(t testing.TB, o Options, tab *table.Table) *asker {
	t.Helper()
	if o.Rand == nil {
		o.Rand = func() float64 { return 0 }
	}
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	a.Applied(tab)
	return &asker{t: t, a: a, table: tab}
}

// apply puts another table in force.
func (k *asker) apply(tab *table.Table) {
	k.table = tab
	k.a.Applied(tab)
}

func (k *asker) take(input, output int64) (*Reservation, ratelimit.Decision) {
	k.t.Helper()
	return k.takeModel("llama-3.1-8b", input, output)
}

func (k *asker) takeModel(model string, input, output int64) (*Reservation, ratelimit.Decision) {
	k.t.Helper()
	tenant, ok := k.table.Tenant("acme")
	if !ok {
		k.t.Fatal("no acme in the table")
	}
	m, _, ok := k.table.Model(model)
	if !ok {
		k.t.Fatalf("no model %s in the table", model)
	}
	r, d := k.a.Take(k.t.Context(), k.table, Request{Tenant: tenant, Model: m, Input: input, Output: output})
	if (r != nil) != d.Allowed {
		k.t.Fatalf("reservation %v of %+v", r, d)
	}
	return r, d
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

// run runs the admitter; stop stops it and waits.
func (k *asker) run() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(k.t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := k.a.Run(ctx); err != nil {
			k.t.Errorf("run: %v", err)
		}
	}()
	k.stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
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
