package kube

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"anabranch/dataplane/table"
)

var poolSpec = table.Discovery{Kind: table.DiscoverInferencePool, Name: "llama", Namespace: "ml", Port: 8000, Scheme: "http"}

// refuse answers as an API server does to those who lack a right.
func refuse(a clienttesting.Action) (bool, runtime.Object, error) {
	return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "", errors.New("not yours"))
}

// poolOf writes an InferencePool of v1.
func poolOf(selector, ports string) string {
	return fmt.Sprintf(`
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: llama, namespace: ml}
spec:
  selector: {matchLabels: {%s}}
  targetPorts: [%s]
  endpointPickerRef: {name: llama-epp, port: {number: 9002}}
status: {parents: [{conditions: [{type: Accepted, status: "True"}, {type: ResolvedRefs, status: "True"}]}]}
`, selector, ports)
}

// podOf writes a pod that is ready, with more of its labels.
func podOf(name, address, labels string) string {
	return podThat(name, address, labels, `[{type: Ready, status: "True"}]`)
}

func podThat(name, address, labels, conditions string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: ml, labels: {%s}, annotations: {a: b}, managedFields: [{manager: kubelet}]}
spec: {nodeName: node-%s, containers: [{name: vllm}]}
status: {phase: Running, podIP: "%s", hostIP: 192.168.0.1, conditions: %s}
`, name, labels, name, address, conditions)
}

func TestEndpointsOfAPoolAreItsReadyPods(t *testing.T) {
	leaving := strings.Replace(podOf("leaving", "10.0.0.5", "app: vllm"), "metadata: {", `metadata: {deletionTimestamp: "2026-11-30T00:00:00Z", `, 1)
	c := newCluster(t,
		poolOf("app: vllm, model: llama", "{number: 8000}, {number: 8001}"),
		podOf("a", "10.0.0.1", "app: vllm, model: llama, pod-template-hash: x"),
		podOf("six", "fd00::1", "app: vllm, model: llama"),
		podOf("other", "10.0.0.2", "app: vllm, model: mistral"),
		podThat("unready", "10.0.0.3", "app: vllm, model: llama", `[{type: Ready, status: "False"}, {type: Initialized, status: "True"}]`),
		podThat("new", "", "app: vllm, model: llama", "[]"),
		podOf("homeless", "", "app: vllm, model: llama"),
		strings.Replace(leaving, "app: vllm", "app: vllm, model: llama", 1))
	c.watch(poolSpec)
	c.want("those", "a:8000=http://10.0.0.1:8000, a:8001=http://10.0.0.1:8001, six:8000=http://[fd00::1]:8000, six:8001=http://[fd00::1]:8001")
}

func TestAPoolOfNothingIsEmptyWhateverItSays(t *testing.T) {
	c := newCluster(t, poolOf("app: nothing", "{number: 8000}"), podOf("a", "10.0.0.1", "app: vllm"))
	c.watch(poolSpec)
	c.until("a look that found nothing", func() bool { return c.looks() > 0 && c.problem() == "<nil>" })
	c.stays("nothing", "")
}

func TestChangesOfPodsAndPoolAreFollowed(t *testing.T) {
	c := newCluster(t, poolOf("app: vllm", "{number: 8000}"), podOf("a", "10.0.0.1", "app: vllm"), podOf("s", "10.0.0.9", "app: sglang"))
	c.watch(poolSpec, poolResources[0], podResource)
	c.want("at first", "a:8000=http://10.0.0.1:8000")
	c.create(podThat("b", "10.0.0.2", "app: vllm", "[]"))
	c.stays("a pod that isn't ready", "a:8000=http://10.0.0.1:8000")
	c.update(podOf("b", "10.0.0.2", "app: vllm"))
	c.want("now it is", "a:8000=http://10.0.0.1:8000, b:8000=http://10.0.0.2:8000")
	c.update(podOf("b", "10.0.0.2", "app: drained"))
	c.want("one that is taken out by its label", "a:8000=http://10.0.0.1:8000")
	c.update(poolOf("app: vllm", "{number: 8080}"))
	c.want("another port", "a:8080=http://10.0.0.1:8080")
	c.update(poolOf("app: sglang", "{number: 8080}"))
	c.want("another selector", "s:8080=http://10.0.0.9:8080")
	c.opened(podResource, 2)
	c.remove(podOf("s", "", ""))
	c.want("the last pod goes", "")
	c.create(podOf("s2", "10.0.0.8", "app: sglang"))
	c.want("another comes", "s2:8080=http://10.0.0.8:8080")
}

func TestAPoolThatGoesLeavesTheListAndMayComeBack(t *testing.T) {
	c := newCluster(t, podOf("a", "10.0.0.1", "app: vllm"))
	c.watch(poolSpec)
	c.lacks("not there yet", "InferencePool ml/llama is not there", "")
	c.create(poolOf("app: vllm", "{number: 8000}"))
	c.want("made", "a:8000=http://10.0.0.1:8000")
	c.opened(poolResources[0], 1)
	c.remove(poolOf("", ""))
	c.lacks("removed", "InferencePool ml/llama", "a:8000=http://10.0.0.1:8000")
	c.create(poolOf("app: vllm", "{number: 8001}"))
	c.want("made anew", "a:8001=http://10.0.0.1:8001")
}

func TestAPoolOfTheOlderVersionIsRead(t *testing.T) {
	c := newCluster(t, `
apiVersion: inference.networking.x-k8s.io/v1alpha2
kind: InferencePool
metadata: {name: llama, namespace: ml}
spec:
  selector: {app: vllm}
  targetPortNumber: 8002
  extensionRef: {name: llama-epp}
`, podOf("a", "10.0.0.1", "app: vllm"), podOf("b", "10.0.0.2", "app: x"))
	c.watch(poolSpec)
	c.want("found", "a:8002=http://10.0.0.1:8002")
}

func TestTheClassIsThePodsOrTheNodes(t *testing.T) {
	c := newCluster(t, poolOf("app: vllm", "{number: 8000}"), nodeOf("node-a", "h100"), nodeOf("node-b", "h100"),
		podOf("a", "10.0.0.1", "app: vllm"), podOf("b", "10.0.0.2", "app: vllm, "+ClassLabel+": mig-3g"), podOf("c", "10.0.0.3", "app: vllm"))
	c.watch(poolSpec)
	c.want("classes", "a:8000=http://10.0.0.1:8000 h100, b:8000=http://10.0.0.2:8000 mig-3g, c:8000=http://10.0.0.3:8000")
}

func TestAPoolThatCannotBeReadLeavesTheList(t *testing.T) {
	c := newCluster(t, poolOf("app: vllm", "{number: 8000}"), podOf("a", "10.0.0.1", "app: vllm"))
	c.watch(poolSpec, poolResources[0])
	c.want("at first", "a:8000=http://10.0.0.1:8000")
	var nine []string
	for i := range 9 {
		nine = append(nine, fmt.Sprintf("{number: %d}", 8000+i))
	}
	for _, bad := range []struct{ selector, ports, says string }{
		{"", "{number: 8000}", "no selector"},
		{"app: 7", "{number: 8000}", "no selector"},
		{"app: 'a b'", "{number: 8000}", "selector of the pool"},
		{"app: vllm", "", "target ports"},
		{"app: vllm", "{number: 70000}", "target ports"},
		{"app: vllm", strings.Join(nine, ", "), "target ports"},
		{"app: vllm", "{number: x}", "read InferencePool llama"},
	} {
		c.update(poolOf(bad.selector, bad.ports))
		c.lacks(bad.says, bad.says, "a:8000=http://10.0.0.1:8000")
	}
	c.update(poolOf("app: vllm", "{number: 8000}"))
	c.want("mended", "a:8000=http://10.0.0.1:8000")
}

func TestRightsThatAreMissingAreNamed(t *testing.T) {
	for resource, says := range map[string]string{
		"pods":           "list pods: ",
		"inferencepools": "inferencepools",
	} {
		c := newCluster(t, poolOf("app: vllm", "{number: 8000}"), podOf("a", "10.0.0.1", "app: vllm"))
		c.client.PrependReactor("*", resource, refuse)
		c.watch(poolSpec)
		c.lacks(resource, says, "")
		if !strings.Contains(c.problem(), "forbidden") {
			t.Errorf("%s: %s", resource, c.problem())
		}
	}
}

func TestOfPodsOnlyWhatIsReadIsKept(t *testing.T) {
	_, u := object(t, podOf("a", "10.0.0.1", "app: vllm"))
	m := &mirror{what: scope{strip: stripPod}}
	if _, err := m.strip(u); err != nil {
		t.Fatal(err)
	}
	text, err := u.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{"containers", "hostIP", "managedFields", "annotations", "phase"} {
		if strings.Contains(string(text), gone) {
			t.Errorf("%s is kept: %s", gone, text)
		}
	}
	for _, kept := range []string{"node-a", "10.0.0.1", "Ready", "app"} {
		if !strings.Contains(string(text), kept) {
			t.Errorf("%s is gone: %s", kept, text)
		}
	}
}
