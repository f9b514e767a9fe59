package node

import (
	"context"
	"time"
)

// leaveWithin bounds how long a node that stops tries to be removed.
const leaveWithin = 5 * time.Second

// leave asks to be removed before the node stops, if it is to. That it is refused, or not answered,
// stops nobody: the node is gone then like one that was not asked to leave.
func (n *Node) leave(ctx context.Context) error {
	if !n.o.LeaveOnStop || !n.store.Stats().Member {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, leaveWithin)
	defer cancel()
	if err := n.forward.Remove(ctx, n.ID(), false); err != nil {
		n.log.Warn("stay a member", "error", err)
		return nil
	}
	n.log.Info("left the cluster")
	return nil
}

// ready says whether the node can be asked: it has caught up once since the start, and has not been
// removed since.
func (n *Node) ready() bool {
	return n.store.Ready() && n.store.Stats().Member && !n.forward.Disowned()
}
