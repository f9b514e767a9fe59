package queue

import (
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestRecentCountsTheLastSlots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r recent
		now := uint64(recentSlots + 1)
		added := map[uint64]int64{}
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"add", "add", "drop", "pass"}).Draw(t, "step") {
			case "add":
				r.add(now)
				added[now]++
			case "drop":
				r.drop(now)
				added[now] = max(added[now]-1, 0)
			case "pass":
				now += rapid.Uint64Range(1, 6).Draw(t, "slots")
			}
			var want int64
			for i := range uint64(recentSlots) {
				want += added[now-i]
			}
			if got := r.sum(now); got != want {
				t.Fatalf("%d at slot %d, want %d of %v", got, now, want, added)
			}
		}
	})
}

func TestRecentForgetsNothingAmongGoroutines(t *testing.T) {
	var r recent
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				r.add(5)
				r.add(5)
				r.drop(5)
			}
		})
	}
	all.Wait()
	if n := r.sum(5); n != 8000 {
		t.Errorf("%d, want 8000", n)
	}
	if n := r.sum(4); n != 8000 { // by a clock that is a little behind
		t.Errorf("%d from the slot before, want 8000", n)
	}
}
