package dispatch

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestPausesGrowToABound(t *testing.T) {
	for returns, want := range map[int]time.Duration{
		-1: 100 * time.Millisecond, 1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 3: 400 * time.Millisecond,
		4: 800 * time.Millisecond, 5: time.Second, 6: time.Second, 1000: time.Second, math.MaxInt: time.Second,
	} {
		if got := Pause(returns, 0); got != want {
			t.Errorf("at the most %v after %d returns, want %v", got, returns, want)
		}
		if got := Pause(returns, math.MaxUint64); got < want/2 || got > want*51/100 {
			t.Errorf("at the least %v after %d returns, want half of %v", got, returns, want)
		}
	}
}

func TestWhoMeetsPlacesThatAreFullForAllDoesNotRest(t *testing.T) {
	for full, want := range map[float64]bool{0: true, 0.99: true, 1: false, 7: false, math.Inf(1): false} {
		if Rests(full) != want {
			t.Errorf("at %v rests: %t", full, !want)
		}
	}
	if !Rests(math.NaN()) {
		t.Error("what is not known may be room")
	}
}

// A request comes back no more than some twenty times in the ten seconds that it may wait by default, by
// whatever chance, and never without a pause.
func TestPausesBoundAStorm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		waited, returns := time.Duration(0), 0
		for waited < 10*time.Second {
			returns++
			d := Pause(returns, rapid.Uint64().Draw(t, "chance"))
			if d < firstPause/2 || d > longestPause {
				t.Fatalf("a pause of %v", d)
			}
			waited += d
		}
		if returns > 23 {
			t.Fatalf("%d returns", returns)
		}
	})
}
