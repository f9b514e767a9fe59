package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"anabranch/controlplane/prices"
)

// wirePrices makes what asks for prices while this node leads.
func (n *Node) wirePrices(registry *prometheus.Registry) error {
	var err error
	n.prices, err = prices.New(prices.Options{
		Groups: n.o.Prices, Leading: n.store.IsLeader, View: n.store.View, Propose: n.store.Propose,
		Logger: n.o.Logger, Registerer: registry,
	})
	return err
}
