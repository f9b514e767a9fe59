package sim

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

var h100 = mustLookup("h100", "llama-3.1-8b")

// drain runs an engine until it has nothing left to do.
func drain(e *Engine) []Event {
	var all []Event
	for {
		at, ok := e.Next()
		if !ok {
			return all
		}
		all = append(all, e.Advance(at)...)
		if len(all) > endless {
			panic("the engine does not come to an end")
		}
	}
}

// when is the time of the first event of a kind for a request; it fails the test without one.
func when(t *testing.T, events []Event, id uint64, k EventKind) time.Duration {
	t.Helper()
	return event(t, events, id, k).At
}

func event(t *testing.T, events []Event, id uint64, k EventKind) Event {
	t.Helper()
	i := slices.IndexFunc(events, func(e Event) bool { return e.ID == id && e.Kind == k })
	if i < 0 {
		t.Fatalf("request %d has no event %q", id, k)
	}
	return events[i]
}

func submit(t *testing.T, e *Engine, at time.Duration, r Request) {
	t.Helper()
	if err := e.Submit(at, r); err != nil {
		t.Fatal(err)
	}
}

// prompt is a chain of blocks nobody else has.
func prompt(seed uint64, tokens int) []uint64 {
	chain := make([]uint64, tokens/BlockSize)
	for i := range chain {
		chain[i] = seed<<32 | uint64(i) | 1<<63
	}
	return chain
}

func TestOneRequestAlone(t *testing.T) {
	t.Parallel()
	e := New(Options{Profile: h100, Tokens: true})
	submit(t, e, 0, Request{ID: 1, PromptTokens: 8192, OutputTokens: 10})
	events := drain(e)
	// 8,192 / 24,456 tokens/s, in four chunks.
	near(t, "first token in ms", milliseconds(when(t, events, 1, First)), 335, 0.03)
	step := (when(t, events, 1, Finished) - when(t, events, 1, First)) / 9
	near(t, "decode step in ms", milliseconds(step), 7.8+0.4, 0.05)
	var tokens int
	for _, ev := range events {
		if ev.Kind == Token {
			tokens++
			if ev.Generated != tokens {
				t.Errorf("token %d says %d were generated", tokens, ev.Generated)
			}
		}
	}
	if tokens != 10 {
		t.Errorf("%d tokens, want 10", tokens)
	}
	if st := e.Stats(); st.Running != 0 || st.Waiting != 0 || st.BlocksUsed != 0 || st.GenerationTokens != 10 || st.PromptTokens != 8192 {
		t.Errorf("stats at the end: %+v", st)
	}
}

func TestReasonToEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		output, limit, tokens int
		want                  Reason
	}{
		{20, 0, 20, Stop},
		{20, 30, 20, Stop},
		{20, 20, 20, Stop},
		{20, 5, 5, Length},
		{1, 1, 1, Stop},
	} {
		e := New(Options{Profile: h100})
		submit(t, e, 0, Request{ID: 1, PromptTokens: 10, OutputTokens: c.output, MaxTokens: c.limit})
		end := event(t, drain(e), 1, Finished)
		if end.Reason != c.want || end.Generated != c.tokens {
			t.Errorf("output %d, cap %d: %q after %d tokens, want %q after %d",
				c.output, c.limit, end.Reason, end.Generated, c.want, c.tokens)
		}
	}
}

