package prefix

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// chain makes a chain of n blocks of its own.
func chain(seed uint64, n int) []uint64 {
	c := make([]uint64, n)
	seed += 1 << 40
	for i := range c {
		seed = mix(seed)
		c[i] = seed
	}
	return c
}

func TestMatchFindsWhatWasSentThere(t *testing.T) {
	x := New(0, 0, start)
	a, b := x.NewHolder(1), x.NewHolder(2)
	prompt := chain(1, 100)
	x.Reserve(a, prompt[:60], start)
	tests := []struct {
		name   string
		h      *Holder
		blocks []uint64
		want   int
	}{
		{"all that was sent", a, prompt[:60], 60},
		{"the beginning of a longer prompt", a, prompt, 60},
		{"a shorter prompt", a, prompt[:7], 7},
		{"one block", a, prompt[:1], 1},
		{"none", a, nil, 0},
		{"another prompt", a, chain(2, 10), 0},
		{"another holder", b, prompt, 0},
		{"a prompt that parts in the middle", a, append(append([]uint64{}, prompt[:30]...), chain(3, 30)...), 30},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := x.Match(tt.h, tt.blocks, start).Blocks; got != tt.want {
				t.Errorf("%d blocks, want %d", got, tt.want)
			}
		})
	}
}

// The second request of a burst sees where the first went before that has a token.
func TestReservationsCountAtOnceAndExpire(t *testing.T) {
	x := New(0, 0, start)
	h := x.NewHolder(1)
	prompt := chain(1, 10)
	at := func(d time.Duration) int { return x.Match(h, prompt, start.Add(d)).Blocks }
	x.Reserve(h, prompt, start)
	if at(0) != 10 || at(29*time.Second) != 10 || at(31*time.Second) != 0 {
		t.Errorf("at once %d, after 29 s %d, after 31 s %d; want 10, 10, 0", at(0), at(29*time.Second), at(31*time.Second))
	}
	x.Reserve(h, prompt[:6], start.Add(20*time.Second))
	if got := at(40 * time.Second); got != 6 {
		t.Errorf("%d blocks after six were reserved anew, want 6", got)
	}
	x.Confirm(h, prompt[:4], start.Add(41*time.Second))
	if got := at(9 * time.Minute); got != 4 {
		t.Errorf("%d blocks minutes after four were confirmed, want 4", got)
	}
}

func TestMatchAges(t *testing.T) {
	x := New(0, time.Minute, start)
	h := x.NewHolder(1)
	prompt := chain(1, 10)
	x.Confirm(h, prompt, start)
	at := func(d time.Duration) int { return x.Match(h, prompt, start.Add(d)).Blocks }
	if at(59*time.Second) != 10 || at(61*time.Second) != 0 {
		t.Errorf("after 59 s %d, after 61 s %d; want 10 and 0", at(59*time.Second), at(61*time.Second))
	}
	x.Confirm(h, prompt[:4], start.Add(50*time.Second))
	if got := at(70 * time.Second); got != 4 {
		t.Errorf("%d blocks after the first four were wanted again, want 4", got)
	}
}

func TestForget(t *testing.T) {
	prompt := chain(1, 20)
	tests := []struct {
		name   string
		before func(x *Index, h *Holder)
		want   int
	}{
		{"what never got there is gone", func(*Index, *Holder) {}, 0},
		{"what was there before stays", func(x *Index, h *Holder) { x.Confirm(h, prompt[:8], start.Add(-time.Minute)) }, 8},
		{"what another request has brought meanwhile stays", func(x *Index, h *Holder) {
			x.Reserve(h, prompt, start)
			x.Confirm(h, prompt[:12], start)
		}, 12},
		{"what was nearly too old is not renewed", func(x *Index, h *Holder) { x.Confirm(h, prompt, start.Add(-595*time.Second)) }, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := New(0, 0, start.Add(-time.Hour))
			h := x.NewHolder(1)
			tt.before(x, h)
			x.Reserve(h, prompt, start)
			if got := x.Match(h, prompt, start).Blocks; got != 20 {
				t.Fatalf("%d blocks reserved", got)
			}
			x.Forget(h, prompt)
			if got := x.Match(h, prompt, start).Blocks; got != tt.want {
				t.Errorf("%d blocks, want %d", got, tt.want)
			}
		})
	}
}

