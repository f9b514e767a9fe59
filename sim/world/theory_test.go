package world

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"anabranch/sim"
	"anabranch/sim/workload"
)

// idlePods is a policy that knows what the textbook's M/M/n does: whoever finds no idle server waits in
// the router, first come first served.
type idlePods struct{ turns }

func (p *idlePods) Route(_ *workload.Request, v *View) Route {
	if !slices.ContainsFunc(v.Clusters[0].Pods, func(p PodView) bool { return p.InFlight == 0 }) {
		return Route{Cluster: -1, Wait: true}
	}
	return Route{Cluster: 0}
}

func (p *idlePods) Pick(_ *workload.Request, _, _ int, v *View) Pick {
	return Pick{Pod: slices.IndexFunc(v.Clusters[0].Pods, func(p PodView) bool { return p.InFlight == 0 })}
}

// One router before n pods that take one request at a time is M/M/n: each request waits exactly as long
// as by Kiefer and Wolfowitz, where the next goes to the server that is free first, and their mean is
// Erlang's.
func TestOneQueueBeforeManyPodsIsMMN(t *testing.T) {
	t.Parallel()
	const requests, mean = 40_000, 100.0 // ms
	for _, c := range []struct {
		n    int
		load float64
	}{{1, 0.7}, {5, 0.8}, {20, 0.9}} {
		t.Run(fmt.Sprintf("n=%d load=%v", c.n, c.load), func(t *testing.T) {
			t.Parallel()
			s := three(1)
			s.Regions, s.Clusters, s.RTT = s.Regions[:1], s.Clusters[:1], nil
			s.Clusters[0].Pods = []Pods{{Count: c.n, Options: sim.Options{
				Profile:      sim.Profile{Class: "server", Bandwidth: 1, FLOPS: 1, PeakFLOPS: 1, Overhead: time.Millisecond},
				MaxSequences: 1, Blocks: 1 << 16, NoPrefixCache: true,
			}}}
			s.Scrape.Interval, s.Tell.Interval, s.Timeout = time.Hour, time.Hour, time.Hour
			rnd := rand.New(rand.NewPCG(1, uint64(c.n)))
			free := make([]time.Duration, c.n)
			list := make([]workload.Request, requests)
			want := make([]time.Duration, requests)
			var now, sum time.Duration
			for i := range list {
				now += time.Duration(rnd.ExpFloat64() * mean / c.load / float64(c.n) * float64(ms))
				// The way to the pod and back, 1 ms, is the router's share of the service.
				tokens := 1 + int(rnd.ExpFloat64()/-math.Log1p(-1/(mean-1)))
				list[i] = workload.Request{ID: uint64(i), At: now, PromptTokens: 1, OutputTokens: tokens}
				first := slices.Index(free, slices.Min(free))
				start := max(now, free[first])
				free[first] = start + time.Duration(tokens)*ms + LocalRTT
				want[i] = start - now
				sum += want[i]
			}
			r, err := Run(t.Context(), s, newList(list...), &idlePods{}, Options{Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			for i, rec := range r.Records {
				if rec.Queued != want[i] || rec.End != OK {
					t.Fatalf("request %d waited for %v, want %v; %v", i, rec.Queued, want[i], rec.End)
				}
			}
			got, theory := sum.Seconds()/requests/mean*1000, erlangC(c.n, c.load*float64(c.n))/float64(c.n)/(1-c.load)
			// The spread of so many arrivals in a row; the exact comparison is above.
			if math.Abs(got-theory) > 0.15*theory {
				t.Errorf("the mean wait is %.4f service times, by theory %.4f", got, theory)
			}
		})
	}
}

// erlangC is the share of requests that wait at all with n servers and so much work.
func erlangC(n int, work float64) float64 {
	b := 1.0
	for i := 1; i <= n; i++ {
		b = work * b / (float64(i) + work*b)
	}
	return b / (1 - work/float64(n)*(1-b))
}
