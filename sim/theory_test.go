package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// servers is an engine as queueing theory knows it: so many servers behind one queue. A step takes 1 ms
// whatever is in it, a prompt is one token long, and so a request is served for as many milliseconds
// as it has output tokens.
func servers(n int) *Engine {
	return New(Options{
		Profile:      Profile{Bandwidth: 1, FLOPS: 1, PeakFLOPS: 1, Overhead: time.Millisecond},
		MaxSequences: n, Blocks: 1 << 20, NoPrefixCache: true,
	})
}

// service draws the service time of one request in milliseconds, of 100 in the mean: as the theory has
// it, and in whole tokens.
type service func(*rand.Rand) (exact float64, tokens int)

const meanService = 100.0

// exponential times become geometric ones of the same mean.
func exponential(rnd *rand.Rand) (float64, int) {
	x := rnd.ExpFloat64()
	return x * meanService, 1 + int(x/-math.Log1p(-1/meanService))
}

// whole are times that are whole tokens already.
func whole(draw func(*rand.Rand) int) service {
	return func(rnd *rand.Rand) (float64, int) {
		n := draw(rnd)
		return float64(n), n
	}
}

// queueing is a run of Poisson arrivals through the engine, and of the same through the textbook: each
// request goes to the server that is free first (Lindley, for several Kiefer and Wolfowitz). What the
// textbook's mean is, is known exactly, so the difference of the two has hardly a spread: what makes one
// run's waits longer than expected does so in both. Waits are in mean service times.
type queueing struct {
	waits, textbook []float64
}

func simulate(t *testing.T, n int, load float64, draw service) *queueing {
	t.Helper()
	requests := 200_000
	if testing.Short() {
		requests = 30_000
	}
	rnd := rand.New(rand.NewPCG(4, uint64(n*100)+uint64(load*10)))
	q := &queueing{waits: make([]float64, requests), textbook: make([]float64, requests)}
	e := servers(n)
	arrived := make([]time.Duration, requests)
	note := func(events []Event) {
		for _, ev := range events {
			if ev.Kind == Admitted {
				q.waits[ev.ID] = milliseconds(ev.At-arrived[ev.ID]) / meanService
			}
		}
	}
	free := make([]float64, n) // when each server is, in ms
	var now float64
	for id := range arrived {
		now += rnd.ExpFloat64() * meanService / load / float64(n)
		arrived[id] = time.Duration(now * float64(time.Millisecond))
		exact, tokens := draw(rnd)
		note(e.Advance(arrived[id]))
		submit(t, e, arrived[id], Request{ID: uint64(id), PromptTokens: 1, OutputTokens: tokens})
		first := slices.Index(free, slices.Min(free))
		start := max(now, free[first])
		free[first] = start + exact
		q.textbook[id] = (start - now) / meanService
	}
	note(e.Advance(arrived[requests-1] + 1000*time.Hour))
	if st := e.Stats(); st.Finished != uint64(requests) {
		t.Fatalf("%d of %d were served", st.Finished, requests)
	}
	warm := requests / 10
	q.waits, q.textbook = q.waits[warm:], q.textbook[warm:]
	return q
}

// mean of values in order of time, and its standard error by means of 50 batches.
func mean(values []float64) (average, standardError float64) {
	const batches = 50
	size := len(values) / batches
	var sum, squares float64
	for batch := range slices.Chunk(values[:size*batches], size) {
		var m float64
		for _, v := range batch {
			m += v / float64(size)
		}
		sum += m
		squares += m * m
	}
	average = sum / batches
	return average, math.Sqrt(max(0, squares/batches-average*average) / (batches - 1))
}

// check compares the engine's mean wait with the theory's: as it is, within four standard errors and
// the 1 % that whole tokens and steps may cost, and corrected by what chance did to the textbook's,
// within 2 %, of which the standard error must be no more than a fifth.
func (q *queueing) check(t *testing.T, theory float64) {
	t.Helper()
	raw, spread := mean(q.waits)
	if math.Abs(raw-theory) > 4*spread+0.01*theory {
		t.Errorf("mean wait %.4f ± %.4f, theory %.4f", raw, spread, theory)
	}
	difference := make([]float64, len(q.waits))
	for i, w := range q.waits {
		difference[i] = w - q.textbook[i]
	}
	d, spread2 := mean(difference)
	t.Logf("mean wait %.4f ± %.4f, corrected %.4f ± %.5f, theory %.4f (%+.2f %%)", raw, spread, theory+d, spread2, theory, 100*d/theory)
	if math.Abs(d) > 0.02*theory || spread2 > 0.004*theory {
		t.Errorf("mean wait %.4f ± %.5f, theory %.4f", theory+d, spread2, theory)
	}
}

// M/M/1: the mean wait is ρ/(1−ρ), and a share of ρ·exp(−(1−ρ)t) waits longer than t.
func TestWaitsLikeMM1(t *testing.T) {
	t.Parallel()
	for _, load := range []float64{0.5, 0.7, 0.85} {
		t.Run(fmt.Sprintf("load %.2f", load), func(t *testing.T) {
			t.Parallel()
			q := simulate(t, 1, load, exponential)
			q.check(t, load/(1-load))
			slices.Sort(q.waits)
			slices.Sort(q.textbook)
			for _, p := range []float64{0.75, 0.90, 0.95, 0.99} {
				i := int(p * float64(len(q.waits)))
				theory := math.Log(load/(1-p)) / (1 - load)
				got := theory + q.waits[i] - q.textbook[i]
				t.Logf("P%.0f %.4f, corrected %.4f, theory %.4f", 100*p, q.waits[i], got, theory)
				if math.Abs(got-theory) > 0.02*theory {
					t.Errorf("P%.0f of the wait: %.4f, theory %.4f", 100*p, got, theory)
				}
			}
		})
	}
}

// M/M/n: the mean wait is C(n, nρ)/(n(1−ρ)), with Erlang's C the share that waits at all.
func TestWaitsLikeMMn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		servers int
		load    float64
	}{{2, 0.7}, {4, 0.8}, {16, 0.9}} {
		t.Run(fmt.Sprintf("%d servers at %.1f", c.servers, c.load), func(t *testing.T) {
			t.Parallel()
			q := simulate(t, c.servers, c.load, exponential)
			q.check(t, erlangC(c.servers, c.load)/(float64(c.servers)*(1-c.load)))
		})
	}
}

// M/G/1: the mean wait is ρ·E[S²]/(2(1−ρ)) by Pollaczek and Khinchine, in mean service times.
func TestWaitsLikeMG1(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		draw    service
		squares float64 // E[S²] in ms²
	}{
		"always the same": {whole(func(*rand.Rand) int { return 100 }), 10_000},
		"uniform":         {whole(func(r *rand.Rand) int { return 1 + r.IntN(199) }), 200 * 399 / 6.0},
		"few long ones": {whole(func(r *rand.Rand) int {
			if r.IntN(10) == 0 {
				return 640
			}
			return 40
		}), 0.1*640*640 + 0.9*40*40},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const load = 0.7
			q := simulate(t, 1, load, c.draw)
			q.check(t, load*c.squares/(meanService*meanService)/(2*(1-load)))
		})
	}
}

// erlangC is the share of requests that finds all servers busy, by way of Erlang's B, which is built up
// server by server.
func erlangC(servers int, load float64) float64 {
	offered := load * float64(servers)
	b := 1.0
	for i := range servers {
		b = offered * b / (float64(i+1) + offered*b)
	}
	return b / (1 - load*(1-b))
}
