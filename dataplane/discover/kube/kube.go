// Package kube finds endpoints in Kubernetes: those of a Service in its EndpointSlices, and the pods
// of a Gateway API InferencePool. It reads through client-go's dynamic client, so that a router that
// has it links none of the typed API, and a router that doesn't import it links no Kubernetes at all.
// What a pool says of its own state is not read: one whose selector matches nothing can say that it
// is ready.
package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"anabranch/dataplane/table"
)

// ClassLabel is the label of a node, pod or Service that says what GPU class its model servers have.
const ClassLabel = "anabranch.dev/gpu-class"

const (
	// together is how long changes are waited for that come with the first one.
	together = 50 * time.Millisecond
	// again is the pause after which everything is looked at without a change.
	again = 5 * time.Second
)

var (
	sliceResource = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
	podResource   = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	nodeResource  = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
)

// Finder watches one Kubernetes cluster for the kinds endpointslices and inferencepool.
type Finder struct {
	client dynamic.Interface
	nodes  *nodes
	again  time.Duration // as the constant, but for tests
}

// New makes a finder that asks through client. Nil logger: none.
func New(client dynamic.Interface, logger *slog.Logger) *Finder {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Finder{client: client, again: again, nodes: &nodes{client: client, log: logger.With("component", "kube")}}
}

// Connect makes a client for the API server that a kubeconfig file names, to which it is called
// agent. Without a file it is the cluster that this process runs in, and [rest.ErrNotInCluster] if
// it runs in none. Nothing is sent yet.
func Connect(kubeconfig, agent string) (dynamic.Interface, error) {
	var (
		config *rest.Config
		err    error
	)
	if kubeconfig == "" {
		config, err = rest.InClusterConfig()
	} else {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, err
	}
	config.UserAgent = agent
	return dynamic.NewForConfig(config)
}

// Watch tells found the endpoints of a Service or InferencePool until ctx ends, as a finder of the
// package discover does: whole lists, or why there is none.
func (f *Finder) Watch(ctx context.Context, spec table.Discovery, found func([]table.Endpoint, error)) error {
	if spec.Namespace == "" || spec.Name == "" {
		return errors.New("needs a namespace and a name")
	}
	wake := make(chan struct{}, 1)
	leave := f.nodes.join(wake)
	defer leave()
	switch spec.Kind {
	case table.DiscoverEndpointSlices:
		return f.watchSlices(ctx, spec, wake, found)
	case table.DiscoverInferencePool:
		return f.watchPool(ctx, spec, wake, found)
	}
	return fmt.Errorf("kind %q is not one of Kubernetes", spec.Kind)
}

// next waits for a change and for what comes with it, but not for long when there is none. It says
// whether ctx still holds.
func (f *Finder) next(ctx context.Context, wake <-chan struct{}) bool {
	idle := time.NewTimer(f.again)
	defer idle.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-idle.C:
		return true
	case <-wake:
	}
	rest := time.NewTimer(together)
	defer rest.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-rest.C:
		return true
	}
}
