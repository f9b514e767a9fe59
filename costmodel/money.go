// Package costmodel counts money in whole micro-dollars: it looks up what GPUs cost, says what one more
// unit of work costs on a cluster, and splits bills among those whose requests made them. Where
// prices come from, and what is done about them, is for others.
package costmodel

import (
	"fmt"
	"math"
	"strings"
)

// Micros is an amount of money in millionths of a US dollar. It holds up to 9 trillion dollars.
type Micros int64

// Dollar is one US dollar.
const Dollar Micros = 1_000_000

// FromUSD rounds dollars to the nearest micro-dollar, half away from zero. What is not a number is
// 0, what is too large is the largest amount of its sign.
func FromUSD(usd float64) Micros {
	switch micros := math.Round(usd * float64(Dollar)); {
	case math.IsNaN(micros):
		return 0
	case micros >= math.MaxInt64:
		return math.MaxInt64
	case micros <= math.MinInt64:
		return math.MinInt64
	default:
		return Micros(micros)
	}
}

// USD is the amount in dollars, for display.
func (m Micros) USD() float64 { return float64(m) / float64(Dollar) }

// String writes dollars with as many decimals as are needed, at least two: "$0.05", "$2.500001".
func (m Micros) String() string {
	sign, abs := "", uint64(m)
	if m < 0 {
		sign, abs = "-", -uint64(m)
	}
	whole, rest := abs/uint64(Dollar), abs%uint64(Dollar)
	decimals := strings.TrimRight(fmt.Sprintf("%06d", rest), "0")
	for len(decimals) < 2 {
		decimals += "0"
	}
	return fmt.Sprintf("%s$%d.%s", sign, whole, decimals)
}
