package ours

import (
	"time"

	"anabranch/api/fleet"
	"anabranch/dataplane/dispatch"
	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/table"
	"anabranch/failover"
	"anabranch/sim/world"
)

// seat is a pod of the own region as the router sees it.
type seat struct {
	known    bool
	endpoint *endpoint.Endpoint // nil: it is not among those of the table, or found
	counts   []inFlight         // of lately, if measurements come late
	keeps    bool
	canary   canary
}

// inFlight is how many requests of the router there were from a time on.
type inFlight struct {
	at time.Time
	n  int64
}

// canary is one under way.
type canary struct {
	sent, ends time.Time // zero: none is
	outcome    failover.Outcome
	what       string
}

// question is one about a cluster of another region, to a router there.
type question struct {
	cluster    fleet.ClusterID
	place      int // in the spec
	sent, ends time.Time
}

// sit finds the endpoints of all pods, and the clusters that other routers are asked for.
func (ro *router) sit() {
	spec := ro.policy.spec
	ro.seats, ro.far = make([][]*seat, len(spec.Clusters)), nil
	for i := range spec.Clusters {
		c := &spec.Clusters[i]
		if c.Region != ro.region {
			ro.far = append(ro.far, &question{cluster: c.ID, place: i})
			continue
		}
		for range endpoints(c) {
			ro.seats[i] = append(ro.seats[i], &seat{known: true, keeps: spec.Scrape.Delay > 0})
		}
		ro.discover(i)
	}
}

// discover tells the registry which pods of a cluster there are, if they are to be found, and takes the
// endpoints that it has for them.
func (ro *router) discover(cluster int) {
	c := &ro.policy.spec.Clusters[cluster]
	if events(ro.policy.spec.Events).scales(c.ID) {
		var found []table.Endpoint
		for pod, s := range ro.seats[cluster] {
			if s.known {
				found = append(found, podEndpoint(c, pod))
			}
		}
		ro.places.Discovered(c.ID, found)
	}
	for _, s := range ro.seats[cluster] {
		s.endpoint = nil
	}
	place := ro.places.Cluster(c.ID)
	if place == nil {
		return
	}
	for _, e := range place.Endpoints() {
		if pod := podNumber(e.ID); pod >= 0 && pod < len(ro.seats[cluster]) {
			ro.seats[cluster][pod].endpoint = e
		}
	}
}

// seat is that of an endpoint.
func (ro *router) seat(cluster fleet.ClusterID, e *endpoint.Endpoint) *seat {
	return ro.seats[ro.policy.places.clusters[cluster]][podNumber(e.ID)]
}

// count notes how many requests are at an endpoint, where measurements come late.
func (s *seat) count(now time.Time, e *endpoint.Endpoint) {
	if s.keeps {
		s.counts = append(s.counts, inFlight{now, e.InFlight()})
	}
}

// then is how many there were at a time; below 0: as many as now. What is older is forgotten.
func (s *seat) then(at time.Time) int64 {
	if !s.keeps {
		return -1
	}
	n := 0
	for n < len(s.counts) && !s.counts[n].at.After(at) {
		n++
	}
	if n == 0 {
		return 0
	}
	s.counts = append(s.counts[:0], s.counts[n-1:]...)
	return s.counts[0].n
}

// heard takes in a measurement of a pod.
func (ro *router) heard(h *world.Heard, v *world.View) {
	if ro.seats[h.Cluster] == nil {
		return // of another region
	}
	view := &v.Clusters[h.Cluster].Pods[h.Pod]
	for len(ro.seats[h.Cluster]) <= h.Pod {
		ro.seats[h.Cluster] = append(ro.seats[h.Cluster], &seat{keeps: ro.policy.spec.Scrape.Delay > 0})
	}
	s := ro.seats[h.Cluster][h.Pod]
	if s.known != view.Known {
		s.known = view.Known
		ro.discover(h.Cluster)
	}
	switch {
	case s.endpoint == nil:
	case view.Failing || !view.Known:
		s.endpoint.Missed(ro.now)
	default:
		at := epoch.Add(view.At)
		s.endpoint.Observe(&endpoint.Observation{
			At: at, InFlight: s.then(at),
			Waiting: float64(view.Waiting), Running: float64(view.Running), KV: view.KV, KVTokens: float64(view.KVTokens),
			// Which of the resident adapters are in use vLLM would say; that they are resident is what counts.
			MaxLoRA: view.MaxAdapters, WaitingAdapters: view.Adapters,
			Generated: float64(view.Generated), PrefixAsked: float64(view.PrefixAsked), PrefixFound: float64(view.PrefixFound),
		}, ro.now)
	}
}

