package rival

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"anabranch/sim"
	"anabranch/sim/world"
)

// Names of the oracle's parameters.
const (
	wasteCost = "waste-cost"
	queueCost = "queue-cost"
)

var oracleParameters = []Parameter{
	{Name: wasteCost, About: "seconds that a second of prefill counts for that is cached elsewhere, for each request that waits", Default: 1, Most: 100, Try: []float64{0, 0.5, 1, 2, 4}},
	{Name: queueCost, About: "seconds that a second of waiting counts for, beyond itself", Default: 0.75, Most: 100, Try: []float64{0, 0.25, 0.5, 0.75, 1, 1.5}},
}

// oracle knows everything as it is now: what each pod has cached, which adapters it holds, what it has
// still to compute and how slow it is, what is on its way there from any router, what is dead, hangs or can't be reached. It takes the
// cluster and pod with the least true first-token time, round trip included, and what that costs
// others: of a request that joins a queue those that come before the queue is empty, and of one that is
// computed though another pod has it cached all that wait, and those whose prompts it drives out. Each
// for itself would otherwise fill the fast pods until the slow ones are as good, and all caches with
// the same. It doesn't know what comes next, so it is a strong reference and not a bound.
type oracle struct {
	layout *layout
	waste  float64
	queue  float64
	hold   mean
	under  map[uint64]heading // requests without a first token
	tokens map[[2]int]float64 // of them, by cluster and pod
	at     map[[2]int][]uint64
	offers []offer
	names  []string // of adapters, used again and again
}

// heading is where a request goes, what is to be computed for it there, and until when it is on its way,
// in true time.
type heading struct {
	to     [2]int
	tokens float64
	until  time.Duration
	blocks []uint64
	// adapter that it needs; empty: none.
	adapter string
}

func newOracle(v values) rule {
	return &oracle{
		waste: v[wasteCost], queue: v[queueCost], under: map[uint64]heading{}, tokens: map[[2]int]float64{}, at: map[[2]int][]uint64{},
	}
}

func (o *oracle) start(l *layout) { o.layout = l }

// now is the true time.
func (o *oracle) now(v *world.View) time.Duration {
	return v.Now - o.layout.spec.Regions[v.Region].Skew
}

func (o *oracle) cluster(q *query) int {
	o.offers = o.offers[:0]
	for _, c := range q.clusters {
		if q.v.Truth.Hangs(c) || !q.v.Truth.Reachable(q.v.Region, c) {
			continue
		}
		for p := range q.v.Truth.Pods(c) {
			if !q.tried(c, p) {
				o.ask(q, c, p, q.rtt(c))
			}
		}
	}
	return o.take(q, q.clusters[0], -1).to[0]
}

func (o *oracle) pod(q *query) int {
	o.forget(q.r.ID)
	o.offers = o.offers[:0]
	for _, p := range q.pods {
		o.ask(q, q.cluster, p, world.LocalRTT)
	}
	return o.take(q, q.cluster, q.pods[0]).to[1]
}

// offer is what a pod would do for the request.
type offer struct {
	heading
	// Seconds to the first token, and of them waiting for others and its own prefill.
	seconds, wait, work float64
	waiting             float64 // requests
	// load is how long loading its adapter holds up all others there, in seconds.
	load float64
}

// take is the best of the offers, or where the request goes if there is none. It is noted as being on its
// way there.
func (o *oracle) take(q *query, cluster, pod int) heading {
	if len(o.offers) == 0 {
		return heading{to: [2]int{cluster, pod}}
	}
	fewest := math.Inf(1)   // tokens that anybody would have to compute
	shortest := math.Inf(1) // load that anybody would need
	var waiting float64
	for _, x := range o.offers {
		fewest, shortest = min(fewest, x.tokens), min(shortest, x.load)
		waiting += x.waiting / float64(len(o.offers))
	}
	var best offer
	least := math.Inf(1)
	for _, x := range o.offers {
		// What would be computed here though it is cached elsewhere is work that need not be.
		waste := x.work*(x.tokens-fewest)/max(1, x.tokens) + x.load - shortest
		if cost := x.seconds + o.queue*x.wait + o.waste*(1+waiting)*waste; cost < least {
			best, least = x, cost
		}
	}
	q.say("%.0f ms to the first token on pod %d, %.0f tokens to compute", 1000*best.seconds, best.to[1], best.tokens)
	o.note(q.r.ID, best.heading)
	return best.heading
}

