package main

import (
	"strings"
	"testing"

	"anabranch/controlplane/policy"
)

// drained says whether a cluster is drained, as the control plane has it.
func (s session) drained(cluster string) bool {
	s.t.Helper()
	r, ok := s.node.View().Get(policy.KindCluster, cluster)
	if !ok {
		s.t.Fatalf("no cluster %s", cluster)
	}
	return r.Spec.(*policy.ClusterSpec).Drained
}

func TestARegionIsDrainedAndUsedAgain(t *testing.T) {
	s := begin(t)
	s.do(0, fleetOfTwo, "apply", "-f", "-")
	for _, step := range []struct {
		args    []string
		said    string
		drained bool
	}{
		{[]string{"drain", "eu-west-1"}, "clusters/eu-a is drained: it gets no new requests\n", true},
		{[]string{"drain", "cluster/eu-a"}, "clusters/eu-a is drained already\n", true},
		{[]string{"undrain", "cluster/eu-a"}, "clusters/eu-a is used again\n", false},
		{[]string{"undrain", "eu-west-1"}, "clusters/eu-a is not drained\n", false},
	} {
		out, _ := s.do(0, "", append(step.args, "--reason", "INC-42")...)
		if out != step.said || s.drained("eu-a") != step.drained || s.drained("us-a") {
			t.Errorf("%q: %q, drained %t, the other %t", step.args, out, s.drained("eu-a"), s.drained("us-a"))
		}
	}
	if out, _ := s.do(0, "", "get", "cluster", "eu-a", "-o", "yaml"); !strings.Contains(out, "url: http://e") {
		t.Errorf("what else it said is gone:\n%s", out)
	}
}

func TestADrainThatSaysTooLittleIsRefused(t *testing.T) {
	s := begin(t)
	s.do(0, fleetOfTwo, "apply", "-f", "-")
	if _, errs := s.do(exitUsage, "", "drain", "eu-west-1"); !strings.Contains(errs, "--reason is missing") {
		t.Error(errs)
	}
	if _, errs := s.do(exitFailed, "", "drain", "nowhere", "--reason", "x"); !strings.Contains(errs, `no cluster in region "nowhere"`) {
		t.Error(errs)
	}
	s.do(exitRefused, "", "drain", "eu-west-1", "--reason", "x", "--token", "viewer-token")
	if s.drained("eu-a") {
		t.Error("it is drained all the same")
	}
}