func TestSubmitRefuses(t *testing.T) {
	t.Parallel()
	e := New(Options{Profile: h100, Blocks: 10})
	submit(t, e, 0, Request{ID: 1, PromptTokens: 100, OutputTokens: 60})
	for name, c := range map[string]struct {
		r    Request
		want error
	}{
		"no prompt":  {Request{ID: 2, OutputTokens: 1}, ErrRequest},
		"no output":  {Request{ID: 2, PromptTokens: 1}, ErrRequest},
		"ID in use":  {Request{ID: 1, PromptTokens: 1, OutputTokens: 1}, ErrRequest},
		"too long":   {Request{ID: 2, PromptTokens: 101, OutputTokens: 60}, ErrTooLong},
		"no adapter": {Request{ID: 2, PromptTokens: 1, OutputTokens: 1, Adapter: "a"}, ErrAdapter},
		"overflow":   {Request{ID: 2, PromptTokens: 1 << 62, OutputTokens: 1 << 62}, ErrTooLong},
	} {
		if err := e.Submit(0, c.r); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if st := e.Stats(); st.Submitted != 1 {
		t.Errorf("%d submitted, want 1", st.Submitted)
	}
}

func TestPrefixHitSavesPrefill(t *testing.T) {
	t.Parallel()
	ttft := func(second []uint64, off bool) (time.Duration, int) {
		e := New(Options{Profile: h100, NoPrefixCache: off})
		submit(t, e, 0, Request{ID: 1, PromptTokens: 4096, Blocks: prompt(1, 4096), OutputTokens: 1})
		drain(e)
		submit(t, e, time.Minute, Request{ID: 2, PromptTokens: 4096, Blocks: second, OutputTokens: 1})
		first := event(t, drain(e), 2, First)
		return first.At - time.Minute, first.Cached
	}
	half := slices.Concat(prompt(1, 2048), prompt(2, 2048))
	cold, n0 := ttft(prompt(2, 4096), false)
	warm, n1 := ttft(half, false)
	hot, n2 := ttft(prompt(1, 4096), false)
	off, n3 := ttft(prompt(1, 4096), true)
	if hot >= warm || warm >= cold || off != cold {
		t.Errorf("first token: all cached %v, half %v, none %v, cache off %v", hot, warm, cold, off)
	}
	// The last token is always computed, and with it its block.
	if n0 != 0 || n1 != 2048 || n2 != 4096-BlockSize || n3 != 0 {
		t.Errorf("cached tokens: none %d, half %d, all %d, off %d", n0, n1, n2, n3)
	}
}

func TestPrefixCacheForgetsTheLeastRecentlyUsed(t *testing.T) {
	t.Parallel()
	// Room for two prompts of 256 tokens, and a little.
	e := New(Options{Profile: h100, Blocks: 36})
	var id uint64
	cached := func(seed uint64) int {
		id++
		submit(t, e, time.Duration(id)*time.Minute, Request{ID: id, PromptTokens: 256, Blocks: prompt(seed, 256), OutputTokens: 1})
		return event(t, drain(e), id, Finished).Cached
	}
	for i, c := range []struct {
		seed uint64
		hit  bool
	}{{1, false}, {2, false}, {1, true}, {3, false}, {1, true}, {2, false}} {
		if got := cached(c.seed); (got > 128) != c.hit {
			t.Errorf("turn %d, prompt %d: %d cached tokens, want a hit: %v", i, c.seed, got, c.hit)
		}
	}
}

func TestSlotsAreFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	e := New(Options{Profile: h100, MaxSequences: 2})
	for id := range uint64(6) {
		submit(t, e, 0, Request{ID: id, PromptTokens: 64, OutputTokens: 20})
	}
	if st := e.Stats(); st.Running+st.Waiting != 6 || st.Running > 2 {
		t.Errorf("%d running and %d waiting", st.Running, st.Waiting)
	}
	events := drain(e)
	for id := range uint64(5) {
		if a, b := when(t, events, id, Admitted), when(t, events, id+1, Admitted); a > b {
			t.Errorf("%d was admitted at %v, after %d at %v", id, a, id+1, b)
		}
	}
}

func TestFullCachePreemptsTheLatest(t *testing.T) {
	t.Parallel()
	// Two sequences start with 5 blocks each of 12, and grow to 10 each.
	e := New(Options{Profile: h100, Blocks: 12, NoPrefixCache: true})
	submit(t, e, 0, Request{ID: 1, PromptTokens: 80, OutputTokens: 80})
	submit(t, e, 0, Request{ID: 2, PromptTokens: 80, OutputTokens: 80})
	events := drain(e)
	p := event(t, events, 2, Preempted)
	if slices.ContainsFunc(events, func(ev Event) bool { return ev.ID == 1 && ev.Kind == Preempted }) {
		t.Error("the earlier sequence was preempted")
	}
	if first := when(t, events, 2, First); first > p.At {
		t.Errorf("preempted at %v, before its first token at %v", p.At, first)
	}
	if a, b := when(t, events, 1, Finished), when(t, events, 2, Finished); a >= b {
		t.Errorf("the preempted one finished at %v, not after %v", b, a)
	}
	if got := event(t, events, 2, Finished).Generated; got != 80 {
		t.Errorf("the preempted one generated %d tokens, want 80", got)
	}
}

func TestAbortFreesAtOnce(t *testing.T) {
	t.Parallel()
	e := New(Options{Profile: h100, MaxSequences: 1})
	submit(t, e, 0, Request{ID: 1, PromptTokens: 1024, OutputTokens: 1000})
	submit(t, e, 0, Request{ID: 2, PromptTokens: 64, OutputTokens: 5})
	submit(t, e, 0, Request{ID: 3, PromptTokens: 64, OutputTokens: 5})
	if !e.Abort(time.Second, 1) || !e.Abort(time.Second, 3) {
		t.Fatal("abort found nothing")
	}
	if e.Abort(time.Second, 1) || e.Abort(time.Second, 99) {
		t.Error("abort found what isn't there")
	}
	if st := e.Stats(); st.Running != 0 || st.BlocksUsed != 0 || st.Waiting != 1 || st.Aborted != 2 {
		t.Errorf("after the aborts: %+v", st)
	}
	e.Advance(time.Second)
	events := drain(e)
	if at := when(t, events, 2, Finished); at > 2*time.Second {
		t.Errorf("the waiting one finished at %v", at)
	}
	for _, ev := range events {
		if ev.ID != 2 {
			t.Errorf("an event after the abort: %+v", ev)
		}
	}
}

