package dispatch

import (
	"time"

	"anabranch/dataplane/queue"
	"anabranch/dataplane/route"
	"anabranch/dataplane/table"
)

const (
	// IdleBelow is the saturation below which a place of the own region has room for requests of any priority,
	// whatever the table sheds: below the least of the ceilings of [queue.Ceiling].
	IdleBelow = 0.5
	// IdleAge is how old a measurement may be to say so.
	IdleAge = 2 * time.Second
)

// Verdict is what becomes of a request by what its table sheds.
type Verdict uint8

// The verdicts. All but Shed let the request in.
const (
	// Unconcerned: nothing is shed of its priority.
	Unconcerned Verdict = iota
	// Shed: it is to be refused.
	Shed
	// Drawn: a part of its priority is shed, and it is not of that part.
	Drawn
	// Roomy: it would be shed, but the router sees room itself.
	Roomy
	// Outdated: it would be shed, but the control plane has not been heard for too long to go by that.
	Outdated
)

// String is one word for metrics.
func (v Verdict) String() string {
	return [...]string{"unconcerned", "shed", "drawn", "room", "outdated"}[v]
}

// Sheds judges a request of a priority that may go to targets by what is shed. Part is the part of its priority
// that is shed. Current says that the control plane has been heard lately, and draw is 64 random bits.
//
// What the table sheds is a belief of some seconds ago. So it counts only while it is kept up to date, and not
// where a place in reach of this router alone is seen to be half empty: that is there whoever else is full.
func (s *Sight) Sheds(shed table.Shed, priority int32, targets []route.Target, current bool, draw uint64) (v Verdict, part float64) {
	part = shed.Of(queue.Counts(priority))
	switch {
	case part <= 0 || len(targets) == 0:
		return Unconcerned, part
	case float64(draw>>11)/(1<<53) >= part:
		return Drawn, part
	case !current:
		return Outdated, part
	case s.idle(targets):
		return Roomy, part
	}
	return Shed, part
}

// idle says whether one of the targets that this router measures itself has room to spare.
func (s *Sight) idle(targets []route.Target) bool {
	now := s.Now()
	for i := range targets {
		c := s.Places.Cluster(targets[i].Cluster.ID)
		if c == nil || targets[i].Remote {
			continue
		}
		age := c.SignalAge(now)
		if e := c.Evidence(now); e.Known && !e.Ejected && !e.Busy && e.Saturation < IdleBelow && age >= 0 && age <= IdleAge.Milliseconds() {
			return true
		}
	}
	return false
}
