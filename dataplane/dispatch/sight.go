// Package dispatch is what is decided between the steps of a request's line: what the choice of a
// cluster and the queue are told of the router's own evidence, which place comes next when one has
// failed, and whether a retry may go there. It sends nothing, and takes the time from its caller; the
// router sends by it, and a simulation asks it the same questions.
package dispatch

import (
	"math"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"anabranch/api/fleet"
	"anabranch/dataplane/endpoint"
	"anabranch/dataplane/route"
	"anabranch/dataplane/table"
)

// Sight is the router's own evidence of its places, as the choice among clusters wants it.
type Sight struct {
	Places *endpoint.Registry
	Now    func() time.Time
	// balance makes up for what chance and long prompts do to the table's shares.
	balance route.Balance
}

// Of is the evidence of a cluster, for a tenant's requests; nil: for nobody's in particular.
func (s *Sight) Of(id fleet.ClusterID, t *table.Tenant) route.Place {
	c := s.Places.Cluster(id)
	if c == nil {
		return route.Place{}
	}
	var tenant fleet.TenantID
	if t != nil {
		tenant = t.ID
	}
	now := s.Now()
	e, a := c.Evidence(now), c.Answering(tenant, now)
	return route.Place{
		Ejected: e.Ejected, Reason: e.Reason, Busy: e.Busy, Saturation: e.Saturation, Wait: e.Wait,
		Unanswered: a.Unanswered, Trial: a.Trial, Share: a.Share,
	}
}

// closer is evidence with the time that a request's prompt takes there.
func (s *Sight) closer(l *endpoint.Load, id fleet.ClusterID, t *table.Tenant) route.Place {
	p := s.Of(id, t)
	if c := s.Places.Cluster(id); c != nil {
		p.Prefill = c.Prefill(l, s.Now())
	}
	return p
}

// answerGuess is how many tokens an answer is taken to have of a model that none was seen of.
const answerGuess = 256

// Choose fills a choice, and counts it. What a prompt takes at each place costs something to find out, and only matters
// where the first is full, or far away for a long prompt: then it is looked at, and chosen anew. in.Local must tell
// [Sight.Of].
func (s *Sight) Choose(c *route.Choice, in *route.Input, l *endpoint.Load) {
	if !in.Hop {
		in.Leaning = s.balance.Of(in.Model.ID, in.Class.ID)
	}
	c.Fill(in)
	in.Long = in.Leaning.Long(l.PromptTokens) && c.Far()
	if in.Long || c.Overfull(in) {
		in.Local = func(id fleet.ClusterID, t *table.Tenant) route.Place { return s.closer(l, id, t) }
		c.Fill(in)
	}
	in.Leaning.Sent(c, in.Model.Work(l.PromptTokens, s.Places.Answer(in.Model.ID, answerGuess)), s.Now())
}

// Room tells how full the least full target is for a tenant's requests, now: 1 and above is full, not a
// number is not known. Where requests go unanswered there is none, unless that is everywhere. It may be
// called while others change what it looks at.
func (s *Sight) Room(targets []route.Target, tenant fleet.TenantID) float64 {
	now := s.Now()
	least, there := s.leastFull(targets, now, func(c *endpoint.Cluster) bool { return !c.Answering(tenant, now).Unanswered })
	if there == 0 {
		least, there = s.leastFull(targets, now, func(*endpoint.Cluster) bool { return true })
	}
	if there == 0 {
		return math.NaN() // there is nothing to wait for
	}
	return least
}

// leastFull is the saturation of the least full of those targets that count, and how many these are.
func (s *Sight) leastFull(targets []route.Target, now time.Time, counts func(*endpoint.Cluster) bool) (least float64, there int) {
	least = math.Inf(1)
	for i := range targets {
		c := s.Places.Cluster(targets[i].Cluster.ID)
		if c == nil || !counts(c) { // a newer table may not have it
			continue
		}
		there++
		switch e := c.Evidence(now); {
		case e.Ejected:
		case e.Busy:
			least = min(least, max(e.Saturation, 1))
		case !e.Known:
			return math.NaN(), there
		default:
			least = min(least, e.Saturation)
		}
	}
	return least, there
}

// Stays says whether any of the targets is there to wait for: a newer table than the request's may have
// none of them.
func (s *Sight) Stays(targets []route.Target) bool {
	return slices.ContainsFunc(targets, func(t route.Target) bool { return s.Places.Cluster(t.Cluster.ID) != nil })
}

// Lane is which line a request for a model waits in, and how many requests the place that it waits for
// takes; 0: not known.
func (s *Sight) Lane(model fleet.ModelID, targets []route.Target) (lane uint64, slots float64) {
	lane = xxhash.Sum64String(string(model))
	for i := range targets {
		lane += targets[i].Cluster.Hash // whatever their order
	}
	if len(targets) == 1 { // of several it is not known beforehand which is the least full
		if c := s.Places.Cluster(targets[0].Cluster.ID); c != nil {
			slots = c.Evidence(s.Now()).Slots
		}
	}
	return lane, slots
}

// Cost is what a request counts for in the queue. An output token counts as two, as the most that it can
// be while it is not known how long the answer gets.
func Cost(prompt, output int64) int64 { return prompt + 2*output }

// Told is what a peer is told of the load of a cluster of this region; false: nothing. Nor is it where the
// cluster has said itself that it has no room, which no figure stands for.
func (s *Sight) Told(id fleet.ClusterID) (saturation float64, ok bool) {
	c := s.Places.Cluster(id)
	if c == nil || c.Remote {
		return 0, false
	}
	e := c.Evidence(s.Now())
	return e.Saturation, e.Known && !e.Busy
}

// Full says whether an answer that a place is busy holds for all requests. A peer that has room left is
// full for this one, by its priority, and not for others.
func Full(busy, told bool, saturation float64) bool { return busy && !(told && saturation < 1) }
