package stat

import (
	"math"
)

// Estimate is a mean over runs with its 95 % confidence interval by Student's t, which supposes that
// the means of runs are roughly normal. With one run there is no interval: Low and High are unknown.
type Estimate struct {
	Mean Number `json:"mean"`
	Low  Number `json:"low"`
	High Number `json:"high"`
	// N is the number of runs that knew the figure.
	N int `json:"n"`
}

// Estimated is the estimate from one figure of each run; those unknown don't count.
func Estimated(values []Number) Estimate {
	known := make([]float64, 0, len(values))
	for _, v := range values {
		if v.Known() {
			known = append(known, float64(v))
		}
	}
	e := Estimate{Mean: Mean(known), Low: Unknown, High: Unknown, N: len(known)}
	if e.N < 2 {
		return e
	}
	sum := 0.0
	for _, v := range known {
		sum += (v - float64(e.Mean)) * (v - float64(e.Mean))
	}
	n := float64(e.N)
	half := Number(student(e.N-1) * math.Sqrt(sum/(n-1)/n))
	e.Low, e.High = e.Mean-half, e.Mean+half
	return e
}

// Half is half the width of the interval; unknown without one.
func (e Estimate) Half() Number { return (e.High - e.Low) / 2 }

// Change is how much a figure differs between two series of runs.
type Change struct {
	// Estimate of the change: of relative ones 0.1 is 10 % more, of others it is the difference.
	Estimate
	// Relative says which.
	Relative bool `json:"relative"`
}

// Paired is the change from base to other, run by run: the i-th of both had the same seed, so that
// what both met alike cancels out. If all figures are positive and relative is wanted it is the
// change of the geometric mean: a t interval of log(other/base), turned back. Else it is the
// difference. Pairs with something unknown don't count.
func Paired(base, other []Number, relative bool) Change {
	var a, b []Number
	for i := range min(len(base), len(other)) {
		if base[i].Known() && other[i].Known() {
			a, b = append(a, base[i]), append(b, other[i])
			relative = relative && base[i] > 0 && other[i] > 0
		}
	}
	values := make([]Number, len(a))
	for i := range a {
		values[i] = b[i] - a[i]
		if relative {
			values[i] = Number(math.Log(float64(b[i] / a[i])))
		}
	}
	return back(Estimated(values), relative)
}

// Unpaired is the change between two series of runs that have nothing in common: a t interval of the
// difference of means of the logarithms (or figures) with Welch's degrees of freedom, rounded down.
func Unpaired(base, other []Number, relative bool) Change {
	a, b := known(base), known(other)
	for _, v := range append(append([]Number{}, a...), b...) {
		relative = relative && v > 0
	}
	if relative {
		a, b = logs(a), logs(b)
	}
	ea, eb := Estimated(a), Estimated(b)
	e := Estimate{Mean: eb.Mean - ea.Mean, Low: Unknown, High: Unknown, N: min(ea.N, eb.N)}
	if e.N >= 2 {
		va, vb := variance(a, ea.Mean)/float64(ea.N), variance(b, eb.Mean)/float64(eb.N)
		df := 1
		if va+vb > 0 {
			df = int((va+vb)*(va+vb)/(va*va/float64(ea.N-1)+vb*vb/float64(eb.N-1)) + 1e-9)
		}
		half := Number(student(max(df, 1)) * math.Sqrt(va+vb))
		e.Low, e.High = e.Mean-half, e.Mean+half
	}
	return back(e, relative)
}

func back(e Estimate, relative bool) Change {
	if relative {
		for _, n := range []*Number{&e.Mean, &e.Low, &e.High} {
			*n = Number(math.Expm1(float64(*n)))
		}
	}
	return Change{Estimate: e, Relative: relative}
}

func known(values []Number) []Number {
	var out []Number
	for _, v := range values {
		if v.Known() {
			out = append(out, v)
		}
	}
	return out
}

func logs(values []Number) []Number {
	out := make([]Number, len(values))
	for i, v := range values {
		out[i] = Number(math.Log(float64(v)))
	}
	return out
}

func variance(values []Number, mean Number) float64 {
	sum := 0.0
	for _, v := range values {
		sum += float64((v - mean) * (v - mean))
	}
	return sum / float64(len(values)-1)
}

// Sure says that the change counts: its interval excludes 0, and it is larger than the threshold,
// which has the unit of the change. Without an interval nothing is sure.
func (c Change) Sure(threshold Number) bool {
	return c.Low.Known() && (c.Low > 0 || c.High < 0) && (c.Mean > threshold || c.Mean < -threshold)
}
