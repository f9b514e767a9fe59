package node

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/controlplane/cloudwatch"
)

// wireCloudWatch makes what publishes metrics to CloudWatch, if that is wanted.
func (n *Node) wireCloudWatch(registry *prometheus.Registry) error {
	if n.o.CloudWatch == nil {
		return nil
	}
	o := *n.o.CloudWatch
	o.Gatherer, o.Registerer, o.Leading, o.Logger = registry, registry, n.store.IsLeader, n.o.Logger
	var err error
	n.cloudWatch, err = cloudwatch.New(o)
	return err
}

// publishMetrics brings metrics to CloudWatch.
func (n *Node) publishMetrics(ctx context.Context) error {
	if n.cloudWatch == nil {
		<-ctx.Done()
		return nil
	}
	return n.cloudWatch.Run(ctx)
}
