package kvevents

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/dataplane/inference"
	"anabranch/dataplane/prefix"
)

func newBook(t testing.TB, opt BookOptions) *Book {
	t.Helper()
	if opt.Index == nil {
		opt.Index = prefix.New(1<<14, 0, noon)
		opt.Holder = opt.Index.NewHolder(1)
	}
	b := NewBook(opt)
	b.Listen(noon)
	return b
}

func after(d time.Duration) time.Time { return noon.Add(d) }

// run is the blocks from to to of some prompt, behind each other.
func run(prompt string, from, to int) Event {
	e := Event{Kind: Stored, BlockSize: 16, HasParent: from > 1, Parent: sum(prompt, from-1)}
	for n := from; n <= to; n++ {
		e.Hashes = append(e.Hashes, sum(prompt, n))
	}
	return e
}

func texts(prompt string, n int) []uint64 {
	c := make([]uint64, n)
	for i := range c {
		c[i] = sum("text", prompt, i)
	}
	return c
}

func TestRequestsThatSayNothing(t *testing.T) {
	ok := Request{Blocks: texts("a", 4), Bytes: 4200, Prompt: 1050, Began: after(time.Second), First: after(1100 * time.Millisecond)}
	with := func(change func(*Request)) Request {
		r := ok
		change(&r)
		return r
	}
	tests := []struct {
		name  string
		r     Request
		told  bool
		store Event
		want  Result
	}{
		{"one that says all", ok, true, run("a", 1, 65), Associated},
		{"a server that doesn't tell of cached tokens", ok, false, run("a", 1, 65), Untold},
		{"no tokens", with(func(r *Request) { r.Prompt = 0 }), true, run("a", 1, 65), Odd},
		{"an image: many tokens of little text", with(func(r *Request) { r.Prompt = 5000 }), true, run("a", 1, 312), Odd},
		{"much text that became few tokens", with(func(r *Request) { r.Prompt = 100 }), true, run("a", 1, 6), Odd},
		{"sent before anybody listened", with(func(r *Request) { r.Began = after(-time.Millisecond) }), true, run("a", 1, 65), Unheard},
		{"nothing was stored", ok, true, Event{Kind: Cleared}, Unmatched},
		{"another size was stored", ok, true, run("a", 1, 64), Unmatched},
		{"all was there but the last block", with(func(r *Request) { r.Prompt, r.Cached = 1040, 1024 }), true, run("b", 1, 65), Cached},
		{"all was there but a piece of a block", with(func(r *Request) { r.Cached = 1040 }), true, run("b", 1, 65), Cached},
		{"less than a block", with(func(r *Request) { r.Prompt, r.Bytes = 12, 100 }), true, run("b", 1, 65), Cached},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBook(t, BookOptions{})
			b.Apply(&Batch{Events: []Event{run("before", 1, 3)}}, after(time.Millisecond))
			b.Apply(&Batch{Events: []Event{tt.store}}, after(1050*time.Millisecond))
			b.Ended(tt.r, tt.told, after(2*time.Second))
			b.Settle(after(time.Hour))
			want := [results]uint64{}
			want[tt.want] = 1
			if got := b.Counts().Results; got != want {
				t.Errorf("%v, want one %v", got, tt.want)
			}
		})
	}
	b := newBook(t, BookOptions{})
	b.Ended(Request{Prompt: 10, Bytes: 40}, false, noon)
	if c := b.Counts(); c.Results != [results]uint64{} {
		t.Errorf("a prompt without a whole block of text counts %v", c.Results)
	}
}

