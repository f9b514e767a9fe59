package rest

import (
	"testing"
	"time"
)

func TestLimiter(t *testing.T) {
	now := epoch
	l := newLimiter(func() time.Time { return now }, nil)
	take := func(name string) (n int) {
		for l.allow(name) {
			n++
		}
		return n
	}
	for _, step := range []struct {
		name string
		wait time.Duration
		want int
	}{
		{"a", 0, denialBurst},
		{"a", 0, 0},
		{"b", 0, denialBurst},
		{"a", denialEvery, 1},
		{"a", denialEvery / 2, 0},
		{"a", denialEvery / 2, 1},
		{"a", -time.Hour, 0},
		{"a", time.Hour, denialBurst},
	} {
		now = now.Add(step.wait)
		if got := take(step.name); got != step.want {
			t.Errorf("after %v more, %s may %d times, want %d", step.wait, step.name, got, step.want)
		}
	}
}
