package prefix

import (
	"runtime"
	"testing"
	"time"
)

func TestCorrect(t *testing.T) {
	// When each prompt was last wanted, before the answer that is judged.
	const idle = time.Minute
	tests := []struct {
		name string
		had  int
		// seen is how long something was idle that was found there all the same, found ago before; 0: no.
		seen, ago time.Duration
		gone      bool // what is as old as the missing, and older
	}{
		{"as believed", 20, 0, 0, false},
		{"within the error of counting", 17, 0, 0, false},
		{"less", 3, 0, 0, true},
		{"none", 0, 0, 0, true},
		{"more than believed", 30, 0, 0, false},
		{"none, while something older is still there", 0, 2 * time.Minute, time.Second, false},
		{"none, while something newer is still there", 0, 10 * time.Second, time.Second, true},
		{"none, when something older was there some time ago", 0, 2 * time.Minute, 11 * time.Second, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := New(0, 0, start.Add(-time.Hour))
			h := x.NewHolder(1)
			missed, older, newer, other := chain(1, 20), chain(2, 20), chain(3, 20), chain(4, 20)
			now := start.Add(10 * time.Minute)
			x.Confirm(h, missed, now.Add(-idle))
			x.Confirm(h, older, now.Add(-2*idle))
			x.Confirm(h, newer, now.Add(-idle/2))
			if tt.seen > 0 {
				found := now.Add(-tt.ago)
				x.Confirm(h, other, found.Add(-tt.seen))
				x.Correct(h, x.Match(h, other, found), 20, found)
			}
			x.Correct(h, x.Match(h, missed, now), tt.had, now)
			want := 20
			if tt.gone {
				want = 0
			}
			if m, o := x.Match(h, missed, now).Blocks, x.Match(h, older, now).Blocks; m != want || o != want {
				t.Errorf("the same %d, older %d; want %d of both", m, o, want)
			}
			if n := x.Match(h, newer, now).Blocks; n != 20 {
				t.Errorf("%d blocks of a prompt that was wanted since, want 20", n)
			}
		})
	}
}

// What is on its way isn't there yet, and its absence no sign of eviction.
func TestCorrectDoesNotJudgeReservations(t *testing.T) {
	x := New(0, 0, start)
	h := x.NewHolder(1)
	old, burst := chain(1, 20), chain(2, 20)
	x.Confirm(h, old, start)
	now := start.Add(time.Minute)
	x.Reserve(h, burst, now)
	second := x.Match(h, burst, now)
	x.Reserve(h, burst, now)
	x.Correct(h, second, 0, now.Add(time.Second))
	if o := x.Match(h, old, now).Blocks; o != 20 {
		t.Errorf("%d blocks of an older prompt after a miss of what was on its way", o)
	}
}

// One application's prompts are never cached, whatever the reason; that must not cost the others
// what is known of theirs.
func TestPromptsThatAreNeverCachedDoNotPunishOthers(t *testing.T) {
	x := New(0, 0, start)
	h := x.NewHolder(1)
	good, odd := chain(1, 20), chain(2, 20)
	now := start
	x.Confirm(h, good, now)
	x.Confirm(h, odd, now)
	known := 0
	for range 60 {
		now = now.Add(5 * time.Second)
		m := x.Match(h, good, now)
		x.Confirm(h, good, now)
		x.Correct(h, m, 20, now)
		if m.Blocks == 20 {
			known++
		}
		now = now.Add(time.Second)
		m = x.Match(h, odd, now)
		x.Confirm(h, odd, now)
		x.Correct(h, m, 0, now)
	}
	if known != 60 {
		t.Errorf("the other application's prompt was known %d times of 60", known)
	}
}

// A cache that has shrunk is noticed all the same once what was idle for as long is not found for a while.
func TestACacheThatShrinksIsNoticed(t *testing.T) {
	x := New(0, 0, start)
	h := x.NewHolder(1)
	rare, now := chain(1, 20), start.Add(5*time.Minute)
	x.Confirm(h, rare, start)
	x.Correct(h, x.Match(h, rare, now), 20, now) // five minutes idle, and there
	x.Confirm(h, rare, now)
	lost := []int{}
	for i := range 6 { // prompts that were wanted minutes ago, none of which is there any more
		c := chain(uint64(i+2), 20)
		x.Confirm(h, c, now.Add(-2*time.Minute))
		now = now.Add(4 * time.Second)
		x.Correct(h, x.Match(h, c, now), 0, now)
		lost = append(lost, x.Match(h, c, now).Blocks)
	}
	if lost[0] != 20 || lost[5] != 0 {
		t.Errorf("believed after each miss: %v; want the first to be doubted, and the last not", lost)
	}
}

