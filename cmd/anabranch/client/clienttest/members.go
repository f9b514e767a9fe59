package clienttest

import (
	"context"
	"slices"

	"anabranch/api/fleet"
	"anabranch/controlplane/rest"
	"anabranch/controlplane/store"
)

// members are two at the start, n1 and n2, of which n1 leads and n2 is silent.
func (n *Node) members() []rest.Member {
	applied := n.View().Index()
	n.mu.Lock()
	defer n.mu.Unlock()
	list := slices.Clone(n.nodes)
	for i := range list {
		if list[i].Healthy {
			list[i].AppliedIndex = applied
		}
	}
	return list
}

func (n *Node) leading() fleet.NodeID {
	for _, m := range n.members() {
		if m.Leader {
			return m.ID
		}
	}
	return ""
}

// membership changes the members on paper: added nodes do not vote, and with fewer than three voters
// none goes but by force.
type membership struct{ n *Node }

func (m membership) Add(_ context.Context, id fleet.NodeID, address string) error {
	m.n.mu.Lock()
	defer m.n.mu.Unlock()
	for i, known := range m.n.nodes {
		switch {
		case known.ID == id:
			m.n.nodes[i].Address = address
			return nil
		case known.Address == address:
			return store.ErrAddressTaken
		}
	}
	m.n.nodes = append(m.n.nodes, rest.Member{ID: id, Address: address, LastContactMs: -1})
	return nil
}

func (m membership) Remove(_ context.Context, id fleet.NodeID, force bool) error {
	m.n.mu.Lock()
	defer m.n.mu.Unlock()
	at := slices.IndexFunc(m.n.nodes, func(k rest.Member) bool { return k.ID == id })
	switch {
	case at < 0:
		return store.ErrNotMember
	case m.n.nodes[at].Voter && !force:
		return store.ErrTooFewVoters
	}
	m.n.nodes = slices.Delete(m.n.nodes, at, at+1)
	return nil
}

func (m membership) Transfer(_ context.Context, to fleet.NodeID) (fleet.NodeID, error) {
	m.n.mu.Lock()
	defer m.n.mu.Unlock()
	at := slices.IndexFunc(m.n.nodes, func(k rest.Member) bool { return k.ID == to || to == "" && k.Voter && !k.Leader })
	switch {
	case at < 0:
		return "", store.ErrNotMember
	case !m.n.nodes[at].Voter:
		return "", store.ErrNotVoter
	}
	for i := range m.n.nodes {
		m.n.nodes[i].Leader = i == at
	}
	return m.n.nodes[at].ID, nil
}

// Promote makes a member a voter, and says whether it is one.
func (n *Node) Promote(id fleet.NodeID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, m := range n.nodes {
		if m.ID == id {
			n.nodes[i].Voter = true
			return true
		}
	}
	return false
}
