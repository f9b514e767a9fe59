package scenario

import (
	"strings"
	"testing"

	"anabranch/sim/workload"
)

// given are the requests of a variant, as somebody else gets them.
func given(t *testing.T, s *Scenario, variant string, seed uint64, o Options) []workload.Request {
	t.Helper()
	source, err := s.Source(variant, seed, o)
	if err != nil {
		t.Fatal(err)
	}
	var out []workload.Request
	for {
		r, ok := source.Next()
		if !ok {
			return out
		}
		r.Blocks = nil
		out = append(out, r)
	}
}

// Who sends a scenario's workload sends what a run gets, variant by variant and seed by seed.
func TestSourceIsThatOfRuns(t *testing.T) {
	text, err := Example("uniform")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Parse(strings.NewReader(string(text) + "vary:\n  - {name: few, set: {workload.0.traffic.requests: 9}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := given(t, s, "few", 1, Options{}); len(got) != 9 {
		t.Errorf("%d requests of the variant, want 9", len(got))
	}
	all := given(t, s, "", 3, Options{Requests: 50})
	if len(all) != 50 {
		t.Fatalf("%d requests, want the first 50", len(all))
	}
	run, err := s.source(3, &Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range all {
		if want, ok := run.Next(); !ok || got.At != want.At || got.ID != want.ID || got.Model != want.Model {
			t.Fatalf("request %d is %+v, in a run %+v", i, got, want)
		}
	}
	if other := given(t, s, "", 4, Options{Requests: 1}); other[0].At == all[0].At {
		t.Error("another seed gives the same times")
	}
	if _, err := s.Source("many", 1, Options{}); err == nil || !strings.Contains(err.Error(), `no variant "many"`) {
		t.Errorf("error %v", err)
	}
}
