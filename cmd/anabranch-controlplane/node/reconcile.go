package node

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/controlplane/reconcile"
)

// wireReconcile makes what holds the account against bills, if that is wanted.
func (n *Node) wireReconcile(registry *prometheus.Registry) error {
	if n.o.Reconcile == nil {
		return nil
	}
	o := *n.o.Reconcile
	o.Leading, o.View, o.Propose, o.Registerer, o.Logger = n.store.IsLeader, n.store.View, n.store.Propose, registry, n.o.Logger
	var err error
	n.reconcile, err = reconcile.New(o)
	return err
}

// askForBills holds the account against what was billed.
func (n *Node) askForBills(ctx context.Context) error {
	if n.reconcile == nil {
		<-ctx.Done()
		return nil
	}
	return n.reconcile.Run(ctx)
}