func TestAdaptersShareSlots(t *testing.T) {
	t.Parallel()
	run := func(slots int) (time.Duration, Stats) {
		e := New(Options{Profile: h100, MaxAdapters: slots})
		for id := range uint64(6) {
			submit(t, e, 0, Request{ID: id, PromptTokens: 64, OutputTokens: 20, Adapter: fmt.Sprintf("a%d", id%3)})
		}
		if running := e.RunningAdapters(nil); len(running) > slots {
			t.Errorf("%v run in %d slots", running, slots)
		}
		events := drain(e)
		if got := e.Stats().Finished; got != 6 {
			t.Errorf("%d of 6 finished with %d slots", got, slots)
		}
		return events[len(events)-1].At, e.Stats()
	}
	one, st1 := run(1)
	three, st3 := run(3)
	if one <= three {
		t.Errorf("one slot took %v, three took %v", one, three)
	}
	if st3.AdapterLoads != 3 || st1.AdapterLoads < 3 {
		t.Errorf("loads: %d with three slots, %d with one", st3.AdapterLoads, st1.AdapterLoads)
	}
}

func TestAdapterInUseIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	e := New(Options{Profile: h100, MaxAdapters: 1})
	submit(t, e, 0, Request{ID: 1, PromptTokens: 64, OutputTokens: 200, Adapter: "a"})
	submit(t, e, 0, Request{ID: 2, PromptTokens: 64, OutputTokens: 5, Adapter: "b"})
	submit(t, e, 0, Request{ID: 3, PromptTokens: 64, OutputTokens: 5, Adapter: "a"})
	submit(t, e, 0, Request{ID: 4, PromptTokens: 64, OutputTokens: 5})
	e.Advance(150 * time.Millisecond)
	if r, w := e.RunningAdapters(nil), e.WaitingAdapters(nil); !slices.Equal(r, []string{"a"}) || !slices.Equal(w, []string{"b"}) {
		t.Errorf("running %v, waiting %v", r, w)
	}
	events := drain(e)
	if b, a := when(t, events, 2, Admitted), when(t, events, 1, Finished); b < a {
		t.Errorf("b was admitted at %v, while a ran until %v", b, a)
	}
	if got := e.Stats().Finished; got != 4 {
		t.Errorf("%d of 4 finished", got)
	}
}

func TestStartUpHoldsRequests(t *testing.T) {
	t.Parallel()
	e := New(Options{Profile: h100, Start: time.Second, StartUp: time.Minute})
	submit(t, e, 2*time.Second, Request{ID: 1, PromptTokens: 64, OutputTokens: 2})
	if e.Ready(60*time.Second) || !e.Ready(61*time.Second) {
		t.Error("ready at the wrong time")
	}
	if at, ok := e.Next(); !ok || at != 61*time.Second {
		t.Errorf("next at %v, %v", at, ok)
	}
	if at := when(t, drain(e), 1, Admitted); at != 61*time.Second {
		t.Errorf("admitted at %v", at)
	}
}

func TestSlowStretchesSteps(t *testing.T) {
	t.Parallel()
	run := func(factor float64) time.Duration {
		e := New(Options{Profile: h100})
		e.SetSlow(0, factor)
		submit(t, e, 0, Request{ID: 1, PromptTokens: 1024, OutputTokens: 50})
		return when(t, drain(e), 1, Finished)
	}
	near(t, "three times slower", float64(run(3)), 3*float64(run(1)), 0.001)
	if run(0) != run(1) || run(-1) != run(1) {
		t.Error("a factor that isn't above 0 is not normal speed")
	}
}

func TestDecodeStepGrowsWithBatchAndContext(t *testing.T) {
	t.Parallel()
	step := func(batch, context int) time.Duration {
		e := New(Options{Profile: h100, MaxBatchTokens: 1 << 20})
		for id := range batch {
			submit(t, e, 0, Request{ID: uint64(id), PromptTokens: context, OutputTokens: 50})
		}
		events := drain(e)
		// The last request is in the batch for its whole life.
		last := uint64(batch - 1)
		return (when(t, events, 0, Finished) - when(t, events, last, First)) / 49
	}
	if a, b, c := step(2, 128), step(32, 128), step(32, 4096); a >= b || b >= c {
		t.Errorf("decode steps: %v at batch 2, %v at 32, %v with long contexts", a, b, c)
	}
}
