package pick

import "math/bits"

// fewest has the least own requests in flight, of those with the wanted adapter state unless that is
// NoAdapter; ties are drawn.
func fewest(cands []Candidate, wanted AdapterState, rnd uint64) int {
	best, least, largest := -1, 0.0, uint64(0)
	for i := range cands {
		c := &cands[i]
		if wanted != NoAdapter && c.AdapterState != wanted {
			continue
		}
		f := c.outstanding(i, rnd)
		if best >= 0 && f > least {
			continue
		}
		if number := lot(c, i, rnd); best < 0 || f < least || number > largest {
			best, least, largest = i, f, number
		}
	}
	return best
}

// lot is a candidate's number in a draw: even over 64 bits, and the same wherever it stands.
func lot(c *Candidate, i int, rnd uint64) uint64 {
	if c.Hash == 0 {
		return mix(rnd ^ mix(uint64(i)))
	}
	return mix(rnd ^ c.Hash)
}

// draw maps a random number to 0..n-1, evenly; n > 0.
func draw(rnd uint64, n int) int {
	high, _ := bits.Mul64(rnd, uint64(n))
	return int(high)
}

// mix is the finalizer of SplitMix64: a second random number from a first.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
