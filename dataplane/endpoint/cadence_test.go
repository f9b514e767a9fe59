package endpoint

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestCadence(t *testing.T) {
	const second = time.Second
	tests := []struct {
		name string
		seen []scraped
		want time.Duration
	}{
		{"nothing there, nothing changes", []scraped{{elapsed: second}}, second},
		{"a request there that nothing comes of yet", []scraped{{elapsed: second, there: 1}}, 250 * time.Millisecond},
		{"requests queue", []scraped{{elapsed: second, there: 20, waiting: 1}}, 50 * time.Millisecond},
		{"ten changes a second, for long", repeated(20, scraped{elapsed: second, there: 1, changes: 10}), 200 * time.Millisecond},
		{"a hundred changes a second", repeated(20, scraped{elapsed: second, there: 1, changes: 100}), 50 * time.Millisecond},
		{"changes that have ended", append(repeated(20, scraped{elapsed: second, there: 1, changes: 100}), repeated(20, scraped{elapsed: second})...), second},
		{"a page that takes 20 ms to make", []scraped{{elapsed: second, waiting: 9, there: 9, making: 20 * time.Millisecond}}, 200 * time.Millisecond},
		{"a page that takes 1 ms to read, of 20 places", []scraped{{elapsed: second, waiting: 9, there: 9, cost: time.Millisecond, places: 20}}, 200 * time.Millisecond},
		{"ten thousand places", []scraped{{elapsed: second, waiting: 9, there: 9, places: 10_000}}, latestPause},
		{"the first scrape", []scraped{{changes: 5, there: 1}}, 250 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := cadence{shortest: 50 * time.Millisecond, longest: second}
			var got time.Duration
			for _, x := range tt.seen {
				got = c.pause(x)
			}
			if !near(got.Seconds(), tt.want.Seconds(), 0.01) {
				t.Errorf("a pause of %v, want %v", got, tt.want)
			}
		})
	}
}

func repeated(n int, x scraped) []scraped {
	list := make([]scraped, n)
	for i := range list {
		list[i] = x
	}
	return list
}

// Whatever is seen, the pause stays within its bounds, and all scrapes together within their share of
// a core, as long as that lets signals be fresh.
func TestCadenceKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := cadence{shortest: 50 * time.Millisecond, longest: time.Second}
		duration := func(name string, most time.Duration) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(most)).Draw(t, name))
		}
		for range rapid.IntRange(1, 20).Draw(t, "scrapes") {
			x := scraped{
				elapsed: duration("elapsed", 10*time.Second), changes: float64(rapid.IntRange(0, 100_000).Draw(t, "changes")),
				there: float64(rapid.IntRange(0, 1000).Draw(t, "there")), waiting: float64(rapid.IntRange(0, 1000).Draw(t, "waiting")),
				making: duration("making", time.Second), cost: duration("cost", time.Second), places: rapid.IntRange(0, 100_000).Draw(t, "places"),
			}
			got := c.pause(x)
			if got < c.shortest || got > latestPause {
				t.Fatalf("a pause of %v after %+v", got, x)
			}
			share := float64(x.cost) * float64(x.places) / float64(got)
			if got < latestPause && share > scrapeShare*1.001 {
				t.Fatalf("%.3f of a core after %+v", share, x)
			}
		}
	})
}
