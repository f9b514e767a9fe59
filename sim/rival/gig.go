package rival

import "math"

// Names of the parameters of aws-gig and spill.
const (
	kvHeadroom      = "kv-headroom"
	queueDepth      = "queue-depth"
	regionProximity = "region-proximity"
	errorRate       = "error-rate"
	guard           = "guard"
	countOwn        = "count-own"
	tier1           = "tier-1"
	threshold       = "threshold"
)

// Defaults of the utilization detector of the Gateway API Inference Extension (queueDepthThreshold,
// kvCacheUtilThreshold): a pod with so many waiting or so much of its KV cache in use is saturated.
const (
	fullQueue = 5
	fullKV    = 0.8
)

var ownParameter = Parameter{Name: countOwn, About: "1: requests sent since the last word count at once", Default: 1, Most: 1, Try: []float64{0, 1}}

var gigParameters = []Parameter{
	{Name: kvHeadroom, About: "weight KVHeadroom", Default: 0.25, Most: 1, Share: true},
	{Name: queueDepth, About: "weight QueueDepth", Default: 0.25, Most: 1, Share: true},
	{Name: regionProximity, About: "weight RegionProximity", Default: 0.25, Most: 1, Share: true},
	{Name: errorRate, About: "weight ErrorRate", Default: 0.25, Most: 1, Share: true},
	{Name: guard, About: "saturation from which on a cluster is overloaded", Default: 1, Least: 0.01, Most: 1000, Try: []float64{0.25, 0.5, 1, 2, 4}},
	{Name: tier1, About: "below it: 0 scorers, 1 prefix-hash, 2 least-outstanding", Default: 0, Most: 2, Try: []float64{0, 1, 2}},
	ownParameter,
}

// saturation of a cluster is the larger of its mean queue and KV use, 1 where the defaults of the
// Gateway API Inference Extension call a pod saturated.
func (l load) saturation() float64 { return max(l.waiting/l.ready/fullQueue, l.kv/fullKV) }

// gig is Amazon SageMaker HyperPod's Global Inference Gateway: the cluster with the largest weighted sum
// of KVHeadroom, QueueDepth, RegionProximity and ErrorRate, weights 0 to 1 that sum to 1
// (UpdateGlobalInferenceGateway, Routing.Weights); one that is overloaded or unavailable is passed over
// for the next best, unless all are. How signals are brought to a scale and when a cluster is overloaded
// is not published, nor are the default weights. Here: 1 − KV use; 1/(1 + waiting requests of a
// pod); 1 at home and falling to 0 at the farthest region; 1 − share of requests that failed; overload
// as saturation above 1 (see load.saturation). Ties are drawn.
//
// Below it HyperPod's Inference Gateway picks the pod by queue depth, KV cache use and prefix affinity,
// the scorers of policy weighted; SageMaker's endpoints know PREFIX_AWARE and
// LEAST_OUTSTANDING_REQUESTS. A search may take the best of the three.
type gig struct {
	kv, queue, near, errors, guard float64
	own                            bool
	below                          rule
}

func newGig(v values) rule {
	g := &gig{kv: v[kvHeadroom], queue: v[queueDepth], near: v[regionProximity], errors: v[errorRate], guard: v[guard], own: v[countOwn] >= 0.5}
	switch math.Round(v[tier1]) {
	case 1:
		g.below = newPrefixHash(values{concurrency: 32, prefixLength: 4096})
	case 2:
		g.below = leastOutstanding{}
	default:
		g.below = standard()
	}
	return g
}

func (g *gig) cluster(q *query) int {
	open := make([]int, 0, len(q.clusters))
	for _, c := range q.clusters {
		if q.load(c, g.own).saturation() < g.guard {
			open = append(open, c)
		}
	}
	if len(open) == 0 {
		open = append(open, q.clusters...)
	}
	best := q.least(open, func(c int) float64 { return -g.score(q, c) })
	q.say("%d of %d clusters not overloaded, score %.3f", len(open), len(q.clusters), g.score(q, best))
	return best
}

func (g *gig) score(q *query, c int) float64 {
	l := q.load(c, g.own)
	return g.kv*(1-l.kv) + g.queue/(1+l.waiting/l.ready) + g.near*q.nearness(c) + g.errors*(1-l.errors)
}

func (g *gig) pod(q *query) int { return g.below.pod(q) }

var spillParameters = []Parameter{
	{Name: threshold, About: "saturation from which on the next nearest is taken", Default: 1, Least: 0.01, Most: 1000, Try: []float64{0.25, 0.5, 0.75, 1, 1.5, 2, 4}},
	ownParameter,
}

// spill stays local until the own region's cluster is saturated, and then takes the nearest that is not;
// where all are, the least saturated. So do Google's load balancers with Gateway and multi-cluster
// Services (capacity-based load balancing: closest first, overflow by capacity) and Istio's locality
// load balancing. Saturation is as for aws-gig, which is also what the Gateway API Inference
// Extension tells. Pods are picked by the scorers of policy weighted.
type spill struct {
	threshold float64
	own       bool
	below     rule
}

func newSpill(v values) rule {
	return &spill{threshold: v[threshold], own: v[countOwn] >= 0.5, below: standard()}
}

func (s *spill) cluster(q *query) int {
	open := make([]int, 0, len(q.clusters))
	for _, c := range q.clusters {
		if q.load(c, s.own).saturation() < s.threshold {
			open = append(open, c)
		}
	}
	if len(open) == 0 {
		q.say("all are saturated")
		return q.least(q.clusters, func(c int) float64 { return q.load(c, s.own).saturation() })
	}
	best := q.least(open, func(c int) float64 { return float64(q.rtt(c)) })
	q.say("the nearest of %d that are not saturated", len(open))
	return best
}

func (s *spill) pod(q *query) int { return s.below.pod(q) }
