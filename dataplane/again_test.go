package dataplane

import (
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// The only place closes a kept connection as a request comes: that is answered, and whoever looks sees
// what happened.
func TestAClosedConnectionIsNoFailedRequest(t *testing.T) {
	p := sick(t, nil)
	w := newWorld(t, []site{{id: "us-a", region: us, weight: 1, endpoints: []*stub{p.stub}}}, nil)
	w.moved("us-a", kept(true)(t, p))
	for i, want := range []bool{false, true, false} {
		if want {
			p.breaks()
		}
		r := w.ask(us, "acme", askWhole)
		if r.status != http.StatusOK || r.body != whole || r.header.Get("X-Anabranch-Attempts") != "1" {
			t.Errorf("request %d: %d %q", i, r.status, r.body)
		}
		if tried := w.record(us, r).Attempts; len(tried) != 1 || tried[0].Reconnected != want || tried[0].Kind != "first" {
			t.Errorf("request %d: %+v", i, tried)
		}
		w.idle()
	}
	n := w.routers[us]
	if got := testutil.ToFloat64(n.metrics.reconnects.WithLabelValues("us-a")); got != 1 {
		t.Errorf("%v are counted", got)
	}
	if _, got, _ := n.budget.Status("us-a", n.now()); got != 0 {
		t.Errorf("%d count as retries", got)
	}
	if p.requests.Load() != 3 {
		t.Errorf("the place has seen %d requests", p.requests.Load())
	}
}
