package ours

import (
	"time"

	"anabranch/api/fleet"
	"anabranch/sim/world"
)

// events are what a spec lets happen, as far as it is about the ways between routers and control plane,
// which the world doesn't know.
type events []world.Event

// on says whether an event that is one of these is under way.
func (all events) on(kind world.Kind, now time.Duration, these func(*world.Event) bool) bool {
	for i := range all {
		e := &all[i]
		if e.Kind == kind && now >= e.At && (e.For == 0 || now < e.At+e.For) && these(e) {
			return true
		}
	}
	return false
}

// cut says whether a region reaches no other, nor the control plane: it is parted from the rest, or dead.
func (all events) cut(region fleet.RegionID, now time.Duration) bool {
	here := func(e *world.Event) bool { return e.Region == region }
	return all.on(world.Partition, now, here) || all.on(world.Lost, now, here)
}

// dark says whether nothing is told of a region, or of one cluster of it.
func (all events) dark(region fleet.RegionID, cluster fleet.ClusterID, now time.Duration) bool {
	return all.on(world.Blackout, now, func(e *world.Event) bool {
		return e.Region == region || e.Cluster != "" && e.Cluster == cluster
	})
}

// back is when the routers of a region were last started; 0: at the beginning.
func (all events) back(region fleet.RegionID, now time.Duration) (at time.Duration) {
	for i := range all {
		e := &all[i]
		if end := e.At + e.For; e.Kind == world.Lost && e.Region == region && e.For > 0 && end <= now {
			at = max(at, end)
		}
	}
	return at
}

// price is how many times as much the pods of a cluster cost.
func (all events) price(c *world.Cluster, now time.Duration) float64 {
	factor := 1.0
	for i := range all {
		e := &all[i]
		if e.Kind == world.Price && now >= e.At && (e.For == 0 || now < e.At+e.For) && (e.Cluster == c.ID || e.Region == c.Region) {
			factor *= e.Factor
		}
	}
	return factor
}

// scales says whether the pods of a cluster come and go.
func (all events) scales(cluster fleet.ClusterID) bool {
	for i := range all {
		if e := &all[i]; e.Cluster == cluster && (e.Kind == world.ScaleOut || e.Kind == world.ScaleIn) {
			return true
		}
	}
	return false
}
