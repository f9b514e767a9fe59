package stat

import (
	"math"
	"testing"
)

// Quantiles as printed in tables of Student's t, two-sided 95 %.
func TestStudentIsThatOfTheTables(t *testing.T) {
	for df, want := range map[int]float64{
		1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262,
		10: 2.228, 15: 2.131, 19: 2.093, 29: 2.045, 30: 2.042, 60: 2.000, 120: 1.980, 1_000_000: 1.960,
	} {
		if got := student(df); math.Abs(got-want) > 0.0006 {
			t.Errorf("%d degrees of freedom: %.4f, want %.3f", df, got, want)
		}
	}
}

// The finite sums against the density added up in small steps.
func TestWithinIsTheIntegralOfTheDensity(t *testing.T) {
	for df := 1; df <= 12; df++ {
		n := float64(df)
		top, _ := math.Lgamma((n + 1) / 2)
		bottom, _ := math.Lgamma(n / 2)
		scale := math.Exp(top-bottom) / math.Sqrt(n*math.Pi)
		const step = 1e-4
		sum := 0.0
		for i := range 40_000 {
			x := (float64(i) + 0.5) * step
			sum += 2 * step * scale * math.Pow(1+x*x/n, -(n+1)/2)
		}
		if got := within(4, df); math.Abs(got-sum) > 1e-6 {
			t.Errorf("%d degrees of freedom: P(|T| ≤ 4) is %.7f, the integral %.7f", df, got, sum)
		}
	}
}

func TestStudentFallsWithMoreRuns(t *testing.T) {
	for df := 1; df < 200; df++ {
		if student(df+1) >= student(df) {
			t.Fatalf("%d and %d degrees of freedom: %v, then %v", df, df+1, student(df), student(df+1))
		}
	}
}
