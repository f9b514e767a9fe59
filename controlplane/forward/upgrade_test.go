package forward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/controlplane/forward/nodepb"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
	"anabranch/controlplane/store"
)

// upgrade is a cluster of the format before a command's, with the state that the first build of that
// format left behind, while its nodes are started again one after the other as the present build.
type upgrade struct {
	t     *testing.T
	nodes []*node

	mu      sync.Mutex // guards all below
	serving map[*node]*Forward
	written int
	last    time.Time
	pause   time.Duration // the longest between two writes
}

// plantOld makes three nodes of an earlier format out of its golden snapshot, and runs them.
func plantOld(t *testing.T, format uint32) *upgrade {
	t.Helper()
	snapshot, err := os.Open(fmt.Sprintf("../state/testdata/format%d.snapshot", format))
	if err != nil {
		t.Fatal(err)
	}
	defer snapshot.Close()
	view, err := state.Decode(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var peers []store.Peer
	var listeners []net.Listener
	for i := range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
		peers = append(peers, store.Peer{ID: fleet.NodeID(fmt.Sprintf("n%d", i+1)), Address: l.Addr().String()})
	}
	u := &upgrade{t: t, serving: map[*node]*Forward{}}
	logger := slog.New(slog.DiscardHandler)
	for i, p := range peers {
		o := store.Options{Dir: filepath.Join(dir, string(p.ID)), ID: p.ID, Peers: peers, Logger: logger}
		if err := store.Plant(store.Seed{Dir: o.Dir, ID: p.ID, Peers: peers, View: view, Logger: logger}); err != nil {
			t.Fatal(err)
		}
		n := &node{t: t, o: o, format: format, seen: map[string]*nodepb.ExchangeRequest{}}
		o.Listener, n.o.RaftListen = listeners[i], p.Address
		n.start(o)
		t.Cleanup(n.stop)
		u.nodes = append(u.nodes, n)
		u.serving[n] = n.Forward
	}
	return u
}

// any is one of the nodes that serve.
func (u *upgrade) any() *Forward {
	u.mu.Lock()
	defer u.mu.Unlock()
	skip := rand.IntN(len(u.serving))
	for _, f := range u.serving {
		if skip == 0 {
			return f
		}
		skip--
	}
	return nil
}

// write commits numbers in a row, each until it is acknowledged, until ctx ends.
func (u *upgrade) write(ctx context.Context) {
	u.last = time.Now()
	for i := 0; ctx.Err() == nil; {
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		out, err := u.any().Propose(short, register("writes", fmt.Sprint(i+1)))
		cancel()
		if err != nil || out.GetCode() != "" {
			<-time.After(5 * time.Millisecond) // look again
			continue
		}
		i++
		u.mu.Lock()
		u.pause = max(u.pause, time.Since(u.last))
		u.written, u.last = i, time.Now()
		u.mu.Unlock()
	}
}

// more waits until some more writes were acknowledged.
func (u *upgrade) more() {
	u.t.Helper()
	count := func() int {
		u.mu.Lock()
		defer u.mu.Unlock()
		return u.written
	}
	before := count()
	eventually(u.t, "more writes", func() bool { return count() > before+10 })
}

// renew starts a node again as the present build.
func (u *upgrade) renew(n *node) {
	u.t.Helper()
	u.mu.Lock()
	delete(u.serving, n)
	u.mu.Unlock()
	n.stop()
	n.format = 0
	n.start(n.o)
	eventually(u.t, "it follows", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return n.ReadIndex(ctx) == nil
	})
	u.mu.Lock()
	defer u.mu.Unlock()
	u.serving[n] = n.Forward
}

func (u *upgrade) leader() *node {
	u.t.Helper()
	var found *node
	eventually(u.t, "a leader", func() bool {
		for _, n := range u.nodes {
			if n.store.IsLeader() {
				found = n
			}
		}
		return found != nil
	})
	return found
}

// A cluster of the format before keeps taking writes while its nodes are replaced by the present build,
// followers first. What only the new build applies is refused until the last of them is there.
func TestAClusterOfTheFormatBeforeServesThroughARollingUpgrade(t *testing.T) {
	t.Parallel()
	newer := &statepb.Command{
		Op: &statepb.Command_CreateDrill{CreateDrill: &statepb.CreateDrill{Spec: []byte(`{"kind":"plan-only"}`)}},
	}
	before := state.FormatOf(newer) - 1
	u := plantOld(t, before)
	first := u.leader()
	eventually(t, "its level", func() bool { return first.store.View().FeatureLevel() == before })
	ctx, cancel := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	writing.Go(func() { u.write(ctx) })
	u.more()
	// refused says whether the newer command is still refused, certainly not proposed.
	refused := func() bool {
		short, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		_, err := u.any().Propose(short, newer)
		if err != nil && !errors.Is(err, store.ErrTooNew) {
			t.Logf("newer command: %v", err)
		}
		return errors.Is(err, store.ErrTooNew)
	}
	for _, n := range u.nodes {
		if n != first {
			u.renew(n)
			u.more()
			eventually(t, "the newer command to be refused while old nodes vote", refused)
		}
	}
	u.renew(first)
	u.more()
	eventually(t, "the newer command to be taken", func() bool { return !refused() })
	cancel()
	writing.Wait()
	for _, n := range u.nodes {
		eventually(t, "the last write on every node", func() bool {
			r, _ := n.store.View().Node("writes")
			last, err := strconv.Atoi(r.GetVersion())
			return err == nil && last >= u.written && n.store.View().FeatureLevel() == state.Format
		})
	}
	t.Logf("%d writes, at most %s apart", u.written, u.pause.Round(time.Millisecond))
	if u.pause > 9*time.Second { // three times what a leader that dies may cost; these hand over
		t.Errorf("no write for %s", u.pause)
	}
}
