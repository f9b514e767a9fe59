package forward

import (
	"testing"
	"time"

	"anabranch/controlplane/store"
)

func TestEveryNodeHearsOfTheRoutersOfTheOthers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, 3)
	c.begin()
	for id, n := range c.nodes {
		for other := range c.nodes {
			if other == id {
				continue
			}
			eventually(t, string(id)+" hears "+string(other), func() bool {
				n.mu.Lock()
				defer n.mu.Unlock()
				r := n.seen[string(other)].GetRouters()
				return len(r) == 1 && r[0].GetHello().GetRouterId() == "router-of-"+string(other)
			})
		}
		eventually(t, string(id)+" knows two peers", func() bool { return len(n.Peers()) == 2 })
	}
}

func TestAPeerThatIsGoneAges(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, 3)
	c.begin()
	gone, leader := c.follower(), c.leader()
	eventually(t, "two peers", func() bool { return len(leader.Peers()) == 2 })
	gone.stop()
	eventually(t, "one of them old", func() bool {
		for _, p := range leader.Peers() {
			if p.ID == gone.o.ID {
				return p.Age > 600*time.Millisecond
			}
		}
		return false
	})
}

func TestPeersAreSortedAndForgottenWithTheirMembership(t *testing.T) {
	p := newPeers()
	p.heard("n3", 30, 1)
	p.heard("n1", 10, 1)
	p.heard("n2", 20, 1)
	p.heard("n1", 11, 1)
	p.keep([]store.Member{{ID: "n1"}, {ID: "n3"}})
	got := p.list(time.Now().Add(time.Minute))
	if len(got) != 2 || got[0].ID != "n1" || got[0].AppliedIndex != 11 || got[1].ID != "n3" || got[1].Age < time.Minute {
		t.Errorf("got %+v", got)
	}
}
