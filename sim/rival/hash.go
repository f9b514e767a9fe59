package rival

import (
	"math"
	"slices"

	"anabranch/dataplane/pick"
	"anabranch/sim"
	"anabranch/sim/workload"
	"anabranch/sim/world"
)

// blockBytes is how much of a prompt's text a block is.
const blockBytes = sim.BlockSize * sim.BytesPerToken

// Names of the parameters of hashing.
const (
	prefixLength = "prefix-length"
	concurrency  = "concurrency-threshold"
	overload     = "epsilon"
)

var lengths = []float64{1024, 2048, 4096, 8192, 16384, 32768, 65536}

var prefixParameters = []Parameter{
	{Name: concurrency, About: "ConcurrencyThreshold: requests in flight at a pod from which on others go elsewhere", Default: 32, Least: 1, Most: 1024, Try: []float64{1, 2, 4, 8, 16, 32, 64, 128}},
	{Name: prefixLength, About: "PrefixLength: bytes of the prompt that place it", Default: 4096, Least: 1024, Most: 65536, Try: lengths},
}

var boundedParameters = []Parameter{
	{Name: overload, About: "how far above the mean load a pod may be, as a share of it", Default: 0.25, Least: 0.01, Most: 10, Try: []float64{0.1, 0.25, 0.5, 1, 2}},
	{Name: prefixLength, About: "bytes of the prompt that place it", Default: 4096, Least: 64, Most: 65536, Try: lengths},
}

// beginning is the hash of the first length bytes of the prompt, or of all of a shorter one. What
// isn't in Blocks no other request has.
func beginning(r *workload.Request, length float64) uint64 {
	n := min(int(length)/blockBytes, r.PromptTokens/sim.BlockSize)
	if n == 0 || n > len(r.Blocks) {
		return world.Mix(r.ID)
	}
	return r.Blocks[n-1]
}

// rank is the number by which a candidate of the given weight stands in the order of a key: the larger,
// the earlier. The first is each with the probability of its share of the weights, and one candidate
// more or less moves its own keys only (weighted rendezvous hashing, −w/ln u).
func rank(key, candidate uint64, weight float64) float64 {
	u := (float64(world.Mix(key^world.Mix(candidate))>>11) + 0.5) / (1 << 53)
	return -weight / math.Log(u)
}

// podName is a number for a pod that no other has.
func podName(cluster, pod int) uint64 { return uint64(cluster+1)<<32 | uint64(pod+1) }

// prefixHash is SageMaker's RoutingStrategy PREFIX_AWARE, whose PrefixAwareRoutingConfig has
// PrefixLength, 1,024 to 65,536 bytes, and ConcurrencyThreshold, 1 to 1,024 requests in flight; neither
// has a published default. Requests whose first PrefixLength bytes are equal go to the same pod, and
// elsewhere once so many are in flight there. Pods are chosen by Anabranch's own implementation of
// that mode. Clusters are placed in the same way, by their number of ready pods, and full when all of
// their pods would be.
type prefixHash struct {
	length float64
	limit  float64
	cands  []pick.Candidate
}

func newPrefixHash(v values) rule { return &prefixHash{length: v[prefixLength], limit: v[concurrency]} }

func (h *prefixHash) cluster(q *query) int {
	c, _ := q.inOrder(beginning(q.r, h.length), func(c int) float64 { return h.limit * q.capacity(c) })
	return c
}

// inOrder is the first cluster in the key's order that has fewer own requests in flight than its bound,
// and the one with the least share of its bound where none has. It also says whether one had room.
func (q *query) inOrder(key uint64, bound func(int) float64) (int, bool) {
	best := -1
	var largest float64
	for _, c := range q.clusters {
		if x := rank(key, uint64(c+1), q.capacity(c)); float64(q.v.Clusters[c].InFlight) < bound(c) && (best < 0 || x > largest) {
			best, largest = c, x
		}
	}
	if best >= 0 {
		q.say("first with room in its prefix's order")
		return best, true
	}
	q.say("none has room, the least full")
	return q.least(q.clusters, func(c int) float64 { return float64(q.v.Clusters[c].InFlight) / bound(c) }), false
}

func (h *prefixHash) pod(q *query) int {
	h.cands = h.cands[:0]
	pods := q.v.Clusters[q.cluster].Pods
	for _, p := range q.pods {
		h.cands = append(h.cands, pick.Candidate{
			Hash: world.Mix(podName(q.cluster, p)), InFlight: int64(pods[p].InFlight), AdapterState: adapterState(q, p), Prefill: 1,
		})
	}
	i, why := pick.Best(pick.Request{PrefixKey: pick.Key(beginning(q.r, h.length), ""), Concurrency: int64(h.limit)}, h.cands, pick.PrefixHash, q.v.Rand.Uint64())
	q.say("%s", why.Why)
	return q.pods[i]
}

// adapterState is what it takes to use the request's adapter at a pod, as last scraped.
func adapterState(q *query, p int) pick.AdapterState {
	pod := &q.v.Clusters[q.cluster].Pods[p]
	switch {
	case q.r.Adapter == "":
		return pick.NoAdapter
	case slices.Contains(pod.Adapters, q.r.Adapter):
		return pick.Resident
	case len(pod.Adapters) < pod.MaxAdapters:
		return pick.FreeSlot
	}
	return pick.Evicts
}

// bounded is consistent hashing with bounded loads (Mirrokni, Thorup and Zadimoghaddam, 2018): nobody
// has more than (1+ε) times the mean load, and what a key's first place has no room for goes to its
// next. KubeAI does so over prompts' beginnings, with a load factor of 125 % (its PrefixHash strategy).
// Here each key has an order of its own (rendezvous hashing) instead of a common ring, which spreads what
// spills over more evenly (Chen, Coleman and Shrivastava, Revisiting Consistent Hashing with Bounded
// Loads, 2021). Load is this router's own requests in flight. Clusters have bounds by their ready pods.
type bounded struct{ epsilon, length float64 }

func newBounded(v values) rule { return bounded{v[overload], v[prefixLength]} }

// bound is the most requests, with the new one, that one of a weight may have of so many in flight.
func (b bounded) bound(inFlight int, share float64) float64 {
	return math.Ceil((1 + b.epsilon) * float64(inFlight+1) * share)
}

func (b bounded) cluster(q *query) int {
	var all int
	var pods float64
	for _, c := range q.clusters {
		all += q.v.Clusters[c].InFlight
		pods += q.capacity(c)
	}
	c, _ := q.inOrder(beginning(q.r, b.length), func(c int) float64 { return b.bound(all, q.capacity(c)/pods) })
	return c
}

func (b bounded) pod(q *query) int {
	pods := q.v.Clusters[q.cluster].Pods
	all := 0
	for _, p := range q.pods {
		all += pods[p].InFlight
	}
	bound := b.bound(all, 1/float64(len(q.pods)))
	key := beginning(q.r, b.length)
	best := -1
	var largest float64
	for _, p := range q.pods {
		if x := rank(key, podName(q.cluster, p), 1); float64(pods[p].InFlight) < bound && (best < 0 || x > largest) {
			best, largest = p, x
		}
	}
	// The mean is below the bound, so one has room.
	q.say("bound %.0f in flight", bound)
	return best
}