// Requests end in another order than that of their first tokens, and are settled when all that was
// stored by then has been heard.
func TestRequestsWaitForTheirGrace(t *testing.T) {
	b := newBook(t, BookOptions{Grace: time.Second})
	if _, ok := b.Due(); ok {
		t.Error("something is due at the beginning")
	}
	for _, first := range []int{30, 10, 20, 11} { // seconds
		b.Ended(Request{Blocks: texts("a", 1), Bytes: 1024, Prompt: 256, Began: noon, First: after(time.Duration(first) * time.Second)}, true, after(5*time.Second))
	}
	for _, want := range []int{11, 12, 21, 31} {
		due, ok := b.Due()
		if !ok || !due.Equal(after(time.Duration(want)*time.Second)) {
			t.Fatalf("%v, %v is due; want %d s", due.Sub(noon), ok, want)
		}
		had := b.Counts().Results[Unmatched]
		b.Settle(due.Add(-time.Nanosecond))
		if b.Counts().Results[Unmatched] != had {
			t.Error("it was settled before it was due")
		}
		b.Settle(due)
		if b.Counts().Results[Unmatched] != had+1 {
			t.Error("it was not settled when it was due")
		}
	}
	// One whose first token is long past doesn't wait.
	b.Ended(Request{Blocks: texts("a", 1), Bytes: 1024, Prompt: 256, Began: noon, First: after(time.Second)}, true, after(time.Hour))
	if _, ok := b.Due(); ok || b.Counts().Results[Unmatched] != 5 {
		t.Error("one that was due when it ended is still pending")
	}
	for i := range maxPending + 3 {
		b.Ended(Request{Blocks: texts("a", 1), Bytes: 1024, Prompt: 256, Began: after(time.Hour), First: after(2 * time.Hour)}, true, after(time.Hour))
		if n := uint64(max(0, i+1-maxPending)); b.Counts().Results[Dropped] != n {
			t.Fatalf("after %d: %d are dropped", i+1, b.Counts().Results[Dropped])
		}
	}
}

// A stream may last longer than what is remembered of stores.
func TestWhatIsNoLongerRemembered(t *testing.T) {
	b := newBook(t, BookOptions{})
	b.Apply(&Batch{Events: []Event{run("a", 1, 65)}}, after(time.Second))
	for i := range maxStores/512 + 1 {
		b.Apply(&Batch{Events: []Event{run(fmt.Sprint("other", i), 1, 512)}}, after(time.Duration(2+i)*time.Second))
	}
	late := Request{Blocks: texts("a", 4), Bytes: 4200, Prompt: 1050, Began: after(900 * time.Millisecond), First: after(1100 * time.Millisecond)}
	b.Ended(late, true, after(time.Hour))
	if c := b.Counts(); c.Results[Unheard] != 1 {
		t.Errorf("%v", c.Results)
	}
}

// Where blocks of text end among those of the engine, by how much text a token stands for.
func TestTextEndsByProportion(t *testing.T) {
	for _, tt := range []struct {
		bytes, prompt int64
		ends          []int // engine block of each KiB
	}{
		{4096, 1024, []int{16, 32, 48, 64}},    // 4 bytes a token
		{4096, 4096, []int{64, 128, 192, 256}}, // 1 byte
		{4096, 2048, []int{32, 64, 96, 128}},
		{6000, 1000, []int{11, 21, 32, 43, 53}}, // 6 bytes
		{3072, 800, []int{17, 33, 50}},          // with 32 tokens of a chat template
		{1030, 100, []int{6}},                   // no whole engine block behind the last
	} {
		b := newBook(t, BookOptions{})
		full := int(tt.prompt / 16)
		b.Apply(&Batch{Events: []Event{run("a", 1, full)}}, after(time.Second))
		chain := texts("a", len(tt.ends))
		b.Ended(Request{Blocks: chain, Bytes: int(tt.bytes), Prompt: tt.prompt, Began: after(time.Second), First: after(time.Second)}, true, after(time.Hour))
		for i := len(tt.ends) - 1; i >= 0; i-- {
			// It stays while the blocks behind its end go, and goes with that.
			b.Apply(&Batch{Events: []Event{{Kind: Removed, Hashes: run("a", tt.ends[i]+1, full).Hashes}}}, after(time.Hour))
			stays := b.opt.Index.Match(b.opt.Holder, chain, after(time.Minute)).Blocks
			b.Apply(&Batch{Events: []Event{{Kind: Removed, Hashes: []uint64{sum("a", tt.ends[i])}}}}, after(time.Hour))
			if goes := b.opt.Index.Match(b.opt.Holder, chain, after(time.Minute)).Blocks; stays != i+1 || goes != i {
				t.Errorf("%d bytes of %d tokens: %d blocks before engine block %d went, %d after", tt.bytes, tt.prompt, stays, tt.ends[i], goes)
			}
			full = tt.ends[i]
		}
	}
}

