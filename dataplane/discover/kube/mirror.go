package kube

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// mirror is a copy of some objects of the API server that a shared informer keeps up to date.
type mirror struct {
	what     scope
	changed  func()
	informer cache.SharedIndexInformer

	mu  sync.Mutex // guards err
	err error      // of the last list or watch that was asked for
}

// scope is which objects a mirror has.
type scope struct {
	resource  schema.GroupVersionResource
	namespace string          // empty: those of no namespace
	labels    labels.Selector // never nil
	name      string          // empty: any
	strip     func(object map[string]any)
}

// newMirror makes a mirror that calls changed when an object or the state of the connection changes,
// and when the first list has been read.
func newMirror(client dynamic.Interface, what scope, changed func()) (*mirror, error) {
	m := &mirror{what: what, changed: changed}
	resource := client.Resource(what.resource).Namespace(what.namespace)
	narrow := func(o *metav1.ListOptions) {
		o.LabelSelector = what.labels.String()
		if what.name != "" {
			o.FieldSelector = "metadata.name=" + what.name
		}
	}
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			narrow(&o)
			list, err := resource.List(ctx, o)
			m.note("list", err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			narrow(&o)
			w, err := resource.Watch(ctx, o)
			m.note("watch", err)
			return w, err
		},
	}
	m.informer = cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(source, client), &unstructured.Unstructured{}, 0, nil)
	if err := m.informer.SetTransform(m.strip); err != nil {
		return nil, err
	}
	_, err := m.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed() },
		UpdateFunc: func(any, any) { changed() },
		DeleteFunc: func(any) { changed() },
	})
	return m, err
}

// strip keeps of an object what is read.
func (m *mirror) strip(object any) (any, error) {
	if u, ok := object.(*unstructured.Unstructured); ok {
		unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
		unstructured.RemoveNestedField(u.Object, "metadata", "annotations")
		if m.what.strip != nil {
			m.what.strip(u.Object)
		}
	}
	return object, nil
}

// note keeps how the last question went. A watch that is cut is asked for anew at once, so this says
// whether the copy is being kept up to date.
func (m *mirror) note(verb string, err error) {
	if err != nil {
		err = fmt.Errorf("%s %s: %w", verb, m.what.resource.Resource, err)
	}
	m.mu.Lock()
	was := m.err
	m.err = err
	m.mu.Unlock()
	if err != nil || was != nil {
		m.changed()
	}
}

// start begins to keep the copy; stop ends that and waits for it.
func (m *mirror) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { m.informer.RunWithContext(ctx) })
	all.Go(func() {
		// There may be no object whose coming would say that the first list has been read.
		if cache.WaitForCacheSync(ctx.Done(), m.informer.HasSynced) {
			m.changed()
		}
	})
	return func() {
		cancel()
		all.Wait()
	}
}

// state is why the copy can't be relied on; nil with ready if it can, nil without while the first
// list is under way.
func (m *mirror) state() (ready bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err == nil && m.informer.HasSynced(), m.err
}

// objects are the copies, in no order. They must not be changed.
func (m *mirror) objects() []*unstructured.Unstructured {
	stored := m.informer.GetStore().List()
	out := make([]*unstructured.Unstructured, 0, len(stored))
	for _, object := range stored {
		// The server has chosen by labels and name. One that takes no notice of a selector of fields
		// would otherwise make us send requests to strangers.
		u, ok := object.(*unstructured.Unstructured)
		if ok && m.what.labels.Matches(labels.Set(u.GetLabels())) && (m.what.name == "" || u.GetName() == m.what.name) {
			out = append(out, u)
		}
	}
	return out
}

// poke puts a token into a channel that has room for one.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// read turns an object into a struct with the fields that are wanted.
func read[T any](u *unstructured.Unstructured) (T, error) {
	var out T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &out); err != nil {
		return out, fmt.Errorf("read %s %s: %w", u.GetKind(), u.GetName(), err)
	}
	return out, nil
}
