package flow

import "math"

// pour sends each demand where it is cheapest at the present prices, and sums up the load that sites get.
func (s *search) pour() {
	clear(s.load)
	for i, load := range s.Problem.load {
		s.divide(i)
		from, to := s.start[i], s.start[i+1]
		sites, use := s.to[from:to], s.use[from:to]
		for w, x := range s.share[from:to] {
			if x != 0 {
				s.load[sites[w]] += load * use[w] * x
			}
		}
	}
}

// answers adds up how the load that sites get answers to prices: by those ways that are neither at their floor nor
// at their bound. A demand with one such way has nothing to choose.
func (s *search) answers() {
	clear(s.curve)
	for i, load := range s.Problem.load {
		from, to := s.start[i], s.start[i+1]
		floor, bound := s.floor[from:to], s.bound[from:to]
		free := s.free[:0]
		for w, x := range s.share[from:to] {
			if x > floor[w] && x < bound[w] {
				free = append(free, int32(w))
			}
		}
		if len(free) < 2 || load == 0 {
			continue
		}
		sites, gain, swing := s.to[from:to], s.gain[from:to], s.swing[from:to]
		all := 0.0
		for _, w := range free {
			all += swing[w]
		}
		for _, w := range free {
			j := sites[w]
			if int(j) == s.n {
				continue
			}
			row := s.curve[int(j)*s.n : int(j)*s.n+int(j)+1]
			answer := load * gain[w] * swing[w]
			row[j] += answer * gain[w]
			answer /= all
			for _, v := range free {
				if k := sites[v]; k <= j {
					row[k] -= answer * gain[v] * swing[v]
				}
			}
		}
	}
}

// divide finds a demand's shares at the present prices: its ways cost the same, its level, but for those at their
// floor, which cost more, and those at their bound, which cost less. The sum of the
// shares rises with the level, linear in pieces: Newton's method finds the level, kept between one that is too low and
// one that is too high.
func (s *search) divide(i int) {
	from, to := s.start[i], s.start[i+1]
	keys := s.keys[:to-from]
	sites, cost, gain := s.to[from:to], s.cost[from:to], s.gain[from:to]
	for w := range keys {
		keys[w] = cost[w] + gain[w]*s.price[sites[w]]
	}
	swing, floor, bound, share := s.swing[from:to], s.floor[from:to], s.bound[from:to], s.share[from:to]
	level := s.level[i]
	low, high := math.Inf(-1), math.Inf(1)
	for range 100 {
		sum, rate := 0.0, 0.0
		for w, key := range keys {
			x := (level - key) * swing[w]
			switch {
			case x <= floor[w]:
				x = floor[w]
			case x >= bound[w]:
				x = bound[w]
			default:
				rate += swing[w]
			}
			sum += x
		}
		off := 1 - sum
		if math.Abs(off) <= 1e-14+4e-16*math.Abs(level)*rate {
			break
		}
		if off > 0 {
			low = level
		} else {
			high = level
		}
		next := level + off/rate
		if !(next > low && next < high) {
			if math.IsInf(low, -1) || math.IsInf(high, 1) {
				low, high = s.bracket(i, keys)
			}
			next = low + (high-low)/2
			if next == low || next == high {
				break
			}
		}
		level = next
	}
	s.level[i] = level
	rest, largest := 1.0, -1
	for w, key := range keys {
		x := (level - key) * swing[w]
		switch {
		case x <= floor[w]:
			x = floor[w]
		case x >= bound[w]:
			x = bound[w]
		default:
			if largest < 0 || x > share[largest] {
				largest = w
			}
		}
		share[w] = x
		rest -= x
	}
	if largest >= 0 {
		share[largest] = min(max(share[largest]+rest, floor[largest]), bound[largest])
	}
}

// bracket gives levels at which a demand's shares are all at their floors, and all at their bounds.
func (s *search) bracket(i int, keys []float64) (low, high float64) {
	from := s.start[i]
	low, high = math.Inf(1), math.Inf(-1)
	for w, key := range keys {
		at := from + int32(w)
		low = min(low, key+s.floor[at]/s.swing[at])
		high = max(high, key+s.bound[at]/s.swing[at])
	}
	return low, high
}
