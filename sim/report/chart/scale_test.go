package chart

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestTicksByHand(t *testing.T) {
	for _, c := range []struct {
		name      string
		low, high float64
		log       bool
		n         int
		want      []float64
	}{
		{"shares", 0, 1, false, 4, []float64{0, 0.25, 0.5, 0.75, 1}},
		{"around nothing", -0.8, 0.1, false, 5, []float64{-0.8, -0.6, -0.4, -0.2, 0}},
		{"small", 0, 0.003, false, 4, []float64{0, 0.001, 0.002, 0.003}},
		{"two decades", 10, 1000, true, 7, []float64{10, 20, 50, 100, 200, 500, 1000}},
		{"four decades", 3, 30000, true, 9, []float64{3, 10, 30, 100, 300, 1000, 3000, 10000, 30000}},
		{"many decades", 1, 1e6, true, 7, []float64{1, 10, 100, 1e3, 1e4, 1e5, 1e6}},
	} {
		got := newScale(c.low, c.high, 0, 100, c.log).ticks(c.n)
		if !slices.EqualFunc(got, c.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-9*max(1, math.Abs(b)) }) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestScalesRiseAndStayWithin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := rapid.Bool().Draw(t, "log")
		low := rapid.Float64Range(-1e6, 1e6).Draw(t, "low")
		if log {
			low = math.Abs(low) + 1e-3
		}
		s := newScale(low, low+rapid.Float64Range(0, 1e6).Draw(t, "extent"), 50, 450, log)
		values := rapid.SliceOfN(rapid.Float64Range(-2e6, 2e6), 2, 20).Draw(t, "values")
		slices.Sort(values)
		last := 0.0
		for _, v := range values {
			at := s.at(v)
			if at < 50-1e-9 || at > 450+1e-9 || at < last-1e-9 {
				t.Fatalf("%v is at %v, after %v", v, at, last)
			}
			last = at
		}
		ticks := s.ticks(5)
		if len(ticks) > maxTicks || !slices.IsSorted(ticks) {
			t.Fatalf("ticks %v", ticks)
		}
	})
}

// Where float64 ends, so does the search for ticks.
func TestTicksOfTheExtreme(t *testing.T) {
	for _, c := range [][2]float64{{1e17, 1e17 + 16}, {0, math.MaxFloat64}, {-math.MaxFloat64, math.MaxFloat64}, {5e-324, 1e-323}} {
		for _, log := range []bool{false, c[0] > 0} {
			if got := newScale(c[0], c[1], 0, 1, log).ticks(5); len(got) > 3*maxTicks {
				t.Errorf("%v: %d ticks", c, len(got))
			}
		}
	}
}

func TestRoundUp(t *testing.T) {
	for high, want := range map[float64]float64{0: 1, 1: 1, 93: 100, 107: 150, 1.01: 1.5, -3: 1} {
		if got := roundUp(high, 4); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v: %v, want %v", high, got, want)
		}
	}
	if got := roundUp(math.NaN(), 4); got != 1 {
		t.Errorf("NaN: %v", got)
	}
}

func TestLabelsKeepApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		places := rapid.SliceOfN(rapid.Float64Range(0, 200), 1, 12).Draw(t, "places")
		slices.Sort(places)
		got := apart(places, 15, 0, 200)
		for i := range got {
			if got[i] < -1e-9 || got[i] > 200+1e-9 {
				t.Fatalf("%v is outside", got[i])
			}
			if i > 0 && got[i]-got[i-1] < 15-1e-9 {
				t.Fatalf("%v and %v are too near", got[i-1], got[i])
			}
		}
	})
	if got := apart([]float64{10, 100}, 15, 0, 200); got[0] != 10 || got[1] != 100 {
		t.Errorf("what is apart was moved: %v", got)
	}
}

func TestShort(t *testing.T) {
	if got := short("ap-northeast-1", 14); got != "ap-northeast-1" {
		t.Error(got)
	}
	if got := short("ap-northeast-1a", 14); got != "ap-northeast-…" {
		t.Error(got)
	}
}

func TestNum(t *testing.T) {
	for x, want := range map[float64]string{0: "0", -0.01: "0", 1.25: "1.3", 100: "100", -3.04: "-3"} {
		if got := num(x); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
}