func TestRingAgainstAList(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	var r ring
	var all []store
	at := int64(0)
	for i := range 3 * maxStores {
		at += rnd.Int64N(3)
		s := store{&node{hash: uint64(i)}, at, false}
		r.add(s)
		if all = append(all, s); i%4099 != 0 {
			continue
		}
		kept := all[max(0, len(all)-maxStores):]
		if gone := len(all) - len(kept); gone > 0 && r.lost != all[gone-1].at || gone == 0 && r.lost != 0 {
			t.Fatalf("after %d: the last that is lost was at %d", i, r.lost)
		}
		from, to := at-rnd.Int64N(2*maxStores), at-rnd.Int64N(100)
		first, last := r.between(from, to)
		var got, want []uint64
		for j := first; j < last; j++ {
			got = append(got, r.at(j).n.hash)
		}
		for _, s := range kept {
			if s.at >= from && s.at <= to {
				want = append(want, s.n.hash)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("from %d to %d: %d stores, want %d", from, to, len(got), len(want))
		}
	}
}

// Whatever an engine says, in whatever order, the book stays within its bounds and agrees with itself.
func TestBookHoldsTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		index := prefix.New(1<<10, 0, noon)
		b := NewBook(BookOptions{Index: index, Holder: index.NewHolder(1), Glossary: NewGlossary(rapid.SampledFrom([]int{2, 0}).Draw(t, "words")), Nodes: 40})
		b.Listen(noon)
		block := rapid.Uint64Range(1, 60)
		now := noon
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 800).Draw(t, "ms")) * time.Millisecond)
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				b.Lost()
				b.Listen(now)
			case 1:
				b.Apply(&Batch{Events: []Event{{Kind: Cleared}}}, now)
			case 2, 3:
				b.Apply(&Batch{Events: []Event{{Kind: Removed, Hashes: rapid.SliceOfN(block, 1, 4).Draw(t, "gone")}}}, now)
			case 4, 5, 6:
				e := Event{Kind: Stored, Hashes: rapid.SliceOfN(block, 1, 6).Draw(t, "blocks"), BlockSize: rapid.SampledFrom([]int{0, 1, 64}).Draw(t, "size")}
				if e.HasParent = rapid.Bool().Draw(t, "behind"); e.HasParent {
					e.Parent = block.Draw(t, "parent")
				}
				b.Apply(&Batch{Events: []Event{e}}, now)
			default:
				n := rapid.IntRange(1, 4).Draw(t, "texts")
				tokens := rapid.Int64Range(0, int64(n)*400).Draw(t, "tokens")
				b.Ended(Request{
					Blocks: texts(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "prompt"), n), Bytes: n * inference.BlockBytes,
					Prompt: tokens, Cached: rapid.Int64Range(0, 500).Draw(t, "cached"), Began: now.Add(-time.Second), First: now,
				}, true, now)
			}
			agrees(t, b)
		}
	})
}

func agrees(t *rapid.T, b *Book) {
	if len(b.tree.nodes) > 40 || len(b.pending) > maxPending {
		t.Fatalf("%d nodes, %d pending", len(b.tree.nodes), len(b.pending))
	}
	pairs := 0
	for hash, list := range b.texts {
		if b.tree.nodes[hash] == nil || len(list) == 0 || len(list) > maxTexts {
			t.Fatalf("block %d, in the tree or not, has %d texts", hash, len(list))
		}
		for _, text := range list {
			if pairs++; !slices.Contains(b.blocks[text], hash) {
				t.Fatalf("text %d doesn't know its block %d", text, hash)
			}
		}
	}
	for text, list := range b.blocks {
		if pairs -= len(list); len(list) == 0 || len(list) > maxWays {
			t.Fatalf("text %d has %d blocks", text, len(list))
		}
	}
	if pairs != 0 {
		t.Fatalf("%d pairs too many", pairs)
	}
}

func TestNames(t *testing.T) {
	for r := range results {
		if s := r.String(); s == "" || s == "unknown" {
			t.Errorf("result %d is %q", r, s)
		}
	}
	if results.String() != "unknown" || Kind(0).String() != "other" || Topic("e", "m") != "kv@e@m" {
		t.Error(results.String(), Kind(0).String(), Topic("e", "m"))
	}
}

// A step of an engine that is full: 128 blocks come, and as many go.
func BenchmarkApply(b *testing.B) {
	const room = 25_000
	book := newBook(b, BookOptions{Glossary: NewGlossary(0)})
	prompt := func(i int) Event { return run(fmt.Sprint("prompt", i), 1, 128) }
	const prompts = 2 * room / 128
	var events [prompts]Event
	for i := range events {
		events[i] = prompt(i)
	}
	var batch Batch
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		batch.Events = append(batch.Events[:0], Event{Kind: Removed, Hashes: events[(i+prompts/2)%prompts].Hashes}, events[i%prompts])
		book.Apply(&batch, after(time.Duration(i)*10*time.Millisecond))
		i++
	}
}
