package flow

import "math"

// hold is what is known of a demand's ways since they were last all looked at. Those that had no share then, and were too dear
// for one by a margin, are asleep: as long as the level has not risen to what the cheapest of them can cost by now,
// they have none.
type hold struct {
	from, n, room int32 // of its ways that are awake, in search.awake; n 0: look at all
	// least is what the cheapest one asleep cost, and fall how much less that may be by now for each ms that prices
	// have fallen by since travel was at.
	least, fall, at float64
	stride          float64 // of prices then
}

// way is one that is awake, and its share.
type way struct {
	cost, gain, swing, floor, bound, x float64
	site, index                        int32
}

// margin in ms is by how much too dear a way is at least to fall asleep.
const margin = 8

// leap is a step of prices in ms that is too long to tell from a few ways how a demand is divided after it.
const leap = 50

// crowd is how many ways may be awake without a reason.
const crowd = 4

// restless says that many ways were kept awake for a step of prices that was much longer than the present one.
func (s *search) restless(h *hold) bool { return h.n > crowd && h.stride > s.stride+margin/2 }

// forget wakes all ways: what they cost, or how they answer, has changed.
func (s *search) forget() {
	for i := range s.holds {
		s.holds[i].n = 0
	}
}

// walk keeps count of how far prices have come down.
func (s *search) walk() {
	down, far := 0.0, 0.0
	for j, ms := range s.price[:s.n] {
		by := s.seen[j] - ms
		down, far = max(down, by), max(far, math.Abs(by))
	}
	copy(s.seen, s.price)
	s.travel += down
	s.stride = far
}

// pour sends each demand where it is cheapest at the present prices, and sums up the load that sites get.
func (s *search) pour() {
	s.walk()
	still := s.stride == 0 && !s.mended // then shares are, too
	s.mended = false
	clear(s.load)
	for i, load := range s.Problem.load {
		h := &s.holds[i]
		if ready := h.n > 0 && (still || s.stride <= leap && !s.restless(h) && s.refill(i, h)); !ready {
			s.divide(i)
			s.sleep(i, h)
		}
		if load == 0 {
			continue
		}
		for k := h.from; k < h.from+h.n; k++ {
			if w := &s.awake[k]; w.x != 0 {
				s.load[w.site] += load * s.use[w.index] * w.x
			}
		}
	}
}

// sleep finds the ways of a demand that need not be looked at for now.
func (s *search) sleep(i int, h *hold) {
	from, to := s.start[i], s.start[i+1]
	level, awake := s.level[i], int32(0)
	h.least, h.fall, h.at, h.stride = math.Inf(1), 0, s.travel, s.stride
	for w := from; w < to; w++ {
		key, gain := s.keys[w-from], s.gain[w]
		if s.share[w] == 0 && s.floor[w] == 0 && key > level+max(margin, 2*gain*min(s.stride, leap)) {
			h.least, h.fall = min(h.least, key), max(h.fall, gain)
			continue
		}
		s.free[awake] = w
		awake++
	}
	if awake > h.room {
		h.from, h.room = int32(len(s.awake)), min(max(awake, 2*h.room), to-from)
		s.awake = append(s.awake, make([]way, h.room)...)
	}
	h.n = awake
	for k, w := range s.free[:awake] {
		s.awake[int(h.from)+k] = way{s.cost[w], s.gain[w], s.swing[w], s.floor[w], s.bound[w], s.share[w], s.to[w], w}
	}
}

// refill divides a demand among its ways that are awake, and says whether that is all there is to it.
func (s *search) refill(i int, h *hold) bool {
	ways := s.awake[h.from : h.from+h.n]
	keys := s.keys[:len(ways)]
	level := s.level[i]
	for again := 0; ; again++ {
		sum, rate := 0.0, 0.0
		for k := range ways {
			w := &ways[k]
			if again == 0 {
				keys[k] = w.cost + w.gain*s.price[w.site]
			}
			x := (level - keys[k]) * w.swing
			switch {
			case x <= w.floor:
				x = w.floor
			case x >= w.bound:
				x = w.bound
			default:
				rate += w.swing
			}
			w.x = x
			sum += x
		}
		off := 1 - sum
		if math.Abs(off) <= 1e-14+4e-16*math.Abs(level)*rate {
			break
		}
		if rate == 0 || again == 4 {
			return false
		}
		level += off / rate
	}
	if level > h.least-h.fall*(s.travel-h.at) {
		return false
	}
	s.level[i] = level
	rest, largest := 1.0, -1
	for k := range ways {
		w := &ways[k]
		if w.x > w.floor && w.x < w.bound && (largest < 0 || w.x > ways[largest].x) {
			largest = k
		}
		rest -= w.x
	}
	if largest >= 0 {
		w := &ways[largest]
		w.x = min(max(w.x+rest, w.floor), w.bound)
	}
	for k := range ways {
		s.share[ways[k].index] = ways[k].x
	}
	return true
}

// answers adds up how the load that sites get answers to prices: by those ways that are neither at their floor nor
// at their bound. A demand with one such way has nothing to choose.
func (s *search) answers() {
	clear(s.curve)
	for i, load := range s.Problem.load {
		h := &s.holds[i]
		ways := s.awake[h.from : h.from+h.n]
		free, all := s.free[:0], 0.0
		for k := range ways {
			if w := &ways[k]; w.x > w.floor && w.x < w.bound {
				free = append(free, int32(k))
				all += w.swing
			}
		}
		if len(free) < 2 || load == 0 {
			continue
		}
		for _, k := range free {
			w := &ways[k]
			j := w.site
			if int(j) == s.n {
				continue
			}
			row := s.curve[int(j)*s.n : int(j)*s.n+int(j)+1]
			answer := load * w.gain * w.swing
			row[j] += answer * w.gain
			answer /= all
			for _, l := range free {
				if v := &ways[l]; v.site <= j {
					row[v.site] -= answer * v.gain * v.swing
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
