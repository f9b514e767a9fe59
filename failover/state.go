// Package failover decides when a place is left and when it is used again: the ejector with which
// a router leaves an endpoint, a cluster or a peer on its own evidence, and the health state
// machine with which the control plane confirms, spreads and damps what routers saw. Everything
// here is a pure function of values; probes, sockets and clocks are the callers'.
package failover

import (
	"time"

	"anabranch/api/fleet"
)

// State is the health of a cluster as the control plane sees it.
type State string

// The states. See DESIGN.md beside this file for the transitions.
const (
	// Healthy takes its full weight.
	Healthy State = "HEALTHY"
	// Degraded answers, but is too full or too slow; its weight stops growing.
	Degraded State = "DEGRADED"
	// Suspect may be down: its weight stops growing until that is shown or refuted.
	Suspect State = "SUSPECT"
	// FailingOver is confirmed bad; its weight goes to zero, at once or in steps.
	FailingOver State = "FAILING_OVER"
	// Evacuated gets no new requests.
	Evacuated State = "EVACUATED"
	// Recovering has been good for long enough, and passes the last gates before its ramp.
	Recovering State = "RECOVERING"
	// Ramping gets its traffic back in steps.
	Ramping State = "RAMPING"
	// Frozen holds the last good weight: too much turned bad at once to believe it.
	Frozen State = "FROZEN"
	// Draining is on its way out by an operator's order.
	Draining State = "DRAINING"
	// Drained gets no new requests by an operator's order.
	Drained State = "DRAINED"
	// Pinned is kept at a share of its weight by an operator until the pin ends, whatever evidence says.
	Pinned State = "PINNED"
)

// Cluster is the health of one cluster. The zero value is a cluster never judged before, taken for
// healthy. Fields from State to LastRelapse are replicated; the others are the leader's timers,
// which a new leader starts anew.
type Cluster struct {
	State State
	// Since is when State was entered.
	Since time.Time
	// Reason is what led to State, for people.
	Reason string
	// RampStep counts into the steps of [Config.RampSteps] while Ramping.
	RampStep int
	// Relapses within [Config.RelapseMemory]; each doubles the good time asked for.
	Relapses int
	// EvacuatedAt is when the cluster was last evacuated, LastRelapse when it last failed again
	// after that. Zero: never.
	EvacuatedAt, LastRelapse time.Time

	// BadSince and GoodSince are when the present run of hard or good evidence began. Zero: there
	// is none. GreySince and FullSince do the same for failing in part and for being too full,
	// EaseSince for having room again.
	BadSince, GoodSince, GreySince, FullSince, EaseSince time.Time
	// CalmSince is when it began to be good and nothing to be suspect. Zero: it is not so.
	CalmSince time.Time
	// SplitSince is when observers began to be split evenly. Zero: they are not.
	SplitSince time.Time
	// QuietSince is when new requests had all but ceased. Zero: they have not.
	QuietSince time.Time
	// Share is the share of its weight allowed while FailingOver, Ramping or Pinned, 0..1.
	Share float64
	// StepSince is when RampStep was last changed, StepsBack how often in a row it went back,
	// HeldUntil until when it may not rise.
	StepSince, HeldUntil time.Time
	StepsBack            int
	// FrozenUntil is when Frozen ends if nothing correlated happens before, Before the state to go back to, be it from
	// Frozen or from Pinned. Empty: it is not known, and judged anew.
	FrozenUntil time.Time
	Before      State
	// MovedAt is when evidence last took the place out of use or began to bring it back, OrderedAt when an
	// operator last drained, restored or pinned it. Zero: never, or not known.
	MovedAt, OrderedAt time.Time
	// ClearedAt is when it was last no suspect any more, and Alarms how often in a row it became one again
	// soon after: each doubles the good time asked for.
	ClearedAt time.Time
	Alarms    int
}

// Cap is the share of its weight that the cluster may take, 0..1.
func (c Cluster) Cap() float64 {
	switch c.State {
	case Evacuated, Recovering, Draining, Drained:
		return 0
	case FailingOver, Ramping, Pinned:
		return min(max(c.Share, 0), 1)
	default:
		return 1
	}
}

// MayGrow says whether optimisation may give the cluster more than it has. One that was too full may as soon as it has
// room again: that it must keep it for a minute to count as healthy is no reason to send its own clients far away for
// as long.
func (c Cluster) MayGrow() bool {
	switch c.State {
	case Degraded:
		return !c.EaseSince.IsZero()
	case Suspect, FailingOver, Frozen:
		return false
	default:
		return true
	}
}

// Gone says whether the control plane has taken the cluster out of use on evidence, or is about
// to; an operator's drain is not meant.
func (c Cluster) Gone() bool {
	return c.State == FailingOver || c.State == Evacuated || c.State == Recovering
}

// Transition is one change of state. The zero Transition means that there was none.
type Transition struct {
	Place
	From, To State
	Reason   string
	At       time.Time
}

// Sight is what one router says of one cluster, first hand, or a node of the control plane that polled it
// where no router does.
type Sight struct {
	Router fleet.RouterID
	// Region of the router. Empty: it is a node of the control plane that polls, which is a witness from outside.
	Region fleet.RegionID
	// Own: the router stands in the cluster's region and reaches its endpoints directly. Others
	// reach them through a router of that region.
	Own bool
	// Age of the report that it is from. Older than [Config.Silence], it is no evidence.
	Age time.Duration
	// Ejected: the router sends nothing but probes there, for Reason.
	Ejected bool
	Reason  string
	// Scraped: Total, Ready and Saturation come from the endpoints' own metrics.
	Scraped      bool
	Total, Ready int
	// Saturation is load over capacity, 0..1 and above.
	Saturation float64
	// TTFTP95 of this router's requests there. 0: none.
	TTFTP95 time.Duration
	// Requests and Failures of this router there within its last reports, some ten seconds.
	Requests, Failures uint64
}

// Evidence is all that is known of one place at one moment.
type Evidence struct {
	Region fleet.RegionID
	// Capacity in any unit that all places share: the models of a cluster have a part of its own each.
	// It weighs correlated changes.
	Capacity float64
	Sights   []Sight
	// Drained: an operator wants no new requests there.
	Drained bool
	// Pin is the share that an operator keeps the place at for a time. A drain goes before it. Zero: none.
	Pin Pin
	// Quiet: new requests to the cluster have all but ceased.
	Quiet bool
	// Objective is the time to the first token that the traffic is owed. 0: not judged.
	Objective time.Duration
	// Skew is by how much the clock of the worst of the routers that reach the place first hand is off.
	Skew time.Duration
	// MissingAdapters are those of the model that its endpoints there have not shown to have, sorted. They hold up its
	// return.
	MissingAdapters []string
	// Versions is how many builds the routers run that reach the place first hand. More than one hold up its
	// return.
	Versions int
	// Frozen says that this change is one of too many at once, Blocked that evacuating would
	// empty a second region, Paced that its region has moved too lately to move back, Locked that an
	// operator has just changed something there. They give the reason, empty for no, and are set by
	// [StepAll].
	Frozen, Blocked, Paced, Locked string
}
