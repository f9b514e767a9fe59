package forward

import (
	"context"
	"errors"
	"fmt"
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
	var last error
	for {
		for ask := slices.Clone(addresses); len(ask) > 0; ask = ask[1:] {
			last = f.askToJoin(ctx, ask[0])
			var elsewhere store.ErrNotLeader
			switch {
			case last == nil:
				return nil
			case errors.Is(last, store.ErrForeignCluster):
				return fmt.Errorf("join: %w", last)
			case errors.As(last, &elsewhere) && elsewhere.Address != "" && !slices.Contains(ask, elsewhere.Address) && !slices.Contains(addresses, elsewhere.Address):
				ask = append(ask, elsewhere.Address)
			}
		}
		f.logger.Info("not joined yet", "reason", last)
		if !pause(ctx, f.o.Interval) {
			return fmt.Errorf("join: %w: %w", ctx.Err(), last)
		}
	}
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

// admit makes members that have caught up voters while this node leads, and tells the leader when
// this node's own address has changed.
func (f *Forward) admit(ctx context.Context) {
	tick := time.NewTicker(f.o.Interval)
	defer tick.Stop()
	since := map[fleet.NodeID]time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !f.store.IsLeader() {
			clear(since)
			f.moved(ctx)
			continue
		}
		for _, m := range f.store.Members() {
			if m.Voter || !caughtUp(f.peers.list(time.Now()), m.ID, f.store.View().Index(), 3*f.o.Interval) {
				delete(since, m.ID)
				continue
			}
			if since[m.ID].IsZero() {
				since[m.ID] = time.Now()
			}
			if time.Since(since[m.ID]) < f.o.CaughtUpFor {
				continue
			}
			delete(since, m.ID)
			if err := f.store.AddVoter(ctx, m.ID, m.Address); err != nil {
				f.logger.Warn("make a member a voter", "node", m.ID, "error", err)
			}
		}
	}
}

// caughtUp says whether a member has applied all but MaxLag of the commands up to index, as of at
// most maxAge ago.
func caughtUp(known []PeerStatus, id fleet.NodeID, index uint64, maxAge time.Duration) bool {
	for _, p := range known {
		if p.ID == id {
			return p.Age <= maxAge && p.AppliedIndex > 0 && p.AppliedIndex+MaxLag >= index
		}
	}
	return false
}

// moved asks the leader to note this node's address if the members list has another one.
func (f *Forward) moved(ctx context.Context) {
	for _, m := range f.store.Members() {
		_, leader := f.store.Leader()
		if m.ID != f.store.ID() || m.Address == f.store.Address() || leader == "" {
			continue
		}
		if err := f.askToJoin(ctx, leader); err != nil {
			f.logger.Warn("tell the leader the new address", "error", err)
		}
	}
}