func TestCorrectIsPerHolder(t *testing.T) {
	x := New(0, 0, start.Add(-time.Hour))
	a, b := x.NewHolder(1), x.NewHolder(2)
	prompt := chain(1, 20)
	x.Confirm(a, prompt, start)
	x.Confirm(b, prompt, start)
	later := start.Add(time.Minute)
	x.Correct(a, x.Match(a, prompt, later), 0, later)
	if x.Match(a, prompt, later).Blocks != 0 || x.Match(b, prompt, later).Blocks != 20 {
		t.Error("what one holder lost was taken from another, or not from itself")
	}
}

func TestWhatServersSayOfTheirCaches(t *testing.T) {
	prompt := chain(1, 20)
	tests := []struct {
		name   string
		happen func(x *Index, h *Holder)
		after  time.Duration
		want   int
	}{
		{"what it holds", func(x *Index, h *Holder) { x.Confirm(h, prompt, start) }, 5 * time.Minute, 20},
		{"which ages like what is guessed", func(x *Index, h *Holder) {
			x.Confirm(h, prompt, start)
			x.Confirm(h, prompt[:8], start.Add(5*time.Minute))
		}, 11 * time.Minute, 8},
		{"not what it evicted", func(x *Index, h *Holder) {
			x.Confirm(h, prompt, start)
			x.Evicted(h, prompt[12:]...)
		}, 0, 12},
		{"nor what is on its way and was evicted", func(x *Index, h *Holder) {
			x.Reserve(h, prompt, start)
			x.Evicted(h, prompt[12:]...)
		}, 0, 12},
		{"nothing after it was cleared", func(x *Index, h *Holder) {
			x.Confirm(h, prompt, start)
			x.Cleared(h, start)
		}, 0, 0},
		{"but what came after that, in the same moment too", func(x *Index, h *Holder) {
			x.Confirm(h, prompt, start)
			x.Cleared(h, start)
			x.Confirm(h, prompt[:5], start)
		}, 0, 5},
		{"and was cleared again", func(x *Index, h *Holder) {
			x.Cleared(h, start)
			x.Confirm(h, prompt, start)
			x.Cleared(h, start)
		}, 0, 0},
		{"reservations count", func(x *Index, h *Holder) { x.Reserve(h, prompt, start) }, time.Second, 20},
		{"until it is clear that nothing came of them", func(x *Index, h *Holder) { x.Reserve(h, prompt, start) }, 31 * time.Second, 0},
		{"a reservation takes nothing from what is there", func(x *Index, h *Holder) {
			x.Confirm(h, prompt, start)
			x.Reserve(h, prompt, start.Add(2*time.Minute))
			x.Forget(h, prompt)
		}, 5 * time.Minute, 20},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := New(0, 0, start)
			h := x.NewHolder(1)
			tt.happen(x, h)
			if got := x.Match(h, prompt, start.Add(tt.after)).Blocks; got != tt.want {
				t.Errorf("%d blocks, want %d", got, tt.want)
			}
		})
	}
}

func TestHoldersByName(t *testing.T) {
	x := New(0, 0, start)
	a := x.NewHolder(7)
	if x.NewHolder(7) != a || x.NewHolder(8) == a {
		t.Error("a holder is not the one of its name")
	}
	prompt := chain(1, 5)
	x.Confirm(a, prompt, start)
	if got := x.Match(x.NewHolder(7), prompt, start).Blocks; got != 5 {
		t.Errorf("%d blocks at the same endpoint, want 5", got)
	}
	runtime.KeepAlive(a)
	seen := map[uint64]bool{}
	for _, parts := range [][]string{{"a", "b"}, {"ab"}, {"", "ab"}, {"a", "b", ""}, {"b", "a"}, {}} {
		if seen[Name(parts...)] {
			t.Errorf("%q has the name of another", parts)
		}
		seen[Name(parts...)] = true
	}
	// Routers of different versions must make the same of it.
	if got := Name("cluster", "endpoint"); got != 0xa7a7021c726c058f {
		t.Errorf("a name is made differently: %#x", got)
	}
}

// Endpoints come and go; what the index keeps of those that went does not add up.
func TestHoldersThatNobodyUsesGo(t *testing.T) {
	x := New(8, 0, start)
	for i := range uint64(2000) {
		x.NewHolder(i)
		if i%500 == 499 {
			runtime.GC()
		}
	}
	runtime.GC()
	last := x.NewHolder(1 << 40)
	x.mu.Lock()
	n := len(x.holders)
	x.mu.Unlock()
	if n > 1000 {
		t.Errorf("%d holders are kept", n)
	}
	runtime.KeepAlive(last)
}
