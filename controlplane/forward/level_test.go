package forward

import (
	"context"
	"errors"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/controlplane/store"
)

func TestTheLevelIsThatOfTheOldestVoter(t *testing.T) {
	voter := func(id string) store.Member { return store.Member{ID: fleet.NodeID(id), Voter: true} }
	says := func(id string, level uint32, age time.Duration) PeerStatus {
		return PeerStatus{ID: fleet.NodeID(id), FeatureLevel: level, Age: age}
	}
	three := []store.Member{voter("n1"), voter("n2"), voter("n3")}
	for name, tt := range map[string]struct {
		members []store.Member
		known   []PeerStatus
		want    uint32
	}{
		"alone":                     {three[:1], nil, state.Format},
		"all are new":               {three, []PeerStatus{says("n2", state.Format, 0), says("n3", state.Format, 0)}, state.Format},
		"one is old":                {three, []PeerStatus{says("n2", state.Format, 0), says("n3", 1, 0)}, 1},
		"one is newer":              {three, []PeerStatus{says("n2", state.Format+1, 0), says("n3", state.Format+1, 0)}, state.Format},
		"one was never heard":       {three, []PeerStatus{says("n2", state.Format, 0)}, 0},
		"one has fallen silent":     {three, []PeerStatus{says("n2", state.Format, 0), says("n3", state.Format, time.Minute)}, 0},
		"one who is no voter":       {append(three[:1:1], store.Member{ID: "n4"}), nil, state.Format},
		"a stranger says something": {three, []PeerStatus{says("n2", state.Format, 0), says("n9", state.Format, 0)}, 0},
	} {
		if got := lowest(tt.members, tt.known, "n1", state.Format, time.Second); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

func TestANodeThatTellsNoLevelIsOfTheFirst(t *testing.T) {
	p := newPeers()
	p.heard("old", 7, 0)
	p.heard("new", 7, 2)
	got := p.list(time.Now())
	if got[0].FeatureLevel != 2 || got[1].FeatureLevel != 1 {
		t.Errorf("got %+v", got)
	}
}

// A command that needs the level is refused, certainly not proposed, until all voters have been heard;
// then it goes through on any node.
func TestTheLevelRisesWhenAllVotersHaveBeenHeard(t *testing.T) {
	c := newCluster(t, 3, 2)
	c.begin()
	keyed := register("r", "1")
	keyed.Actor = &statepb.Actor{Name: "ann"}
	keyed.Once = &statepb.Once{Key: "k", RequestSha256: make([]byte, 32)}
	propose := func(n *node) (*statepb.Outcome, error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return n.Propose(ctx, keyed)
	}
	for _, n := range []*node{c.leader(), c.follower()} {
		if _, err := propose(n); !errors.Is(err, store.ErrTooNew) || errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("%s: %v", n.o.ID, err)
		}
	}
	if level := c.leader().store.View().FeatureLevel(); level != 1 {
		t.Fatalf("level %d while a voter was never heard", level)
	}
	peers := c.nodes["n1"].o.Peers
	c.add(store.Options{ID: peers[2].ID, Peers: peers, RaftListen: peers[2].Address})
	for _, n := range c.nodes {
		eventually(t, "the level rises", func() bool { return n.store.View().FeatureLevel() == state.Format })
	}
	first, err := propose(c.follower())
	if err != nil || first.GetCode() != "" || first.GetAnswer() != nil {
		t.Fatalf("first: %v, %v", first, err)
	}
	old := c.leader()
	old.stop()
	again, err := propose(c.leader())
	if err != nil || again.GetAnswer().GetIndex() != first.GetRevision() {
		t.Errorf("again, at another leader: %v, %v", again, err)
	}
}
