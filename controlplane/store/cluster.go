package store

import (
	"context"
	"fmt"
	"sync"

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
		if found := view.ClusterID(); found != "" {
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

// strangers are members that turned out to be of another cluster.
type strangers struct {
	mu  sync.Mutex // guards ids
	ids map[fleet.NodeID]bool
}

// note remembers or forgets a member and returns how many strangers there are among members.
func (s *strangers) note(id fleet.NodeID, stranger bool, members []Member) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil {
		s.ids = map[fleet.NodeID]bool{}
	}
	n := 0
	for _, m := range members {
		if m.ID == id {
			s.ids[id] = stranger
		}
		if s.ids[m.ID] {
			n++
		}
	}
	return n
}

// meet looks at what a peer says of itself. When most members of this node's cluster turn out to
// be of another one, it is this node whose folder was put in the wrong place.
func (s *Store) meet(peer hello) {
	own := *s.cluster.Load()
	members := s.Members()
	stranger := own != "" && peer.Cluster != "" && own != peer.Cluster
	if n := s.strangers.note(peer.Node, stranger, members); stranger && n > 0 && 2*n >= len(members) {
		s.halt(fmt.Errorf("%s is of cluster %s, but %s and others of its members are of cluster %s: %w",
			s.o.Dir, own, peer.Node, peer.Cluster, ErrForeignFolder))
	}
}
