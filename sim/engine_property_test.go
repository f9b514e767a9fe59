package sim

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// operation is one call of a random run.
type operation struct {
	wait   time.Duration
	req    Request
	abort  uint64 // the request to abort instead, if not 0
	factor float64
}

func operations(t *rapid.T) []operation {
	n := rapid.IntRange(1, 60).Draw(t, "operations")
	ops := make([]operation, n)
	for i := range ops {
		ops[i].wait = time.Duration(rapid.IntRange(0, 200).Draw(t, "wait ms")) * time.Millisecond
		ops[i].factor = 1
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			ops[i].abort = uint64(rapid.IntRange(1, n).Draw(t, "abort"))
			continue
		case 1:
			ops[i].factor = rapid.Float64Range(0.5, 5).Draw(t, "factor")
		}
		tokens := rapid.IntRange(1, 900).Draw(t, "prompt")
		shared := rapid.IntRange(0, tokens).Draw(t, "shared")
		ops[i].req = Request{
			ID: uint64(i + 1), PromptTokens: tokens,
			Blocks: slices.Concat(
				prompt(uint64(rapid.IntRange(1, 3).Draw(t, "family")), shared),
				prompt(uint64(100+i), tokens-shared)),
			OutputTokens: rapid.IntRange(1, 100).Draw(t, "output"),
			MaxTokens:    rapid.IntRange(0, 100).Draw(t, "cap"),
			Adapter:      rapid.SampledFrom([]string{"", "", "a", "b", "c"}).Draw(t, "adapter"),
		}
	}
	return ops
}

// endless is more events than any run of a test has.
const endless = 1 << 20

// play runs operations and checks after each what must always hold. check may be nil.
func play(opts Options, ops []operation, check func(*Engine, []Event)) ([]Event, Stats) {
	e := New(opts)
	var all []Event
	collect := func(now time.Duration) {
		events := e.Advance(now)
		all = append(all, events...)
		if len(all) > endless {
			panic("the engine does not come to an end")
		}
		if check != nil {
			check(e, events)
		}
	}
	var now time.Duration
	for _, op := range ops {
		until := now + op.wait
		for {
			at, ok := e.Next()
			if !ok || at > until {
				break
			}
			collect(at)
		}
		now = until
		e.SetSlow(now, op.factor)
		if op.abort != 0 {
			e.Abort(now, op.abort)
		} else {
			_ = e.Submit(now, op.req) // what doesn't fit is refused, and not counted
		}
		collect(now)
	}
	for {
		at, ok := e.Next()
		if !ok {
			return all, e.Stats()
		}
		collect(at)
	}
}

func smallEngine(t *rapid.T) Options {
	return Options{
		Profile: h100, MaxSequences: rapid.IntRange(1, 8).Draw(t, "slots"),
		MaxBatchTokens: rapid.IntRange(16, 512).Draw(t, "budget"),
		Blocks:         rapid.IntRange(8, 120).Draw(t, "blocks"),
		MaxAdapters:    rapid.IntRange(0, 2).Draw(t, "adapters"), Tokens: true,
		StartUp: time.Duration(rapid.IntRange(0, 500).Draw(t, "start-up ms")) * time.Millisecond,
	}
}

func TestEverySubmittedRequestEndsOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		opts, ops := smallEngine(t), operations(t)
		finished := map[uint64]int{}
		tokens := map[uint64]int{}
		events, st := play(opts, ops, nil)
		var last time.Duration
		for _, ev := range events {
			if ev.At < last {
				t.Fatalf("time went back from %v to %v", last, ev.At)
			}
			last = ev.At
			if ev.ID == 0 || finished[ev.ID] > 0 {
				t.Fatalf("an event of nobody: %+v", ev)
			}
			switch ev.Kind {
			case Finished:
				finished[ev.ID]++
				if ev.Generated != tokens[ev.ID] {
					t.Fatalf("request %d finished with %d tokens after %d token events", ev.ID, ev.Generated, tokens[ev.ID])
				}
			case Token:
				tokens[ev.ID]++
			}
		}
		if st.Submitted != st.Finished+st.Aborted || st.Running != 0 || st.Waiting != 0 || st.BlocksUsed != 0 {
			t.Fatalf("something was lost: %+v", st)
		}
		if uint64(len(finished)) != st.Finished {
			t.Fatalf("%d finished by events, %d by stats", len(finished), st.Finished)
		}
	})
}

