package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"anabranch/api/fleet"
)

// hello introduces this node.
func (s *Store) hello() hello {
	h := hello{Cluster: *s.cluster.Load(), Node: s.id.NodeID}
	if h.Cluster == "" && !s.id.Joined {
		h.List = listDigest(s.o.Peers)
	}
	return h
}

// learnCluster writes the cluster's id into the folder once the first command has named it, and
// stops the node if the state is of another cluster than the folder.
func (s *Store) learnCluster(ctx context.Context) {
	for {
		view := s.views.load()
		if found := clusterName(view); found != "" {
			if known := s.id.ClusterID; known != "" {
				if known != found {
					s.halt(fmt.Errorf("%s is of cluster %s, the state in it of cluster %s: %w", s.o.Dir, known, found, ErrForeignFolder))
				}
				return
			}
			learnt := s.id
			learnt.ClusterID = found
			if err := saveIdentity(s.o.Dir, learnt); err != nil {
				s.halt(err)
				return
			}
			s.cluster.Store(&found)
			return
		}
		select {
		case <-s.views.changed(view.Index()):
		case <-ctx.Done():
			return
		}
	}
}

// strangers are peers that turned out to be of another cluster.
type strangers struct {
	mu  sync.Mutex // guards ids
	ids map[fleet.NodeID]bool
}

// note remembers or forgets a peer and returns how many strangers there are among known.
func (s *strangers) note(id fleet.NodeID, stranger bool, known map[fleet.NodeID]string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil {
		s.ids = map[fleet.NodeID]bool{}
	}
	if _, ok := known[id]; ok {
		s.ids[id] = stranger
	}
	n := 0
	for k := range known {
		if s.ids[k] {
			n++
		}
	}
	return n
}

// known is the nodes that this one counts on, itself included, with their addresses: the members,
// and those that it was told to start with.
func (s *Store) known() map[fleet.NodeID]string {
	known := map[fleet.NodeID]string{}
	for _, p := range s.o.Peers {
		known[p.ID] = p.Address
	}
	for _, m := range s.Members() {
		known[m.ID] = m.Address
	}
	return known
}

// meet looks at what a peer says of itself. When most of the nodes that this one counts on turn
// out to be of another cluster, it is this node whose folder was put in the wrong place.
func (s *Store) meet(peer hello) {
	own := *s.cluster.Load()
	stranger := own != "" && peer.Cluster != "" && own != peer.Cluster
	known := s.known()
	if n := s.strangers.note(peer.Node, stranger, known); stranger && n > 0 && 2*n >= len(known) {
		s.halt(fmt.Errorf("%s is of cluster %s, but %s and most other nodes that it counts on are of cluster %s: %w",
			s.o.Dir, own, peer.Node, peer.Cluster, ErrForeignFolder))
	}
}

// turnedAway stops a node whose folder was emptied, before anybody takes its vote. One that has met the
// first command by now only said hello too early.
func (s *Store) turnedAway(why error) {
	if errors.Is(why, ErrEmptied) && clusterName(s.views.load()) == "" {
		s.halt(why)
	}
}

// greetAll says hello to each known node once it answers, so that a folder in the wrong place is
// noticed even if Raft in it has nobody to talk to.
func (s *Store) greetAll(ctx context.Context) {
	if s.mux.listener == nil {
		return // the others are not reached by TCP
	}
	greeted := map[fleet.NodeID]bool{s.id.NodeID: true}
	again := time.NewTicker(s.o.scaled(2 * heartbeat))
	defer again.Stop()
	for {
		waiting := 0
		for id, address := range s.known() {
			if greeted[id] {
				continue
			}
			c, err := s.mux.dial(ctx, kindHello, address)
			switch {
			case err == nil:
				greeted[id] = true
				_ = c.Close() // over anyway
			case errors.As(err, new(refusedError)):
				greeted[id] = true
				s.logger.Error("refused by a peer", "peer", id, "error", err)
			default:
				waiting++
			}
		}
		if waiting == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
	}
}
