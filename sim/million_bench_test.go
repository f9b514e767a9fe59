package sim

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
)

// fleetMix is a fleet of seven pods under a realistic load: prompts of 600 tokens, of which 448 are
// one of 50 system prompts, 100 to 300 tokens of output, Poisson arrivals at 20 requests a second
// and pod, each pod in its turn.
type fleetMix struct {
	pods   []*Engine
	rnd    *rand.Rand
	shared [][]uint64
	now    time.Duration
	id     uint64
	events uint64
	ended  uint64
}

func newFleetMix(opts Options) *fleetMix {
	f := &fleetMix{rnd: rand.New(rand.NewPCG(1, 2))}
	for range 7 {
		f.pods = append(f.pods, New(opts))
	}
	for i := range uint64(50) {
		f.shared = append(f.shared, prompt(i, 448))
	}
	return f
}

// request lets every pod work until the next request arrives, and sends that.
func (f *fleetMix) request(tb testing.TB) {
	f.now += time.Duration(f.rnd.ExpFloat64() * float64(time.Second) / 20 / float64(len(f.pods)))
	for _, e := range f.pods {
		f.work(e, f.now)
	}
	f.id++
	own := f.rnd.Uint64() | 1<<63
	blocks := slices.Grow(slices.Clip(f.shared[f.rnd.IntN(len(f.shared))]), 9)
	for i := range uint64(9) {
		blocks = append(blocks, own+i)
	}
	err := f.pods[f.id%uint64(len(f.pods))].Submit(f.now, Request{
		ID: f.id, PromptTokens: 600, Blocks: blocks, OutputTokens: 100 + f.rnd.IntN(201),
	})
	if err != nil {
		tb.Fatal(err)
	}
}

func (f *fleetMix) work(e *Engine, until time.Duration) {
	for {
		at, ok := e.Next()
		if !ok || at > until {
			return
		}
		for _, ev := range e.Advance(at) {
			f.events++
			if ev.Kind == Finished {
				f.ended++
			}
		}
	}
}

// BenchmarkMillion is what a million requests cost: ns/op is of one request, s/million of a million
// on one core; -benchtime=1000000x makes them all.
func BenchmarkMillion(b *testing.B) {
	f := newFleetMix(Options{Profile: h100})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b.ReportAllocs()
	for b.Loop() {
		f.request(b)
	}
	runtime.ReadMemStats(&after)
	events, steps := float64(f.events), uint64(0)
	for _, e := range f.pods {
		steps += e.Stats().Steps
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)*1e6, "s/million")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/events, "ns/event")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/events, "allocs/event")
	b.ReportMetric(float64(steps)/float64(b.N), "steps/request")
}

// Once it has seen its load, an engine works in the memory that it has.
func TestEngineAllocatesNothingInTheLongRun(t *testing.T) {
	e := New(Options{Profile: h100, MaxSequences: 16, Blocks: 2000, MaxAdapters: 2})
	var now time.Duration
	var id uint64
	chains := [][]uint64{prompt(1, 600), prompt(2, 600), slices.Concat(prompt(1, 320), prompt(3, 280))}
	round := func() {
		for range 40 {
			id++
			now += 20 * time.Millisecond
			e.Advance(now)
			err := e.Submit(now, Request{
				ID: id, PromptTokens: 600, Blocks: chains[id%3], OutputTokens: 50 + int(id%7), Adapter: []string{"", "a", "b"}[id%3],
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		now += time.Minute
		e.Advance(now)
	}
	for range 20 {
		round()
	}
	if n := testing.AllocsPerRun(20, round); n > 0 {
		t.Errorf("%.0f allocations for 40 requests", n)
	}
}
