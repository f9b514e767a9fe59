package sim

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDrainFinishesWhatIsThere(t *testing.T) {
	t.Parallel()
	e := New(Options{Profile: h100, MaxSequences: 1})
	submit(t, e, 0, Request{ID: 1, PromptTokens: 64, OutputTokens: 20})
	submit(t, e, 0, Request{ID: 2, PromptTokens: 64, OutputTokens: 20})
	e.Drain(10 * time.Millisecond)
	if err := e.Submit(20*time.Millisecond, Request{ID: 3, PromptTokens: 64, OutputTokens: 20}); !errors.Is(err, ErrDraining) {
		t.Errorf("submit while draining: %v", err)
	}
	if !e.Ready(20 * time.Millisecond) {
		t.Error("a draining engine is not ready")
	}
	events := drain(e)
	for id := range uint64(2) {
		event(t, events, id+1, Finished)
	}
	if st := e.Stats(); st.Submitted != 2 || st.Finished != 2 || st.BlocksUsed != 0 {
		t.Errorf("%+v", st)
	}
	e.Crash(time.Hour)
	e.Drain(time.Hour) // a dead engine stays dead
	if err := e.Submit(time.Hour, Request{ID: 4, PromptTokens: 1, OutputTokens: 1}); !errors.Is(err, ErrCrashed) {
		t.Errorf("submit after a crash: %v", err)
	}
}

// Whatever an engine was doing, a crash names each request that had not ended, once, and leaves
// nothing behind.
func TestCrashLosesWhatHasNotEnded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		opts, ops := smallEngine(t), operations(t)
		opts.Cache = rapid.Bool().Draw(t, "cache events")
		cut := rapid.IntRange(0, len(ops)).Draw(t, "crash before")
		e := New(opts)
		open := map[uint64]bool{}
		note := func(events []Event) {
			for _, ev := range events {
				if ev.Kind == Finished {
					delete(open, ev.ID)
				}
			}
		}
		var now time.Duration
		for _, op := range ops[:cut] {
			now += op.wait
			note(e.Advance(now))
			if op.abort != 0 {
				e.Abort(now, op.abort)
				delete(open, op.abort)
			} else if e.Submit(now, op.req) == nil {
				open[op.req.ID] = true
			}
		}
		now += time.Duration(rapid.IntRange(0, 500).Draw(t, "ms")) * time.Millisecond
		aborted := e.Stats().Aborted
		lost := e.Crash(now)
		note(e.Advance(now))
		if len(lost) != len(open) {
			t.Fatalf("lost %v, open were %v", lost, open)
		}
		for _, id := range lost {
			if !open[id] {
				t.Fatalf("lost %v, open were %v", lost, open)
			}
			delete(open, id)
		}
		st := e.Stats()
		if st.Running+st.Waiting+st.BlocksUsed != 0 || st.Aborted != aborted+uint64(len(lost)) || e.Pending() != 0 {
			t.Fatalf("left behind: %+v", st)
		}
		if _, ok := e.Next(); ok || e.Ready(now+time.Hour) || len(e.ResidentAdapters(nil)) > 0 {
			t.Fatal("a crashed engine goes on")
		}
		for _, op := range ops {
			if n := e.Cached(op.req.Blocks); n != 0 {
				t.Fatalf("%d tokens are still cached", n)
			}
			if err := e.Submit(now, op.req); !errors.Is(err, ErrCrashed) {
				t.Fatalf("submit after the crash: %v", err)
			}
		}
		if events := e.Advance(now + time.Hour); len(events) > 0 {
			t.Fatalf("events after the crash: %+v", events)
		}
		if e.Crash(now+time.Hour) == nil {
			t.Fatal("a second crash answers nil")
		}
	})
}

func TestCrashTellsInOrder(t *testing.T) {
	t.Parallel()
	e := New(Options{Profile: h100, MaxSequences: 2})
	for _, id := range []uint64{9, 4, 7, 1} {
		submit(t, e, 0, Request{ID: id, PromptTokens: 64, OutputTokens: 500})
	}
	e.Advance(100 * time.Millisecond)
	if lost := e.Crash(100 * time.Millisecond); !slices.Equal(lost, []uint64{9, 4, 7, 1}) {
		t.Errorf("lost %v", lost)
	}
}
