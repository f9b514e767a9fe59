package kube

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"anabranch/dataplane/table"
)

var (
	createOptions metav1.CreateOptions
	updateOptions metav1.UpdateOptions
	deleteOptions metav1.DeleteOptions

	serviceSpec = table.Discovery{Kind: table.DiscoverEndpointSlices, Name: "vllm", Namespace: "ml", Port: 8000, Scheme: "http"}
)

// sliceOf writes an EndpointSlice of a service with IPv4 addresses and port 8000.
func sliceOf(service, name string, endpoints ...string) string {
	return sliceWith(service, name, "IPv4", "[{name: http, port: 8000, protocol: TCP}]", endpoints...)
}

func sliceWith(service, name, family, ports string, endpoints ...string) string {
	return fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %s, namespace: ml, labels: {kubernetes.io/service-name: %s, endpointslice.kubernetes.io/managed-by: x}}
addressType: %s
ports: %s
endpoints: [%s]
`, name, service, family, ports, strings.Join(endpoints, ", "))
}

// member writes an endpoint of a slice that is ready.
func member(pod, address string) string {
	return fmt.Sprintf(`{addresses: ["%s"], conditions: {ready: true, serving: true, terminating: false}, nodeName: node-%s, targetRef: {kind: Pod, name: %s}}`, address, pod, pod)
}

func nodeOf(name, class string) string {
	labels := "{}"
	if class != "" {
		labels = "{" + ClassLabel + ": " + class + "}"
	}
	return fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: %s, labels: %s}, spec: {podCIDR: 10.0.0.0/24}, status: {images: []}}", name, labels)
}

func TestEndpointsOfAServiceAreThoseThatAreReadyAndStay(t *testing.T) {
	c := newCluster(t, sliceOf("vllm", "vllm-1",
		member("a", "10.0.0.1"),
		`{addresses: ["10.0.0.2"], targetRef: {kind: Pod, name: unsaid}}`, // all conditions unknown
		`{addresses: ["10.0.0.3"], conditions: {ready: false}, targetRef: {kind: Pod, name: unready}}`,
		`{addresses: ["10.0.0.4"], conditions: {ready: true, serving: false}, targetRef: {kind: Pod, name: odd}}`,
		`{addresses: ["10.0.0.5"], conditions: {ready: true, serving: true, terminating: true}, targetRef: {kind: Pod, name: leaving}}`,
		`{addresses: ["10.0.0.6"], conditions: {ready: false, serving: true, terminating: true}, targetRef: {kind: Pod, name: leaving2}}`,
		`{addresses: ["10.0.0.7"]}`, // of no pod
	), sliceOf("other", "other-1", member("x", "10.0.0.9")))
	c.watch(serviceSpec)
	c.want("those", "10.0.0.7:8000=http://10.0.0.7:8000, a:8000=http://10.0.0.1:8000, unsaid:8000=http://10.0.0.2:8000")
}

func TestChangesOfAServiceAreFollowed(t *testing.T) {
	c := newCluster(t, sliceOf("vllm", "vllm-1", member("a", "10.0.0.1")))
	c.watch(serviceSpec, sliceResource)
	a := "a:8000=http://10.0.0.1:8000"
	c.want("at first", a)
	c.create(sliceOf("vllm", "vllm-2", member("b", "10.0.0.2")))
	c.want("another slice", a+", b:8000=http://10.0.0.2:8000")
	c.update(sliceOf("vllm", "vllm-2", member("b", "10.0.0.3")))
	c.want("a pod that was made anew", a+", b:8000=http://10.0.0.3:8000")
	c.create(sliceOf("other", "other-1", member("x", "10.0.0.9")))
	c.stays("another service", a+", b:8000=http://10.0.0.3:8000")
	c.remove(sliceOf("vllm", "vllm-2"))
	c.want("a slice less", a)
	c.update(sliceOf("vllm", "vllm-1"))
	c.want("no pod is ready", "")
	c.update(sliceOf("vllm", "vllm-1", member("a", "10.0.0.1")))
	c.want("and back", a)
	c.remove(sliceOf("vllm", "vllm-1"))
	c.lacks("the service has gone", "service ml/vllm has no EndpointSlices", a)
}

func TestAnEndpointInSeveralSlicesIsOne(t *testing.T) {
	c := newCluster(t,
		sliceWith("vllm", "vllm-1", "IPv6", "[{name: http, port: 8000}]", member("a", "fd00::1"), member("b", "fd00::2")),
		sliceOf("vllm", "vllm-2", member("a", "10.0.0.1")),
		sliceOf("vllm", "vllm-3", member("a", "10.0.0.1")),
		sliceWith("vllm", "vllm-4", "FQDN", "[{name: http, port: 8000}]", member("c", "c.example")))
	c.watch(serviceSpec)
	c.want("both", "a:8000=http://10.0.0.1:8000, b:8000=http://[fd00::2]:8000")
}

func TestThePortOfTheModelServersIsChosen(t *testing.T) {
	for name, c := range map[string]struct {
		ports string
		port  int
		says  string
	}{
		"the number that is wanted": {ports: "[{name: metrics, port: 9090}, {name: x, port: 8000}]", port: 8000},
		"the only one":              {ports: "[{name: x, port: 8080}]", port: 8080},
		"the only one over TCP":     {ports: "[{name: x, port: 8080, protocol: TCP}, {name: dns, port: 53, protocol: UDP}]", port: 8080},
		"the scheme's name":         {ports: "[{name: metrics, port: 9090}, {name: http, port: 8081}]", port: 8081},
		"all ports":                 {ports: "[]", port: 8000},
		"no way to tell":            {ports: "[{name: metrics, port: 9090}, {name: grpc, port: 8081}]", says: "none of its 2 ports is number 8000 or named http"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newCluster(t, sliceWith("vllm", "vllm-1", "IPv4", c.ports, member("a", "10.0.0.1")))
			k.watch(serviceSpec)
			if c.says != "" {
				k.lacks(name, c.says, "")
				return
			}
			k.want(name, fmt.Sprintf("a:%d=http://10.0.0.1:%d", c.port, c.port))
		})
	}
}

func TestTheClassIsTheNodesOrTheServices(t *testing.T) {
	labelled := strings.Replace(sliceOf("vllm", "vllm-1", member("a", "10.0.0.1"), member("b", "10.0.0.2")),
		"labels: {", "labels: {"+ClassLabel+": L40S, ", 1)
	c := newCluster(t, labelled, nodeOf("node-a", "H100"), nodeOf("node-b", ""))
	c.watch(serviceSpec, nodeResource)
	b := "b:8000=http://10.0.0.2:8000 L40S"
	c.want("at first", "a:8000=http://10.0.0.1:8000 H100, "+b)
	c.update(nodeOf("node-a", "H200"))
	c.want("a node's label changes", "a:8000=http://10.0.0.1:8000 H200, "+b)
	c.remove(nodeOf("node-a", ""))
	c.want("a node's label goes", "a:8000=http://10.0.0.1:8000 L40S, "+b)
}

func TestNodesThatMayNotBeReadHaveNoClass(t *testing.T) {
	c := newCluster(t, sliceOf("vllm", "vllm-1", member("a", "10.0.0.1")), nodeOf("node-a", "H100"))
	c.client.PrependReactor("list", "nodes", refuse)
	c.watch(serviceSpec)
	c.want("without", "a:8000=http://10.0.0.1:8000")
}

func TestAnAPIServerThatIsAwayLeavesTheList(t *testing.T) {
	c := newCluster(t, sliceOf("vllm", "vllm-1", member("a", "10.0.0.1")))
	c.breakDown(errors.New("connection refused"))
	stop := c.watch(serviceSpec)
	c.lacks("away at first", "list endpointslices: connection refused", "")
	c.breakDown(nil)
	c.want("it comes back", "a:8000=http://10.0.0.1:8000")
	stop()
	before := c.looks()
	c.update(sliceOf("vllm", "vllm-1"))
	if c.looks() != before {
		t.Error("told after it was stopped")
	}
}

func TestWhatIsOddIsRefused(t *testing.T) {
	for says, slice := range map[string]string{
		`"10.0.0.256" is no address`:       sliceOf("vllm", "vllm-1", member("a", "10.0.0.256")),
		"read EndpointSlice vllm-1":        sliceOf("vllm", "vllm-1", "{addresses: x}"),
		"none of its 1 ports is number 80": sliceWith("vllm", "vllm-1", "IPv4", "[{name: x, port: 53, protocol: UDP}]", member("a", "10.0.0.1")),
	} {
		c := newCluster(t, slice)
		c.watch(serviceSpec)
		c.lacks(says, says, "")
	}
}

func TestASpecMustSayWhere(t *testing.T) {
	c := newCluster(t)
	for _, spec := range []table.Discovery{
		{Kind: table.DiscoverEndpointSlices, Name: "vllm"},
		{Kind: table.DiscoverInferencePool, Namespace: "ml"},
		{Kind: table.DiscoverDNS, Name: "vllm", Namespace: "ml"},
	} {
		if err := c.finder.Watch(t.Context(), spec, c.take); err == nil {
			t.Errorf("%+v was taken", spec)
		}
	}
	if len(c.finder.nodes.users) != 0 || c.finder.nodes.m != nil {
		t.Error("nodes are still watched")
	}
}

func TestNodesAreWatchedOnceAndOnlyWhileNeeded(t *testing.T) {
	c := newCluster(t, sliceOf("vllm", "vllm-1", member("a", "10.0.0.1")))
	other := serviceSpec
	other.Name = "other"
	first := c.watch(serviceSpec, nodeResource)
	second := c.watch(other)
	c.lacks("the second is watched", "ml/other", "a:8000=http://10.0.0.1:8000")
	count := func() int {
		n := 0
		for _, a := range c.client.Actions() {
			if a.GetVerb() == "list" && a.GetResource() == nodeResource {
				n++
			}
		}
		return n
	}
	if count() != 1 {
		t.Errorf("nodes were listed %d times", count())
	}
	first()
	if c.finder.nodes.m == nil {
		t.Error("the second has no nodes any more")
	}
	second()
	if c.finder.nodes.m != nil {
		t.Error("nodes are still watched")
	}
	c.watch(serviceSpec)
	c.until("nodes are listed again", func() bool { return count() == 2 })
}
