package redisbucket

import (
	"strconv"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"

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

// fourLevels is a call for units of four limits that never run out, for five regions where shares are asked for.
func fourLevels(router string, shares bool) ratelimit.In {
	in := ratelimit.In{Org: "acme", Epoch: 1, Young: true, Router: router, TTL: ratelimit.DefaultTTL}
	for _, id := range []string{"a", "b", "c", "d"} {
		limit := ratelimit.Limit{ID: id, Kind: ratelimit.TotalTokens, Amount: 1e7, PeriodMs: 60_000, Burst: 1e9}
		in.Path = append(in.Path, ratelimit.Level{Limit: limit, Want: 1})
	}
	for i := 0; shares && i < 5; i++ {
		in.Shares = append(in.Shares, ratelimit.Share{Region: "region-" + strconv.Itoa(i), Parts: 200_000})
	}
	if shares {
		in.Region = "region-" + router[len(router)-1:]
	}
	return in
}

// rateCalls is the four limits as four calls of redis_rate, which has no paths: none is undone when a
// later one refuses.
func rateCalls(b *testing.B, l *Lender) func() {
	limiter := redis_rate.NewLimiter(l.client)
	limit := redis_rate.Limit{Rate: 1e7, Burst: 1e9, Period: time.Minute}
	return func() {
		for _, key := range []string{"a", "b", "c", "d"} {
			if r, err := limiter.AllowN(b.Context(), key, limit, 1); err != nil || r.Allowed != 1 {
				b.Fatal(r, err)
			}
		}
	}
}

// leaseCalls makes the next call of a lane, which tells that all of the last one was used.
func leaseCalls(b *testing.B, l *Lender, in ratelimit.In) func() {
	return func() {
		in.Seq++
		out, err := l.Lease(b.Context(), in)
		if err != nil || out.Path[0].Granted != 1 {
			b.Fatal(out, err)
		}
		for i := range in.Path {
			in.Path[i].Used = out.Path[i].Held
		}
	}
}

// BenchmarkRedis compares what one decision on four limits, or one call for a lease of them, costs Redis.
func BenchmarkRedis(b *testing.B) {
	l := lend(b, LenderOptions{Addrs: []string{redistest.Start(b).Addr}})
	for _, c := range []struct {
		name string
		call func()
	}{
		{"by=redis_rate", rateCalls(b, l)},
		{"by=lease", leaseCalls(b, l, fourLevels("l0", false))},
		{"five-regions/by=lease", leaseCalls(b, l, fourLevels("m0", true))},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.call()
			defer redisCPU(b, l)()
			for b.Loop() {
				c.call()
			}
		})
	}
	b.Run("one-of-sixteen-in-a-pipeline/by=lease", func(b *testing.B) {
		calls := make([]ratelimit.In, 16)
		for i := range calls {
			calls[i] = fourLevels("p"+strconv.Itoa(i), false)
			calls[i].Seq = time.Now().UnixMicro() // above that of an earlier run
		}
		defer redisCPU(b, l)()
		at := 0
		for b.Loop() {
			if at++; at%len(calls) != 0 {
				continue
			}
			for i := range calls {
				calls[i].Seq++
			}
			for _, r := range l.LeaseAll(b.Context(), calls) {
				if r.Err != nil {
					b.Fatal(r.Err)
				}
			}
		}
	})
}

// BenchmarkDecisions is a router that decides a thousand times a second, in a time of its own: with leases, and
// asking each time.
func BenchmarkDecisions(b *testing.B) {
	l := lend(b, LenderOptions{Addrs: []string{redistest.Start(b).Addr}})
	b.Run("by=leases", func(b *testing.B) {
		in := fourLevels("h"+strconv.FormatInt(time.Now().UnixNano(), 36), false)
		var limits []ratelimit.Limit
		for i := range in.Path {
			limits = append(limits, in.Path[i].Limit)
		}
		h, costs := ratelimit.NewHolding(limits), []int64{1, 1, 1, 1}
		calls, now := 0, int64(time.Second)
		ask := func() {
			call := in
			call.Path = append([]ratelimit.Level(nil), in.Path...)
			h.Call(&call, ratelimit.MinSpan, now)
			out, err := l.Lease(b.Context(), call)
			if err != nil {
				b.Fatal(err)
			}
			h.Answer(out, now)
			calls++
		}
		defer redisCPU(b, l)()
		for b.Loop() {
			now += int64(time.Millisecond)
			if h.Due(now) {
				ask()
			}
			if h.Spend(costs, now) != ratelimit.Spent {
				ask()
				if h.Spend(costs, now) != ratelimit.Spent {
					b.Fatal("refused")
				}
			}
		}
		b.ReportMetric(float64(b.N)/float64(calls), "decisions/trip")
	})
	for _, c := range []struct {
		name  string
		call  func()
		trips float64
	}{
		{"by=lease", leaseCalls(b, l, fourLevels("l0", false)), 1},
		{"by=redis_rate", rateCalls(b, l), 4},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.call()
			defer redisCPU(b, l)()
			for b.Loop() {
				c.call()
			}
			b.ReportMetric(1/c.trips, "decisions/trip")
		})
	}
}
