package signal

import (
	"sync"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/forward/nodepb"
)

// Bounds on what is kept. Routers beyond maxRouters are not taken in; one that has been silent for
// forget is dropped, and so is a measured capacity that old.
const (
	maxRouters = 8192
	maxPlaces  = 65536
	forget     = 10 * time.Minute
	keepBelief = 24 * time.Hour
)

// Store takes in observations and hands out snapshots. It is safe for concurrent use.
type Store struct {
	now func() time.Time

	mu       sync.Mutex // guards what is below
	routers  map[fleet.RouterID]*memory
	capacity map[place]belief
	learnt   time.Time // when beliefs were last brought up to date
	polls    map[fleet.NodeID]polls
}

// place is one model on one cluster.
type place struct {
	cluster fleet.ClusterID
	model   fleet.ModelID
}

// New returns an empty store that reads the time from now; nil means time.Now.
func New(now func() time.Time) *Store {
	if now == nil {
		now = time.Now
	}
	return &Store{now: now, routers: map[fleet.RouterID]*memory{}, capacity: map[place]belief{}}
}

// Put takes in what a router connected to this node says. An observation older than the one kept
// changes nothing.
func (s *Store) Put(obs Observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(obs)
}

func (s *Store) put(obs Observation) {
	if obs.Hello == nil || obs.Router() == "" {
		return
	}
	m, known := s.routers[obs.Router()]
	switch {
	case !known && len(s.routers) >= maxRouters:
		return
	case !known:
		m = newMemory()
		s.routers[obs.Router()] = m
	case obs.Received.Before(m.obs.Received):
		return
	}
	m.take(obs)
	if obs.Received.Sub(s.learnt) >= time.Second {
		s.learn(obs.Received)
	}
}

// Drop notes that the stream of a router to this node has ended; its last report ages from there.
// A router that has meanwhile been heard of through another node stays connected.
func (s *Store) Drop(node fleet.NodeID, router fleet.RouterID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m, ok := s.routers[router]; ok && m.obs.Node == node {
		m.obs.Connected = false
	}
}

// Local lists the routers connected to node, for the other nodes.
func (s *Store) Local(node fleet.NodeID) []*nodepb.RouterObservation {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*nodepb.RouterObservation
	for _, m := range s.sorted() {
		if m.obs.Node != node || !m.obs.Connected {
			continue
		}
		out = append(out, &nodepb.RouterObservation{
			Hello:  m.obs.Hello,
			Report: m.obs.Report,
			Ack:    m.obs.Ack,
			AgeMs:  max(now.Sub(m.obs.Received).Milliseconds(), 0),
			NodeId: string(node),
		})
	}
	return out
}

// Merge takes in what another node said of its routers at now. The newest report of each wins.
func (s *Store) Merge(routers []*nodepb.RouterObservation, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range routers {
		s.put(Observation{
			Node:      fleet.NodeID(r.GetNodeId()),
			Hello:     r.GetHello(),
			Report:    r.GetReport(),
			Ack:       r.GetAck(),
			Received:  now.Add(-time.Duration(max(r.GetAgeMs(), 0)) * time.Millisecond),
			Connected: true,
		})
	}
}

// Connected counts the routers that have a stream to some node at now.
func (s *Store) Connected(now time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, m := range s.routers {
		if m.obs.Connected && now.Sub(m.obs.Received) <= StaleFor {
			n++
		}
	}
	return n
}

// Heard is how long before now a router of each region last reported, to any node.
func (s *Store) Heard(now time.Time) map[fleet.RegionID]time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[fleet.RegionID]time.Duration{}
	for _, m := range s.routers {
		age := m.obs.Age(now)
		if least, known := out[m.obs.Region()]; age >= 0 && (!known || age < least) {
			out[m.obs.Region()] = age
		}
	}
	return out
}

// Snapshot is all that is known at now. It forgets routers that have been silent for long.
func (s *Store) Snapshot(now time.Time) Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, m := range s.routers {
		if now.Sub(m.obs.Received) > forget {
			delete(s.routers, id)
		}
	}
	s.learn(now)
	for at, b := range s.capacity {
		if now.Sub(b.at) > keepBelief && now.Sub(b.mostAt) > keepBelief {
			delete(s.capacity, at)
		}
	}
	out := build(now, s.sorted(), s.capacity)
	out.Sources = s.gather(now)
	return out
}
