package sim

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// With one slot and one output token the engine is an M/D/1 queue: Poisson arrivals, a fixed
// service time, and a mean wait of ρ/(2(1−ρ)) service times.
func TestWaitsLikeAnMD1Queue(t *testing.T) {
	t.Parallel()
	const n = 40000
	alone := New(Options{Profile: h100, MaxSequences: 1})
	submit(t, alone, 0, Request{ID: 1, PromptTokens: 1000, OutputTokens: 1})
	service := when(t, drain(alone), 1, Finished)
	for _, rho := range []float64{0.3, 0.6, 0.8} {
		rnd := rand.New(rand.NewPCG(1, uint64(rho*10)))
		e := New(Options{Profile: h100, MaxSequences: 1})
		arrived := make([]time.Duration, n)
		var now, total time.Duration
		count := func(events []Event) {
			for _, ev := range events {
				if ev.Kind == Admitted {
					total += ev.At - arrived[ev.ID]
				}
			}
		}
		for id := range arrived {
			now += time.Duration(rnd.ExpFloat64() * float64(service) / rho)
			arrived[id] = now
			count(e.Advance(now))
			submit(t, e, now, Request{ID: uint64(id), PromptTokens: 1000, OutputTokens: 1})
		}
		count(e.Advance(now + time.Hour))
		got := float64(total) / n / float64(service)
		want := rho / (2 * (1 - rho))
		if math.Abs(got-want) > 0.12*want {
			t.Errorf("load %.1f: mean wait of %.3f service times, want %.3f", rho, got, want)
		}
	}
}

// Batching is what makes a GPU pay: throughput rises with the batch, but less than in proportion.
func TestThroughputRisesWithTheBatch(t *testing.T) {
	t.Parallel()
	rate := func(batch int) float64 {
		e := New(Options{Profile: h100, MaxSequences: batch})
		for id := range 2 * batch {
			submit(t, e, 0, Request{ID: uint64(id), PromptTokens: 16, OutputTokens: 256})
		}
		events := drain(e)
		return float64(e.Stats().GenerationTokens) / events[len(events)-1].At.Seconds()
	}
	one, many := rate(1), rate(64)
	if many < 20*one || many > 64*one {
		t.Errorf("%.0f tokens/s alone, %.0f in a batch of 64", one, many)
	}
}