func TestNothingIsEverOverCapacity(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		opts, ops := smallEngine(t), operations(t)
		play(opts, ops, func(e *Engine, _ []Event) {
			st := e.Stats()
			switch {
			case st.BlocksUsed > st.BlocksTotal, len(e.pool.blocks) > e.pool.total:
				t.Fatalf("%d of %d blocks used", st.BlocksUsed, st.BlocksTotal)
			case st.Running > opts.MaxSequences:
				t.Fatalf("%d of %d slots used", st.Running, opts.MaxSequences)
			case len(e.ResidentAdapters(nil)) > opts.MaxAdapters:
				t.Fatalf("%v in %d adapter slots", e.ResidentAdapters(nil), opts.MaxAdapters)
			case st.PrefixHits > st.PrefixQueries:
				t.Fatalf("%d hits of %d queries", st.PrefixHits, st.PrefixQueries)
			}
			checkPool(t, e)
		})
	})
}

// checkPool compares the pool with what the sequences hold, counted the slow way.
func checkPool(t *rapid.T, e *Engine) {
	refs := map[int32]int32{}
	for _, s := range e.running {
		for _, b := range s.blocks {
			refs[b]++
		}
		computed := s.computed
		if s.decoding {
			computed = s.req.PromptTokens + e.decoders.generated(s) - 1
		}
		if computed > len(s.blocks)*BlockSize {
			t.Fatalf("%d tokens in %d blocks", computed, len(s.blocks))
		}
	}
	var used, listed int
	for i, b := range e.pool.blocks {
		if b.refs != refs[int32(i)] {
			t.Fatalf("block %d has %d references, %d sequences hold it", i, b.refs, refs[int32(i)])
		}
		if b.refs > 0 {
			used++
		}
		if b.hashed && e.pool.index[b.hash] != int32(i) {
			t.Fatalf("block %d is not where the index says", i)
		}
	}
	for b := e.pool.head; b != nilBlock; b = e.pool.blocks[b].next {
		listed++
	}
	if used != e.pool.used || listed != len(e.pool.blocks)-used {
		t.Fatalf("%d used, counted %d; %d free, counted %d", e.pool.used, used, listed, len(e.pool.blocks)-used)
	}
}

func TestAdvancingRarelyChangesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		opts, ops := anyEngine(t), operations(t)
		often, _ := play(opts, ops, nil)
		e := New(opts)
		var rarely []Event
		var now time.Duration
		for _, op := range ops {
			now += op.wait
			rarely = append(rarely, e.Advance(now)...)
			e.SetSlow(now, op.factor)
			if op.abort != 0 {
				e.Abort(now, op.abort)
			} else {
				_ = e.Submit(now, op.req)
			}
		}
		rarely = append(rarely, e.Advance(now+time.Hour)...)
		if !slices.Equal(often, rarely) {
			t.Fatalf("%d events when advanced often, %d when rarely", len(often), len(rarely))
		}
	})
}

func TestLoadNeverShortensTheWait(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "others")
		tokens := rapid.IntRange(16, 4000).Draw(t, "prompt")
		ttft := func(others int) time.Duration {
			e := New(Options{Profile: h100})
			for id := range others {
				if err := e.Submit(0, Request{ID: uint64(id + 1), PromptTokens: 512, OutputTokens: 40}); err != nil {
					t.Fatal(err)
				}
			}
			if err := e.Submit(0, Request{ID: 1000, PromptTokens: tokens, OutputTokens: 1}); err != nil {
				t.Fatal(err)
			}
			for {
				at, ok := e.Next()
				if !ok {
					t.Fatal("no first token")
				}
				for _, ev := range e.Advance(at) {
					if ev.ID == 1000 && ev.Kind == First {
						return ev.At
					}
				}
			}
		}
		if a, b := ttft(n-1), ttft(n); b < a {
			t.Fatalf("first token after %v with %d others, after %v with one more", a, n-1, b)
		}
	})
}
