package costmodel

import (
	"math/big"
	"slices"
)

// Split parts an amount by weights so that the parts add up to it to the micro-dollar: each gets what its
// weight is of all, rounded down, and what is left goes by one micro-dollar each to the largest
// fractions, of equal ones to the first. Amounts and weights below 0 count as 0; where all weights are 0
// nothing is given.
func Split(amount Micros, weights []Work) []Micros {
	parts := make([]Micros, len(weights))
	total := new(big.Int)
	for _, w := range weights {
		total.Add(total, big.NewInt(int64(max(w, 0))))
	}
	if amount <= 0 || total.Sign() == 0 {
		return parts
	}
	left, order := int(amount), make([]int, len(weights))
	fractions := make([]big.Int, len(weights)) // of a micro-dollar, in parts of total
	for i, w := range weights {
		share := big.NewInt(int64(max(w, 0)))
		share.QuoRem(share.Mul(share, big.NewInt(int64(amount))), total, &fractions[i])
		parts[i] = Micros(share.Int64())
		left -= int(parts[i])
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return fractions[b].Cmp(&fractions[a]) })
	for _, i := range order[:left] {
		parts[i]++
	}
	return parts
}
