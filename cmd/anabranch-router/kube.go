//go:build kubernetes

package main

import (
	"errors"
	"fmt"
	"log/slog"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"anabranch/dataplane/discover"
	"anabranch/dataplane/discover/kube"
	"anabranch/dataplane/table"
)

func init() {
	kubernetes = func(kubeconfig string, logger *slog.Logger) (map[string]discover.Finder, error) {
		klog.SetSlogLogger(logger.With("component", "client-go"))
		client, err := kube.Connect(kubeconfig, "anabranch-router/"+version)
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, nil // as it may be: the table need not speak of Kubernetes
		}
		if err != nil {
			return nil, fmt.Errorf("--kubeconfig: %w", err)
		}
		f := kube.New(client, logger)
		return map[string]discover.Finder{table.DiscoverEndpointSlices: f, table.DiscoverInferencePool: f}, nil
	}
}
