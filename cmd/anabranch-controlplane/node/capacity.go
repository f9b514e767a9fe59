package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"anabranch/controlplane/capacity"
	"anabranch/controlplane/leader"
)

// wireCapacity makes what advises on replicas.
func (n *Node) wireCapacity(registry prometheus.Registerer) (err error) {
	n.capacity, err = capacity.New(capacity.Options{
		View: n.store.View, Signals: n.signals, Input: leader.Input, Leading: n.store.IsLeader, Logger: n.o.Logger, Registerer: registry,
	})
	return err
}
