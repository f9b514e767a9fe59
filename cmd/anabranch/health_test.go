package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"anabranch/controlplane/state/statepb"
)

func TestHealthIsSummedUp(t *testing.T) {
	for name, tt := range map[string]struct{ status, want string }{
		"nothing is told":             {``, ""},
		"an older node":               {`{"health":"DEGRADED"}`, "DEGRADED"},
		"all models alike":            {`{"health":"EVACUATED","models":[{"model":"m","health":"EVACUATED"},{"model":"n","health":"EVACUATED"}]}`, "EVACUATED"},
		"one model fails alone":       {`{"health":"HEALTHY","models":[{"model":"m","health":"HEALTHY"},{"model":"n","health":"EVACUATED"}]}`, "EVACUATED (n)"},
		"the worst of several":        {`{"health":"HEALTHY","models":[{"model":"m","health":"SUSPECT"},{"model":"n","health":"FAILING_OVER"},{"model":"o","health":"HEALTHY"}]}`, "FAILING_OVER (n)"},
		"more than are named":         {`{"health":"HEALTHY","models":[{"model":"a","health":"SUSPECT"},{"model":"b","health":"SUSPECT"},{"model":"c","health":"SUSPECT"},{"model":"d","health":"SUSPECT"},{"model":"e","health":"HEALTHY"}]}`, "SUSPECT (a, b, c, 1 more)"},
		"a region, all well":          {`{"health":"HEALTHY","clusters":[{"name":"us-a","health":"HEALTHY","worst":"HEALTHY","models":[]}]}`, "HEALTHY"},
		"a region, a cluster":         {`{"health":"EVACUATED","clusters":[{"name":"us-a","health":"EVACUATED"},{"name":"us-b","health":"HEALTHY"}]}`, "EVACUATED (us-a)"},
		"a region, a cluster's model": {`{"health":"SUSPECT","clusters":[{"name":"us-a","health":"HEALTHY","models":[{"model":"n","health":"SUSPECT"}]},{"name":"us-b","health":"HEALTHY"}]}`, "SUSPECT (us-a/n)"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := healthOf(json.RawMessage(tt.status)); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestWhatIsUnwellIsToldInLines(t *testing.T) {
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	got := linesOf([]unwell{{"us-a", "n", "EVACUATED", at, "it is dead"}, {Cluster: "us-b", Health: "SUSPECT"}})
	want := "unwell    us-a/n is EVACUATED since " + stamp(at) + ": it is dead\nunwell    us-b is SUSPECT since -: -\n"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if lines := strings.Count(linesOf(make([]unwell, 50)), "\n"); lines != mostUnwell+1 {
		t.Errorf("%d lines for fifty", lines)
	}
}

// A model that failed alone, and came back, stands in the description of its cluster.
func TestDescribeTellsHowHealthChanged(t *testing.T) {
	s := begin(t)
	s.do(0, fleetOfOne, "apply", "-f", "-", "--reason", "first")
	publish := func(whole, model string) {
		p := &statepb.Publish{Health: []*statepb.ClusterHealth{{Cluster: "us-1", State: whole, Reason: "why the cluster"}}}
		if model != "" {
			p.Health = append(p.Health, &statepb.ClusterHealth{Cluster: "us-1", Model: "m", State: model, Reason: fmt.Sprintf("why it is %s", model)})
		}
		s.node.Apply(&statepb.Command{Format: 6, Op: &statepb.Command_Publish{Publish: p}})
	}
	publish("HEALTHY", "")
	publish("HEALTHY", "SUSPECT")
	publish("HEALTHY", "FAILING_OVER")
	publish("DEGRADED", "FAILING_OVER")
	out, _ := s.do(0, "", "describe", "cluster", "us-1")
	_, changes, found := strings.Cut(out, "\nhealth:\n")
	if !found {
		t.Fatalf("no changes of health:\n%s", out)
	}
	last := -1
	for _, want := range []string{"HEALTHY → DEGRADED", "SUSPECT → FAILING_OVER: why it is FAILING_OVER", "HEALTHY → SUSPECT: why it is SUSPECT"} {
		at := strings.Index(changes, want)
		if at <= last {
			t.Errorf("%q is not there, or not in its place:\n%s", want, changes)
		}
		last = at
	}
	if !strings.Contains(changes, "us-1/m") {
		t.Errorf("the model is not named:\n%s", changes)
	}
	list, _ := s.do(0, "", "get", "clusters")
	if !strings.Contains(list, "FAILING_OVER") {
		t.Errorf("the list does not tell:\n%s", list)
	}
	st, _ := s.do(0, "", "status")
	if !strings.Contains(st, "unwell    us-1/m is FAILING_OVER") {
		t.Errorf("the status does not tell:\n%s", st)
	}
}
