package workload

import "math/rand/v2"

// Tags keep apart what is made from the same seed. Their values are arbitrary and must not change,
// for then every workload would.
const (
	tagOwn uint64 = iota + 0x616e6162
	tagArrivals
	tagBurst
	tagMix
	tagLengths
	tagPrefix
	tagPopular
	tagSession
	tagTurn
	tagTrace
	tagThin
	tagSpread
	tagText
)

// mix hashes two numbers into one: a multiplication and the finaliser of SplitMix64.
func mix(a, b uint64) uint64 {
	x := a*0xd6e8feb86659fd93 + b + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// extend appends n links of a hash chain that starts from the given one.
func extend(chain []uint64, from uint64, n int) []uint64 {
	for range n {
		from = mix(from, 1)
		chain = append(chain, from)
	}
	return chain
}

// unit makes a number in [0, 1) of a hash.
func unit(h uint64) float64 { return float64(h>>11) / (1 << 53) }

// random is a source of its own for each seed and tag.
func random(seed, tag uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, tag)) }
