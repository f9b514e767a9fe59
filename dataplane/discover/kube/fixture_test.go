package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"anabranch/dataplane/table"
)

// kinds are what the fake API server knows.
var kinds = map[schema.GroupVersionResource]string{
	sliceResource: "EndpointSliceList", podResource: "PodList", nodeResource: "NodeList",
	poolResources[0]: "InferencePoolList", poolResources[1]: "InferencePoolList",
}

// cluster is a fake API server and a finder that asks it.
type cluster struct {
	t      *testing.T
	client *fake.FakeDynamicClient
	finder *Finder

	mu     sync.Mutex // guards all below
	broken error      // of all lists and watches
	list   []table.Endpoint
	err    error
	times  int
}

func newCluster(t *testing.T, objects ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, client: fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds)}
	c.finder = New(c.client, nil)
	c.finder.again = 50 * time.Millisecond
	fail := func(clienttesting.Action) (bool, runtime.Object, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.broken != nil, nil, c.broken
	}
	c.client.PrependReactor("list", "*", fail)
	c.client.PrependReactor("get", "*", fail)
	for _, o := range objects {
		c.create(o)
	}
	return c
}

// object reads YAML and finds which resource it is of.
func object(t *testing.T, text string) (schema.GroupVersionResource, *unstructured.Unstructured) {
	t.Helper()
	u := &unstructured.Unstructured{}
	// By way of JSON, as numbers of unstructured objects are int64.
	body, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = u.UnmarshalJSON(body)
	}
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	for r, list := range kinds {
		if r.GroupVersion().String() == u.GetAPIVersion() && list == u.GetKind()+"List" {
			return r, u
		}
	}
	t.Fatalf("the fake does not know %s %s", u.GetAPIVersion(), u.GetKind())
	return schema.GroupVersionResource{}, nil
}

func (c *cluster) do(verb, text string) {
	c.t.Helper()
	r, u := object(c.t, text)
	at := c.client.Resource(r).Namespace(u.GetNamespace())
	var err error
	switch verb {
	case "create":
		_, err = at.Create(c.t.Context(), u, createOptions)
	case "update":
		_, err = at.Update(c.t.Context(), u, updateOptions)
	case "delete":
		err = at.Delete(c.t.Context(), u.GetName(), deleteOptions)
	}
	if err != nil {
		c.t.Fatalf("%s %s: %v", verb, u.GetName(), err)
	}
}

func (c *cluster) create(text string) { c.t.Helper(); c.do("create", text) }
func (c *cluster) update(text string) { c.t.Helper(); c.do("update", text) }
func (c *cluster) remove(text string) { c.t.Helper(); c.do("delete", text) }

// breakDown makes all lists and reads fail; nil mends them.
func (c *cluster) breakDown(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = err
}

// watch runs a watch until the test's end, or until stop is called. It returns when the watches on
// the API server are open: the fake forgets what comes between a list and the watch after it.
func (c *cluster) watch(spec table.Discovery, open ...schema.GroupVersionResource) (stop func()) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.finder.Watch(ctx, spec, c.take) // ends with ctx
	}()
	var once sync.Once
	stop = func() { once.Do(func() { cancel(); <-done }) }
	c.t.Cleanup(stop)
	for _, r := range open {
		c.opened(r, 1)
	}
	return stop
}

// opened waits until a resource has been watched so many times.
func (c *cluster) opened(r schema.GroupVersionResource, times int) {
	c.t.Helper()
	c.until(fmt.Sprintf("%s is watched", r.Resource), func() bool {
		n := 0
		for _, a := range c.client.Actions() {
			if a.GetVerb() == "watch" && a.GetResource() == r {
				n++
			}
		}
		return n >= times
	})
}

func (c *cluster) take(list []table.Endpoint, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times++
	c.err = err
	if err == nil {
		c.list = list
	}
}

// now is the last list in short, "!" behind it if the last look was in vain.
func (c *cluster) now() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, e := range c.list {
		out = append(out, strings.TrimSuffix(fmt.Sprintf("%s=%s %s", e.ID, e.URL, e.Class), " "))
	}
	slices.Sort(out)
	text := strings.Join(out, ", ")
	if c.err != nil {
		text += "!"
	}
	return text
}

func (c *cluster) problem() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint(c.err)
}

func (c *cluster) looks() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.times
}

func (c *cluster) until(what string, ok func() bool) {
	c.t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			c.t.Fatalf("not within 20 s: %s; found %q, %s", what, c.now(), c.problem())
		case <-tick.C:
		}
	}
}

// want waits until this is found.
func (c *cluster) want(what, list string) {
	c.t.Helper()
	c.until(what+": "+list, func() bool { return c.now() == list })
}

// stays waits for some more looks and wants the same after each of them.
func (c *cluster) stays(what, list string) {
	c.t.Helper()
	for from := c.looks(); c.looks() < from+4; {
		before := c.looks()
		c.until("another look", func() bool { return c.looks() > before })
		if got := c.now(); got != list {
			c.t.Fatalf("%s: found %q, want %q", what, got, list)
		}
	}
}

// lacks waits until the last look was in vain for this reason, the list as before.
func (c *cluster) lacks(what, says, list string) {
	c.t.Helper()
	c.until(what, func() bool { return strings.Contains(c.problem(), says) })
	c.want(what, list+"!")
}
