package world

import (
	"cmp"
	"slices"
	"time"
)

// change is that an event begins or ends, or (event -1) that the warm-up is over.
type change struct {
	at    time.Duration
	event int
	on    bool
}

// plan puts the beginnings and ends of all events in order.
func (w *world) plan() {
	w.active = make([]bool, len(w.spec.Events))
	w.scaled = make([][]*pod, len(w.spec.Events))
	if w.spec.Warmup > 0 {
		w.changes = append(w.changes, change{w.spec.Warmup, -1, true})
	}
	for i, e := range w.spec.Events {
		w.changes = append(w.changes, change{e.At, i, true})
		if e.For > 0 {
			w.changes = append(w.changes, change{e.At + e.For, i, false})
		}
	}
	slices.SortStableFunc(w.changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
}

func (w *world) nextChange() time.Duration {
	if len(w.changes) == 0 {
		return never
	}
	return w.changes[0].at
}

// change lets the next event begin or end. What holds is computed anew from all that are active, so
// that they may overlap.
func (w *world) change() {
	c := w.changes[0]
	w.changes = w.changes[1:]
	if c.event < 0 {
		w.counting = true
		for _, p := range w.pods {
			if p.paid = w.now; p.engine != nil {
				w.step(p)
				p.base = p.engine.Stats()
			}
		}
		return
	}
	w.active[c.event] = c.on
	if e := w.spec.Events[c.event]; c.on && (e.Kind == ScaleOut || e.Kind == ScaleIn) {
		w.scale(c.event, e)
	}
	w.applyRegions()
	w.applyClusters()
	w.applyPods()
	w.applyPrices()
}

// scale chooses the pods that come or go.
func (w *world) scale(i int, e Event) {
	c := w.clusterOf(e)
	for n := range e.Count {
		if e.Kind == ScaleOut {
			w.scaled[i] = append(w.scaled[i], w.addPod(c, &w.spec.Clusters[c].Pods[0]))
			continue
		}
		for j := len(w.clusters[c].pods) - 1; j >= 0 && len(w.scaled[i]) == n; j-- {
			if p := w.clusters[c].pods[j]; !p.retire && p.state != gone && !slices.Contains(w.scaled[i], p) {
				w.scaled[i] = append(w.scaled[i], p)
			}
		}
	}
}

// clusterOf is the place of the cluster that an event is about; -1: it is about none.
func (w *world) clusterOf(e Event) int {
	return slices.IndexFunc(w.spec.Clusters, func(c Cluster) bool { return c.ID == e.Cluster })
}

// holds says whether an event of a kind is active for a cluster, or for its region.
func (w *world) holds(k Kind, cluster int) bool {
	return w.any(k, func(e *Event) bool {
		return e.Cluster == w.spec.Clusters[cluster].ID || e.Region == w.spec.Clusters[cluster].Region
	})
}

// any says whether an active event of a kind is one of these.
func (w *world) any(k Kind, these func(*Event) bool) bool {
	for i := range w.spec.Events {
		if e := &w.spec.Events[i]; w.active[i] && e.Kind == k && these(e) {
			return true
		}
	}
	return false
}

func always(*Event) bool { return true }

// applyRegions cuts regions off and lets their routers die.
func (w *world) applyRegions() {
	leader, quotas := !w.any(NoLeader, always), !w.any(NoQuotas, always)
	for _, ro := range w.routers {
		ro.view.Leader, ro.view.QuotaStore = leader, quotas
	}
	var died []int
	for i, g := range w.regions {
		here := func(e *Event) bool { return e.Region == w.spec.Regions[i].ID }
		was := g.lost
		g.lost, g.cut = w.any(Lost, here), w.any(Partition, here)
		if g.lost && !was {
			died = append(died, i)
		}
	}
	w.sever()
	for _, i := range died {
		w.bury(i)
	}
}

// sever parts the routers of attempts under way that don't reach each other any more. Each notices
// when it has heard nothing for a while.
func (w *world) sever() {
	for a := range w.pool.live {
		if !a.away || a.severed || w.reach(w.routers[a.home.Router].region, w.clusters[a.home.Cluster].region) {
			continue
		}
		a.severed = true
		if a.homeOpen {
			w.send(a, unreachable, w.now+Unreachable, Refused)
		}
		w.send(a, orphan, w.now+Unreachable, Left)
	}
}

// bury ends all that the routers of a lost region had under way. Clients that wait for their first
// token turn to another region, other streams are cut.
func (w *world) bury(region int) {
	for _, r := range w.pool.requests {
		if r.refs == 0 || r.done || r.router == nil || r.router.region != region {
			continue
		}
		w.retire(r)
		if r.started {
			w.end(r, Cut)
		} else {
			w.lose(r)
		}
	}
	for a := range w.pool.live {
		if w.routers[a.there.Router].region == region && a.away {
			w.forsake(a)
		}
	}
}

// applyClusters lets clusters hang, or go on, and silences what is told of them.
func (w *world) applyClusters() {
	for i, c := range w.clusters {
		was := c.hangs
		c.hangs, c.silent = w.holds(Hang, i), w.holds(Blackout, i)
		for _, p := range c.pods {
			w.hang(p, c.hangs)
		}
		if !c.hangs || was {
			continue
		}
		for a := range w.pool.live {
			if a.pod != nil && a.pod.cluster == i && a.began {
				w.timeline.push(event{at: w.now + w.spec.Timeout, kind: stall, ref: a.slot, gen: a.gen})
			}
		}
	}
}

// applyPods lets pods die, come back, come, go, and get slower and dearer.
func (w *world) applyPods() {
	for _, p := range w.pods {
		w.catchUp(p)
		w.account(p)
		p.doom, p.retire, p.slow, p.price = false, false, 1, 1
	}
	for i := range w.spec.Events {
		e := &w.spec.Events[i]
		for _, p := range w.scaled[i] {
			p.retire = p.retire || w.active[i] == (e.Kind == ScaleIn)
		}
		if !w.active[i] {
			continue
		}
		for _, p := range w.pods {
			c := &w.spec.Clusters[p.cluster]
			if c.ID != e.Cluster && c.Region != e.Region {
				continue
			}
			switch e.Kind {
			case PodLoss:
				p.doom = p.doom || p.index == e.Pod
			case HalfPods:
				p.doom = p.doom || p.index%2 == 0
			case Lost:
				p.doom = true
			case Slow:
				if e.Pod < 0 || e.Pod == p.index {
					p.slow *= e.Factor
				}
			case Price:
				p.price *= e.Factor
			}
		}
	}
	for _, p := range w.pods {
		if p.engine != nil {
			p.engine.SetSlow(p.clock(w.now), p.slow)
			w.step(p)
		}
		w.settle(p)
	}
}

// applyPrices publishes what pods cost.
func (w *world) applyPrices() {
	for i, c := range w.clusters {
		sum := 0.0
		for _, p := range c.pods {
			if p.state != dead && p.state != gone {
				sum += float64(p.kind.PriceMicroUSD) * p.price
			}
		}
		for _, ro := range w.routers {
			ro.view.Clusters[i].PriceMicroUSD = int64(sum + 0.5)
		}
	}
}
