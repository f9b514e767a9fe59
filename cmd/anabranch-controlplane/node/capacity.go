package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/fleet"
	"anabranch/controlplane/capacity"
	"anabranch/controlplane/leader"
	"anabranch/failover/shift"
)

// wireCapacity makes what advises on replicas.
func (n *Node) wireCapacity(registry prometheus.Registerer) (err error) {
	n.capacity, err = capacity.New(capacity.Options{
		View: n.store.View, Signals: n.signals, Input: leader.Input, Leading: n.store.IsLeader, Logger: n.o.Logger, Registerer: registry,
	})
	return err
}

// cold is what is measured of a model's prefix caches, for the leader, which is made before what measures it.
func (n *Node) cold(model fleet.ModelID) (shift.Cold, bool) { return n.capacity.Cold(model) }
