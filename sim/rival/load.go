package rival

import (
	"time"

	"anabranch/sim/world"
)

// load is what a router knows of the load of a cluster.
type load struct {
	waiting, running float64 // requests
	kv               float64 // mean share of the KV cache in use
	ready            float64 // pods, at least 1 so that it can be divided by
	slots            float64 // of their batches
	hits, errors     float64 // shares, as told
}

// load of a cluster: of pods as scraped where they are, as told elsewhere. With own, requests that this
// router has sent since it last heard of the place count as waiting there; without, they don't show
// until they are measured.
func (q *query) load(c int, own bool) load {
	seen := &q.v.Clusters[c]
	told := &seen.Told
	l := load{hits: told.PrefixHits, errors: told.Errors}
	if seen.Pods == nil {
		l.waiting, l.running, l.kv = float64(told.Waiting), float64(told.Running), told.KV
		l.ready, l.slots = float64(told.Ready), float64(told.Slots)
		if told.At == 0 {
			l.ready = float64(q.layout.pods[c])
		}
		if own {
			l.waiting += float64(max(0, seen.InFlight-q.at.places[c].own))
		}
		l.ready = max(1, l.ready)
		return l
	}
	var kv float64
	for p := range seen.Pods {
		if !q.ready(c, p) {
			continue
		}
		pod := &seen.Pods[p]
		l.ready++
		l.waiting += float64(pod.Waiting)
		l.running += float64(pod.Running)
		l.slots += float64(pod.Slots)
		kv += pod.KV
		if own {
			l.waiting += q.since(c, p)
		}
	}
	l.ready = max(1, l.ready)
	l.kv = kv / l.ready
	return l
}

// since is how many requests this router has sent to the pod, less those that ended, since its last
// scrape.
func (q *query) since(c, p int) float64 {
	return float64(max(0, q.v.Clusters[c].Pods[p].InFlight-q.at.places[c].pod(p).own))
}

// capacity of a cluster is how many of its pods are ready, as far as is known; at least 1.
func (q *query) capacity(c int) float64 {
	seen := &q.v.Clusters[c]
	switch {
	case seen.Pods != nil:
		n := 0
		for p := range seen.Pods {
			if q.ready(c, p) {
				n++
			}
		}
		return float64(max(1, n))
	case seen.Told.At != 0:
		return float64(max(1, seen.Told.Ready))
	}
	return float64(max(1, q.layout.pods[c]))
}

// rtt from this router to the pods of a cluster.
func (q *query) rtt(c int) time.Duration {
	r := q.region[c]
	if r == q.v.Region {
		return world.LocalRTT
	}
	if r < len(q.v.RTT) {
		return q.v.RTT[r] + world.LocalRTT
	}
	return world.DefaultRTT
}

// nearness is 1 in the own region and falls to 0 at the farthest of the Spec's regions.
func (q *query) nearness(c int) float64 {
	r := q.region[c]
	if r == q.v.Region || r >= len(q.v.RTT) {
		return 1
	}
	var farthest time.Duration
	for i, d := range q.v.RTT {
		if i != q.v.Region {
			farthest = max(farthest, d)
		}
	}
	if farthest <= 0 {
		return 1
	}
	return max(0, 1-float64(q.v.RTT[r])/float64(farthest))
}

// least is the one of the candidates with the least cost; ties are drawn.
func (q *query) least(candidates []int, cost func(int) float64) int {
	best, ties := candidates[0], 0
	var least float64
	for i, c := range candidates {
		x := cost(c)
		switch {
		case i == 0 || x < least:
			best, least, ties = c, x, 1
		case x == least:
			ties++
			if q.v.Rand.IntN(ties) == 0 {
				best = c
			}
		}
	}
	return best
}
