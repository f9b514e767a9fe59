package flow

import "math"

// newton finds the step of prices to the maximum of the piece of the dual that they are on. What the piece leaves
// open, since nothing there answers to prices, is kept in bounds by a term that vanishes with how far it is off.
func (s *search) newton() {
	n := s.n
	s.answers()
	for j, site := range s.sites {
		perMs := s.perMs[j]
		if perMs == 0 && (s.short[j] < 0 || s.short[j] == s.load[j]) {
			perMs = s.secant(j)
		}
		if perMs == 0 {
			perMs = 1 / s.stiff[j]
		}
		diagonal := &s.curve[j*n+j]
		*diagonal = (*diagonal + site.Size*max(perMs, leastPerMs)) * (1 + 1e-14)
		s.step[j] = site.Size * s.short[j]
	}
	copy(s.factor, s.curve)
	factorise(s.factor, n)
	resolve(s.factor, n, s.step)
}

// factorise makes the lower triangle of an n x n matrix its own square root, after Cholesky.
func factorise(f []float64, n int) {
	for j := range n {
		row := f[j*n : j*n+j+1]
		for k := range j {
			other := f[k*n : k*n+k+1]
			sum := row[k]
			for i := range k {
				sum -= row[i] * other[i]
			}
			row[k] = sum / other[k]
		}
		sum := row[j]
		for i := range j {
			sum -= row[i] * row[i]
		}
		row[j] = math.Sqrt(max(sum, 1e-15*row[j], math.SmallestNonzeroFloat64))
	}
}

// resolve puts the solution of the equations with a matrix that was factorised in the place of their right side.
func resolve(f []float64, n int, step []float64) {
	for j := range n {
		sum := step[j]
		for i := range j {
			sum -= f[j*n+i] * step[i]
		}
		step[j] = sum / f[j*n+j]
	}
	for j := n - 1; j >= 0; j-- {
		sum := step[j]
		for i := j + 1; i < n; i++ {
			sum -= f[i*n+j] * step[i]
		}
		step[j] = sum / f[j*n+j]
	}
}