// A prompt whose beginning is about to be too old is believed as a whole while it is on its way.
func TestAReservationHoldsWhatIsAboutToBeTooOld(t *testing.T) {
	x := New(0, time.Minute, start)
	h := x.NewHolder(1)
	prompt := chain(1, 10)
	x.Confirm(h, prompt[:5], start)
	x.Reserve(h, prompt, start.Add(50*time.Second))
	if got := x.Match(h, prompt, start.Add(70*time.Second)).Blocks; got != 10 {
		t.Errorf("%d blocks, want 10", got)
	}
}

// The index keeps its size: of far more blocks than fit, the latest are found and the first gone.
func TestBounded(t *testing.T) {
	x := New(1<<10, 0, start)
	h := x.NewHolder(1)
	for i := range 100 {
		x.Confirm(h, chain(uint64(i)+1, 100), start.Add(time.Duration(i)*time.Second))
	}
	now := start.Add(100 * time.Second)
	if got := x.Match(h, chain(100, 100), now).Blocks; got < 90 {
		t.Errorf("%d of the latest prompt's 100 blocks found", got)
	}
	if got := x.Match(h, chain(1, 100), now).Blocks; got > 0 {
		t.Errorf("%d of the first prompt's blocks survived a hundred times its size", got)
	}
	if n := len(x.buckets) * ways; n != 1<<10 {
		t.Errorf("%d entries", n)
	}
}

// A system prompt that every endpoint has is found at each of them.
func TestOneBlockAtManyHolders(t *testing.T) {
	x := New(0, 0, start)
	prompt := chain(1, 3)
	holders := make([]*Holder, 300)
	for i := range holders {
		holders[i] = x.NewHolder(uint64(i))
		x.Confirm(holders[i], prompt, start)
	}
	missing := 0
	for _, h := range holders {
		if x.Match(h, prompt, start).Blocks < 3 {
			missing++
		}
	}
	if missing > 30 {
		t.Errorf("%d of 300 holders lost a block that all have", missing)
	}
}

// model is the index as a plain list of facts.
type model map[string]fact

type fact struct {
	kind kind
	at   time.Time
}

func (m model) believes(key string, now time.Time) bool {
	f, ok := m[key]
	switch {
	case !ok:
		return false
	case f.kind == reserved:
		return now.Sub(f.at) <= ReserveFor
	}
	return now.Sub(f.at) <= DefaultAge
}

func (m model) put(key string, k kind, now time.Time) { m[key] = fact{k, now} }

