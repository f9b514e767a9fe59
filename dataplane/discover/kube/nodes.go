package kube

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/dynamic"
)

// nodesWithin bounds how long a first list of endpoints waits for what nodes are labelled with.
const nodesWithin = 5 * time.Second

// nodes knows the GPU class of nodes that have the label, for all watches together and only while
// there are any. Where it may not read nodes they have no class.
type nodes struct {
	client dynamic.Interface
	log    *slog.Logger

	mu    sync.Mutex // guards all below
	users []chan struct{}
	m     *mirror // nil: no users, or it can't be
	stop  func()
	since time.Time
}

// join makes the nodes known until leave is called; wake is poked when they change.
func (n *nodes) join(wake chan struct{}) (leave func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.users = append(n.users, wake)
	if len(n.users) == 1 {
		n.begin()
	}
	return func() {
		n.mu.Lock()
		n.users = slices.DeleteFunc(n.users, func(c chan struct{}) bool { return c == wake })
		stop := n.stop
		if len(n.users) > 0 {
			stop = nil
		} else {
			n.m, n.stop = nil, nil
		}
		n.mu.Unlock()
		if stop != nil {
			stop()
		}
	}
}

func (n *nodes) begin() {
	labelled, err := labels.NewRequirement(ClassLabel, selection.Exists, nil)
	if err != nil {
		n.log.Error("nodes can't be read", "error", err)
		return
	}
	m, err := newMirror(n.client, scope{
		resource: nodeResource, labels: labels.NewSelector().Add(*labelled),
		strip: func(o map[string]any) { delete(o, "spec"); delete(o, "status") },
	}, n.tell)
	if err != nil {
		n.log.Error("nodes can't be read", "error", err)
		return
	}
	n.m, n.since = m, time.Now()
	n.stop = m.start(context.Background()) // until the last user leaves
}

func (n *nodes) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.users {
		poke(c)
	}
}

// ready says whether nodes are known, or can't be, so that classes don't change right after the
// first list.
func (n *nodes) ready() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.m == nil {
		return true
	}
	ready, err := n.m.state()
	return ready || err != nil || time.Since(n.since) > nodesWithin
}

// class is the GPU class of a node; empty if it has no label or isn't known.
func (n *nodes) class(name string) string {
	n.mu.Lock()
	m := n.m
	n.mu.Unlock()
	if m == nil || name == "" {
		return ""
	}
	object, ok, err := m.informer.GetStore().GetByKey(name)
	if err != nil || !ok {
		return ""
	}
	if u, ok := object.(*unstructured.Unstructured); ok {
		return u.GetLabels()[ClassLabel]
	}
	return ""
}
