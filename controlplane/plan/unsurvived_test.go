package plan

import (
	"strings"
	"testing"
)

func TestPoliciesThatWouldNotSurvive(t *testing.T) {
	for name, tt := range map[string]struct {
		survive string
		us      float64 // work per second
		want    string  // of the reason; empty: no warning
	}{
		"nothing is wanted":                 {"none", 60_000, ""},
		"there is room":                     {"region", 6000, ""},
		"the loss of a region is too much":  {"region", 24_000, "region is not kept for the demand of now: without "},
		"the loss of a cluster is too much": {"cluster", 33_000, "cluster is not kept for the demand of now: without "},
		"one cluster can be lost":           {"cluster", 6000, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write("TrafficPolicy", "chat", "class: interactive\n  survive: "+tt.survive)
			b.ask("us", tt.us)
			b.report()
			got := Unsurvived(b.input())
			if tt.want == "" {
				if len(got) > 0 {
					t.Errorf("%+v", got)
				}
				return
			}
			if len(got) != 1 || got[0].Resource != "policies/chat" || got[0].Field != "spec.survive" || got[0].Fix == "" || !strings.HasPrefix(got[0].Reason, tt.want) || !strings.Contains(got[0].Reason, "work/s are more than what is left can do") {
				t.Errorf("%+v, want %q", got, tt.want)
			}
			if tt.survive == "cluster" && strings.Contains(got[0].Reason, "without us ") {
				t.Errorf("the loss of a region is told too: %s", got[0].Reason)
			}
		})
	}
}
