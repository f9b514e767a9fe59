package sim

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestCachedCountsWholeLeadingBlocks(t *testing.T) {
	t.Parallel()
	e := New(Options{Profile: h100})
	submit(t, e, 0, Request{ID: 1, PromptTokens: 1000, Blocks: prompt(1, 1000), OutputTokens: 1})
	drain(e)
	for name, c := range map[string]struct {
		blocks []uint64
		want   int
	}{
		"all":             {prompt(1, 1000), 992},
		"a beginning":     {prompt(1, 320), 320},
		"half":            {slices.Concat(prompt(1, 480), prompt(2, 480)), 480},
		"another start":   {slices.Concat(prompt(2, 16), prompt(1, 960)), 0},
		"nothing":         {nil, 0},
		"something other": {prompt(3, 1000), 0},
	} {
		if got := e.Cached(c.blocks); got != c.want {
			t.Errorf("%s: %d tokens, want %d", name, got, c.want)
		}
	}
	off := New(Options{Profile: h100, NoPrefixCache: true})
	submit(t, off, 0, Request{ID: 1, PromptTokens: 1000, Blocks: prompt(1, 1000), OutputTokens: 1})
	drain(off)
	if got := off.Cached(prompt(1, 1000)); got != 0 {
		t.Errorf("without a prefix cache %d tokens are in it", got)
	}
}

// What Cached says just before a request meets an idle engine is what the request gets, but for the
// block with its last token.
func TestCachedForetells(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := New(Options{Profile: h100, Blocks: 120})
		var now time.Duration
		for _, op := range operations(t) {
			now += time.Minute
			e.Advance(now)
			op.req.Adapter = ""
			want := min(e.Cached(op.req.Blocks), (op.req.PromptTokens-1)/BlockSize*BlockSize)
			if e.Submit(now, op.req) != nil {
				continue // too long, or an abort
			}
			for _, ev := range e.Advance(now + 50*time.Second) {
				if ev.Kind == First && ev.Cached != want {
					t.Fatalf("%d tokens were cached, foretold were %d", ev.Cached, want)
				}
			}
		}
	})
}

func TestPendingIsThePrefillToDo(t *testing.T) {
	t.Parallel()
	e := New(Options{Profile: h100, MaxSequences: 1})
	pending := func(what string, want int) {
		t.Helper()
		if got := e.Pending(); got != want {
			t.Errorf("%s: %d tokens, want %d", what, got, want)
		}
	}
	pending("an idle engine", 0)
	submit(t, e, 0, Request{ID: 1, PromptTokens: 5000, Blocks: prompt(1, 5000), OutputTokens: 200})
	pending("its first chunk is being computed", 5000)
	step := func() {
		at, _ := e.Next()
		e.Advance(at)
	}
	step()
	pending("one chunk of 2,048 is done", 2952)
	step()
	step()
	pending("it decodes", 0)
	submit(t, e, e.now, Request{ID: 2, PromptTokens: 600, Blocks: prompt(2, 600), OutputTokens: 1})
	pending("an unknown prompt waits", 600)
	submit(t, e, e.now, Request{ID: 3, PromptTokens: 4100, Blocks: slices.Concat(prompt(1, 4000), prompt(3, 100)), OutputTokens: 1})
	pending("one that is cached but for 100 waits too", 700)
	drain(e)
	pending("all is done", 0)
}

func TestAdaptersAreListedInTheCallersMemory(t *testing.T) {
	e := New(Options{Profile: h100, MaxAdapters: 2})
	for i, a := range []string{"b", "a", "c", "c", ""} {
		submit(t, e, 0, Request{ID: uint64(i), PromptTokens: 64, OutputTokens: 100, Adapter: a})
	}
	// The first step holds what met the idle engine, the second the others.
	at, _ := e.Next()
	e.Advance(at)
	buffer := make([]string, 1, 8)
	buffer[0] = "z"
	for name, c := range map[string]struct {
		list func([]string) []string
		want []string
	}{
		"running":  {e.RunningAdapters, []string{"z", "a", "b"}},
		"resident": {e.ResidentAdapters, []string{"z", "a", "b"}},
		"waiting":  {e.WaitingAdapters, []string{"z", "c"}},
	} {
		if got := c.list(buffer); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if n := testing.AllocsPerRun(10, func() { c.list(buffer) }); n > 0 {
			t.Errorf("%s allocates %.0f times", name, n)
		}
	}
	drain(e)
	if got := e.RunningAdapters(nil); len(got) > 0 {
		t.Errorf("%v run on an idle engine", got)
	}
	if got := e.ResidentAdapters(nil); !slices.Equal(got, []string{"a", "c"}) && !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("%v are resident, want c and one of a and b", got)
	}
}

func TestStatsAllocateNothing(t *testing.T) {
	e := New(Options{Profile: h100, MaxAdapters: 2})
	for i := range uint64(10) {
		submit(t, e, 0, Request{ID: i, PromptTokens: 64, OutputTokens: 100, Adapter: "a"})
	}
	if n := testing.AllocsPerRun(10, func() { _ = e.Stats() }); n > 0 {
		t.Errorf("%.0f allocations", n)
	}
}

func TestGeneratedCountsUntilTheEnd(t *testing.T) {
	t.Parallel()
	e := New(Options{Profile: h100, Tokens: true})
	submit(t, e, 0, Request{ID: 7, PromptTokens: 100, OutputTokens: 5})
	told := 0
	for {
		n, there := e.Generated(7)
		if there != (told < 5) || there && n != told {
			t.Fatalf("after %d tokens it says %d, %v", told, n, there)
		}
		if !there {
			return
		}
		at, _ := e.Next()
		for _, ev := range e.Advance(at) {
			if ev.Kind == Token {
				told++
			}
		}
	}
}
