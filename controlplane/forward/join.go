package forward

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"anabranch/api/fleet"
	"anabranch/controlplane/forward/nodepb"
	"anabranch/controlplane/store"
)

// Join asks the nodes whose Raft ports are at addresses, and the leaders that they name, to add
// this node, again and again until one has or ctx ends. It is harmless for a member. The leader
// makes the node a voter when it has caught up.
func (f *Forward) Join(ctx context.Context, addresses []string) error {
	if len(addresses) == 0 {
		return errors.New("join: no addresses to ask")
	}
	said := ""
	for {
		err := f.askAround(ctx, addresses)
		if err == nil {
			return nil
		}
		if errors.Is(err, store.ErrForeignCluster) {
			return fmt.Errorf("join: %w", err)
		}
		if now := err.Error(); now != said { // it may be the same for hours
			f.logger.Info("not joined yet", "reason", now)
			said = now
		}
		if !pause(ctx, f.o.Interval) {
			return fmt.Errorf("join: %w: %w", ctx.Err(), err)
		}
	}
}

// askAround asks each node once, and the leaders that they name, until one of them agrees.
func (f *Forward) askAround(ctx context.Context, addresses []string) error {
	var err error
	asked := map[string]bool{}
	for ask := slices.Clone(addresses); len(ask) > 0; ask = ask[1:] {
		if asked[ask[0]] {
			continue
		}
		asked[ask[0]] = true
		err = f.askToJoin(ctx, ask[0])
		var elsewhere store.ErrNotLeader
		switch {
		case err == nil, errors.Is(err, store.ErrForeignCluster):
			return err
		case errors.As(err, &elsewhere) && elsewhere.Address != "":
			ask = append(ask, elsewhere.Address)
		}
	}
	return err
}

func (f *Forward) askToJoin(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	client, err := f.clients.to(address)
	if err != nil {
		return err
	}
	var trailer metadata.MD
	_, err = client.Join(ctx, &nodepb.JoinRequest{
		ClusterId:   f.store.View().ClusterID(),
		NodeId:      string(f.store.ID()),
		RaftAddress: f.store.Address(),
	}, grpc.Trailer(&trailer), grpc.WaitForReady(false))
	return fromWire(err, trailer, false)
}

// admit makes members that have caught up voters while this node leads, and tells the others when
// this node's own address has changed.
func (f *Forward) admit(ctx context.Context) {
	tick := time.NewTicker(f.o.Interval)
	defer tick.Stop()
	waiting, member := candidates{}, false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if was := member; f.store.Stats().Member != was {
			if member = !was; was {
				f.logger.Warn("this node is no member of the cluster any more: stop it, its data folder is of no more use")
			}
		}
		if !f.store.IsLeader() {
			clear(waiting)
			f.moved(ctx)
			continue
		}
		now := time.Now()
		for _, id := range waiting.due(now, f.store.Members(), f.peers.list(now), f.store.View(), f.silence(), f.o.CaughtUpFor) {
			if err := f.store.AddVoter(ctx, id); err != nil {
				f.logger.Warn("make a member a voter", "node", id, "error", err)
			}
		}
	}
}

// candidates are members that do not vote yet, and since when each has been within MaxLag.
type candidates map[fleet.NodeID]time.Time

// position is how far a state is and what is used in it; a view is one.
type position interface {
	Index() uint64
	FeatureLevel() uint32
}

// due says which members have been within MaxLag of the state at for all of long, as far as known
// tells, and are to vote. It forgets them, and those that fall behind or are silent. A build that
// does not apply all that is in use never votes: it will stop at what it does not know.
func (c candidates) due(now time.Time, members []store.Member, known []PeerStatus, at position, silence, long time.Duration) []fleet.NodeID {
	var due []fleet.NodeID
	near := map[fleet.NodeID]bool{}
	for _, m := range members {
		if m.Voter || !caughtUp(known, m.ID, at, silence) {
			continue
		}
		near[m.ID] = true
		since, waits := c[m.ID]
		if !waits {
			since = now
			c[m.ID] = now
		}
		if now.Sub(since) >= long {
			due = append(due, m.ID)
		}
	}
	maps.DeleteFunc(c, func(id fleet.NodeID, _ time.Time) bool { return !near[id] || slices.Contains(due, id) })
	return due
}

// caughtUp says whether a member has applied all but MaxLag of the commands up to the state at, and
// knows all that is used in it, as of at most maxAge ago.
func caughtUp(known []PeerStatus, id fleet.NodeID, at position, maxAge time.Duration) bool {
	for _, p := range known {
		if p.ID == id {
			return p.Age <= maxAge && p.AppliedIndex > 0 && p.AppliedIndex+MaxLag >= at.Index() && max(1, p.FeatureLevel) >= at.FeatureLevel()
		}
	}
	return false
}

// moved asks the others to note this node's address if the members list has another one. Nobody
// reaches it there, so it does not know who leads.
func (f *Forward) moved(ctx context.Context) {
	for _, m := range f.store.Members() {
		if m.ID != f.store.ID() || m.Address == f.store.Address() {
			continue
		}
		var addresses []string
		for _, other := range f.others() {
			addresses = append(addresses, other.Address)
		}
		if err := f.askAround(ctx, addresses); err != nil {
			f.logger.Warn("tell the others the new address", "error", err)
		}
	}
}
