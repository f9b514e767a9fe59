package meter

import "math"

// sketch is how values of the recent past are distributed: weights in buckets whose bounds grow by a
// constant factor, so that a quantile is off by no more than that factor whatever the values are, as in
// DDSketch (Masson, Rim and Lee, PVLDB 12(12), 2019). The past decays by growing what is new and never
// touching what is old (Cormode, Shkapenyuk, Srivastava and Xu, "Forward decay", ICDE 2009), here with each
// value and not with time: what is known of who seldom asks stays known.
type sketch struct {
	perOctave float64
	weights   []float32
	total     float64
	unit      float64 // weight of the next value
	seen      int     // values, counted up to enough
}

const (
	// memory is how many of the last values count, as the mean age of a value in the sketch.
	memory = 256
	// renewed is the unit at which all weights are made small again. A float32 adds a unit to the weight of
	// memory units without loss.
	renewed = 1 << 20
)

// newSketch is for values from 1 to 2^octaves, in buckets of which so many double a value.
func newSketch(octaves, perOctave int) sketch {
	return sketch{perOctave: float64(perOctave), weights: make([]float32, octaves*perOctave+1), unit: 1}
}

// bucket is that of a value; bucket i stands for the values around 2^(i/perOctave), those out of range are
// in the first and the last.
func (s *sketch) bucket(v float64) int {
	if !(v > 1) {
		return 0
	}
	return min(int(math.Round(math.Log2(v)*s.perOctave)), len(s.weights)-1)
}

// learn takes in a value.
func (s *sketch) learn(v float64) {
	s.weights[s.bucket(v)] += float32(s.unit)
	s.total += s.unit
	s.seen = min(s.seen+1, memory)
	s.unit *= memory / (memory - 1.0)
	if s.unit < renewed {
		return
	}
	s.total = 0
	for i := range s.weights {
		s.weights[i] /= float32(s.unit)
		s.total += float64(s.weights[i])
	}
	s.unit = 1
}

// quantile is the middle of the bucket below whose upper bound the share q of what was seen lies; 1 if
// nothing was.
func (s *sketch) quantile(q float64) float64 {
	sum, last := 0.0, 0
	for i, w := range s.weights {
		if w == 0 {
			continue
		}
		last = i
		if sum += float64(w); sum >= q*s.total {
			break
		}
	}
	return math.Exp2(float64(last) / s.perOctave)
}
