package rival

import (
	"slices"
	"time"

	"anabranch/sim/world"
)

// The defaults of Envoy's outlier detection: consecutive_5xx, base_ejection_time, max_ejection_time.
const (
	failuresInARow = 5
	ejection       = 30 * time.Second
	longest        = 300 * time.Second
)

// health is what a router has seen for itself of a pod or cluster. Times are by its clock.
type health struct {
	failures, ejections int
	until               time.Duration
}

func (h *health) ejected(now time.Duration) bool { return now < h.until }

func (h *health) good() { h.failures, h.ejections = 0, 0 }

func (h *health) bad(now time.Duration) {
	h.failures++
	if h.failures < failuresInARow {
		return
	}
	h.failures = 0
	h.ejections++
	h.until = now + min(longest, time.Duration(h.ejections)*ejection)
}

// place is what a router remembers of a cluster.
type place struct {
	health
	own   int           // requests of its own in flight when the cluster was last heard of
	heard time.Duration // when that was
	ever  bool
	pods  []podPlace
}

// podPlace is what a router remembers of a pod.
type podPlace struct {
	health
	own int // as of the last scrape
}

func (p *place) pod(i int) *podPlace {
	for len(p.pods) <= i {
		p.pods = append(p.pods, podPlace{})
	}
	return &p.pods[i]
}

// router is what one router remembers.
type router struct{ places []place }

// outcome counts failures: of a pod where this router picks, of the cluster elsewhere.
func (t *router) outcome(l *layout, a *world.Attempt, how world.Outcome, v *world.View) {
	p := &t.places[a.Cluster]
	h := &p.health
	if l.region[a.Cluster] == v.Region {
		if a.Pod < 0 {
			return
		}
		h = &p.pod(a.Pod).health
	}
	switch how {
	case world.Answered:
		h.good()
	case world.Refused, world.Silent, world.Broken:
		h.bad(v.Now)
	case world.Left, world.Full, world.Unfit:
	}
}

// findClusters lists the clusters that may serve the request and have not failed it. Those in doubt
// are among them only if all are.
func (q *query) findClusters() {
	q.clusters = q.clusters[:0]
	of := q.models[q.model(q.r)]
	for _, doubtful := range [...]bool{false, true} {
		for _, c := range of {
			if q.legal(q.r, c) && !slices.Contains(q.v.Tried, world.Place{Cluster: c, Pod: -1}) && (doubtful || q.sound(c)) {
				q.clusters = append(q.clusters, c)
			}
		}
		if len(q.clusters) > 0 {
			return
		}
	}
}

// sound says whether the cluster looks as if it could answer.
func (q *query) sound(c int) bool {
	seen, at := &q.v.Clusters[c], &q.at.places[c]
	if at.ejected(q.v.Now) {
		return false
	}
	if seen.Pods != nil {
		for p := range seen.Pods {
			if q.ready(c, p) && !at.pod(p).ejected(q.v.Now) && !q.tried(c, p) {
				return true
			}
		}
		return false
	}
	if seen.Told.At == 0 {
		return true
	}
	return seen.Told.Ready > 0 && (!at.ever || q.v.Now-at.heard <= q.stale)
}

// ready says whether the pod of an own cluster is listed and answers scrapes.
func (q *query) ready(c, p int) bool {
	pod := &q.v.Clusters[c].Pods[p]
	return pod.Known && !pod.Failing && (q.r.Adapter == "" || pod.At == 0 || pod.MaxAdapters > 0)
}

func (q *query) tried(c, p int) bool {
	return len(q.v.Tried) > 0 && slices.Contains(q.v.Tried, world.Place{Cluster: c, Pod: p})
}

// findPods lists the pods of the cluster that are ready and have not failed the request. Ejected ones
// are among them only if all are.
func (q *query) findPods() {
	q.pods = q.pods[:0]
	c := q.cluster
	at := &q.at.places[c]
	for _, ejected := range [...]bool{false, true} {
		for p := range q.v.Clusters[c].Pods {
			if q.ready(c, p) && !q.tried(c, p) && (ejected || !at.pod(p).ejected(q.v.Now)) {
				q.pods = append(q.pods, p)
			}
		}
		if len(q.pods) > 0 {
			return
		}
	}
}
