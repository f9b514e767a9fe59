package rival

import (
	"anabranch/sim"
)

// Names of the scorers' weights.
const (
	queueWeight     = "queue"
	kvWeight        = "kv-cache"
	prefixWeight    = "prefix"
	proximityWeight = "proximity"
)

var weightedParameters = []Parameter{
	{Name: queueWeight, About: "weight of queue-scorer", Default: 2, Most: 100, Try: []float64{1, 2, 4, 8}},
	{Name: kvWeight, About: "weight of kv-cache-utilization-scorer", Default: 2, Most: 100, Try: []float64{0, 1, 2, 4}},
	{Name: prefixWeight, About: "weight of prefix-cache-scorer", Default: 3, Most: 100, Try: []float64{1, 2, 3, 6}},
	{Name: proximityWeight, About: "weight of nearness among clusters", Default: 3, Most: 100, Try: []float64{0, 1, 3, 6, 12}},
}

// Defaults of the approximate prefix index: maxPrefixBlocksToMatch, and lruCapacityPerServer where the
// server doesn't tell the size of its cache.
const (
	mostBlocks = 256
	usualLRU   = 31250
)

// weighted is the endpoint picker of the Gateway API Inference Extension and llm-d as it comes: the sum
// of queue-scorer (waiting requests, min–max normalised over the candidates, the shortest 1, the longest
// 0, 1 for all where they are equal), kv-cache-utilization-scorer (1 − use) and prefix-cache-scorer
// (matched share of the first 256 blocks, by an index of what was sent where, as large as the server
// says its cache is) with the weights 2, 2 and 3 of its chart (config/charts/inferencepool), and the
// largest taken, ties drawn. Load is as last scraped: requests sent since do not count.
//
// Among clusters it does as llm-d's multi-cluster scorers do (multicluster-queue-scorer,
// multicluster-kv-cache-utilization-scorer, multicluster-topology-scorer) over what clusters tell: the
// mean queue of a pod, KV use, and nearness in place of a table of regions, which has the prefix's
// weight.
type weighted struct {
	queue, kv, prefix, near float64
	known                   indexes
}

func newWeighted(v values) rule {
	return &weighted{queue: v[queueWeight], kv: v[kvWeight], prefix: v[prefixWeight], near: v[proximityWeight], known: indexes{most: mostBlocks}}
}

// standard are the scorers with their published weights, as other policies use them below.
func standard() *weighted {
	v := values{}
	for _, p := range weightedParameters {
		v[p.Name] = p.Default
	}
	return newWeighted(v).(*weighted)
}

func (w *weighted) cluster(q *query) int {
	low, high := 0.0, 0.0
	for i, c := range q.clusters {
		l := q.load(c, false)
		n := l.waiting / l.ready
		if i == 0 {
			low, high = n, n
		}
		low, high = min(low, n), max(high, n)
	}
	q.say("best sum of the scores of queue, KV cache and nearness")
	return q.least(q.clusters, func(c int) float64 {
		l := q.load(c, false)
		score := w.queue*minMax(l.waiting/l.ready, low, high) + w.kv*(1-l.kv) + w.near*q.nearness(c)
		return -score
	})
}

func (w *weighted) pod(q *query) int {
	depths, blocks := w.known.look(q)
	pods := q.v.Clusters[q.cluster].Pods
	low, high := pods[q.pods[0]].Waiting, pods[q.pods[0]].Waiting
	for _, p := range q.pods {
		low, high = min(low, pods[p].Waiting), max(high, pods[p].Waiting)
	}
	best := q.least(q.pods, func(p int) float64 {
		score := w.queue*minMax(float64(pods[p].Waiting), float64(low), float64(high)) + w.kv*(1-pods[p].KV)
		if blocks > 0 {
			score += w.prefix * float64(depths[p]) / float64(blocks)
		}
		return -score
	})
	if blocks > 0 {
		q.say("%d waiting of %d to %d, %.0f %% of KV in use, %d of %d blocks known there",
			pods[best].Waiting, low, high, 100*pods[best].KV, depths[best], blocks)
	}
	w.known.sent(q, best)
	return best
}

// minMax is 1 at the low end of the range, 0 at its high end, and 1 where there is none.
func minMax(x, low, high float64) float64 {
	if high <= low {
		return 1
	}
	return (high - x) / (high - low)
}

// indexes are the prefix indexes that routers keep of the clusters of their regions.
type indexes struct {
	most   int // blocks of a prompt that are looked at; 0: all
	of     map[[2]int]*index
	chain  []uint64
	depths []int
}

// look is how many leading blocks of the prompt each pod of the cluster holds, and how many there are.
// Both are valid until the next call. Pods that aren't ready are forgotten: what comes back in their
// place is empty.
func (x *indexes) look(q *query) (depths []int, blocks int) {
	known := x.index(q)
	x.chain = q.r.Chain(x.chain[:0])
	if x.most > 0 {
		x.chain = x.chain[:min(len(x.chain), x.most)]
	}
	n := len(q.v.Clusters[q.cluster].Pods)
	for len(x.depths) < n {
		x.depths = append(x.depths, 0)
	}
	for p := range n {
		if pod := &q.v.Clusters[q.cluster].Pods[p]; !pod.Known || pod.Failing {
			known.forget(p)
		}
	}
	known.match(x.chain, x.depths[:n])
	return x.depths[:n], len(x.chain)
}

// sent notes where the prompt of the last look goes.
func (x *indexes) sent(q *query, p int) {
	size := usualLRU
	if tokens := q.v.Clusters[q.cluster].Pods[p].KVTokens; tokens > 0 {
		size = tokens / sim.BlockSize
	}
	x.index(q).add(p, x.chain, size)
}

func (x *indexes) index(q *query) *index {
	key := [2]int{q.index, q.cluster}
	if x.of == nil {
		x.of = map[[2]int]*index{}
	}
	if x.of[key] == nil {
		x.of[key] = &index{}
	}
	return x.of[key]
}
