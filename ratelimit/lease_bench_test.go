package ratelimit_test

import (
	"strconv"
	"syscall"
	"testing"
	"time"

	xrate "golang.org/x/time/rate"

	"anabranch/ratelimit"
)

// sixLevels are the limits of one path among many, each with its costs at hand.
func sixLevels(n int) []ratelimit.Limit {
	path := make([]ratelimit.Limit, 6)
	for i := range path {
		path[i] = ratelimit.Limit{
			ID: strconv.Itoa(n) + "/" + strconv.Itoa(i), Kind: ratelimit.TotalTokens, Amount: 1e9, PeriodMs: 60_000, Burst: 1e9,
		}
	}
	return path
}

const paths = 10_000

// cpu reports the processor time of a run beside the time on the clock, which other work on the machine stretches.
func cpu(b *testing.B) func() {
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	return func() { b.ReportMetric(float64((used()-before).Nanoseconds())/float64(b.N), "cpu-ns/op") }
}

type pathKey struct{ tenant, model string }

func keys() []pathKey {
	out := make([]pathKey, paths)
	for i := range out {
		out[i] = pathKey{"tenant-" + strconv.Itoa(i/10), "model-" + strconv.Itoa(i%10)}
	}
	return out
}

// BenchmarkDecideSixLevels is a router's decision: find the path among 10,000 and spend at its six
// levels, all or none.
func BenchmarkDecideSixLevels(b *testing.B) {
	names := keys()
	holdings := make(map[pathKey]*ratelimit.Holding, paths)
	lender := ratelimit.NewLending(nil)
	for i, k := range names {
		limits := sixLevels(i)
		h := ratelimit.NewHolding(limits)
		in := ratelimit.In{Org: k.tenant, Epoch: 1, Young: true, Router: "r", TTL: ratelimit.DefaultTTL}
		for _, l := range limits {
			in.Path = append(in.Path, ratelimit.Level{Limit: l})
		}
		h.Spend([]int64{1e9, 1e9, 1e9, 1e9, 1e9, 1e9}, 1)
		h.Call(&in, ratelimit.MinSpan, 1)
		out, err := lender.Lease(b.Context(), in)
		if err != nil {
			b.Fatal(err)
		}
		h.Answer(out, 1)
		holdings[k] = h
	}
	costs := []int64{1, 1, 1, 1, 1, 1}
	b.Run("by=leases", func(b *testing.B) {
		b.ReportAllocs()
		defer cpu(b)()
		i := 0
		for b.Loop() {
			if holdings[names[i%paths]].Spend(costs, 2) != ratelimit.Spent {
				b.Fatal("refused")
			}
			i += 7919
		}
	})
	b.Run("two-at-a-time/by=leases", func(b *testing.B) {
		b.ReportAllocs()
		defer cpu(b)()
		h := holdings[names[1]]
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if h.Spend(costs, 2) != ratelimit.Spent {
					b.Error("refused")
					return
				}
			}
		})
	})
	b.Run("by=x-time-rate", func(b *testing.B) {
		limiters := make(map[pathKey][]*xrate.Limiter, paths)
		for _, k := range names {
			for range 6 {
				limiters[k] = append(limiters[k], xrate.NewLimiter(1e9/60, 1e9))
			}
		}
		now := time.Now()
		b.ReportAllocs()
		defer cpu(b)()
		i := 0
		for b.Loop() {
			// Not all or none: it has no such thing.
			for _, l := range limiters[names[i%paths]] {
				if !l.AllowN(now, 1) {
					b.Fatal("refused")
				}
			}
			i += 7919
		}
	})
}

// BenchmarkAccountSixLevels is the authority's arithmetic for one call.
func BenchmarkAccountSixLevels(b *testing.B) {
	in := ratelimit.In{Org: "o", Epoch: 1, Young: true, Router: "r", TTL: ratelimit.DefaultTTL}
	for _, l := range sixLevels(0) {
		in.Path = append(in.Path, ratelimit.Level{Limit: l, Want: 10})
	}
	a := &ratelimit.Account{}
	now := time.Now().UnixMicro()
	b.ReportAllocs()
	for b.Loop() {
		in.Seq++
		now += 1000
		if out := a.Lease(&in, now); out.Path[0].Granted != 10 {
			b.Fatal(out)
		}
		for i := range in.Path {
			in.Path[i].Used = 10
		}
	}
}
