package endpoint

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/failover"
)

func TestBacklog(t *testing.T) {
	now := time.Unix(1000, 0)
	const rate = 1000
	t.Run("streams' prompts stay until their first token, but for the one being computed", func(t *testing.T) {
		var b backlog
		var all [3]queued
		for i := range all {
			all[i] = queued{left: 3000, stream: true}
			b.add(&all[i], now, rate, 1)
		}
		for after, want := range map[time.Duration]float64{0: 9000, time.Second: 8000, 3 * time.Second: 6000, time.Minute: 6000} {
			if got := b.tokens(now.Add(after), rate, 0, 1); got != want {
				t.Errorf("after %v %v, want %v", after, got, want)
			}
		}
		now := now.Add(time.Minute)
		b.took(&all[0], now)
		if got := b.tokens(now, rate, 0, 1); got != 6000 {
			t.Errorf("%v after a first token", got)
		}
		b.took(&all[1], now)
		b.took(&all[2], now)
		if got := b.tokens(now.Add(time.Minute), rate, 0, 1); got != 0 {
			t.Errorf("%v after the last", got)
		}
	})
	t.Run("the one being computed has its overhead first", func(t *testing.T) {
		var b backlog
		b.add(&queued{left: 3000, stream: true}, now, rate, 1)
		for after, want := range map[time.Duration]float64{time.Second: 3000, 2 * time.Second: 2000, 5 * time.Second: 0} {
			if got := b.tokens(now.Add(after), rate, 1, 1); got != want {
				t.Errorf("after %v %v, want %v", after, got, want)
			}
		}
	})
	t.Run("another's drains at the rate learned", func(t *testing.T) {
		var b backlog
		b.add(&queued{left: 3000}, now, rate, 1)
		b.add(&queued{left: 1000}, now.Add(time.Second), rate, 1)
		if got := b.tokens(now.Add(2*time.Second), rate, 0, 1); got != 2000 {
			t.Errorf("%v, want 2000", got)
		}
		if got := b.tokens(now.Add(time.Hour), rate, 0, 1); got != 0 {
			t.Errorf("%v after an hour", got)
		}
	})
	t.Run("what is left of another goes with it, and no more than that", func(t *testing.T) {
		var b backlog
		long, short := queued{left: 2_000_000}, queued{left: 500}
		b.add(&queued{left: 1000}, now, rate, 1)
		b.add(&long, now, rate, 1)
		b.add(&short, now, rate, 1)
		now := now.Add(2 * time.Second) // the first is done, and 1,000 of the long one
		if got := b.tokens(now, rate, 0, 1); got != 1_999_500 {
			t.Errorf("%v, want 1999500", got)
		}
		b.took(&long, now)
		if got := b.tokens(now, rate, 0, 1); got != 500 {
			t.Errorf("%v after the long one ended, want 500", got)
		}
		b.took(&long, now)
		b.took(&short, now)
		if got := b.tokens(now, rate, 0, 1); got != 0 {
			t.Errorf("%v after all", got)
		}
	})
	t.Run("time that runs backwards adds nothing", func(t *testing.T) {
		var b backlog
		b.add(&queued{left: 3000}, now, rate, 1)
		if got := b.tokens(now.Add(-time.Hour), rate, 0, 1); got != 3000 {
			t.Errorf("%v", got)
		}
	})
}

func TestWhatAServerHasToDoSinceItBegan(t *testing.T) {
	var b backlog
	now := time.Unix(1000, 0)
	if _, _, ok := b.whole(now); ok || b.pending() != 0 {
		t.Error("something is known of nothing")
	}
	first, second := queued{left: 3000, stream: true}, queued{left: 1000, stream: true}
	b.add(&first, now, 1000, 1)
	b.add(&second, now.Add(time.Second), 1000, 1)
	if tokens, ago, ok := b.whole(now.Add(2 * time.Second)); !ok || tokens != 4000 || ago != 2*time.Second || b.pending() != 2 {
		t.Errorf("%v tokens in %v, %v, of %d", tokens, ago, ok, b.pending())
	}
	b.took(&first, now.Add(4*time.Second))
	if tokens, ago, ok := b.whole(now.Add(5 * time.Second)); !ok || tokens != 1000 || ago != time.Second || b.pending() != 1 {
		t.Errorf("after the first: %v tokens in %v, %v, of %d", tokens, ago, ok, b.pending())
	}
	b.add(&queued{left: 500}, now.Add(5*time.Second), 1000, 1)
	if _, _, ok := b.whole(now.Add(5 * time.Second)); ok || b.pending() != 2 {
		t.Error("it can't be told when one that is not streamed was begun")
	}
}

func TestWhatTheHeadIsExpectedToTake(t *testing.T) {
	var b backlog
	now := time.Unix(1000, 0)
	if d := b.expected(); d != 0 {
		t.Errorf("of nothing: %v", d)
	}
	b.add(&queued{left: 5000}, now, 1000, 1)
	if d := b.expected(); d != 0 {
		t.Errorf("of one whose first token isn't told: %v", d)
	}
	first, second := queued{left: 4000, stream: true}, queued{left: 2000, stream: true}
	b.add(&first, now, 1000, 1)
	b.add(&second, now, 1000, 1)
	if d := b.expected(); d != 3*time.Second {
		t.Errorf("of two: %v, want their mean", d)
	}
	b.took(&first, now)
	if d := b.expected(); d != 2*time.Second {
		t.Errorf("of the last: %v", d)
	}
}

// What is not streamed, against a plain list of what is left of each.
func TestBacklogIsWhatIsLeftOfEach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b backlog
		now := time.Unix(1000, 0)
		type entry struct {
			q    *queued
			left float64
		}
		var line []entry
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				tokens := float64(rapid.IntRange(0, 5).Draw(t, "tokens"))
				q := &queued{left: tokens}
				b.add(q, now, 1, 1)
				line = append(line, entry{q, tokens})
			case 1:
				if len(line) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(line)-1).Draw(t, "ends")
				b.took(line[i].q, now)
				line = append(line[:i], line[i+1:]...)
			case 2:
				seconds := rapid.IntRange(0, 6).Draw(t, "seconds")
				now = now.Add(time.Duration(seconds) * time.Second)
				done := float64(seconds)
				for i := range line {
					part := min(done, line[i].left)
					line[i].left -= part
					done -= part
				}
			}
			want := 0.0
			for _, e := range line {
				want += e.left
			}
			if got := b.tokens(now, 1, 0, 1); got != want {
				t.Fatalf("%v tokens, want %v", got, want)
			}
		}
	})
}

// A prompt of 9 MB that is refused at once is no load, streamed or not, however it ends.
func TestWhatHasEndedIsNoLoad(t *testing.T) {
	for _, stream := range []bool{false, true} {
		for _, outcome := range []failover.Outcome{failover.OK, failover.ConnectFailure, failover.ServerFault, failover.Silence, failover.Ignored} {
			r, now := still(t)
			e := r.of("a")[0]
			c := e.Begin(Load{Model: "m", PromptTokens: 2_250_000, PromptBytes: 9_000_000, Stream: stream}, *now)
			*now = now.Add(loadEvery)
			if s := r.Cluster("a").Evidence(*now).Saturation; s <= 1 {
				t.Fatalf("saturation %v while the prompt is there", s)
			}
			*now = now.Add(loadEvery)
			c.Done(Result{Outcome: outcome}, *now)
			if ev := r.Cluster("a").Evidence(now.Add(loadEvery)); ev.Saturation > 0.01 {
				t.Errorf("outcome %v, stream %v: saturation %v after its end", outcome, stream, ev.Saturation)
			}
		}
	}
}
