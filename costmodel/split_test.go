package costmodel

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestAnAmountIsSplit(t *testing.T) {
	tests := map[string]struct {
		amount  Micros
		weights []Work
		want    []Micros
	}{
		"evenly":                       {9, []Work{1, 1, 1}, []Micros{3, 3, 3}},
		"what is left goes first come": {11, []Work{1, 1, 1}, []Micros{4, 4, 3}},
		"to the largest fraction":      {10, []Work{3, 1, 3}, []Micros{4, 2, 4}},
		"not to those without weight":  {7, []Work{0, 2, 0, 2}, []Micros{0, 4, 0, 3}},
		"below nothing is nothing":     {5, []Work{-9, 1}, []Micros{0, 5}},
		"no weight at all":             {5, []Work{0, 0}, []Micros{0, 0}},
		"nobody":                       {5, nil, []Micros{}},
		"nothing":                      {0, []Work{1, 2}, []Micros{0, 0}},
		"less than nothing":            {-5, []Work{1, 2}, []Micros{0, 0}},
		"less than there are":          {1, []Work{1, 1, 1, 2}, []Micros{0, 0, 0, 1}},
		"as much as there is":          {math.MaxInt64, []Work{math.MaxInt64, math.MaxInt64}, []Micros{1 << 62, 1<<62 - 1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Split(tt.amount, tt.weights); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

var anyWork = rapid.OneOf(rapid.Int64Range(0, 10), rapid.Int64Range(0, math.MaxInt64), rapid.Just[int64](math.MaxInt64))

// Parts add up to the micro-dollar, and none is a whole micro-dollar or more from its exact share.
func TestPartsAddUpToTheAmount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := Micros(anyWork.Draw(t, "amount"))
		var weights []Work
		total := new(big.Int)
		for _, w := range rapid.SliceOfN(anyWork, 1, 30).Draw(t, "weights") {
			weights = append(weights, Work(w))
			total.Add(total, big.NewInt(w))
		}
		if total.Sign() == 0 {
			weights[0] = 1
			total.SetInt64(1)
		}
		var sum Micros
		for i, part := range Split(amount, weights) {
			sum += part
			// |part*total - amount*weight| < total
			off := new(big.Int).Mul(big.NewInt(int64(part)), total)
			off.Sub(off, new(big.Int).Mul(big.NewInt(int64(amount)), big.NewInt(int64(weights[i]))))
			if off.CmpAbs(total) >= 0 {
				t.Fatalf("weight %d of %v got %d of %d", weights[i], total, part, amount)
			}
		}
		if sum != amount {
			t.Fatalf("the parts of %d add up to %d", amount, sum)
		}
	})
}

// Whoever weighs more never gets less.
func TestMoreWeightNeverGetsLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var weights []Work
		for _, w := range rapid.SliceOfN(anyWork, 2, 30).Draw(t, "weights") {
			weights = append(weights, Work(w))
		}
		slices.Sort(weights)
		slices.Reverse(weights)
		parts := Split(Micros(anyWork.Draw(t, "amount")), weights)
		if !slices.IsSortedFunc(parts, func(a, b Micros) int { return int(min(max(b-a, -1), 1)) }) {
			t.Fatalf("weights %v got %v", weights, parts)
		}
	})
}
