package world

import (
	"time"

	"anabranch/api/fleet"
	"anabranch/sim"
	"anabranch/sim/workload"
)

// turns is the simplest policy that can be told what to do: it goes round the clusters that serve the
// model, those of its own region first if local, and round the pods that answer, of those last heard
// to. What a test sets is asked first.
type turns struct {
	spec  *Spec
	count uint64
	local bool
	route func(r *workload.Request, v *View) (Route, bool)
	pick  func(r *workload.Request, cluster, away int, v *View) (Pick, bool)
	heard func(h *Heard, v *View)
	tick  func(v *View)
	sent  map[*Attempt]int
	log   func(what string, a *Attempt, how Outcome, v *View)
}

func (p *turns) Name() string { return "turns" }

func (p *turns) Start(s *Spec) { p.spec, p.sent = s, map[*Attempt]int{} }

func (p *turns) Route(r *workload.Request, v *View) Route {
	if p.route != nil {
		if to, ok := p.route(r, v); ok {
			return to
		}
	}
	p.count++
	n := len(p.spec.Clusters)
	for pass := range 2 {
		for i := range n {
			c := (int(p.count) + i) % n
			here := p.spec.Clusters[c].Region == p.spec.Regions[v.Region].ID
			if p.spec.Clusters[c].Model == r.Model && (here || !p.local || pass == 1) {
				return Route{Cluster: c, Reason: "its turn"}
			}
		}
	}
	return Route{Cluster: -1, Code: "no_legal_target"}
}

func (p *turns) Pick(r *workload.Request, cluster, away int, v *View) Pick {
	if p.pick != nil {
		if to, ok := p.pick(r, cluster, away, v); ok {
			return to
		}
	}
	p.count++
	pods := v.Clusters[cluster].Pods
	for i := range pods {
		n := (int(p.count) + i) % len(pods)
		if pods[n].Known && !pods[n].Failing {
			return Pick{Pod: n, Reason: "its turn"}
		}
	}
	return Pick{Pod: -1}
}

func (p *turns) Sent(a *Attempt, v *View) { p.sent[a]++; p.tell("sent", a, 0, v) }

func (p *turns) First(a *Attempt, v *View) { p.tell("first", a, 0, v) }

func (p *turns) Ended(a *Attempt, how Outcome, v *View) {
	if p.sent[a]--; p.sent[a] == 0 {
		delete(p.sent, a)
	}
	p.tell("ended", a, how, v)
}

func (p *turns) tell(what string, a *Attempt, how Outcome, v *View) {
	if p.log != nil {
		p.log(what, a, how, v)
	}
}

func (p *turns) Tick(v *View) {
	if p.tick != nil {
		p.tick(v)
	}
}

func (p *turns) Heard(h *Heard, v *View) {
	if p.heard != nil {
		p.heard(h, v)
	}
}

// list is a workload of given requests.
type list struct {
	requests []workload.Request
	done     map[uint64]time.Duration
	ok       map[uint64]bool
	next     int
	twice    bool // a request was reported twice
}

func newList(requests ...workload.Request) *list {
	return &list{requests: requests, done: map[uint64]time.Duration{}, ok: map[uint64]bool{}}
}

func (l *list) Next() (workload.Request, bool) {
	if l.next == len(l.requests) {
		return workload.Request{}, false
	}
	l.next++
	return l.requests[l.next-1], true
}

func (l *list) Done(id uint64, at time.Duration, ok bool) {
	_, l.twice = l.done[id]
	l.done[id], l.ok[id] = at, ok
}

func (l *list) Ended() bool { return l.next == len(l.requests) }

// three regions of equal clusters, with so many pods each.
func three(pods int) *Spec {
	s := &Spec{
		Name: "three",
		Regions: []Region{
			{ID: "us-east-1", Zone: "us"}, {ID: "eu-west-1", Zone: "eu"}, {ID: "ap-northeast-1", Zone: "ap"},
		},
		Models: []Model{{ID: "llama-3.1-8b"}},
		RTT: map[[2]fleet.RegionID]time.Duration{
			{"us-east-1", "eu-west-1"}: 68 * time.Millisecond, {"us-east-1", "ap-northeast-1"}: 148 * time.Millisecond,
			{"eu-west-1", "ap-northeast-1"}: 201 * time.Millisecond,
		},
	}
	for _, r := range s.Regions {
		s.Clusters = append(s.Clusters, Cluster{
			ID: fleet.ClusterID(r.ID), Region: r.ID, Model: "llama-3.1-8b",
			Pods: []Pods{{Class: "h100", Count: pods, PriceMicroUSD: 3_600_000, Options: sim.Options{MaxSequences: 64}}},
		})
	}
	return s
}
