package rest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state"
)

const (
	// fleetRate is how many pictures of the fleet are made in an interval of the fleet at most, for what is
	// decided. What is seen is looked at once in an interval, as routers report.
	fleetRate = 10
	// keptPatches is how many patches are kept for those who read slowly or come back, and keptRouters how many
	// changes of routers.
	keptPatches, keptRouters = 256, 1024
	// mostRouterNews is how many changes of routers are told at once: where there are more, reading the list is
	// cheaper.
	mostRouterNews = 500
)

// liveFeed is the picture of the fleet that all streams of a node share: each picture is put together and compared
// with the one before once, whoever looks. The zero value has none.
type liveFeed struct {
	mu sync.Mutex // guards what is below

	seen *sight
	made time.Time   // when the picture was made
	of   *state.View // that the picture is of, and sight
	by   *sight
	// counts of the routers, as of their tables and the sight.
	counts map[fleet.RegionID]RouterCounts

	fleet   *LiveFleet
	whole   []byte   // fleet as JSON; nil: nobody has asked for it yet
	patches [][]byte // the newest is that to fleet.Seq

	routers map[fleet.RouterID]RouterStanding
	news    []RouterStanding // changes of routers, the newest is told by newsSeq
	newsSeq uint64
}

// advance makes the next picture if it is time. The caller holds the lock.
func (f *liveFeed) advance(s *Server, now time.Time) error {
	every := s.o.FleetInterval
	if f.fleet != nil && now.Sub(f.made) < every/(2*fleetRate) && !now.Before(f.made) {
		return nil
	}
	if f.fleet == nil || now.Sub(f.seen.signals.At) >= every-every/(2*fleetRate) || now.Before(f.seen.signals.At) {
		f.seen = &sight{s.seen.at(now, s.o.Signals.Snapshot), map[spot]signal.Load{}}
	}
	f.made = now
	view := s.o.View()
	if f.seen == f.by && view == f.of {
		return nil // what ends by its time alone is found with the next signals
	}
	n := standing{view, f.seen.signals, s.ordered(view, now)}
	again := f.seen == f.by && sameTables(view, f.of)
	if !again {
		var routers map[fleet.RouterID]RouterStanding
		routers, f.counts = n.routerStandings()
		f.turn(routers)
	}
	next := s.liveFleet(n, f.seen, f.counts)
	next.At = now.UTC()
	if again {
		next.Weights = f.fleet.Weights
	} else {
		next.Weights = n.liveWeights()
	}
	f.of, f.by = view, f.seen
	if f.fleet == nil {
		next.Seq = 1
		f.fleet = next
		return nil
	}
	return f.replace(next)
}

// sameTables says whether routers and weights are the same in two views.
func sameTables(a, b *state.View) bool {
	return a.Table() == b.Table() && a.FreshTable() == b.FreshTable() && a.Rollout() == b.Rollout()
}

// replace takes the next picture in, if it differs by more than its time.
func (f *liveFeed) replace(next *LiveFleet) error {
	next.Seq = f.fleet.Seq
	at := next.At
	next.At = f.fleet.At
	patch, err := mergePatch(*f.fleet, *next)
	if err != nil {
		return fmt.Errorf("watch fleet: %w", err)
	}
	if patch == nil {
		return nil
	}
	next.Seq, next.At = f.fleet.Seq+1, at
	head, err := json.Marshal(struct {
		Seq uint64    `json:"seq"`
		At  time.Time `json:"at"`
	}{next.Seq, next.At})
	if err != nil {
		return fmt.Errorf("watch fleet: %w", err)
	}
	patch = slices.Concat(head[:len(head)-1], []byte{','}, patch[1:])
	f.fleet, f.whole = next, nil
	f.patches = kept(append(f.patches, patch), keptPatches)
	return nil
}

// turn notes which routers stand otherwise than before.
func (f *liveFeed) turn(next map[fleet.RouterID]RouterStanding) {
	if f.routers == nil { // the first are no news
		f.routers = next
		return
	}
	before := len(f.news)
	for _, id := range slices.Sorted(maps.Keys(next)) {
		if was, known := f.routers[id]; !known || was != next[id] {
			f.news = append(f.news, next[id])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(f.routers)) {
		if _, still := next[id]; !still {
			gone := f.routers[id]
			gone.Connected, gone.Gone = false, true
			f.news = append(f.news, gone)
		}
	}
	f.newsSeq += uint64(len(f.news) - before) //nolint:gosec // it grew
	f.news, f.routers = kept(f.news, keptRouters), next
}

// kept are the newest of some, in memory of their own when much was dropped.
func kept[T any](all []T, most int) []T {
	if len(all) <= most {
		return all
	}
	return append(make([]T, 0, most+most/4), all[len(all)-most:]...)
}

// picture gives the newest picture, and the signals that it is of.
func (f *liveFeed) picture(s *Server) (*LiveFleet, signal.Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.advance(s, s.o.Now()); err != nil {
		return nil, signal.Snapshot{}, err
	}
	return f.fleet, f.seen.signals, nil
}

// since gives what is new after a picture: patches, oldest first, or the whole picture where they do not reach back
// to it. Seq is the newest.
func (f *liveFeed) since(s *Server, after uint64) (whole []byte, patches [][]byte, seq uint64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.advance(s, s.o.Now()); err != nil {
		return nil, nil, 0, err
	}
	seq = f.fleet.Seq
	if n := seq - after; after > 0 && after <= seq && n <= uint64(len(f.patches)) {
		return nil, slices.Clone(f.patches[uint64(len(f.patches))-n:]), seq, nil
	}
	if f.whole == nil {
		if f.whole, err = json.Marshal(f.fleet); err != nil {
			return nil, nil, 0, fmt.Errorf("watch fleet: %w", err)
		}
	}
	return f.whole, nil, seq, nil
}

// routersSince gives the routers that turned after a number of news; ok is false where there are too many to tell.
func (f *liveFeed) routersSince(s *Server, after uint64) (news []RouterStanding, seq uint64, ok bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.advance(s, s.o.Now()); err != nil {
		return nil, 0, false, err
	}
	n := f.newsSeq - after
	if after > f.newsSeq || n > min(uint64(len(f.news)), mostRouterNews) {
		return nil, f.newsSeq, false, nil
	}
	return slices.Clone(f.news[uint64(len(f.news))-n:]), f.newsSeq, true, nil
}
