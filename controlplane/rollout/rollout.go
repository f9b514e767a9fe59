// Package rollout decides how far a new routing table may reach: one router first, then the routers of
// its region, then all, or back. Which routers have it is a pure function of the stage, so that every
// node answers alike; whether it may go on is judged from what routers say. Who collects that, keeps
// the stage and makes tables is for others.
package rollout

import (
	"anabranch/api/fleet"
)

// Stage is how far a rollout has come.
type Stage string

// The stages. The last three are ends: the table is everybody's, nobody's, or the rollout was cut off
// by a change of epoch and begins anew.
const (
	Canary      Stage = "canary"
	Region      Stage = "region"
	Settled     Stage = "settled"
	Returned    Stage = "returned"
	Interrupted Stage = "interrupted"
)

// Active says whether routers are divided between two tables.
func (s Stage) Active() bool { return s == Canary || s == Region }

// Next is the stage after an active one; any other stays.
func (s Stage) Next() Stage {
	switch s {
	case Canary:
		return Region
	case Region:
		return Settled
	}
	return s
}

// Reach is who has the new table.
type Reach struct {
	Stage Stage
	// Canary is the router of the first stage, and Region where it stands.
	Canary fleet.RouterID
	Region fleet.RegionID
}

// Includes says whether a router of a region is to hold the new table.
func (r Reach) Includes(router fleet.RouterID, region fleet.RegionID) bool {
	switch r.Stage {
	case Canary:
		return router == r.Canary
	case Region:
		return router == r.Canary || region == r.Region
	}
	return r.Stage == Settled
}

// Target is the revision of the table that a router is to hold: that of the new table, or that of the
// one which all others hold.
func (r Reach) Target(router fleet.RouterID, region fleet.RegionID, fresh, stable uint64) uint64 {
	if r.Includes(router, region) {
		return fresh
	}
	return stable
}

// Candidate is a router that could go first.
type Candidate struct {
	Router fleet.RouterID
	Region fleet.RegionID
	// Requests that it answered lately.
	Requests uint64
}

// Choose picks the router that goes first: the preferred one if it is there, else the one with the
// fewest requests, of equals the first by id, so that a bad table hurts the fewest. False: there is
// none.
func Choose(from []Candidate, preferred fleet.RouterID) (Candidate, bool) {
	var best Candidate
	found := false
	for _, c := range from {
		switch {
		case preferred != "" && c.Router == preferred:
			return c, true
		case !found, c.Requests < best.Requests, c.Requests == best.Requests && c.Router < best.Router:
			best, found = c, true
		}
	}
	return best, found
}
