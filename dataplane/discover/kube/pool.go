package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"anabranch/dataplane/table"
)

// poolResources are the API versions of InferencePool, the newest first.
var poolResources = []schema.GroupVersionResource{
	{Group: "inference.networking.k8s.io", Version: "v1", Resource: "inferencepools"},
	{Group: "inference.networking.x-k8s.io", Version: "v1alpha2", Resource: "inferencepools"},
}

// maxPorts is how many target ports a pool may have.
const maxPorts = 8

// pool is what is needed of an InferencePool.
type pool struct {
	selector labels.Selector
	ports    []int
}

// pod is what is read of a v1 Pod.
type pod struct {
	Metadata struct {
		Name              string            `json:"name"`
		Labels            map[string]string `json:"labels"`
		DeletionTimestamp string            `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		PodIP      string `json:"podIP"`
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

func (f *Finder) watchPool(ctx context.Context, spec table.Discovery, wake chan struct{}, found func([]table.Endpoint, error)) error {
	for {
		resource, err := f.poolResource(ctx, spec)
		if err == nil {
			err = f.followPool(ctx, resource, spec, wake, found)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		found(nil, err)
		if !f.next(ctx, nil) {
			return ctx.Err()
		}
	}
}

// poolResource finds under which API version the pool is.
func (f *Finder) poolResource(ctx context.Context, spec table.Discovery) (schema.GroupVersionResource, error) {
	ctx, cancel := context.WithTimeout(ctx, again)
	defer cancel()
	for _, r := range poolResources {
		_, err := f.client.Resource(r).Namespace(spec.Namespace).Get(ctx, spec.Name, metav1.GetOptions{})
		switch {
		case err == nil:
			return r, nil
		case !apierrors.IsNotFound(err): // which it also is when the version isn't served
			return r, fmt.Errorf("get inferencepools %s/%s: %w", spec.Namespace, spec.Name, err)
		}
	}
	return schema.GroupVersionResource{}, fmt.Errorf("InferencePool %s/%s is not there", spec.Namespace, spec.Name)
}

// followPool keeps the pods of a pool in sight until ctx ends or the pool has gone.
func (f *Finder) followPool(ctx context.Context, resource schema.GroupVersionResource, spec table.Discovery, wake chan struct{}, found func([]table.Endpoint, error)) error {
	pools, err := newMirror(f.client, scope{
		resource: resource, namespace: spec.Namespace, labels: labels.Everything(), name: spec.Name,
	}, func() { poke(wake) })
	if err != nil {
		return err
	}
	defer pools.start(ctx)()
	var pods *mirror
	stop := func() {}
	defer func() { stop() }()
	for f.next(ctx, wake) {
		if ready, err := pools.state(); !ready {
			if err != nil {
				found(nil, err)
			}
			continue
		}
		objects := pools.objects()
		if len(objects) == 0 {
			return fmt.Errorf("InferencePool %s/%s has gone", spec.Namespace, spec.Name)
		}
		p, err := readPool(objects[0])
		if err != nil {
			found(nil, err)
			continue
		}
		if pods == nil || pods.what.labels.String() != p.selector.String() {
			stop()
			pods, err = newMirror(f.client, scope{
				resource: podResource, namespace: spec.Namespace, labels: p.selector, strip: stripPod,
			}, func() { poke(wake) })
			if err != nil {
				return err
			}
			stop = pods.start(ctx)
		}
		switch ready, err := pods.state(); {
		case err != nil:
			found(nil, err)
		case ready && f.nodes.ready():
			found(f.ofPods(pods, p, spec))
		}
	}
	return ctx.Err()
}

// readPool reads either API version: in v1 the selector has matchLabels and there is a list of target
// ports; in v1alpha2 the selector is the labels and there is one port.
func readPool(u *unstructured.Unstructured) (pool, error) {
	selector, _, err := unstructured.NestedStringMap(u.Object, "spec", "selector", "matchLabels")
	if err != nil || len(selector) == 0 {
		selector, _, err = unstructured.NestedStringMap(u.Object, "spec", "selector")
	}
	if err != nil || len(selector) == 0 {
		return pool{}, errors.New("the pool has no selector of labels")
	}
	var p pool
	if p.selector, err = labels.ValidatedSelectorFromSet(selector); err != nil {
		return p, fmt.Errorf("selector of the pool: %w", err)
	}
	type spec struct {
		Spec struct {
			TargetPorts []struct {
				Number int `json:"number"`
			} `json:"targetPorts"`
			TargetPortNumber int `json:"targetPortNumber"`
		} `json:"spec"`
	}
	s, err := read[spec](u)
	if err != nil {
		return p, err
	}
	for _, t := range s.Spec.TargetPorts {
		p.ports = append(p.ports, t.Number)
	}
	if s.Spec.TargetPortNumber != 0 && len(p.ports) == 0 {
		p.ports = []int{s.Spec.TargetPortNumber}
	}
	slices.Sort(p.ports)
	p.ports = slices.Compact(p.ports)
	if len(p.ports) == 0 || len(p.ports) > maxPorts || p.ports[0] < 1 || p.ports[len(p.ports)-1] > 65535 {
		return p, fmt.Errorf("the pool has target ports %v, want 1 to %d of 1 to 65535", p.ports, maxPorts)
	}
	return p, nil
}

// ofPods are the pods of a pool that are ready and stay, one endpoint for each target port.
func (f *Finder) ofPods(m *mirror, p pool, spec table.Discovery) ([]table.Endpoint, error) {
	out := []table.Endpoint{}
	for _, u := range m.objects() {
		pod, err := read[pod](u)
		if err != nil {
			return nil, err
		}
		ready := false
		for _, c := range pod.Status.Conditions {
			ready = ready || c.Type == "Ready" && c.Status == "True"
		}
		if !ready || pod.Metadata.DeletionTimestamp != "" || pod.Status.PodIP == "" {
			continue
		}
		class := cmp.Or(pod.Metadata.Labels[ClassLabel], f.nodes.class(pod.Spec.NodeName))
		for _, number := range p.ports {
			e, err := place(pod.Metadata.Name, pod.Status.PodIP, number, spec)
			if err != nil {
				return nil, err
			}
			e.Class = class
			out = append(out, e)
		}
	}
	return out, nil
}

// stripPod keeps of a pod what [pod] has.
func stripPod(o map[string]any) {
	node, _, _ := unstructured.NestedString(o, "spec", "nodeName")
	o["spec"] = map[string]any{"nodeName": node}
	status, ok := o["status"].(map[string]any)
	if !ok {
		return
	}
	for key := range status {
		if key != "podIP" && key != "conditions" {
			delete(status, key)
		}
	}
}
