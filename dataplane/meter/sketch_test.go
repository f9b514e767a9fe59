package meter

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestAQuantileIsOffByNoMoreThanABucket holds the sketch to sorting: while nothing has been forgotten the
// quantile is a value that was seen, within half a bucket.
func TestAQuantileIsOffByNoMoreThanABucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(1, 1<<20), 1, 20).Draw(t, "values")
		q := rapid.Float64Range(0.01, 1).Draw(t, "q")
		s := newSketch(20, 4)
		for _, v := range values {
			s.learn(v)
		}
		got := s.quantile(q)
		// The weights differ by less than a tenth among so few, which may move the rank by two.
		slices.Sort(values)
		rank := int(math.Ceil(q*float64(len(values)))) - 1
		low, high := values[max(rank-2, 0)], values[min(max(rank, 0)+2, len(values)-1)]
		if half := math.Exp2(1.0 / 8); got < low/half*0.999 || got > high*half*1.001 {
			t.Fatalf("quantile %v of %v is %v, want %v to %v", q, values, got, low, high)
		}
	})
}

func TestTheNewestCountMost(t *testing.T) {
	s := newSketch(20, 4)
	for range 10 * memory {
		s.learn(100)
	}
	if got := s.quantile(0.9); math.Abs(got/100-1) > 0.1 {
		t.Fatalf("of hundreds only: %v", got)
	}
	n := 0
	for ; s.quantile(0.9) < 900; n++ {
		s.learn(1000)
	}
	if n < memory/20 || n > memory/5 {
		t.Errorf("longer answers were believed after %d", n)
	}
	n = 0
	for ; s.quantile(0.9) > 110; n++ {
		s.learn(100)
	}
	if n == 0 || n > 3*memory {
		t.Errorf("the long ones were forgotten after %d", n)
	}
}

// TestWeightsStayInBounds learns for so long that all weights are made small again many times.
func TestWeightsStayInBounds(t *testing.T) {
	s := newSketch(3, 16)
	for i := range 1 << 16 {
		s.learn(4)
		if i%(1<<12) != 0 {
			continue
		}
		if w := s.total / s.unit; w < 0.99 || w > memory+1 {
			t.Fatalf("after %d: the weight of %v values", i, w)
		}
		if got := s.quantile(0.5); got != 4 {
			t.Fatalf("after %d: %v", i, got)
		}
	}
	if s.unit >= renewed || math.IsInf(s.total, 0) {
		t.Errorf("unit %v, total %v", s.unit, s.total)
	}
}

func TestValuesThatAreNoneOrOutOfRange(t *testing.T) {
	s := newSketch(3, 16)
	if got := s.quantile(0.9); got != 1 {
		t.Errorf("of nothing: %v", got)
	}
	for _, v := range []float64{math.NaN(), math.Inf(-1), -3, 0, 1} {
		if got := s.bucket(v); got != 0 {
			t.Errorf("%v is in bucket %d", v, got)
		}
	}
	if got, want := s.bucket(1e300), len(s.weights)-1; got != want {
		t.Errorf("the largest are in bucket %d, want %d", got, want)
	}
}
