package rival

import (
	"math"
	"slices"
	"time"

	"anabranch/sim"
	"anabranch/sim/world"
)

const lookAhead = "look-ahead"

var oracleParameters = []Parameter{
	{Name: lookAhead, About: "seconds that a second of prefill counts for, beyond the request itself", Default: 1, Most: 100, Try: []float64{0, 0.5, 1, 2, 4}},
}

// oracle knows everything as it is now: what each pod has cached, has still to compute and how slow it
// is, what is on its way there from any router, what is dead, hangs or can't be reached. It takes the
// cluster and pod with the least true first-token time, round trip included, plus the prefill that the
// request would cost there, which others will have to wait for: so it prefers a pod with the prompt
// cached to an idle one that would compute it all, about as far as that is good for all. It doesn't
// know what comes next, so it is a strong reference and not a bound.
type oracle struct {
	layout *layout
	weight float64
	hold   mean
	under  map[uint64]heading // requests without a first token
	tokens map[[2]int]float64 // of them, by cluster and pod
	onWay  map[[2]int][]uint64
}

// heading is where a request goes, what is to be computed for it there, and until when it is on its way,
// in true time.
type heading struct {
	to     [2]int
	tokens float64
	until  time.Duration
}

func newOracle(v values) rule {
	return &oracle{
		weight: v[lookAhead], under: map[uint64]heading{}, tokens: map[[2]int]float64{}, onWay: map[[2]int][]uint64{},
	}
}

func (o *oracle) start(l *layout) { o.layout = l }

// now is the true time.
func (o *oracle) now(v *world.View) time.Duration {
	return v.Now - o.layout.spec.Regions[v.Region].Skew
}

func (o *oracle) cluster(q *query) int {
	best, least, to := q.clusters[0], math.Inf(1), heading{to: [2]int{-1, -1}}
	for _, c := range q.clusters {
		if q.v.Truth.Hangs(c) || !q.v.Truth.Reachable(q.v.Region, c) {
			continue
		}
		for p := range q.v.Truth.Pods(c) {
			cost, tokens, ok := o.cost(q, c, p, q.rtt(c))
			if ok && cost < least && !q.tried(c, p) {
				best, least = c, cost
				to = heading{[2]int{c, p}, tokens, o.now(q.v) + q.rtt(c)/2}
			}
		}
	}
	q.say("cost %.0f ms, pod %d", 1000*least, to.to[1])
	o.note(q.r.ID, to)
	return best
}

func (o *oracle) pod(q *query) int {
	o.forget(q.r.ID)
	best, least, to := q.pods[0], math.Inf(1), heading{to: [2]int{-1, -1}}
	for _, p := range q.pods {
		if cost, tokens, ok := o.cost(q, q.cluster, p, world.LocalRTT); ok && cost < least {
			best, least = p, cost
			to = heading{[2]int{q.cluster, p}, tokens, o.now(q.v) + world.LocalRTT/2}
		}
	}
	q.say("cost %.0f ms", 1000*least)
	o.note(q.r.ID, to)
	return best
}

// longQueue is from how many waiting requests on the sum of what was sent there stands for a look at
// each.
const longQueue = 16

// cost of sending the request to a pod, in seconds, and how many tokens it would have to compute there.
// False: the pod can't serve.
func (o *oracle) cost(q *query, c, p int, rtt time.Duration) (seconds, tokens float64, ok bool) {
	e := q.v.Truth.Engine(c, p)
	if e == nil {
		return 0, 0, false
	}
	to := [2]int{c, p}
	coming, count := o.coming(to, o.now(q.v))
	stats := e.Stats()
	ahead := o.tokens[to]
	if stats.Waiting <= longQueue {
		ahead = float64(e.Pending()) + coming
	}
	prompt := q.r.PromptTokens
	cached := cachedTokens(prompt, e.Cached(q.r.Blocks)/sim.BlockSize)
	s := stand{
		options: &q.kind(c, p).Options, ahead: ahead, waiting: float64(stats.Waiting) + float64(count),
		running: float64(stats.Running), kv: stats.KVUsage(), hold: o.hold.or(guessHold), slow: q.v.Truth.Slow(c, p),
	}
	first, work := s.first(float64(prompt), cached)
	if next, busy := e.Next(); busy {
		first += max(0, next-o.now(q.v)-rtt/2).Seconds()
	}
	return rtt.Seconds() + first + o.weight*work, float64(prompt) - cached, true
}

// coming is what is still on its way to a pod.
func (o *oracle) coming(to [2]int, now time.Duration) (tokens float64, count int) {
	list := slices.DeleteFunc(o.onWay[to], func(id uint64) bool { return o.under[id].until <= now })
	for _, id := range list {
		tokens += o.under[id].tokens
	}
	o.onWay[to] = list
	return tokens, len(list)
}

func (o *oracle) note(id uint64, h heading) {
	o.forget(id)
	if h.to[1] < 0 {
		return
	}
	o.under[id] = h
	o.tokens[h.to] += h.tokens
	o.onWay[h.to] = append(o.onWay[h.to], id)
}

func (o *oracle) forget(id uint64) {
	if h, ok := o.under[id]; ok {
		delete(o.under, id)
		o.tokens[h.to] = max(0, o.tokens[h.to]-h.tokens)
		o.onWay[h.to] = slices.DeleteFunc(o.onWay[h.to], func(other uint64) bool { return other == id })
	}
}

func (o *oracle) sent(int, *world.Attempt, *world.View) {}

// first says that the prompt is computed. The router of the pod hears it first, and what another that
// sent it there hears later changes nothing.
func (o *oracle) first(_ int, a *world.Attempt, _ *world.View) { o.forget(a.Request.ID) }

func (o *oracle) ended(_ int, a *world.Attempt, how world.Outcome, v *world.View) {
	if how == world.Answered && !a.Away {
		o.hold.add((v.Now - a.First).Seconds())
	}
	if how == world.Answered || a.First != 0 {
		return
	}
	// A later attempt may be under way elsewhere by the time that this router hears of the end.
	if h, ok := o.under[a.Request.ID]; ok && h.to[0] == a.Cluster {
		o.forget(a.Request.ID)
	}
}
