package rival

import (
	"cmp"
	"slices"

	"anabranch/sim"
	"anabranch/sim/world"
)

var greedyParameters = []Parameter{ownParameter}

// greedy takes the cluster, and then the pod, with the least predicted first-token time: the round trip,
// the queue's prompt tokens and the request's own uncached ones at the speed of a profile that it is
// told, and the wait for a place where batch or KV cache are full. Signals are taken as they are,
// however old. Of its own region's pods it keeps a prefix index as policy weighted does; elsewhere it
// expects the share of cached tokens that the cluster tells. Its own requests without a first token
// count at once. An adapter that a pod didn't hold when last scraped has to be loaded. The mean prompt that waits and the time that requests hold their places are learned
// from answers.
//
// It is what predicted-latency routing (llm-d's latency scorers) comes to with a perfect model of
// the servers and no care for staleness.
type greedy struct {
	own     bool
	known   indexes
	routers []*learned
	last    ask
}

// ask is the last choice: how many uncached tokens of which request.
type ask struct {
	id     uint64
	tokens float64
}

// learned is what one router has seen.
type learned struct {
	work, hold mean               // uncached tokens of a request, seconds that it runs
	backlog    map[[2]int]float64 // own uncached tokens without a first token, by cluster and pod; pod -1: elsewhere
}

func newGreedy(v values) rule { return &greedy{own: v[countOwn] >= 0.5} }

func (g *greedy) of(index int) *learned {
	for len(g.routers) <= index {
		g.routers = append(g.routers, &learned{backlog: map[[2]int]float64{}})
	}
	return g.routers[index]
}

// Guesses until there are answers.
const (
	guessHold = 5.0 // seconds
	guessHits = 0.3 // share of a prompt
)

func (g *greedy) cluster(q *query) int {
	best := q.least(q.clusters, func(c int) float64 { return g.there(q, c) })
	tokens := float64(q.r.PromptTokens)
	if q.v.Clusters[best].Pods == nil {
		tokens *= 1 - q.v.Clusters[best].Told.PrefixHits
	}
	g.last = ask{q.r.ID, tokens}
	q.say("%.0f ms predicted", 1000*g.there(q, best))
	return best
}

// there is the prediction for a cluster: of its best pod where pods are known, of a mean one elsewhere.
func (g *greedy) there(q *query, c int) float64 {
	rtt := q.rtt(c).Seconds()
	if q.v.Clusters[c].Pods != nil {
		q.cluster = c
		q.findPods()
		if len(q.pods) > 0 {
			depths, _ := g.known.look(q)
			best := g.pods(q, depths, q.pods[0])
			for _, p := range q.pods[1:] {
				best = min(best, g.pods(q, depths, p))
			}
			return rtt + best
		}
	}
	at, l := g.of(q.index), q.load(c, g.own)
	prompt := float64(q.r.PromptTokens)
	ahead := l.waiting * at.work.or(prompt*(1-guessHits))
	if g.own {
		ahead = max(ahead, at.backlog[[2]int{c, -1}])
	}
	s := stand{
		options: &q.kind(c, 0).Options, ahead: ahead / l.ready, waiting: l.waiting / l.ready, running: l.running / l.ready,
		kv: l.kv, hold: at.hold.or(guessHold), slow: 1,
	}
	seconds, _ := s.first(prompt, prompt*l.hits)
	return rtt + seconds
}

// pods is the prediction for a pod of q.cluster.
func (g *greedy) pods(q *query, depths []int, p int) float64 {
	at, pod := g.of(q.index), &q.v.Clusters[q.cluster].Pods[p]
	prompt := float64(q.r.PromptTokens)
	ahead := float64(pod.Waiting) * at.work.or(prompt*(1-guessHits))
	waiting := float64(pod.Waiting)
	if g.own {
		ahead = max(ahead, at.backlog[[2]int{q.cluster, p}])
		waiting = max(waiting, float64(pod.InFlight-pod.Running))
	}
	s := stand{
		options: &q.kind(q.cluster, p).Options, ahead: ahead, waiting: waiting, running: float64(pod.Running),
		kv: pod.KV, hold: at.hold.or(guessHold), slow: 1,
	}
	seconds, _ := s.first(prompt, cachedTokens(q.r.PromptTokens, depths[p]))
	if q.r.Adapter != "" && !slices.Contains(pod.Adapters, q.r.Adapter) {
		seconds += cmp.Or(s.options.AdapterLoad, sim.AdapterLoad).Seconds()
	}
	return seconds
}

func (g *greedy) pod(q *query) int {
	depths, _ := g.known.look(q)
	best := q.least(q.pods, func(p int) float64 { return g.pods(q, depths, p) })
	g.last = ask{q.r.ID, float64(q.r.PromptTokens) - cachedTokens(q.r.PromptTokens, depths[best])}
	q.say("%.0f ms predicted", 1000*g.pods(q, depths, best))
	g.known.sent(q, best)
	return best
}

// sent counts the tokens on their way, and ended or first takes them back.
func (g *greedy) sent(index int, a *world.Attempt, _ *world.View) {
	tokens := float64(a.Request.PromptTokens)
	if g.last.id == a.Request.ID {
		tokens = g.last.tokens
	}
	key := [2]int{a.Cluster, a.Pod}
	g.of(index).backlog[key] += tokens
	a.Data = debt{key, tokens}
}

// debt is what an attempt has added to a backlog.
type debt struct {
	key    [2]int
	tokens float64
}

func (g *greedy) settle(index int, a *world.Attempt) {
	if d, ok := a.Data.(debt); ok {
		a.Data = nil
		backlog := g.of(index).backlog
		if backlog[d.key] -= d.tokens; backlog[d.key] < 0.5 {
			delete(backlog, d.key)
		}
	}
}

func (g *greedy) first(index int, a *world.Attempt, _ *world.View) { g.settle(index, a) }

func (g *greedy) ended(index int, a *world.Attempt, how world.Outcome, v *world.View) {
	g.settle(index, a)
	if how != world.Answered {
		return
	}
	at := g.of(index)
	at.work.add(float64(a.Request.PromptTokens - a.Cached))
	at.hold.add((v.Now - a.First).Seconds())
}
