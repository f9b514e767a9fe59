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
	seed += 1 << 40 // away from the numbers that holders are made of
	for i := range c {
		seed = mix(seed)
		c[i] = seed
	}
	return c
}

func TestMatchFindsWhatWasInserted(t *testing.T) {
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

func TestMatchAges(t *testing.T) {
	x := New(0, time.Minute, start)
	h := x.NewHolder(3)
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
	x := New(0, 0, start)
	h := x.NewHolder(4)
	prompt := chain(1, 20)
	x.Reserve(h, prompt, start)
	x.Forget(h, prompt[8:])
	if got := x.Match(h, prompt, start).Blocks; got != 8 {
		t.Errorf("%d blocks after the rest was forgotten, want 8", got)
	}
}

func TestCorrect(t *testing.T) {
	old, fresh := chain(1, 20), chain(2, 20)
	later := start.Add(time.Minute)
	tests := []struct {
		name               string
		had                int
		after              time.Duration // between Match and what was inserted first
		wantOld, wantFresh int
	}{
		{"as believed", 20, time.Minute, 20, 20},
		{"within the error of counting", 17, time.Minute, 20, 20},
		{"less: what is as old is gone too, what is newer stays", 3, time.Minute, 0, 20},
		{"none", 0, time.Minute, 0, 20},
		{"more than believed", 30, time.Minute, 20, 20},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := New(0, 0, start.Add(-time.Hour))
			h := x.NewHolder(5)
			x.Confirm(h, old, later.Add(-tt.after))
			believed := x.Match(h, old, later)
			x.Confirm(h, fresh, later)
			x.Correct(h, believed, tt.had, later)
			if o, f := x.Match(h, old, later).Blocks, x.Match(h, fresh, later).Blocks; o != tt.wantOld || f != tt.wantFresh {
				t.Errorf("old %d, fresh %d; want %d, %d", o, f, tt.wantOld, tt.wantFresh)
			}
		})
	}
}

func TestCorrectIsPerHolder(t *testing.T) {
	x := New(0, 0, start.Add(-time.Hour))
	a, b := x.NewHolder(6), x.NewHolder(7)
	prompt := chain(1, 20)
	x.Confirm(a, prompt, start)
	x.Confirm(b, prompt, start)
	later := start.Add(time.Minute)
	x.Correct(a, x.Match(a, prompt, later), 0, later)
	if x.Match(a, prompt, later).Blocks != 0 || x.Match(b, prompt, later).Blocks != 20 {
		t.Error("what one holder lost was taken from another, or not from itself")
	}
}

// The index keeps its size: of far more blocks than fit, the latest are found and the first gone.
func TestBounded(t *testing.T) {
	x := New(1<<10, 0, start)
	h := x.NewHolder(8)
	for i := range 100 {
		x.Reserve(h, chain(uint64(i)+1, 100), start.Add(time.Duration(i)*time.Second))
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

func TestMatchNeverClaimsWhatIsNotThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := New(1<<12, time.Hour, start)
		holders := []*Holder{x.NewHolder(9), x.NewHolder(10), x.NewHolder(11)}
		truth := make(map[string]bool)
		for range rapid.IntRange(1, 30).Draw(t, "inserts") {
			h := rapid.IntRange(0, 2).Draw(t, "holder")
			c := chain(uint64(rapid.IntRange(1, 5).Draw(t, "prompt")), rapid.IntRange(1, 20).Draw(t, "length"))
			x.Reserve(holders[h], c, start)
			for _, b := range c {
				truth[fmt.Sprint(h, b)] = true
			}
		}
		for h := range holders {
			for p := uint64(1); p <= 6; p++ {
				c := chain(p, 25)
				want := 0
				for want < len(c) && truth[fmt.Sprint(h, c[want])] {
					want++
				}
				// With so few entries none is pushed out, so the match is exact.
				if got := x.Match(holders[h], c, start).Blocks; got != want {
					t.Fatalf("holder %d, prompt %d: %d blocks, want %d", h, p, got, want)
				}
			}
		}
	})
}

func TestConcurrentUse(t *testing.T) {
	x := New(1<<12, 0, start)
	holders := []*Holder{x.NewHolder(12), x.NewHolder(13)}
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 200 {
				c := chain(uint64(g*1000+i), 30)
				h := holders[i%2]
				x.Reserve(h, c, start)
				m := x.Match(h, c, start)
				x.Correct(h, m, 0, start.Add(time.Minute))
				x.Forget(h, c[15:])
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

func TestMatchDoesNotAllocate(t *testing.T) {
	x := New(0, 0, start)
	h := x.NewHolder(14)
	c := chain(1, 100)
	if n := testing.AllocsPerRun(100, func() {
		x.Reserve(h, c, start)
		x.Match(h, c, start)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMatch(b *testing.B) {
	x := New(0, 0, start)
	c := chain(1, 100)
	for _, n := range []int{10, 100} {
		holders := make([]*Holder, n)
		for i := range holders {
			holders[i] = x.NewHolder(15)
			x.Reserve(holders[i], c[:i%100], start)
		}
		b.Run(fmt.Sprint(n, "holders"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for _, h := range holders {
					x.Match(h, c, start)
				}
			}
		})
	}
}
