package main

import (
	"strings"
	"testing"
	"time"

	"anabranch/controlplane/policy"
)

// pinOf is the pin of a cluster as the control plane has it.
func (s session) pinOf(cluster string) *policy.PinSpec {
	s.t.Helper()
	r, ok := s.node.View().Get(policy.KindCluster, cluster)
	if !ok {
		s.t.Fatalf("no cluster %s", cluster)
	}
	return r.Spec.(*policy.ClusterSpec).Pin
}

func TestARegionIsPinnedAndLetGo(t *testing.T) {
	s := begin(t)
	s.do(0, fleetOfTwo, "apply", "-f", "-")
	out, _ := s.do(0, "", "pin", "eu-west-1", "--percent", "40", "--for", "90m", "--reason", "INC-42")
	pin := s.pinOf("eu-a")
	if !strings.HasPrefix(out, "clusters/eu-a is pinned at 40 % until ") || pin.Share() != 0.4 || s.pinOf("us-a") != nil {
		t.Fatalf("%q made %+v, of the other %+v", out, pin, s.pinOf("us-a"))
	}
	if left := time.Until(pin.Ends()); left < 89*time.Minute || left > 90*time.Minute {
		t.Errorf("it holds for %s", left)
	}
	trail := s.node.View().Audit(0, 0)
	if e := trail[len(trail)-1]; e.GetReason() != "INC-42" || e.GetName() != "eu-a" || e.GetActor() == "" {
		t.Errorf("the audit trail ends with %v", e)
	}
	// What else the cluster says stays.
	if out, _ := s.do(0, "", "get", "cluster", "eu-a", "-o", "yaml"); !strings.Contains(out, "url: http://e") || !strings.Contains(out, "percent: 40") {
		t.Errorf("the cluster is now\n%s", out)
	}
	s.do(0, "", "pin", "cluster/eu-a", "--percent", "0", "--reason", "INC-42")
	if pin := s.pinOf("eu-a"); pin.Share() != 0 || time.Until(pin.Ends()) < 239*time.Minute {
		t.Errorf("pinned again it is %+v", pin)
	}
	if out, _ := s.do(0, "", "unpin", "eu-west-1", "--reason", "over"); out != "clusters/eu-a is no longer pinned\n" || s.pinOf("eu-a") != nil {
		t.Errorf("unpin: %q, %+v", out, s.pinOf("eu-a"))
	}
	if out, _ := s.do(0, "", "unpin", "cluster/eu-a", "--reason", "over"); out != "clusters/eu-a has no pin\n" {
		t.Errorf("unpin of what has none: %q", out)
	}
}

func TestAPinThatSaysTooLittleIsRefused(t *testing.T) {
	s := begin(t)
	s.do(0, fleetOfTwo, "apply", "-f", "-")
	for want, args := range map[string][]string{
		"--percent is missing":            {"pin", "eu-west-1", "--reason", "x"},
		"--percent is missing or out of":  {"pin", "eu-west-1", "--percent", "101", "--reason", "x"},
		"--reason is missing":             {"pin", "eu-west-1", "--percent", "50"},
		"--for 48h0m0s: give a time of":   {"pin", "eu-west-1", "--percent", "50", "--for", "48h", "--reason", "x"},
		"--for -1m0s: give a time of":     {"pin", "eu-west-1", "--percent", "50", "--for", "-1m", "--reason", "x"},
		`--for "a while" is no duration`:  {"pin", "eu-west-1", "--percent", "50", "--for", "a while", "--reason", "x"},
		"--reason is missing: say why, f": {"unpin", "eu-west-1"},
	} {
		if _, errs := s.do(exitUsage, "", args...); !strings.Contains(errs, want) {
			t.Errorf("%s: %s", strings.Join(args, " "), errs)
		}
	}
	if _, errs := s.do(exitFailed, "", "pin", "nowhere", "--percent", "1", "--reason", "x"); !strings.Contains(errs, `no cluster in region "nowhere"`) {
		t.Errorf("of no region: %s", errs)
	}
	if _, errs := s.do(exitRefused, "", "pin", "cluster/none", "--percent", "1", "--reason", "x"); !strings.Contains(errs, "not_found") {
		t.Errorf("of no cluster: %s", errs)
	}
	s.do(exitRefused, "", "pin", "eu-west-1", "--percent", "1", "--reason", "x", "--token", "viewer-token")
	if s.pinOf("eu-a") != nil {
		t.Error("it is pinned all the same")
	}
}
