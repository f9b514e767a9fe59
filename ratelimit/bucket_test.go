package ratelimit

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// limits draws limits of all sizes that can be counted.
func limits(t *rapid.T) Limit {
	l := Limit{
		ID:       "x",
		Kind:     TotalTokens,
		Amount:   rapid.Int64Range(1, 1e11).Draw(t, "amount"),
		PeriodMs: rapid.SampledFrom([]int64{1, 7, 1000, 60_000, 3_600_000, 86_400_000}).Draw(t, "period"),
		Burst:    rapid.Int64Range(1, 1e11).Draw(t, "burst"),
	}
	if rapid.Bool().Draw(t, "small") {
		l.Amount, l.Burst = 1+l.Amount%1000, 1+l.Burst%1000
	}
	for l.Validate() != nil {
		l.Amount, l.Burst = (l.Amount+1)/2, (l.Burst+1)/2
	}
	return l
}

// TestNeverMoreThanTheEnvelope calls very often, where rounding in the caller's favour would show:
// over any time t no more passes than rate × t + burst, and nearly all of it does.
func TestNeverMoreThanTheEnvelope(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := limits(t)
		step := rapid.Int64Range(0, 2000).Draw(t, "step")
		start := rapid.Int64Range(0, 1<<50).Draw(t, "start")
		b, now, passed := Full(l, start), start, int64(0)
		for range 300 {
			now += rapid.Int64Range(0, step).Draw(t, "dt")
			b = b.Refill(l, now)
			take := b.Level
			if take > 0 {
				take = rapid.Int64Range(1, take).Draw(t, "take")
			}
			if take > 0 {
				b = b.Charge(l, take)
				passed += take
			}
		}
		inflow := new(big.Int).Mul(big.NewInt(now-start), big.NewInt(l.Amount))
		inflow.Div(inflow, big.NewInt(l.PeriodMs*1000))
		if most := inflow.Int64() + l.Burst; passed > most {
			t.Fatalf("%d passed in %d µs, at most %d may", passed, now-start, most)
		}
	})
}

// TestNothingIsLostHoweverOftenOneLooks takes all there is at every look, at random times, and
// must have had exactly the burst and the inflow in the end.
func TestNothingIsLostHoweverOftenOneLooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := limits(t)
		b := Full(l, 0)
		b = b.Charge(l, b.Level)
		var now, passed int64
		for range rapid.IntRange(1, 100).Draw(t, "looks") {
			// Never so long that the bucket runs over.
			dt := max(1, min(l.Burst*l.Period()/l.Amount/2, 5000)) * l.Unit()
			now += rapid.Int64Range(0, dt).Draw(t, "dt")
			b = b.Refill(l, now)
			if b.Level == l.Burst {
				return // it ran over, and what ran over is meant to be lost
			}
			passed += b.Level
			b = b.Charge(l, b.Level)
		}
		counted := now / l.Unit() // in milliseconds where the limit counts so
		want := new(big.Int).Mul(big.NewInt(counted), big.NewInt(l.Amount))
		if want.Div(want, big.NewInt(l.Period())); want.Int64() != passed {
			t.Fatalf("%d flowed in, want %v", passed, want)
		}
	})
}

func TestALookChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := limits(t)
		b := Bucket{
			Level:   rapid.Int64Range(-l.Burst, l.Burst-1).Draw(t, "level"),
			StampUs: rapid.Int64Range(0, 1<<50).Draw(t, "stamp"),
			Part:    rapid.Int64Range(0, l.Period()-1).Draw(t, "part"),
		}
		first := b.StampUs + rapid.Int64Range(0, 1e12).Draw(t, "first")
		second := first + rapid.Int64Range(0, 1e12).Draw(t, "second")
		once, twice := b.Refill(l, second), b.Refill(l, first).Refill(l, second)
		if l.Unit() == 1 && once != twice {
			t.Fatalf("at once %+v, with a look between %+v", once, twice)
		}
		if once.Level != twice.Level && once.Level-twice.Level > 1+2*l.Amount/l.Period() {
			t.Fatalf("at once %+v, with a look between %+v", once, twice)
		}
	})
}

func TestALevelStaysWithinTheBurstEitherWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := limits(t)
		b := Full(l, 0)
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			n := rapid.Int64Range(0, 1<<62).Draw(t, "n")
			switch rapid.IntRange(0, 2).Draw(t, "do") {
			case 0:
				b = b.Charge(l, n)
			case 1:
				b = b.Give(l, n)
			case 2:
				b = b.Refill(l, n)
			}
			if b.Level < -l.Burst || b.Level > l.Burst || b.Part < 0 || b.Part >= l.Period() {
				t.Fatalf("%+v of %+v", b, l)
			}
		}
	})
}

// TestAWaitIsJustLongEnough: after it the level is there, a millisecond sooner it is not.
func TestAWaitIsJustLongEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := limits(t)
		b := Bucket{
			Level:   rapid.Int64Range(-l.Burst, l.Burst).Draw(t, "level"),
			StampUs: 1 << 50,
			Part:    rapid.Int64Range(0, l.Period()-1).Draw(t, "part"),
		}.Refill(l, 1<<50)
		level := rapid.Int64Range(-l.Burst, l.Burst).Draw(t, "wanted")
		wait := b.WaitMs(l, level)
		if got := b.Refill(l, b.StampUs+wait*1000); got.Level < level {
			t.Fatalf("after %d ms %+v, want level %d", wait, got, level)
		}
		if wait > 1 {
			if got := b.Refill(l, b.StampUs+(wait-1)*1000-1); got.Level >= level {
				t.Fatalf("already after %d ms %+v, level %d", wait-1, got, level)
			}
		}
	})
}

func FuzzRefill(f *testing.F) {
	f.Add(int64(60), int64(60_000), int64(60), int64(0), int64(0), int64(999_999))
	f.Add(int64(100_000_000), int64(60_000), int64(10_000_000), int64(-5), int64(3), int64(1))
	f.Add(int64(70_000_000_019), int64(60_000), int64(70_000_000_019), int64(-70_000_000_019), int64(59_999), int64(1)<<50)
	f.Add(int64(1), int64(86_400_000), int64(1), int64(-1), int64(0), int64(-86_400_000_000))
	f.Fuzz(func(t *testing.T, amount, period, burst, level, rest, dt int64) {
		l := Limit{ID: "x", Kind: Requests, Amount: amount, PeriodMs: period, Burst: burst}
		if l.Validate() != nil || level < -burst || level > burst || rest < 0 || rest >= l.Period() {
			return
		}
		const stamp = int64(1) << 51
		now := stamp + min(max(dt, -stamp), 1<<52)
		got := Bucket{Level: level, StampUs: stamp, Part: rest}.Refill(l, now)

		// The same in numbers without bounds.
		passed := max(0, now-stamp) / l.Unit()
		inflow := new(big.Int).Mul(big.NewInt(passed), big.NewInt(amount))
		inflow.Add(inflow, big.NewInt(rest))
		whole, part := inflow.DivMod(inflow, big.NewInt(l.Period()), new(big.Int))
		whole.Add(whole, big.NewInt(level))
		want := Bucket{Level: burst, StampUs: now}
		if whole.Cmp(big.NewInt(burst)) < 0 {
			want = Bucket{Level: whole.Int64(), StampUs: min(stamp, now) + passed*l.Unit(), Part: part.Int64()}
		}
		if got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
	})
}
