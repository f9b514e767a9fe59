// Package signal keeps what routers observe of the fleet: their last reports, how fresh these are,
// demand smoothed over time, and where requests really went. It is soft state: nothing here is
// replicated, nodes hand it to each other each second so that any of them can lead. Who collected
// an observation, and what is to be done about it, is for others.
package signal

import (
	"math"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
)

// Freshness says how far an observation can be trusted.
type Freshness string

// The three degrees. Stale signals are held, never compared for the best.
const (
	Fresh  Freshness = "fresh"
	Stale  Freshness = "stale"
	Absent Freshness = "absent"
)

// FreshFor and StaleFor are the ages up to which an observation is fresh, and then stale: routers
// report each second, so five are missing in a row, or thirty.
const (
	FreshFor = 5 * time.Second
	StaleFor = 30 * time.Second
)

// FreshnessOf judges an age; a negative one means that there never was an observation.
func FreshnessOf(age time.Duration) Freshness {
	switch {
	case age < 0 || age > StaleFor:
		return Absent
	case age > FreshFor:
		return Stale
	default:
		return Fresh
	}
}

// Observation is one router as a node knows it. The messages are shared and never changed.
type Observation struct {
	// Node that the router is, or was, connected to.
	Node fleet.NodeID
	// Hello is never nil. Report is nil until the first has come, Ack until a table was judged.
	Hello  *routerpb.Hello
	Report *routerpb.Report
	Ack    *routerpb.Ack
	// Received is when Report came, on this node's clock; while Report is nil, when Hello came.
	Received time.Time
	// Connected: the stream is open, as far as Node has said.
	Connected bool
}

// Router is the router's id.
func (o Observation) Router() fleet.RouterID { return fleet.RouterID(o.Hello.GetRouterId()) }

// Region is where the router stands.
func (o Observation) Region() fleet.RegionID { return fleet.RegionID(o.Hello.GetRegion()) }

// Age of the report at now; -1 when there is none.
func (o Observation) Age(now time.Time) time.Duration {
	if o.Report == nil {
		return -1
	}
	return max(now.Sub(o.Received), 0)
}

// Freshness of the report at now.
func (o Observation) Freshness(now time.Time) Freshness { return FreshnessOf(o.Age(now)) }

// Number is v, or 0 where a router sent what is no finite number >= 0: one bad report must not
// poison sums.
func Number(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return 0
	}
	return v
}