// longQueue is from how many waiting requests on the sum of what was sent there stands for a look at
// each.
const longQueue = 16

// ask adds the pod's offer, if it can serve.
func (o *oracle) ask(q *query, c, p int, rtt time.Duration) {
	e := q.v.Truth.Engine(c, p)
	if e == nil {
		return
	}
	to, now := [2]int{c, p}, o.now(q.v)
	stats := e.Stats()
	coming, count, shared := o.others(to, now, q.r.Blocks)
	options := &q.kind(c, p).Options
	ahead := o.tokens[to]
	if stats.Waiting <= longQueue {
		ahead = float64(e.Pending()) + coming
	}
	var rest time.Duration // of the step under way
	if next, busy := e.Next(); busy {
		rest = next - now
		if ahead <= coming {
			// All decode, and Next may be many steps away; the request is taken up after half of one.
			rest = min(rest, options.Profile.Step(sim.Load{Decode: stats.Running, Context: stats.BlocksUsed * sim.BlockSize})/2)
		} else {
			// What is being computed in it is not ahead any more.
			queued := 0.0
			if n := len(o.at[to]); n > 0 {
				queued = float64(stats.Waiting) * o.tokens[to] / float64(n)
			}
			ahead -= min(batchTokens(options), max(0, ahead-coming-queued))
		}
	}
	prompt := q.r.PromptTokens
	// What one before it will have computed by then is as good as cached.
	cached := cachedTokens(prompt, max(shared, e.Cached(q.r.Blocks)/sim.BlockSize))
	s := stand{
		options: options, ahead: ahead, waiting: float64(stats.Waiting + count),
		running: float64(stats.Running), kv: stats.KVUsage(), hold: o.hold.or(guessHold), slow: q.v.Truth.Slow(c, p),
	}
	seconds, work := s.first(float64(prompt), cached)
	load, slot := o.adapter(q.r.Adapter, to, e, options)
	seconds += max(0, rest-rtt/2).Seconds() + load + slot
	o.offers = append(o.offers, offer{
		heading: heading{to, float64(prompt) - cached, now + rtt/2, q.r.Blocks, q.r.Adapter},
		seconds: seconds + rtt.Seconds(), wait: max(0, seconds-work-load), work: work, waiting: float64(stats.Waiting + count),
		load: load,
	})
}

// adapter is how long loading an adapter takes at a pod, and how long it waits for a slot before: both
// are 0 for one that is there, or that a request without a first token needs there too.
func (o *oracle) adapter(name string, to [2]int, e *sim.Engine, options *sim.Options) (load, slot float64) {
	if name == "" {
		return 0, 0
	}
	o.names = e.ResidentAdapters(o.names[:0])
	if slices.Contains(o.names, name) || slices.ContainsFunc(o.at[to], func(id uint64) bool { return o.under[id].adapter == name }) {
		return 0, 0
	}
	if o.names = e.RunningAdapters(o.names[:0]); len(o.names) >= options.MaxAdapters {
		slot = o.hold.or(guessHold)
	}
	return cmp.Or(options.AdapterLoad, sim.AdapterLoad).Seconds(), slot
}

// others are the requests without a first token that go to a pod or wait there: the tokens of those that
// are still on their way, and how many these are, and how many leading blocks one of all has in common
// with the chain.
func (o *oracle) others(to [2]int, now time.Duration, chain []uint64) (tokens float64, count, shared int) {
	for _, id := range o.at[to] {
		h := o.under[id]
		if h.until > now {
			tokens += h.tokens
			count++
		}
		n := min(len(h.blocks), len(chain))
		// Of chains, what is equal at one place is equal before it.
		if shared < n && h.blocks[shared] == chain[shared] {
			shared += sort.Search(n-shared, func(i int) bool { return h.blocks[shared+i] != chain[shared+i] })
		}
	}
	return tokens, count, shared
}

func (o *oracle) note(id uint64, h heading) {
	o.forget(id)
	o.under[id] = h
	o.tokens[h.to] += h.tokens
	o.at[h.to] = append(o.at[h.to], id)
}

func (o *oracle) forget(id uint64) {
	if h, ok := o.under[id]; ok {
		delete(o.under, id)
		o.tokens[h.to] = max(0, o.tokens[h.to]-h.tokens)
		o.at[h.to] = slices.DeleteFunc(o.at[h.to], func(other uint64) bool { return other == id })
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