func TestIndexAgainstAListOfFacts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, m, now := New(1<<14, 0, start), model{}, start
		holders := []*Holder{x.NewHolder(1), x.NewHolder(2), x.NewHolder(3)}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			n := rapid.IntRange(0, 2).Draw(t, "holder")
			h := holders[n]
			c := chain(uint64(rapid.IntRange(1, 4).Draw(t, "prompt")), 20)
			cut := rapid.IntRange(0, 20).Draw(t, "cut")
			key := func(b uint64) string { return fmt.Sprint(n, b) }
			switch rapid.SampledFrom([]string{"reserve", "reserve", "confirm", "forget", "evicted", "cleared", "wait"}).Draw(t, "what") {
			case "reserve":
				x.Reserve(h, c[:cut], now)
				for _, b := range c[:cut] {
					f := m[key(b)]
					lasts := f.kind != reserved && now.Sub(f.at) <= DefaultAge-ReserveFor
					if !lasts {
						m.put(key(b), reserved, now)
					}
				}
			case "confirm":
				x.Confirm(h, c[:cut], now)
				for _, b := range c[:cut] {
					m.put(key(b), confirmed, now)
				}
			case "forget":
				x.Forget(h, c[cut:])
				for _, b := range c[cut:] {
					if m[key(b)].kind == reserved {
						delete(m, key(b))
					}
				}
			case "evicted":
				x.Evicted(h, c[cut:]...)
				for _, b := range c[cut:] {
					delete(m, key(b))
				}
			case "cleared":
				x.Cleared(h, now)
				for _, p := range []uint64{1, 2, 3, 4} {
					for _, b := range chain(p, 20) {
						delete(m, key(b))
					}
				}
			case "wait":
				now = now.Add(time.Duration(rapid.IntRange(1, 400).Draw(t, "seconds")) * time.Second)
			}
		}
		for n, h := range holders {
			for p := uint64(1); p <= 4; p++ {
				c := chain(p, 20)
				want, later := 0, false
				for want < len(c) && m.believes(fmt.Sprint(n, c[want]), now) {
					want++
				}
				for _, b := range c[want:] {
					later = later || m.believes(fmt.Sprint(n, b), now)
				}
				// Where a hole is in what is there, halving may end before or behind it.
				if got := x.Match(h, c, now).Blocks; got != want && !later {
					t.Fatalf("holder %d, prompt %d: %d blocks, want %d", n, p, got, want)
				}
			}
		}
	})
}

func TestConcurrentUse(t *testing.T) {
	x := New(1<<12, 0, start)
	holders := []*Holder{x.NewHolder(1), x.NewHolder(2)}
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 200 {
				c := chain(uint64(g*1000+i), 30)
				h := holders[i%2]
				x.Reserve(h, c, start)
				m := x.Match(h, c, start)
				x.Confirm(h, c[:20], start)
				x.Correct(h, m, 0, start.Add(time.Minute))
				x.Forget(h, c[15:])
				x.Confirm(h, c[:3], start)
				x.Evicted(h, c[2])
				x.NewHolder(uint64(i))
			}
		})
	}
	all.Wait()
	fresh := start.Add(2 * time.Minute)
	c := chain(7, 30)
	x.Reserve(holders[0], c, fresh)
	if got := x.Match(holders[0], c, fresh).Blocks; got != 30 {
		t.Errorf("%d blocks after the storm", got)
	}
}

func TestUseDoesNotAllocate(t *testing.T) {
	x := New(0, 0, start)
	h := x.NewHolder(1)
	c := chain(1, 100)
	if n := testing.AllocsPerRun(100, func() {
		x.Reserve(h, c, start)
		x.Correct(h, x.Match(h, c, start), 50, start)
		x.Confirm(h, c, start)
		x.Forget(h, c)
		x.Confirm(h, c, start)
		x.Evicted(h, c...)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestEntriesAreCounted(t *testing.T) {
	x := New(1<<12, time.Minute, start)
	if x.Len(start) != 0 || x.Cap() != 1<<12 {
		t.Fatalf("%d of %d at first", x.Len(start), x.Cap())
	}
	a, b := x.NewHolder(1), x.NewHolder(2)
	x.Confirm(a, chain(1, 10), start)
	x.Confirm(b, chain(1, 10), start)
	x.Confirm(a, chain(1, 10), start) // no more of the same
	x.Reserve(a, chain(2, 5), start.Add(30*time.Second))
	for after, want := range map[time.Duration]int{0: 25, time.Minute: 25, time.Minute + time.Second: 5, 2 * time.Minute: 0} {
		if got := x.Len(start.Add(after)); got != want {
			t.Errorf("after %s: %d, want %d", after, got, want)
		}
	}
	x.Forget(a, chain(2, 5))
	if got := x.Len(start); got != 20 {
		t.Errorf("without what never came: %d", got)
	}
}
