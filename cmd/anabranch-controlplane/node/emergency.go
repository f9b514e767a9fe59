package node

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"anabranch/api/order/signed"
	"anabranch/controlplane/emergency"
	"anabranch/controlplane/state/statepb"
)

// wireEmergency makes what keeps orders that are given without quorum.
func (n *Node) wireEmergency(registry *prometheus.Registry) error {
	var keys *signed.Ring
	if n.o.EmergencyKeys != "" {
		var err error
		if keys, err = signed.OpenRing(n.o.EmergencyKeys); err != nil {
			return fmt.Errorf("--emergency-keys: %w", err)
		}
	}
	var err error
	n.emergency, err = emergency.New(emergency.Options{
		Dir: n.o.DataDir, Keys: keys, View: n.store.View, Registerer: registry, Logger: n.o.Logger,
		Propose: func(ctx context.Context, cmd *statepb.Command) (*statepb.Outcome, error) {
			return n.forward.Propose(ctx, cmd)
		},
		Led: func() bool { id, _ := n.store.Leader(); return id != "" },
	})
	return err
}
