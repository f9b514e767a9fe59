package account

import (
	"testing"
	"time"

	"anabranch/controlplane/state/statepb"
	"anabranch/costmodel"
)

func TestWhatWorkWasMeasuredToCost(t *testing.T) {
	const d, h = 24 * time.Hour, time.Hour
	// At noon of the second day model m did a tenth of what its cluster can do in a minute, and n a thousandth.
	told := func(t *testing.T) *books {
		b := newBooks(t)
		b.shut(at(-d), bill("us", 1, 10))
		b.skip(at(12*h), bill("us", 1000, 1e9), bill("eu", 1000, 1e9))
		some, few := used("a", "us", 1e8), used("a", "eu", 1e6)
		few.Model = "n"
		b.tell(b.Closed(), b.Closed().Add(-time.Minute), some, few)
		return b
	}
	for name, tt := range map[string]struct {
		until time.Duration
		m, n  costmodel.Micros
		day   time.Duration // whose end it is
	}{
		// m did 100,000 units for 100 micro-dollars, and 23,900 were paid for nothing that day: 100 times as much.
		"while the day lasts it is not known":      {20 * h, 0, 0, 0},
		"nor while late usage may come":            {26 * h, 0, 0, 0},
		"the day after, idle time is bounded":      {28 * h, 10_000, 10_000, d},
		"on days without use it is the last known": {5*d + 4*h, 10_000, 10_000, 5 * d},
		"but not for longer than a week":           {9*d + 4*h, 0, 0, 9 * d},
	} {
		t.Run(name, func(t *testing.T) {
			b := told(t)
			b.skip(at(tt.until-h+time.Minute), bill("us", 1000, 1e9), bill("eu", 1000, 1e9))
			got := b.PerWork()
			if got["m"] != tt.m || got["n"] != tt.n || !b.Measured().Equal(at(tt.day)) {
				t.Errorf("got %v, measured until %s", got, b.Measured())
			}
		})
	}
}

func TestOnTheFirstDayWholeHoursAreMeasured(t *testing.T) {
	b := newBooks(t)
	if got := b.PerWork(); len(got) != 0 || !b.Measured().IsZero() {
		t.Errorf("of nothing %v", got)
	}
	b.shut(at(10*time.Hour+30*time.Minute), bill("us", 1000, 1e9))
	for _, step := range []struct {
		until    time.Duration
		cost     costmodel.Micros
		measured time.Duration
	}{{11 * time.Hour, 0, 0}, {11*time.Hour + 59*time.Minute, 0, 0}, {12 * time.Hour, 1334, 12 * time.Hour}, {12*time.Hour + 59*time.Minute, 1334, 12 * time.Hour}} {
		b.closeUntil(at(step.until), bill("us", 1000, 1e9))
		if step.until == 11*time.Hour {
			continue
		}
		if step.until == 11*time.Hour+59*time.Minute {
			for i := range 59 { // three quarters busy, and the last minute not at all
				start := at(11*time.Hour + time.Duration(i)*time.Minute)
				b.tell(start, start, used("a", "us", 762_711_865))
			}
		}
		got, when := b.PerWork(), at(step.measured)
		if step.measured == 0 {
			when = time.Time{}
		}
		if got["m"] != step.cost || !b.Measured().Equal(when) {
			t.Errorf("at %s: %v, measured until %s", b.Closed(), got, b.Measured())
		}
	}
}

func TestProvidersAndEgressAreMeasuredToo(t *testing.T) {
	b := newBooks(t)
	b.shut(at(0))
	b.tell(at(0), at(0), &statepb.CountedLine{Model: "m", Cluster: "api", Work: 1e9, CostMicros: 5, EgressMicros: 2}, &statepb.CountedLine{Model: "free", Cluster: "api", Work: 1e9})
	b.closeUntil(at(time.Hour))
	if got := b.PerWork(); got["m"] != 7 || len(got) != 1 {
		t.Errorf("got %v", got)
	}
}
