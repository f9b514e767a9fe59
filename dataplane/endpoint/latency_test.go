package endpoint

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/dataplane/inference"
	"anabranch/dataplane/table"
	"anabranch/failover"
)

func TestQuantilesNeedSamplesBeyondThem(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, tt := range []struct {
		samples       int
		p50, p95, p99 bool
	}{{4, false, false, false}, {5, true, false, false}, {19, true, false, false}, {20, true, true, false}, {99, true, true, false}, {100, true, true, true}} {
		var h latencies
		for range tt.samples {
			h.add(time.Second, now)
		}
		if got := h.times(now); got.P50 > 0 != tt.p50 || got.P95 > 0 != tt.p95 || got.P99 > 0 != tt.p99 {
			t.Errorf("of %d samples: %+v", tt.samples, got)
		}
	}
}

// Against the sorted samples themselves.
func TestQuantilesAreThoseOfTheSamples(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1000, 0)
		samples := rapid.SliceOfN(rapid.Int64Range(int64(2*time.Millisecond), int64(5*time.Minute)), 100, 400).Draw(t, "samples")
		var h latencies
		for _, s := range samples {
			h.add(time.Duration(s), now)
		}
		slices.Sort(samples)
		got := h.times(now)
		for share, q := range map[float64]time.Duration{0.5: got.P50, 0.95: got.P95, 0.99: got.P99} {
			// The sample of that rank, or one beside it for sums of floats.
			rank := int(share * float64(len(samples)))
			low, high := samples[max(rank-2, 0)], samples[min(rank+1, len(samples)-1)]
			if float64(q) < 0.9*float64(low) || float64(q) > 1.1*float64(high) {
				t.Fatalf("quantile %v of %d samples is %v, not within %v and %v", share, len(samples), q, time.Duration(low), time.Duration(high))
			}
		}
	})
}

func TestQuantilesForgetSlowly(t *testing.T) {
	now := time.Unix(1000, 0)
	var h latencies
	for range 1000 {
		h.add(10*time.Second, now)
	}
	for range 1000 {
		h.add(100*time.Millisecond, now.Add(3*time.Minute))
	}
	if got := h.times(now.Add(3 * time.Minute)); got.P50 > 110*time.Millisecond || got.P99 < 9*time.Second {
		t.Errorf("three minutes after 1,000 slow ones: %+v; the median is new, the tail is not gone", got)
	}
	if got := h.times(now.Add(20 * time.Minute)); got != (Times{}) {
		t.Errorf("after 20 minutes without a sample: %+v", got)
	}
	var old latencies
	old.add(time.Second, now)
	old.add(time.Second, now.Add(-time.Hour)) // clocks may step back
	if got := old.times(now.Add(1 << 62)); got != (Times{}) {
		t.Errorf("at the end of time: %+v", got)
	}
}

// streamed lets an endpoint answer n streamed requests.
func streamed(e *Endpoint, n int, first, gap time.Duration, now time.Time) {
	for range n {
		c := e.Begin(Load{Model: "m", PromptTokens: 100, Stream: true}, now)
		c.FirstToken(now.Add(first))
		c.Done(Result{Outcome: failover.OK, FirstToken: first, Usage: inference.Usage{Prompt: 100, Completion: 11}}, now.Add(first+10*gap))
	}
}

func TestAnEndpointKnowsItsOwnTimesOrElseItsClusters(t *testing.T) {
	r, now := still(t)
	e, other := r.of("a")[0], r.of("a")[1]
	streamed(e, 200, 300*time.Millisecond, 20*time.Millisecond, *now)
	streamed(other, 10, 900*time.Millisecond, 20*time.Millisecond, *now)
	later := now.Add(time.Second)
	if got := e.FirstToken("m", later); !near(ms(got.P99), 300, 0.1) || !near(ms(got.P50), 300, 0.1) {
		t.Errorf("own first tokens of 300 ms: %+v", got)
	}
	got := other.FirstToken("m", later)
	if !near(ms(got.P50), 900, 0.1) {
		t.Errorf("ten answers say what the median is: %+v", got)
	}
	if want := r.Cluster("a").FirstToken("m", later).P99; got.P99 != want || want == 0 {
		t.Errorf("99th percentile %v, want the cluster's %v", got.P99, want)
	}
	if got := e.InterToken("m", later); !near(ms(got.P99), 20, 0.1) {
		t.Errorf("20 ms between tokens: %+v", got)
	}
	if got := e.HedgeAfter("m", later); !near(ms(got), 300, 0.1) {
		t.Errorf("a copy goes after %v", got)
	}
	for _, m := range []Times{e.FirstToken("nope", later), e.InterToken("nope", later), r.Cluster("b").FirstToken("m", later)} {
		if m != (Times{}) {
			t.Errorf("of what was never seen: %+v", m)
		}
	}
}