// tick does what the goroutines of a router do beside requests.
func (ro *router) tick(v *world.View) {
	ro.hear()
	ro.report()
	ro.lease()
	ro.sweep()
	for cluster, seats := range ro.seats {
		for pod, s := range seats {
			if s.endpoint != nil {
				ro.probe(s, cluster, pod, v)
			}
		}
	}
	for _, q := range ro.far {
		ro.ask(q, v)
	}
}

// sweep tells of attempts that have shown nothing for long: dataplane's waiting.
func (ro *router) sweep() {
	kept := ro.open[:0]
	for _, y := range ro.open {
		if y.over || y.seen || y.told {
			continue
		}
		if ro.now.Sub(y.since) >= y.overdue {
			y.told = true
			y.call.Overdue(ro.now)
			continue
		}
		kept = append(kept, y)
	}
	clear(ro.open[len(kept):])
	ro.open = kept
}

// probe sends a canary when one is due, and takes in what came of it.
func (ro *router) probe(s *seat, cluster, pod int, v *world.View) {
	k := &s.canary
	if k.sent.IsZero() {
		if !s.endpoint.ProbeDue(ro.now, ro.own.Float64()) {
			return
		}
		*k = ro.canary(s.endpoint, cluster, pod, v)
	}
	if ro.now.Before(k.ends) {
		return
	}
	s.endpoint.Probed(k.outcome, k.what, k.sent, ro.now)
	*k = canary{}
}

// canary is what comes of one: a pod that is not there refuses it, one that hangs is silent, and one with
// a queue lets it wait for longer than it does.
func (ro *router) canary(e *endpoint.Endpoint, cluster, pod int, v *world.View) canary {
	k := canary{sent: ro.now, ends: ro.now, outcome: failover.OK}
	engine := v.Truth.Engine(cluster, pod)
	switch {
	case v.Truth.Hangs(cluster):
		k.outcome, k.what, k.ends = failover.Silence, "no answer", ro.now.Add(e.ProbeWithin(ro.now))
	case engine == nil:
		k.outcome, k.what = failover.ConnectFailure, "connection refused"
	case engine.Stats().Waiting > 0:
		k.outcome, k.what, k.ends = failover.Silence, "no answer yet", ro.now.Add(e.ProbeWithin(ro.now))
	}
	return k
}

// ask asks a router of a cluster's region for it when that is due, and takes in the answer.
func (ro *router) ask(q *question, v *world.View) {
	c := ro.places.Cluster(q.cluster)
	if c == nil {
		return
	}
	there := v.Truth.Reachable(ro.place, q.place)
	if q.sent.IsZero() {
		if !c.ProbeDue(ro.now, ro.own.Float64()) {
			return
		}
		q.sent, q.ends = ro.now, ro.now.Add(v.RTT[ro.policy.places.region[q.place]])
		if !there {
			q.ends = ro.now.Add(min(world.Unreachable, c.ProbeWithin()))
		}
	}
	if ro.now.Before(q.ends) {
		return
	}
	outcome, what := failover.ConnectFailure, "no router answers"
	if there {
		var known bool
		if outcome, what, known = ro.policy.answer(q, ro); !known && ro.now.Sub(q.sent) < dispatch.DoubtFor+v.RTT[ro.policy.places.region[q.place]] {
			return
		}
	}
	c.Probed(outcome, what, ro.now)
	q.sent, q.ends = time.Time{}, time.Time{}
}

// answer is dataplane.Router.serveProbe: what a router of a cluster's region says of it to another.
// Known false: its canaries have not found out yet.
func (p *ours) answer(q *question, asks *router) (o failover.Outcome, what string, known bool) {
	peer := p.byRegion[p.places.region[q.place]][0]
	peer.truth = asks.truth
	peer.now = epoch.Add(asks.truth + p.spec.Regions[peer.place].Skew)
	c := peer.places.Cluster(q.cluster)
	if c == nil {
		return failover.ConnectFailure, "the cluster is not of this region", true
	}
	if dead, why := c.Ejected(); dead {
		return failover.ConnectFailure, why, true
	}
	if a := c.Answering("", peer.now); a.Unanswered && !a.Trial {
		return failover.ConnectFailure, "requests go without an answer", true
	}
	return failover.OK, "", !peer.doubts.Fresh(q.cluster, peer.now)
}
