package dataplane

import (
	"net/http"
	"testing"
)

// TestResetsAbroadAreNoDeadCluster: an engine that three prompts crash is in use where it stands, since
// it answers canaries; the routers of other regions must not take its whole cluster for dead, nor
// send such prompts on free of any budget.
func TestResetsAbroadAreNoDeadCluster(t *testing.T) {
	w, _, there := two(t, nil)
	there.does(func(http.ResponseWriter, *http.Request) { cut() })
	for range 3 {
		w.ask(us, "acme", askWhole)
	}
	n := w.routers[us]
	if dead, why := n.places.Cluster("eu-a").Ejected(); dead {
		t.Errorf("ejected at the router that asks: %s", why)
	}
	if dead, why := w.routers[eu].places.Cluster("eu-a").Ejected(); dead {
		t.Errorf("ejected where it stands: %s", why)
	}
}
