package dataplane

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
)

// A cluster that is out of use is asked for the adapters of its models, in nobody's name, and the control plane hears
// which it lacks. One in use is not asked.
func TestMissingAdaptersAreReportedOfWhatIsOutOfUse(t *testing.T) {
	var asked, loaded atomic.Bool
	s := newStub(t, answers)
	canary := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Model string }
		_ = json.Unmarshal(*s.canary.Load(), &in) // a list of models is asked for without a body
		switch {
		case r.URL.Path == "/v1/models":
			_, _ = io.WriteString(w, `{"data":[{"id":"llama"}]}`)
			return
		case in.Model == "legal":
			asked.Store(true)
			if !loaded.Load() {
				w.WriteHeader(http.StatusNotFound)
				return
			}
		}
		answers(w, r)
	})
	s.canaries.Store(&canary)
	w := newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{s}}, {id: "eu-a", region: eu, weight: 1, endpoints: []*stub{newStub(t, answers)}}}, nil)
	r := w.routers[us]
	missing := func() []string {
		for _, c := range r.Report(r.now()).GetClusters() {
			if c.GetCluster() == "us-a" && c.GetModel() == "llama" {
				return c.GetMissingAdapters()
			}
		}
		t.Fatal("us-a is not reported")
		return nil
	}
	look := func() { // as the looker does beside requests
		w.apply()
		if places := r.outOfUse(); len(places) > 0 != (w.table.Clusters[0].Health == "EVACUATED") {
			t.Fatalf("%s is looked at: %v", w.table.Clusters[0].Health, places)
		}
	}
	look()
	w.table.Clusters[0].Health, w.table.Clusters[0].HealthCap = "EVACUATED", 0
	w.table.Ref.Revision++
	look()
	w.run()
	w.eventually("the lack is reported", func() bool { return slices.Equal(missing(), []string{"legal"}) })
	if !asked.Load() || s.requests.Load() != 0 {
		t.Errorf("asked %v; %d requests passed for tenants'", asked.Load(), s.requests.Load())
	}
	loaded.Store(true)
	w.eventually("the adapter that was loaded is found", func() bool { return missing() == nil })
}