func TestNotStreamedAnswersSayNothingOfFirstTokens(t *testing.T) {
	r, now := still(t)
	e := r.of("a")[0]
	for range 200 {
		e.Begin(Load{Model: "m"}, *now).Done(Result{Outcome: failover.OK, FirstToken: 30 * time.Second, Usage: inference.Usage{Completion: 500}}, now.Add(30*time.Second))
	}
	if got := e.FirstToken("m", now.Add(31*time.Second)); got != (Times{}) {
		t.Errorf("%+v", got)
	}
}

func TestSilenceBound(t *testing.T) {
	class := &table.Class{FirstByteFloor: 5 * time.Second, FirstByteDeadline: time.Minute}
	l := Load{Model: "m"}
	for _, tt := range []struct {
		name              string
		seen, predicted   time.Duration
		endpoint, cluster time.Duration
	}{
		{"nothing known", 0, 0, 5 * time.Second, 10 * time.Second},
		{"quick", 100 * time.Millisecond, 500 * time.Millisecond, 5 * time.Second, 10 * time.Second},
		{"slow answers", 8 * time.Second, time.Second, 16 * time.Second, 16 * time.Second},
		{"a long prompt", 100 * time.Millisecond, 4 * time.Second, 16 * time.Second, 32 * time.Second},
		{"longer than the deadline", time.Second, time.Hour, time.Minute, time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, now := still(t)
			e, remote := r.of("a")[0], r.Cluster("e")
			if tt.seen > 0 {
				streamed(e, 200, tt.seen, 0, *now)
				for range 200 {
					remote.Hop(Load{Model: "m", Stream: true}, *now).Done(Result{Outcome: failover.OK, FirstToken: tt.seen}, now.Add(tt.seen))
				}
			}
			later := now.Add(10 * time.Second)
			if got := e.SilenceBound(&l, tt.predicted, class, later); !near(got.Seconds(), tt.endpoint.Seconds(), 0.1) {
				t.Errorf("at an endpoint %v, want %v", got, tt.endpoint)
			}
			if got := remote.SilenceBound(&l, tt.predicted, class, later); !near(got.Seconds(), tt.cluster.Seconds(), 0.1) {
				t.Errorf("at a cluster of another region %v, want %v", got, tt.cluster)
			}
		})
	}
	r, now := still(t)
	if got := r.of("a")[0].SilenceBound(&l, time.Hour, &table.Class{FirstByteFloor: time.Second}, *now); got != 4*time.Hour {
		t.Errorf("without a deadline %v", got)
	}
}

func TestStallBound(t *testing.T) {
	learned := &table.Class{}
	for _, tt := range []struct {
		name  string
		gap   time.Duration
		class *table.Class
		want  time.Duration
	}{
		{"nothing known", 0, learned, time.Minute},
		{"a quick server", 15 * time.Millisecond, learned, 10 * time.Second},
		{"a slow one", time.Second, learned, 20 * time.Second},
		{"a very slow one", 30 * time.Second, learned, time.Minute},
		{"as the class says", time.Second, &table.Class{Stall: 3 * time.Second}, 3 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, now := still(t)
			e, remote := r.of("a")[0], r.Cluster("e")
			if tt.gap > 0 {
				streamed(e, 200, time.Second, tt.gap, *now)
				for range 200 {
					remote.Hop(Load{Model: "m", Stream: true}, *now).Done(Result{Outcome: failover.OK, FirstToken: time.Second, Output: 11}, now.Add(time.Second+10*tt.gap))
				}
			}
			later := now.Add(time.Second)
			if got := e.StallBound("m", tt.class, later); !near(got.Seconds(), tt.want.Seconds(), 0.1) {
				t.Errorf("at an endpoint %v, want %v", got, tt.want)
			}
			if got := remote.StallBound("m", tt.class, later); !near(got.Seconds(), 1.5*tt.want.Seconds(), 0.1) {
				t.Errorf("at a cluster of another region %v, want half more than %v", got, tt.want)
			}
		})
	}
}

func BenchmarkSilenceBound(b *testing.B) {
	r, now := still(b)
	e := r.of("a")[0]
	streamed(e, 200, time.Second, 10*time.Millisecond, *now)
	class, l, later := &table.Class{FirstByteFloor: time.Second}, Load{Model: "m"}, now.Add(time.Second)
	b.ReportAllocs()
	for b.Loop() {
		e.SilenceBound(&l, time.Second, class, later)
	}
}
