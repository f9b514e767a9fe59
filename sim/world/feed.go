package world

import (
	"slices"
	"time"
)

// scrape is a router's measuring of a pod, over and over.
type scrape struct {
	router *router
	pod    *pod
	count  uint64
}

// scraped is a measurement on its way.
type scraped struct {
	router *router
	pod    *pod
	view   PodView
}

// tell is a cluster's telling of itself, over and over.
type tell struct {
	cluster int
	count   uint64
}

// told is what a cluster has told, on its way to a router.
type told struct {
	router  *router
	cluster int
	told    Told
}

// begin starts the feeds and ticks. Each starts somewhere in its interval, so that not everything is
// measured at the same moment.
func (w *world) begin() {
	type start struct {
		at time.Duration
		scrape
		tell
	}
	byTime := func(a, b start) int { return int(a.at - b.at) }
	phase := func(interval time.Duration, a, b int) time.Duration {
		return max(1, time.Duration(w.chance.unit(forPhase, uint64(a), uint64(b))*float64(interval)))
	}
	var starts []start
	for _, p := range w.pods {
		for _, ro := range w.regions[w.clusters[p.cluster].region].routers {
			starts = append(starts, start{at: phase(w.spec.Scrape.Interval, p.number, ro.number), scrape: scrape{router: ro, pod: p}})
		}
	}
	slices.SortStableFunc(starts, byTime)
	for _, s := range starts {
		*w.scrapes.put(s.at) = s.scrape
	}
	starts = starts[:0]
	for i := range w.clusters {
		starts = append(starts, start{at: phase(w.spec.Tell.Interval, i, -1), tell: tell{cluster: i}})
	}
	slices.SortStableFunc(starts, byTime)
	for _, s := range starts {
		*w.tells.put(s.at) = s.tell
	}
	for i, ro := range w.routers {
		*w.ticks.put(TickInterval * time.Duration(i+1) / time.Duration(len(w.routers))) = ro
	}
	w.samples.begin(w)
	w.feeding = true
	w.applyPrices()
}

// watch lets the routers of its region scrape a pod that has come during the run.
func (w *world) watch(p *pod) {
	if !w.feeding {
		return
	}
	for _, ro := range w.regions[w.clusters[p.cluster].region].routers {
		*w.scrapes.put(w.now + w.spec.Scrape.Interval) = scrape{router: ro, pod: p}
	}
}

// measure is what a pod's metrics say.
func (p *pod) measure(v *PodView) {
	st := p.engine.Stats()
	v.Waiting, v.Running, v.KV = st.Waiting, st.Running, st.KVUsage()
	v.Slots, v.KVTokens, v.MaxAdapters = p.slots(), p.engine.MaxTokens(), p.kind.Options.MaxAdapters
	v.Adapters = p.engine.ResidentAdapters(v.Adapters[:0])
	v.Generated, v.PrefixAsked, v.PrefixFound = st.GenerationTokens, st.PrefixQueries, st.PrefixHits
}

// slots of its batch, with the engine's default.
func (p *pod) slots() int {
	if n := p.kind.Options.MaxSequences; n > 0 {
		return n
	}
	return 256
}

// scrape measures a pod for a router, and again after the interval.
func (w *world) scrape(s scrape) {
	s.count++
	*w.scrapes.put(w.now + w.spec.Scrape.Interval) = s
	region := w.regions[s.router.region]
	if region.lost || w.lost(forScrape, w.spec.Scrape.Loss, uint64(s.pod.number)<<32|uint64(s.router.number), s.count) {
		return
	}
	at := w.now + region.skew
	w.catchUp(s.pod)
	if w.spec.Scrape.Delay == 0 {
		v := w.slotFor(s.router, s.pod)
		v.At = at
		s.pod.look(v)
		w.heard(s.router, s.pod.cluster, s.pod.index)
		return
	}
	m := w.scraped.put(w.now + w.spec.Scrape.Delay)
	m.router, m.pod = s.router, s.pod
	m.view = PodView{Adapters: m.view.Adapters[:0], At: at}
	s.pod.look(&m.view)
}

