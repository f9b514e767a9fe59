package world

import (
	"math/rand/v2"
	"time"
)

// What chance is drawn for. Each has its own, so that one more draw of a policy moves no jitter.
const (
	forRouters = iota + 1 // which router a client comes to
	forWays               // jitter
	forScrape
	forTell
	forPhase // when feeds begin
	forPolicy
)

// chance is drawn by counting: it depends on the seed and on what it is for, not on what was drawn
// before. So one request meets the same routers and jitter under every policy, whatever the policies
// make of others.
type chance uint64

// Mix spreads a number evenly over 64 bits, by the finalizer of SplitMix64: for chance that depends on
// what it is for, and for hashes of numbers.
func Mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (c chance) bits(what int, a, b uint64) uint64 {
	return Mix(Mix(Mix(uint64(c)^uint64(what)<<56)^a) ^ b)
}

// unit is a number in [0, 1).
func (c chance) unit(what int, a, b uint64) float64 {
	return float64(c.bits(what, a, b)>>11) / (1 << 53)
}

// stream is the random numbers that a policy draws at a router.
func (c chance) stream(router int) *rand.Rand {
	return rand.New(rand.NewPCG(c.bits(forPolicy, uint64(router), 0), c.bits(forPolicy, uint64(router), 1)))
}

// The ways of an attempt, for jitter.
const (
	wayOver = iota // to the router of the other region
	wayIn          // to the pod
	wayOut         // from the pod
	wayBack        // from the router of the other region
	ways
)

// way is when a message sent now arrives, no sooner than those before it on the same way.
func (w *world) way(a *attempt, which int, d time.Duration) time.Duration {
	if w.spec.Jitter > 0 {
		a.messages++
		key := uint64(a.home.Number)<<32 | uint64(which)<<16 | uint64(a.messages)
		d += time.Duration(float64(d) * w.spec.Jitter * w.chance.unit(forWays, a.request.ID, key))
	}
	a.last[which] = max(a.last[which], w.now+d)
	return a.last[which]
}

// local is the way between a router and a pod of its region, and across the one between the routers
// of an attempt.
const local = LocalRTT / 2

func (w *world) across(a *attempt) time.Duration {
	return w.regions[w.routers[a.home.Router].region].rtt[w.clusters[a.home.Cluster].region] / 2
}
