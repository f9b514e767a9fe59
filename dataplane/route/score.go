package route

import (
	"math"

	"github.com/cespare/xxhash/v2"

	"anabranch/dataplane/table"
)

// Score is a cluster's draw in the weighted rendezvous for a key: the highest wins, with a chance
// proportional to its weight, and a change of one weight moves only keys to or from that cluster.
// Weight 0 never wins.
func Score(weight float64, key, cluster uint64) float64 {
	if !(weight > 0) {
		return math.Inf(-1)
	}
	// 53 bits, never 0 or 1.
	u := (float64(mix(key^mix(cluster))>>11) + 0.5) / (1 << 53)
	return weight / -math.Log(u)
}

// armSalt keeps the draw of an arm apart from that of a cluster which has the arm's name.
const armSalt = 0x2545f4914f6cdd1d

// Draw says which arm of a split a key belongs to: each gets its share of the keys, a key stays on its
// arm, and a change of one share moves only keys to or from that arm. -1: no arm has a share.
func Draw(arms []table.Arm, key uint64) int {
	best, highest := -1, math.Inf(-1)
	for i := range arms {
		s := Score(arms[i].Share, key^armSalt, xxhash.Sum64String(arms[i].ID))
		if s > highest {
			best, highest = i, s
		}
	}
	return best
}

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
