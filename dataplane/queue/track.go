package queue

import (
	"maps"
	"math"
	"sync/atomic"
)

const (
	// maxTracks is how many lanes a gate remembers beyond those in use. A lane is a model and a set of
	// clusters, so that there are few.
	maxTracks = 4096
	// maxWindow is the most that are let in from a queue before their load is visible, where it isn't
	// known how many the places take.
	maxWindow = 64
)

// track is what a gate knows of a lane beside who waits there.
type track struct {
	waiting atomic.Int64
	open    atomic.Int64 // let in from the queue, and not known to have reached their places
	recent  recent       // let in, or reached their places, lately

	// Guarded by the gate's lock.
	rate    rate
	full    float64 // what room told last
	window  int64   // how many may be let in unseen, where slots aren't known; at least 1
	granted int64   // from the queue since the window changed
}

// straight says whether a request is let in without waiting, and then counts it. Where it is known
// what its load is, what was let in and can't have been seen counts too, or all of a burst would go
// by one look.
func (t *track) straight(full, ceiling, slots float64, slot func() uint64) bool {
	switch {
	case full >= ceiling:
		return false
	case !(slots > 0) || math.IsNaN(full):
		return true
	}
	now := slot()
	t.recent.add(now) // before it is known, or many would find the same room
	if full+float64(t.unseen(now)-1)/slots < ceiling {
		return true
	}
	t.recent.drop(now)
	return false
}

// unseen is how many were let in that may be missing in what room tells.
func (t *track) unseen(now uint64) int64 { return t.open.Load() + t.recent.sum(now) }

// lets says whether the next in line may go. Where the load of a request isn't known, one goes, then
// when its load must be visible and there is still room two, and so on.
func (t *track) lets(ceiling, slots float64, now uint64) bool {
	unseen := t.unseen(now)
	switch {
	case t.full >= ceiling:
		t.window, t.granted = 1, 0
		return false
	case slots > 0 && !math.IsNaN(t.full):
		return t.full+float64(unseen)/slots < ceiling
	case unseen == 0 && t.granted >= t.window:
		t.window, t.granted = min(2*t.window, maxWindow), 0
	}
	return unseen < t.window
}

// track finds or makes a lane's. The gate's lock is held.
func (g *Gate) track(lane uint64) *track {
	tracks := *g.tracks.Load()
	if t := tracks[lane]; t != nil {
		return t
	}
	next := maps.Clone(tracks)
	if len(next) >= maxTracks {
		maps.DeleteFunc(next, func(_ uint64, t *track) bool { return t.waiting.Load() == 0 && t.open.Load() == 0 })
	}
	t := &track{window: 1}
	next[lane] = t
	g.tracks.Store(&next)
	return t
}
