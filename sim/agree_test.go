package sim

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// anyEngine draws every option, so that every rule of the schedule is met.
func anyEngine(t *rapid.T) Options {
	o := smallEngine(t)
	o.Tokens = rapid.Bool().Draw(t, "token events")
	o.Cache = rapid.Bool().Draw(t, "cache events")
	o.NoPrefixCache = rapid.Bool().Draw(t, "no prefix cache")
	o.AdapterLoad = time.Duration(rapid.IntRange(0, 300).Draw(t, "load ms")) * time.Millisecond
	o.Start = time.Duration(rapid.IntRange(0, 300).Draw(t, "start ms")) * time.Millisecond
	if rapid.Bool().Draw(t, "roomy") {
		o.Blocks *= 8
	}
	return o
}

// The engine does what the plain one does: the same events at the same times, the same changes of the
// cache, the same statistics whenever they are asked for, and the same end. And Next is never late: who
// advances to it and nowhere else hears of each event at its time.
func TestEngineAgreesWithThePlainOne(t *testing.T) {
	t.Parallel()
	var ended, preempted, foreseen uint64
	check := func(t *rapid.T) {
		opts, ops := anyEngine(t), operations(t)
		fast, slow := New(opts), newPlain(opts)
		var drainAt, crashAt int // operations; 0: never
		switch rapid.IntRange(0, 9).Draw(t, "end") {
		case 1:
			drainAt = rapid.IntRange(0, len(ops)).Draw(t, "drain")
		case 2:
			crashAt = rapid.IntRange(0, len(ops)).Draw(t, "crash")
		}
		compare := func(now time.Duration) {
			for {
				at, ok := fast.Next()
				if !ok || at > now {
					break
				}
				events := slices.Clone(fast.Advance(at))
				for _, ev := range events {
					if ev.At != at {
						t.Fatalf("Next was %v, then came %+v", at, ev)
					}
				}
				steps := slow.stats.Steps
				if want := slow.Advance(at); !slices.Equal(events, want) {
					t.Fatalf("at %v:\n%+v, the plain engine:\n%+v", at, events, want)
				}
				if slow.stats.Steps > steps+1 {
					foreseen++
				}
			}
			if a, b := fast.Advance(now), slow.Advance(now); len(a)+len(b) > 0 {
				t.Fatalf("events when there was nothing to do: %+v, the plain engine: %+v", a, b)
			}
			if a, b := fast.Stats(), slow.Stats(); a != b {
				t.Fatalf("at %v:\n%+v, the plain engine:\n%+v", now, a, b)
			}
			if a, b := fast.CacheEvents(), slow.CacheEvents(); !slices.Equal(a, b) {
				t.Fatalf("cache: %+v, the plain engine: %+v", a, b)
			}
			if a, b := fast.Pending(), slow.Pending(); a != b {
				t.Fatalf("pending %d, the plain engine: %d", a, b)
			}
		}
		var now time.Duration
		for i, op := range ops {
			now += op.wait
			compare(now)
			switch {
			case i > 0 && i == drainAt:
				fast.Drain(now)
				slow.Drain(now)
			case i > 0 && i == crashAt:
				if a, b := fast.Crash(now), slow.Crash(now); !slices.Equal(a, b) {
					t.Fatalf("lost %v, the plain engine: %v", a, b)
				}
			case op.abort != 0:
				if a, b := fast.Abort(now, op.abort), slow.Abort(now, op.abort); a != b {
					t.Fatalf("abort: %v, the plain engine: %v", a, b)
				}
			default:
				fast.SetSlow(now, op.factor)
				slow.SetSlow(now, op.factor)
				if a, b := fast.Submit(now, op.req), slow.Submit(now, op.req); (a == nil) != (b == nil) {
					t.Fatalf("submit: %v, the plain engine: %v", a, b)
				}
			}
			if a, b := fast.Advance(now), slow.Advance(now); !slices.Equal(a, b) {
				t.Fatalf("at once: %+v, the plain engine: %+v", a, b)
			}
			for _, o := range ops {
				if a, b := fast.Cached(o.req.Blocks), slow.Cached(o.req.Blocks); a != b {
					t.Fatalf("cached %d, the plain engine: %d", a, b)
				}
			}
		}
		compare(now + time.Hour)
		if _, ok := fast.Next(); ok {
			t.Fatal("there is something left to do")
		}
		st := fast.Stats()
		ended, preempted = ended+st.Finished, preempted+st.Preemptions
	}
	for range 20 {
		rapid.Check(t, check)
	}
	t.Logf("%d ended, %d preemptions, %d times several steps at once", ended, preempted, foreseen)
	if ended == 0 || preempted == 0 || foreseen == 0 {
		t.Error("nothing is shown of one of these")
	}
}

// Same seed, same bytes: a run leaves nothing to chance, whatever the options.
func TestSameCallsSameEvents(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		opts, ops := anyEngine(t), operations(t)
		var told [2][]CacheEvent
		var events [2][]Event
		var stats [2]Stats
		for i := range told {
			events[i], stats[i] = play(opts, ops, func(e *Engine, _ []Event) {
				told[i] = append(told[i], e.CacheEvents()...)
			})
		}
		if !slices.Equal(events[0], events[1]) || stats[0] != stats[1] || !slices.Equal(told[0], told[1]) {
			t.Fatalf("two runs differ: %+v and %+v", stats[0], stats[1])
		}
	})
}

// Token events are more to hear and nothing else.
func TestTokenEventsChangeNothingElse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		opts, ops := anyEngine(t), operations(t)
		opts.Tokens = true
		with, a := play(opts, ops, nil)
		opts.Tokens = false
		without, b := play(opts, ops, nil)
		with = slices.DeleteFunc(with, func(ev Event) bool { return ev.Kind == Token })
		if a != b || !slices.Equal(with, without) {
			t.Fatalf("%d events with tokens, %d without; %+v and %+v", len(with), len(without), a, b)
		}
	})
}