// slotFor is where a router keeps what it has heard of a pod.
func (w *world) slotFor(ro *router, p *pod) *PodView {
	c := &ro.view.Clusters[p.cluster]
	for len(c.Pods) <= p.index {
		c.Pods = append(c.Pods, PodView{})
	}
	return &c.Pods[p.index]
}

// hearPod lets a measurement arrive.
func (w *world) hearPod(m *scraped) {
	if w.regions[m.router.region].lost {
		return
	}
	v := w.slotFor(m.router, m.pod)
	v.Known, v.Failing, v.At = m.view.Known, m.view.Failing, m.view.At
	if !v.Failing {
		m.view.InFlight = v.InFlight
		m.view.Adapters, *v = v.Adapters, m.view // each keeps a buffer
	}
	w.heard(m.router, m.pod.cluster, m.pod.index)
}

func (w *world) heard(ro *router, cluster, pod int) {
	w.news = Heard{Cluster: cluster, Pod: pod}
	w.policy.Heard(&w.news, w.at(ro))
}

func (w *world) lost(what int, loss float64, of, count uint64) bool {
	return loss > 0 && w.chance.unit(what, of, count) < loss
}

// look fills in a measurement of a pod in whatever state: whether it is listed, whether it answers,
// and if so what it says. It may hang: then it says what it said before.
func (p *pod) look(v *PodView) {
	v.Known = p.listed
	v.Failing = !p.alive()
	switch {
	case v.Failing:
	case p.hanging:
		f := &p.frozen
		v.Waiting, v.Running, v.KV, v.Slots, v.KVTokens, v.MaxAdapters = f.Waiting, f.Running, f.KV, f.Slots, f.KVTokens, f.MaxAdapters
		v.Adapters = append(v.Adapters[:0], f.Adapters...)
		v.Generated, v.PrefixAsked, v.PrefixFound = f.Generated, f.PrefixAsked, f.PrefixFound
	default:
		p.measure(v)
	}
}

// tell lets a cluster tell all routers of itself, and again after the interval. Where its region is
// lost nobody does.
func (w *world) tell(t tell) {
	t.count++
	*w.tells.put(w.now + w.spec.Tell.Interval) = t
	c := w.clusters[t.cluster]
	if w.regions[c.region].lost {
		return
	}
	sum := w.sum(c)
	for _, ro := range w.routers {
		if ro.region != c.region && (c.silent || !w.reach(c.region, ro.region)) ||
			w.lost(forTell, w.spec.Tell.Loss, uint64(t.cluster)<<32|uint64(ro.number), t.count) {
			continue
		}
		*w.told.put(w.now + w.spec.Tell.Delay) = told{ro, t.cluster, sum}
	}
}

// hearCluster lets what a cluster has told arrive.
func (w *world) hearCluster(t *told) {
	if !w.regions[t.router.region].lost {
		t.router.view.Clusters[t.cluster].Told = t.told
		w.heard(t.router, t.cluster, -1)
	}
}

// sum is a cluster as a whole.
func (w *world) sum(c *cluster) Told {
	t := Told{At: w.now + w.regions[c.region].skew}
	for _, p := range c.pods {
		w.catchUp(p)
		switch p.state {
		case starting, dead:
			t.Pods++
		case serving:
			t.Pods++
			t.Ready++
			t.Slots += p.slots()
			st := p.engine.Stats()
			waiting, running, kv := st.Waiting, st.Running, st.KVUsage()
			if p.hanging {
				waiting, running, kv = p.frozen.Waiting, p.frozen.Running, p.frozen.KV
			}
			t.Waiting += waiting
			t.Running += running
			t.KV += kv
		}
	}
	if t.Ready > 0 {
		t.KV /= float64(t.Ready)
	}
	c.recent.tell(w.now, &t)
	return t
}

// tick lets a router's policy do what it does by itself.
func (w *world) tick(ro *router) {
	*w.ticks.put(w.now + TickInterval) = ro
	if !w.regions[ro.region].lost {
		w.policy.Tick(w.at(ro))
	}
}
