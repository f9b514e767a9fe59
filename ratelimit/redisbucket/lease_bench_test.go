package redisbucket

import (
	"strconv"
	"testing"

	"anabranch/ratelimit"
	"anabranch/ratelimit/redisbucket/redistest"
)

// redisCPU reports how long Redis itself worked for each operation, in microseconds.
func redisCPU(b *testing.B, l *Lender) func() {
	b.Helper()
	used := func() (sum float64) {
		info, err := l.client.Info(b.Context(), "cpu").Result()
		if err != nil {
			b.Fatal(err)
		}
		for _, name := range []string{"used_cpu_user_main_thread", "used_cpu_sys_main_thread"} {
			text, _ := field(info, name)
			s, err := strconv.ParseFloat(text, 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += s
		}
		return sum
	}
	before := used()
	return func() { b.ReportMetric((used()-before)*1e6/float64(b.N), "redis-µs/op") }
}

// BenchmarkRedis compares what one decision, or one call for a lease, costs Redis.
func BenchmarkRedis(b *testing.B) {
	addr := redistest.Start(b).Addr
	l := lend(b, LenderOptions{Addrs: []string{addr}})
	s, err := New(Options{Addr: addr})
	if err != nil {
		b.Fatal(err)
	}
	defer closed(b, s)
	var path []ratelimit.Charge
	in := ratelimit.In{Org: "acme", Epoch: 1, Young: true, Router: "r", TTL: ratelimit.DefaultTTL}
	for _, id := range []string{"a", "b", "c", "d"} {
		limit := ratelimit.Limit{ID: id, Kind: ratelimit.TotalTokens, Amount: 1e7, PeriodMs: 60_000, Burst: 1e9}
		path = append(path, ratelimit.Charge{Limit: limit, Cost: 1})
		in.Path = append(in.Path, ratelimit.Level{Limit: limit, Want: 1})
	}
	b.Run("four calls of one limit", func(b *testing.B) {
		defer redisCPU(b, l)()
		for b.Loop() {
			for i := range path {
				if _, err := s.Take(b.Context(), "acme", path[i:i+1]); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("one call of four limits", func(b *testing.B) {
		defer redisCPU(b, l)()
		for b.Loop() {
			if _, err := s.Take(b.Context(), "acme", path); err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, strict := range map[string]bool{"strict": true, "lease": false} {
		in.Strict, in.Router = strict, name
		b.Run(name+" of four limits", func(b *testing.B) {
			defer redisCPU(b, l)()
			for b.Loop() {
				in.Seq++
				out, err := l.Lease(b.Context(), in)
				if err != nil {
					b.Fatal(err)
				}
				for i := range in.Path {
					in.Path[i].Used = out.Path[i].Held
				}
			}
		})
	}
	b.Run("16 leases of four limits in a pipeline", func(b *testing.B) {
		defer redisCPU(b, l)()
		calls := make([]ratelimit.In, 16)
		for i := range calls {
			calls[i] = in
			calls[i].Router = "p" + strconv.Itoa(i)
		}
		for b.Loop() {
			in.Seq++
			for i := range calls {
				calls[i].Seq = in.Seq
			}
			for _, r := range l.LeaseAll(b.Context(), calls) {
				if r.Err != nil {
					b.Fatal(r.Err)
				}
			}
		}
	})
}
