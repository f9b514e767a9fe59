package admit

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/table"
	"anabranch/ratelimit"
)

// many is a table of so many paths, each of six limits: two of an organisation, three of a tenant and one
// of a model.
func many(b testing.TB, paths int) (*table.Table, []*table.Tenant) {
	b.Helper()
	pb := describe()
	pb.Tenants, pb.Organisations[0].Young = nil, true
	limit := func(id, kind, tenant, model string) {
		pb.Quotas = append(pb.Quotas, &routerpb.Quota{
			Id: id + "/" + kind, Organisation: "acme", Tenant: tenant, Kind: kind, Model: model, Limit: 1 << 32, PeriodMs: 60_000, Burst: 1 << 32,
		})
	}
	limit("all", "requests", "", "")
	limit("all", "total-tokens", "", "")
	var tenants []*table.Tenant
	for i := range paths {
		id := fmt.Sprintf("tenant-%05d", i)
		pb.Tenants = append(pb.Tenants, &routerpb.Tenant{Id: id, Organisation: "acme", Tier: "top", Priority: 100})
		for _, kind := range []string{"requests", "input-tokens", "output-tokens"} {
			limit(id, kind, id, "")
		}
		limit(id+"-8b", "total-tokens", id, "llama-3.1-8b")
	}
	tab := build(b, pb)
	for _, t := range pb.Tenants {
		x, _ := tab.Tenant(fleet.TenantID(t.Id))
		tenants = append(tenants, x)
	}
	return tab, tenants
}

// plenty is a store that grants more than is ever spent, for an hour.
type plenty struct{}

func (plenty) LeaseAll(_ context.Context, calls []ratelimit.In) []ratelimit.Result {
	out := make([]ratelimit.Result, len(calls))
	for i, in := range calls {
		o := &out[i].Out
		o.Status, o.Epoch, o.Valid = ratelimit.Granted, in.Epoch, time.Hour
		for range in.Path {
			o.Path = append(o.Path, ratelimit.Grant{Granted: 1 << 50, Level: 1 << 31, Held: 1 << 50})
		}
	}
	return out
}

func (plenty) Healthy(string) error { return nil }

// BenchmarkTake is the decision on a request of six limits that a lease covers, among ten thousand paths.
func BenchmarkTake(b *testing.B) { takes(b, func(*Reservation) {}) }

// BenchmarkTakeAndSettle adds what a request owes at its end.
func BenchmarkTakeAndSettle(b *testing.B) { takes(b, func(r *Reservation) { r.Settle(1, 900, 300) }) }

// processor is the time that this process has had of it, which other work on the machine stretches less than time
// on the clock.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func takes(b *testing.B, end func(*Reservation)) {
	const paths = 10_000
	tab, tenants := many(b, paths)
	a, err := New(Options{Stores: Own(plenty{}), Region: "us-east-1", Inline: true})
	if err != nil {
		b.Fatal(err)
	}
	a.Applied(tab)
	model, _, _ := tab.Model("llama-3.1-8b")
	ask := func(i int) {
		r, d := a.Take(b.Context(), tab, Request{Tenant: tenants[i], Model: model, Input: 1000, Output: 256})
		if r == nil {
			b.Fatalf("%+v", d)
		}
		end(r)
	}
	for i := range tenants {
		ask(i)
	}
	for _, busy := range []int{100, paths} {
		b.Run(fmt.Sprintf("busy=%d", busy), func(b *testing.B) {
			b.ReportAllocs()
			i, before := 0, processor(b)
			for b.Loop() {
				ask(i % busy)
				i++
			}
			b.ReportMetric(float64((processor(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}
